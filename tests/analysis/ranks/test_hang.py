"""Jobs that hang: dumps of jobs in which faults were injected, and dumps made by hand."""

import json
import os
import pickle
import re

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks import flight_recorder
from kernelscope.analysis.ranks.hang import hang
from kernelscope.reports import hang as report
from tests.places import corpus

ALL, PAIR = ("all", [0, 1, 2]), ("pair", [0, 1])


@pytest.mark.parametrize("job", ["gpu_error_2nd", "lock_gil_1st"])
def test_the_ranks_into_which_a_fault_was_injected(job):
    folder = corpus(f"ranks/nvrx_flight_recorder/{job}")
    injected = re.search(r"Fault ranks: \[(.*?)\]", (folder / "fault_injection.log").read_text())[1]
    result = hang(sorted(folder.glob("_dump_*")))
    assert result["roots"] == [int(rank) for rank in injected.split(",")]
    assert result["ranks"] == list(range(16))
    assert "Ranks 9 and 14 have not begun what 6 ranks wait for" in report.answer(result)


def dump(folder, rank, entries, begun=(), as_json=False):
    """Write a rank's dump. entries: (group, number, state); begun: last number of groups that have no entry."""
    names = {"all": ("0", ALL[1]), "pair": ("7", PAIR[1])}
    content = {
        "version": "2.9", "pg_config": {str(n): {"name": str(n), "desc": name, "ranks": json.dumps(ranks)}
                                        for n, (name, ranks) in enumerate((ALL, PAIR)) if rank in ranks},
        "pg_status": {names[group][0]: {"last_enqueued_collective": number} for group, number in begun},
        "entries": [
            {"process_group": ("0" if group == "all" else "1", group), "pg_id": int(names[group][0]), "collective_seq_id": number,
             "profiling_name": "nccl:all_reduce", "state": state, "is_p2p": False, "time_created_ns": 10 * place + rank}
            for place, (group, number, state) in enumerate(entries)
        ],
    }  # fmt: skip
    path = folder / (f"trace_{rank}.json" if as_json else f"trace_{rank}")
    path.write_bytes(json.dumps(content).encode() if as_json else pickle.dumps(content))
    return path


@pytest.mark.parametrize("as_json", [True, False])
def test_what_waits_for_one_that_waits_is_a_consequence(tmp_path, as_json):
    paths = [
        dump(tmp_path, 0, [("pair", 4, "completed"), ("pair", 5, "scheduled")], as_json=as_json),
        dump(tmp_path, 1, [("all", 9, "started")], begun=[("pair", 4)], as_json=as_json),
        dump(tmp_path, 2, [("all", 8, "completed")], as_json=as_json),
    ]
    assert all(map(flight_recorder.is_dump, paths))
    result = hang(paths)
    assert {wait["rank"]: wait["for"] for wait in result["waits"]} == {0: [1], 1: [2]}, "what rank 0 has begun of all is not told"
    assert result["roots"] == [2]
    assert report.answer(result).startswith("Rank 2 has not begun what 1 rank waits for, such as all_reduce #9 of all, and waits")


def test_a_circle(tmp_path):
    paths = [dump(tmp_path, 0, [("pair", 5, "scheduled"), ("all", 8, "completed")]),
             dump(tmp_path, 1, [("pair", 4, "completed"), ("all", 9, "scheduled")]),
             dump(tmp_path, 2, [("all", 9, "scheduled")])]  # fmt: skip
    result = hang(paths)
    assert result["circular"]
    assert "in a circle (0, 1 and 2 of 3 ranks)" in report.answer(result)


def test_a_rank_without_a_dump_may_be_the_one(tmp_path):
    result = hang([dump(tmp_path, 0, [("all", 9, "scheduled")]), dump(tmp_path, 1, [("all", 9, "scheduled")])])
    assert (result["roots"], result["missing"]) == ([2], [2])
    assert report.answer(result) == "The rank at fault is unknown: 2 ranks wait for ranks without a dump (2)."


def test_nobody_waits(tmp_path):
    result = hang([dump(tmp_path, rank, [("all", 9, "completed")]) for rank in range(3)])
    assert report.answer(result) == "No rank of 3 ranks waits in a collective for one that has not begun it."


class Evil:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def test_a_dump_runs_nothing(tmp_path):
    marker = tmp_path / "ran"
    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps({"entries": [Evil(str(marker))], "pg_config": {}}))
    with pytest.raises(EvidenceError, match="mkdir', which is not allowed"):
        hang([path])
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80", b"\x80\x04.", b"{}", b"\x80\x04]q\x00.", pickle.dumps({"entries": 3, "pg_config": {}}),
     # found by the fuzzer: Python's unpickler allocates gigabytes for the number by which a value is remembered
     b"\x80\x02}r\xff\xff\xff\x7f.",
     # a text of these tuples would fill the memory
     b"\x80\x02)" + b"q\x00h\x00\x86" * 100 + b"."],
)  # fmt: skip
def test_what_is_no_dump_is_said_to_be_none(tmp_path, content):
    path = tmp_path / "trace_0"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match="Flight Recorder"):
        hang([path])


def test_what_is_left_out_is_told(tmp_path):
    paths = [dump(tmp_path, 0, [("all", 9, "started")]), dump(tmp_path, 2, [("all", 8, "completed")])]
    (tmp_path / "trace_1").touch()
    (tmp_path / "trace_3").write_bytes(paths[1].read_bytes())
    (tmp_path / "other.json").write_text('{"traceEvents": []}')
    result = hang(sorted(tmp_path.iterdir()))
    assert result["notes"][:3] == [
        f"left out: {tmp_path}/other.json: not a dump of PyTorch's Flight Recorder",
        f"left out: {tmp_path}/trace_1: empty, not a dump of PyTorch's Flight Recorder",
        "trace_3 is left out: the same file as trace_2",
    ]
    assert (result["ranks"], result["missing"]) == ([0, 2], [1])
