"""What is said of functions of Python: breakdowns, advice and explanations of profiles that cProfile made."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.advise import advise
from kernelscope.analysis.explain import pair
from kernelscope.analysis.recordings import captures
from kernelscope.reports import advice, breakdown_grid, breakdown_views, breakdown_words
from kernelscope.reports import captures as report
from tests.analysis.formats.cprofile.test_text import of_rows

EXEC = "{built-in method builtins.exec}"
TRAIN, SAMPLE = "train.py:9(train)", "data/birds.py:20(__getitem__)"
LOADER = "/a/site-packages/torch/utils/data/dataloader.py:300(__next__)"
BACKWARD, ITEM = "{method 'run_backward' of 'torch._C._EngineBase' objects}", "{method 'item' of 'torch._C.TensorBase' objects}"
POLL = "{method 'poll' of 'select.poll' objects}"
Row = tuple[int, float, float, str]


def written(folder: Path, *rows: Row, seconds: float = 20.0, name: str = "profile.txt") -> Path:
    path = folder / name
    path.write_text(of_rows(*rows, above=f"   900 function calls in {seconds:.3f} seconds\n\n"))
    return path


def explained(folder: Path, a: tuple[Row, ...], b: tuple[Row, ...], seconds: tuple[float, float]) -> list[dict[str, Any]]:
    paths = [written(folder, *rows, seconds=s, name=f"{n}.txt") for rows, s, n in zip((a, b), seconds, "ab", strict=True)]
    return list(pair.read(*paths).explain()["findings"])


def test_breakdowns_speak_of_functions_and_shares_are_of_the_whole(tmp_path):
    trace = captures.read(written(tmp_path, (1, 0.0, 20.0, EXEC), (1, 8.0, 20.0, TRAIN), (4, 12.0, 12.0, BACKWARD)))
    found = breakdown(trace, "kernel").as_dict()
    assert breakdown_grid.heading(found) == ["cProfile: the whole by function", "functions' own times add up to 20.0 s"]
    ranges = breakdown(trace, "range").as_dict()
    assert [(row["range"], row["share"]) for row in ranges["rows"]][1:] == [
        ("train.py: train", 1.0), ("run_backward of torch._C._EngineBase objects", 0.6),
    ]  # fmt: skip
    assert breakdown_words.whole_ns(ranges) == 20_000_000_000
    assert "rows overlap: each time includes what the function calls" in breakdown_grid.heading(ranges)
    assert [breakdown_views.breakdown(part).columns[0].title for part in (found, ranges)] == ["function", "function"]


def test_the_page_speaks_of_functions(tmp_path):
    trace = captures.read(written(tmp_path, (1, 8.0, 20.0, TRAIN), (4, 12.0, 12.0, BACKWARD)))
    record = {"info": trace.info, "tables": {"kernels": 2, "totals": 2}, "sources": [], "diagnostics": {}}
    known = [breakdown(trace, "kernel").as_dict()]
    assert report.headline(record, known) == "cProfile: 20.0 s in functions of Python"
    assert report.facts({**record, "sources": [{"name": "p.txt", "bytes": 9}]}, known)[2:] == [
        ("functions", "2"), ("cumulative times", "2"), ("functions' own times add up to", "20.0 s"),
    ]  # fmt: skip


def test_very_long_times_are_in_seconds(tmp_path):
    path = written(tmp_path, (1, 7000.0, 7000.0, TRAIN), seconds=7000.0)
    trace = captures.read(path)
    drawn = io.StringIO()
    Console(file=drawn, width=100).print(advice.AdviceText(advise(path)))
    assert "7,000.000   100%  in functions" in drawn.getvalue()
    assert breakdown_grid.unit_of(breakdown(trace, "kernel").as_dict()) == ("s", 2)


def test_samples_that_the_program_makes_itself_are_the_main_item(tmp_path):
    rows = (
        (1, 0.0, 20.0, EXEC),
        (1, 1.0, 19.9, TRAIN),
        (50, 0.1, 13.0, LOADER),
        (800, 2.0, 12.5, SAMPLE),
        (50, 4.0, 4.0, BACKWARD),
    )
    result = advise(written(tmp_path, *rows))
    (one,) = result["advice"]
    assert one["title"].startswith(
        "`data/birds.py: __getitem__` with what it calls takes 62.5% (12.50 of 20.00 s): the program makes"
    )
    assert (one["topic"], one["saves_ns"], one["at_most"]) == ("input pipeline", 12_500_000_000, True)
    assert "num_workers" in one["remedy"]
    assert any("functions of the framework itself take 4.00 s (20%): run_backward" in note for note in result["notes"])
    assert any(note.startswith("with what they call, of 20.0 s: `torch/utils/data/dataloader.py: __next__` 65.0%")
               for note in result["notes"])  # fmt: skip


def test_a_loader_that_waits_for_its_workers_needs_faster_ones(tmp_path):
    result = advise(written(tmp_path, (1, 1.0, 20.0, TRAIN), (50, 0.1, 11.0, LOADER), (60, 10.0, 10.0, POLL)))
    (one,) = result["advice"]
    assert one["title"].endswith("the program waits for the next batch of its data loader, which waits for its workers")
    assert "Workers of a data loader that deliver too slowly" in one["remedy"]


@pytest.mark.parametrize(
    ("place", "topic"),
    [(ITEM, "waiting for the device"), (POLL, "other processes"), ("{built-in method time.sleep}", "sleep")],
)
def test_functions_that_wait_are_advised_on(tmp_path, place, topic):
    (one,) = advise(written(tmp_path, (1, 10.0, 20.0, TRAIN), (100, 6.0, 6.0, place)))["advice"]
    assert (one["topic"], one["saves_ns"]) == (topic, 6_000_000_000)
    assert " line" not in one["title"] + one["estimate"]


@pytest.mark.parametrize(
    "row",
    [
        (9_000_000, 6.0, 6.0, ITEM),  # of a tensor of the host
        (100, 6.0, 12.0, "/a/site-packages/pandas/core/frame.py:3000(__getitem__)"),
        (100, 6.0, 12.0, "net.py:3(<genexpr>)"),
    ],
)
def test_nothing_is_advised_where_names_do_not_tell(tmp_path, row):
    result = advise(written(tmp_path, (1, 5.0, 20.0, TRAIN), (9, 1.0, 1.0, BACKWARD), row))
    assert not result["advice"]
    assert "No saving stands out" in advice.answer(result)


def test_each_function_is_a_cause_of_its_own(tmp_path):
    a = (
        (1, 1.0, 12.0, TRAIN),
        (10, 4.0, 4.0, "net.py:3(f)"),
        (10, 5.0, 5.0, "net.py:9(g)"),
        (5, 2.0, 2.0, "old.py:1(<genexpr>)"),
    )
    b = ((1, 1.0, 28.1, TRAIN), (10, 9.0, 9.0, "net.py:3(f)"), (30, 15.0, 15.0, "net.py:9(g)"), (2, 3.0, 3.0, "{zip}"),
         (5, 0.1, 0.1, "new.py:1(<genexpr>)"))  # fmt: skip
    found = explained(tmp_path, a, b, (12.0, 28.1))
    assert [(one["cause"], one["explains_ns"]) for one in found] == [
        ("more calls", 10_000_000_000), ("slower function", 5_000_000_000), ("other functions", 3_000_000_000),
        ("slower function", -1_900_000_000),
    ]  # fmt: skip
    assert found[0]["title"] == "`net.py: g` is called more often in B than in A: 5.00 s in A, 15.0 s in B, 10 and 30 calls"
    assert found[2]["title"] == "only B calls zip: 3.00 s of its own, 2 calls"
    assert found[3]["title"].startswith("`old.py: <genexpr>` takes 20 times as long in A as in B (there `new.py: <genexpr>`)")
    assert "print_callers" in found[0]["remedy"]
    assert "line_profiler" in found[1]["remedy"]


def test_a_loader_that_moved_to_workers_is_told(tmp_path):
    a = ((1, 4.0, 12.0, TRAIN), (500, 8.0, 8.0, SAMPLE))
    b = ((1, 4.0, 9.0, TRAIN), (40, 5.0, 5.0, POLL))
    sentences = [one["evidence"] for one in explained(tmp_path, a, b, (12.0, 9.0))]
    said = (
        "`data/birds.py: __getitem__` with what it calls took 8.00 s in A, and is not in B, which waits for other processes: "
        "workers of its data loader make the samples, which cProfile does not see."
    )
    assert [said in one for one in sentences] == [True, True]


ADAM, TENSOR = "adam.py:347(_single_tensor_adam)", "functional.py:127(to_tensor)"
LOCK = "{method 'acquire' of '_thread.lock' objects}"


def test_small_parts_with_a_known_remedy_are_advice_together(tmp_path):
    rows = ((10, 12.0, 12.0, BACKWARD), (40, 0.3, 0.6, ADAM), (1000, 0.5, 1.0, TENSOR), (9, 1.0, 1.0, LOCK))
    (one,) = advise(written(tmp_path, *rows))["advice"]
    assert one["title"] == "3 smaller parts with a known remedy take 13% of the time together"
    assert (one["saves_ns"], one["at_most"]) == (2_600_000_000, True)
    sample, update, wait = one["evidence"]
    assert sample.startswith("`functional.py: to_tensor` 1.00 s (5%), 1,000 x 1.00 ms: work on single samples in this process")
    assert update == "`adam.py: _single_tensor_adam` 600 ms (3%), 40 x 15.0 ms: the optimizer's update, tensor by tensor."
    assert wait.startswith("acquire of _thread.lock objects 1.00 s (5%)")
    assert "num_workers" in one["remedy"]
    assert "fused=True" in one["remedy"]


def test_one_small_part_with_a_known_remedy_is_noted(tmp_path):
    result = advise(written(tmp_path, (10, 12.0, 12.0, BACKWARD), (40, 0.3, 0.6, ADAM)))
    assert result["advice"] == []
    (note,) = (note for note in result["notes"] if "tensor by tensor" in note)
    assert note.startswith(
        "`adam.py: _single_tensor_adam` 600 ms (3%), 40 x 15.0 ms: the optimizer's update, tensor by tensor: foreach"
    )


@pytest.mark.parametrize(
    "row", [(40, 0.1, 0.39, ADAM), (40, 0.1, 0.39, TENSOR), (9, 0.7, 0.7, LOCK), (9, 1.0, 1.0, "adam.py:3(_multi_tensor_adam)")]
)
def test_smaller_parts_and_others_are_not_noted(tmp_path, row):
    notes = advise(written(tmp_path, (10, 12.0, 12.0, BACKWARD), row))["notes"]
    assert not any(word in note for note in notes for word in ("tensor by tensor", "single samples", "waits for other"))


def test_the_function_with_most_code_of_its_own_is_named(tmp_path):
    """It is called by two that only pass on: 4.5 of 20 s of its own, 5.5 s with what it calls."""
    rows = [(5, 0.4, 9.0, "ui.py:2(draw)"), (5, 0.6, 8.0, "ui.py:5(add)"), (5, 0.5, 7.0, "ui.py:8(_add)")]
    rows += [(50, 4.5, 5.5, "ui.py:20(_add_line)"), (1, 6.0, 6.0, "{built-in method time.sleep}")]
    notes = advise(written(tmp_path, *rows))["notes"]
    (found,) = [note for note in notes if note.startswith("most time in its own code")]
    assert found.endswith("`ui.py: _add_line` 4.50 s (22%), 50 x 90.0 ms; with what it calls 5.50 s (28%)")


@pytest.mark.parametrize("own", [1.9, 7.0])
def test_a_function_with_little_code_or_that_is_named_already_is_not_named_again(tmp_path, own):
    notes = advise(written(tmp_path, (50, own, own + 1, "ui.py:20(_add_line)"), (1, 6.0, 6.0, EXEC)))["notes"]
    assert not any(note.startswith("most time in its own code") for note in notes)


def test_built_in_functions_of_python_2_have_no_file(tmp_path):
    trace = captures.read(written(tmp_path, (3, 9.0, 9.0, ":0(dot)"), (3, 8.0, 17.0, "a.py:1(dot)")))
    assert trace.kernels["name"].tolist()[:2] == ["dot", "a.py: dot"]
