"""Groups of ranks with collectives of their own: a real job whose kernels are given groups, as newer traces have them."""

import copy
import gzip
import json

import pytest

from kernelscope.analysis.ranks.groups import SLOW
from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.parts import JOB_PARTS, WAITING
from kernelscope.reports.ranks import answer
from tests.places import corpus

SHIFTS_US = (0, 40_000, -25_000, 100, 7_000, -90_000, 3, 55_000)


@pytest.fixture(scope="module")
def captures():
    return [json.loads(gzip.decompress(path.read_bytes())) for path in sorted(corpus("ranks/megatron_tp8").glob("*.json.gz"))]


def talks(event):
    return event.get("ph") == "X" and event.get("cat") == "kernel" and "nccl" in event["name"].lower()


def written(folder, captures, group_of, shifts=(0,) * 8):
    """Write the captures with the group of each rank's n-th collective, and clocks that are shifted; return the files."""
    paths = []
    for rank, capture in enumerate(captures):
        events, order = [], sorted(one["ts"] for one in capture["traceEvents"] if talks(one))
        for event in capture["traceEvents"]:
            copy = dict(event)
            if talks(event):
                members = group_of(rank, order.index(event["ts"]))
                told = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Half",
                        "Group size": len(members), "Process Group Ranks": str(members)}  # fmt: skip
                copy["args"] = {**event["args"], **told}
            if "ts" in copy:
                copy["ts"] += shifts[rank]
            events.append(copy)
        paths.append(folder / f"rank{rank}.json")
        paths[-1].write_text(json.dumps({**capture, "traceEvents": events}))
    return paths


def halves(rank, number):
    return [0, 1, 2, 3] if rank < 4 else [4, 5, 6, 7]


def crossed(rank, number):
    """Tensor and data parallel: quarters of a row, and pairs across them, in turns."""
    return halves(rank, number) if number % 2 else sorted((rank, (rank + 4) % 8))


@pytest.mark.parametrize("group_of", [pytest.param(halves, marks=pytest.mark.long), crossed])
def test_ranks_wait_for_those_of_their_group(captures, tmp_path, group_of):
    result = job(written(tmp_path, captures, group_of), workers=1)
    tables = [sorted((one["ts"], one["ts"] + one["dur"]) for one in capture["traceEvents"] if talks(one)) for capture in captures]
    offsets = [row["offset_ns"] / 1000 for row in result["ranks"]]
    waits = [0.0] * 8
    for number in range(84):
        for rank in range(8):
            began, over = tables[rank][number]
            last = max(tables[other][number][0] - offsets[other] for other in group_of(rank, number))
            waits[rank] += min(max(last - (began - offsets[rank]), 0), over - began)
    assert result["matched"] == (84 * 2 if group_of is halves else 42 * 2 + 42 * 4)
    assert result["unmatched"] == 0
    for row, expected in zip(result["ranks"], waits, strict=True):
        assert sum(row[name] for name in JOB_PARTS) == row["step_ns"]
        assert row[WAITING] / 1000 == pytest.approx(expected, rel=1e-3, abs=3)  # less what lies beyond the step
    sizes = {(row["bytes"], row["members"]) for row in result["collectives"]}
    assert sizes == ({(2000, 4)} if group_of is halves else {(2000, 4), (2000, 2)})
    changes = [row["name"] for row in result["what_if"]["changes"]]
    assert changes == [] or changes[-2:] == ["balanced work", "no transfer"]


def pairs(rank, number):
    return [rank - rank % 2, rank - rank % 2 + 1]


@pytest.mark.parametrize("slow", [pytest.param(None, marks=pytest.mark.long), 4])
def test_a_group_whose_transfers_take_longer_is_named(captures, tmp_path, slow):
    """Ranks 4 and 5 begin each collective 1.5 ms earlier and end it as before: what takes 0.6 ms elsewhere takes 2.1."""
    made = copy.deepcopy(captures)
    for rank in () if slow is None else pairs(slow, 0):
        for event in filter(talks, made[rank]["traceEvents"]):
            event["ts"] -= 1500
            event["dur"] += 1500
    result = job(written(tmp_path, made, pairs), workers=1)
    rows = {row["group"]: row for row in result["groups"]}
    assert set(rows) == {"0, 1", "2, 3", "4, 5", "6, 7"}
    assert [rows["4, 5"]["ranks"], rows["4, 5"]["operations"], rows["4, 5"]["count"]] == [[4, 5], ["all-reduce"], 84]
    for number, row in enumerate(rows[name] for name in sorted(rows)):
        whole = sum(
            1000 * event["dur"] for rank in (2 * number, 2 * number + 1) for event in filter(talks, made[rank]["traceEvents"])
        )
        assert row["time_ns"] == pytest.approx(whole, rel=1e-6)
        assert row["wait_ns"] + row["transfer_ns"] == row["time_ns"]
    named = {name for name, row in rows.items() if (row["slower"] or 0) >= SLOW}
    assert named == (set() if slow is None else {"4, 5"})
    assert ("Transfers take longer than in similar groups between ranks 4, 5" in answer(result)) is (slow is not None)


@pytest.mark.long
def test_clocks_of_groups_come_together_by_the_ranks_they_share(captures, tmp_path):
    plain = job(written(tmp_path, captures, crossed), workers=1)
    shifted = job(written(tmp_path, captures, crossed, SHIFTS_US), workers=1)
    moved = [b["offset_ns"] - a["offset_ns"] for a, b in zip(plain["ranks"], shifted["ranks"], strict=True)]
    mean = sum(SHIFTS_US) / 8
    for got, shift in zip(moved, SHIFTS_US, strict=True):
        assert got / 1000 == pytest.approx(shift - mean, abs=30)  # the ends of a collective lie so far apart
    for a, b in zip(plain["ranks"], shifted["ranks"], strict=True):
        assert b[WAITING] == pytest.approx(a[WAITING], rel=0.01)
