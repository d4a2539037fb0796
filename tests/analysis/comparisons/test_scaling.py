import pytest

from kernelscope.analysis.comparisons.scaling import CONDITIONS, efficiencies
from kernelscope.analysis.published.levels import level


def cell(threads, rate, **more):
    row = dict.fromkeys(CONDITIONS) | {"framework": "pytorch", "threads": threads, "devices": 1, "status": "done"}
    ends = {"samples_per_second_low": rate and rate * 0.9, "samples_per_second_high": rate and rate * 1.2}
    return {**row, "samples_per_second": rate, **ends, **more}


def test_efficiency_is_the_speed_up_over_how_many_times_as_many_there_are():
    found = {row["threads"]: row for row in efficiencies([cell(4, 200.0), cell(1, 100.0), cell(2, 150.0)], "threads")}
    assert {threads: row["speedup"] for threads, row in found.items()} == {1: 1.0, 2: 1.5, 4: 2.0}
    assert {threads: row["efficiency"] for threads, row in found.items()} == {1: 1.0, 2: 0.75, 4: 0.5}
    assert found[4]["efficiency_low"] == pytest.approx(200 * 0.9 / (100 * 1.2) / 4)
    assert found[4]["efficiency_high"] == pytest.approx(200 * 1.2 / (100 * 0.9) / 4)
    assert (found[1]["efficiency_low"], found[1]["efficiency_high"]) == (None, None)


def test_the_base_is_the_fewest_that_ran():
    failed = cell(1, None, status="out of memory")
    found = {row["threads"]: row for row in efficiencies([failed, cell(2, 100.0), cell(4, 150.0)], "threads")}
    assert set(found) == {2, 4}
    assert (found[4]["base"], found[4]["efficiency"]) == (2, pytest.approx(0.75))


def test_cells_of_other_conditions_are_no_base():
    assert efficiencies([cell(1, 100.0), cell(2, 150.0, batch=8)], "threads") == []
    assert efficiencies([cell(1, 100.0), cell(2, 150.0, hardware="another")], "threads") == []


def test_without_an_interval_there_is_none():
    one, two = cell(1, 100.0), cell(2, 150.0, samples_per_second_low=None)
    row = efficiencies([one, two], "threads")[1]
    assert (row["efficiency"], row["efficiency_low"]) == (0.75, None)


def test_levels():
    names = ("onednn", "cudnn", "pytorch", "onnxruntime", "keras-tensorflow", "lasagne")
    assert [level(name) for name in names] == ["library", "library", "framework", "framework", "interface", "interface"]
