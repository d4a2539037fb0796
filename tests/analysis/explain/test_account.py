"""The account of real recorded passes: exact sums, both directions, and rows that plain arithmetic gives too."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.attribution.frameworks import CLIPPING
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.sides import load

DATA = Path(__file__).parents[2] / "data"
SOURCES = ["pytorch/lenet-train", "tensorflow/lenet-train", "mxnet/lenet-train"]


def _sums(result):
    rows = sum(row["delta_ns"] for row in result["rows"])
    parts = sum(part["delta_ns"] for part in result["parts"])
    findings = sum(finding["explains_ns"] for finding in result["findings"])
    instrumentation, wall = result["instrumentation_ns"], result["wall_delta_ns"]
    assert rows + instrumentation == wall == parts + instrumentation == findings + result["unexplained_ns"]
    assert wall == result["b"]["step_ns"] - result["a"]["step_ns"]
    for row in result["rows"]:
        assert row["delta_ns"] == row["b_ns"] - row["a_ns"]
        assert {type(row[name]) for name in ("a_ns", "b_ns", "delta_ns")} == {int}
    for side in ("a", "b"):
        assert sum(row[f"{side}_ns"] for row in result["rows"]) == result[side]["recorded_step_ns"] - result[side]["removed_ns"]


@pytest.fixture(scope="module")
def sides(tmp_path_factory, run_folder):
    """One side per source: two repeats of the kernels pass, three of the clean one."""
    folder = tmp_path_factory.mktemp("runs")
    return {source: load(run_folder(folder / str(n), source, (0.8, 0.9, 0.7), 2)) for n, source in enumerate(SOURCES)}


@pytest.mark.parametrize(("a", "b"), list(itertools.permutations(SOURCES, 2)))
def test_parts_add_up_to_the_difference_of_the_wall_times(sides, a, b):
    _sums(explain(sides[a], sides[b]))


def test_what_recording_cost_is_told_in_one_way_on_both_sides(sides):
    """What only one side's layers pass tells would make rows of equal programs differ."""
    plain = sides[SOURCES[0]]
    times = plain.cells.groupby(["layer", "phase"])["time_ns"].sum() / 2
    told = replace(plain, name="told", layers_ns=times)
    assert explain(plain, told)["rows"] == explain(plain, replace(plain, name="told"))["rows"]


def test_clipping_by_the_library_is_set_against_what_a_loop_clips(sides):
    """That is in no layer; and neither is an update that is written otherwise."""
    plain = sides[SOURCES[0]]
    clips = (plain.cells["phase"] == "optimizer").fillna(False)
    cells = plain.cells.assign(phase=plain.cells["phase"].mask(clips, "other"))
    library = replace(plain, name="library", cells=cells.assign(layer=cells["layer"].mask(clips, CLIPPING)))
    result = explain(replace(plain, name="loop", cells=cells), library)
    kernels = {(row["layer"], row["cell"]): row for row in result["rows"] if not row["cell"].startswith("(")}
    assert CLIPPING not in {row["layer"] for row in result["rows"]} | {name for one in result["matches"] for name in one["b"]}
    assert kernels["(unattributed)", "optimizer"]["b_ns"] > 0
    assert all(row["delta_ns"] == 0 for row in kernels.values())


def test_swapped_sides_give_the_mirrored_account(sides):
    a, b = sides[SOURCES[0]], sides[SOURCES[1]]
    there, back = explain(a, b), explain(b, a)
    assert there["wall_delta_ns"] == -back["wall_delta_ns"]
    key = lambda row: (row["layer_a"] or row["layer"], row["layer_b"] or row["layer"], row["phase"], row["cell"])  # noqa: E731
    mirrored = {(k[1], k[0], k[2], k[3]): row for row in back["rows"] for k in [key(row)]}
    assert len(mirrored) == len(there["rows"])
    for row in there["rows"]:
        other = mirrored[key(row)]
        assert (row["a_ns"], row["b_ns"], row["delta_ns"]) == (other["b_ns"], other["a_ns"], -other["delta_ns"])


def test_the_clean_step_is_the_median_of_windows_and_what_recording_cost_is_told(tmp_path, run_folder):
    folder = run_folder(tmp_path / "run", "tensorflow/lenet-train", clean=(0.9,))
    result = explain(load(folder), load(run_folder(tmp_path / "same", "tensorflow/lenet-train", clean=(0.9,))))
    steps = [json.loads(line) for line in (DATA / SOURCES[1] / "steps.jsonl").read_text().splitlines()]
    lengths = [step["end_ns"] - step["start_ns"] for step in steps]  # one window
    clean = sum(round(length * 0.9) for length in lengths) / 3
    assert result["a"]["step_ns"] == round(clean)
    assert result["a"]["recorded_step_ns"] == round(sum(lengths) / 3)
    assert result["a"]["removed_ns"] == pytest.approx(sum(lengths) / 3 - clean, abs=1)
    assert result["wall_delta_ns"] == 0
    assert result["findings"] == []


def test_kernel_rows_are_those_of_the_breakdown(tmp_path, run_folder):
    folder = run_folder(tmp_path / "run", "tensorflow/lenet-train")
    result = explain(load(folder), load(run_folder(tmp_path / "b", "pytorch/lenet-train")))
    table = ks.breakdown(ks.read(folder), "layer-kernel").table
    expected = table.groupby(["layer", "phase", "kind"])["time_ns"].sum()
    found = {(row["layer_a"], row["phase"], row["cell"]): row["a_ns"] for row in result["rows"] if row["layer_a"]}
    for key, time_ns in expected.items():
        if key[0] in {name for name, _, _ in found}:
            assert found[key] == pytest.approx(time_ns, abs=len(table))  # each cell is rounded on its own


def test_different_work_is_refused_unless_forced_and_then_said(tmp_path, run_folder):
    a = load(run_folder(tmp_path / "a", "tensorflow/lenet-train"))
    other = run_folder(tmp_path / "b", "tensorflow/lenet-train")
    record = json.loads((other / "run.json").read_text())
    record["options"].update(batch=32, mode="infer")
    (other / "run.json").write_text(json.dumps(record))
    with pytest.raises(EvidenceError, match=r"different work \(mode: train against infer; batch: 64 against 32\); --force"):
        explain(a, load(other))
    result = explain(a, load(other), force=True)
    assert result["differs"] == ["mode: train against infer", "batch: 64 against 32"]


def test_noise_is_no_difference(tmp_path, run_folder):
    a = load(run_folder(tmp_path / "a", "tensorflow/lenet-train", clean=(1.0, 1.3, 1.0)))
    b = load(run_folder(tmp_path / "b", "tensorflow/lenet-train", clean=(1.2, 0.9, 1.1)))
    result = explain(a, b)
    assert result["significant"] is False
    assert "noise" in result["abstained"]
    assert result["findings"] == []
