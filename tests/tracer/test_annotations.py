"""What scripts say themselves: ranges, marks and steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelscope.tracer import annotate, mark, step
from kernelscope.tracer.inside import annotations
from kernelscope.tracer.inside.ranges import Recorder


def test_annotations_are_ranges_while_ranges_are_recorded(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), layers=True)
    with annotate("too early"):
        annotations.record(recorder)
        recorder.begin_step()
        with annotate("outer"):
            annotate("inner")(lambda: mark("now"))()
            recorder.end_step()  # closes what is open
            recorder.begin_step()
        recorder.end_step()
    annotations.record(None)
    with annotate("too late"):
        mark("too late")
    recorder.flush()
    rows = [json.loads(line) for line in (tmp_path / "ranges.jsonl").read_text().splitlines()]
    assert [row["name"] for row in rows] == ["now", "inner", "outer", "step 0", "step 1"]


def test_where_nothing_records_nothing_happens() -> None:
    with annotate("a"), step():
        mark("b")
    assert annotate("a")(len)("abc") == 3
    with pytest.raises(ZeroDivisionError), annotate("a"), step():
        _ = 1 / 0


def test_a_marked_step_ends_at_its_blocks_end() -> None:
    ends: list[int] = []
    annotations.listen(lambda: ends.append(1))
    try:
        for _ in range(3):
            with step():
                assert len(ends) < 3
        with pytest.raises(ValueError, match="not whole"), step():
            raise ValueError("not whole")
    finally:
        annotations.listen(None)
    assert len(ends) == 3
