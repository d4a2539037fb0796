"""Horovod's timelines: tensors' ranges, and each exchange once, however the file ends."""

import json

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.formats import detect
from kernelscope.analysis.recordings import captures

EPOCH_US = 1_700_000_000_000_000


def events(tensors=2):
    """Yield what Horovod writes of tensors that are exchanged in one buffer."""
    yield {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": EPOCH_US}}
    yield {"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}}
    numbers = range(1, tensors + 1)
    for number in numbers:
        yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": f"allreduce.{number}"}}
        yield {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 10 + number, "pid": number}
        yield {"ph": "X", "name": "0", "ts": 20 + number, "pid": number, "dur": 0}
    yield from ({"ph": "E", "ts": 30 + number, "pid": number} for number in numbers)
    yield from ({"ph": "B", "name": "ALLREDUCE", "ts": 40 + number, "pid": number} for number in numbers)
    for name, begin, end in (("WAIT_FOR_DATA", 50, 60), ("MEMCPY_IN_FUSION_BUFFER", 70, 80), ("NCCL_ALLREDUCE", 90, 200)):
        yield from ({"ph": "B", "name": name, "ts": begin + number, "pid": number} for number in numbers)
        yield from ({"ph": "E", "ts": end + number, "pid": number} for number in numbers)
    yield from ({"ph": "E", "ts": 300 + number, "pid": number, "args": {"dtype": "float32"}} for number in numbers)
    yield {"ph": "i", "name": "CYCLE_START", "ts": 310, "s": "g"}


def written(path, rows, end="]"):
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + end)
    return path


@pytest.mark.parametrize("end", ["]", ",\n", "\n", "", ',\n{"ph": "B", "na'])
def test_an_exchange_of_several_tensors_is_one_kernel(tmp_path, end):
    path = written(tmp_path / "timeline.json", events(), end)
    assert detect(path).name == "horovod"
    trace = captures.read(path)
    kernel = trace.kernels.iloc[0]
    assert len(trace.kernels) == 1
    assert (kernel["name"], kernel["kind"], kernel["library"]) == ("NCCL_ALLREDUCE", "communication", "nccl")
    assert (kernel["start_ns"] - EPOCH_US * 1000, kernel["duration_ns"]) == (91_000, 111_000)
    assert (kernel["operator"], kernel["problem"]) == ("ALLREDUCE", "2 tensors")
    spans = trace.ranges[trace.ranges["category"] == "user"]
    names = ("NEGOTIATE_ALLREDUCE", "ALLREDUCE", "WAIT_FOR_DATA", "MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE")
    assert spans["name"].astype("str").value_counts().to_dict() == dict.fromkeys(names, 2)
    assert sorted(trace.ranges.loc[trace.ranges["category"] == "mark", "name"]) == ["CYCLE_START", "rank 0 ready", "rank 0 ready"]
    assert trace.info["threads"] == {"1": "allreduce.1", "2": "allreduce.2"}
    assert trace.diagnostics == ({"the file ends inside of an event": 1} if end.endswith("na") else {})


def test_exchanges_one_after_the_other_are_several(tmp_path):
    rows = list(events(1))
    later = [{**row, "ts": row["ts"] + 1000} for row in rows if "ts" in row]
    trace = captures.read(written(tmp_path / "a.json", [*rows, *later]))
    assert trace.kernels["duration_ns"].tolist() == [110_000, 110_000]
    assert trace.kernels["problem"].tolist() == ["1 tensor", "1 tensor"]


@pytest.mark.parametrize("end", ["]", ",\n", ',\n{"ph": "B", "na'])
@pytest.mark.parametrize("odd", [None, [], {"ph": 1}, {"ph": "B", "name": "X", "ts": 1, "pid": []}])
def test_what_is_no_event_is_left_out_and_counted(tmp_path, odd, end):
    rows = list(events(1))
    trace = captures.read(written(tmp_path / "a.json", [*rows[:5], odd, *rows[5:]], end))
    assert trace.kernels["duration_ns"].tolist() == [110_000]
    assert trace.diagnostics[chrome_json.ODD] == 1


@pytest.mark.parametrize("epoch_us", [2**63, 10**30, -(2**63)])
def test_a_beginning_that_no_clock_shows_is_told(tmp_path, epoch_us):
    first, *rows = events(1)
    trace = captures.read(
        written(tmp_path / "a.json", [{**first, "args": {"start_time_since_epoch_in_micros": epoch_us}}, *rows])
    )
    assert trace.kernels["duration_ns"].tolist() == [110_000]
    assert trace.diagnostics == {"a beginning of the clock that is out of range": 1}


def test_begins_without_an_end_are_counted(tmp_path):
    trace = captures.read(written(tmp_path / "a.json", list(events())[:-6], ",\n"))
    assert trace.diagnostics["begins and ends without the other"] > 0


def test_nothing_to_read_is_said_in_a_line(tmp_path):
    path = written(tmp_path / "a.json", list(events())[:2])
    with pytest.raises(EvidenceError, match="holds no operations; record longer") as error:
        captures.read(path)
    assert "\n" not in str(error.value)
