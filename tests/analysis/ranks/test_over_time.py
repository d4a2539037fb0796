"""What ranks of a job did when, and for whom the others waited in which step: sums against those of the whole job."""

import gzip
import json

import pytest

from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.over_time import SHOWN
from kernelscope.analysis.ranks.parts import TRANSFER, WAITING
from tests.places import ROOT, corpus

DATA = ROOT / "tests" / "data" / "ranks"
MS = 1_000_000


@pytest.fixture(scope="module")
def megatron():
    return job(sorted(corpus("ranks/megatron_tp8").glob("*.json.gz")), workers=1, timeline=True)


def summed(lane):
    sums = {}
    for part, ns in zip(lane["part"], lane["duration_ns"], strict=True):
        sums[part] = sums.get(part, 0) + ns
    return sums


def test_lanes_add_up_to_the_ranks_steps(megatron):
    lanes = {lane["rank"]: lane for lane in megatron["timeline"]["lanes"]}
    assert lanes.keys() == set(range(8))
    for row in megatron["ranks"]:
        expected = {"computing": row["compute"], TRANSFER: row[TRANSFER], WAITING: row[WAITING]}
        assert summed(lanes[row["rank"]]) == expected


def test_nothing_in_a_lane_overlaps(megatron):
    for lane in megatron["timeline"]["lanes"]:
        ends = [start + lasted for start, lasted in zip(lane["start_ns"], lane["duration_ns"], strict=True)]
        assert all(end <= start for end, start in zip(ends, lane["start_ns"][1:], strict=False))
        assert lane["start_ns"][0] >= 0
        assert ends[-1] <= megatron["timeline"]["wall_ns"]


def test_lanes_are_aligned_by_corrected_clocks(tmp_path):
    """The same job, one clock of which is 250 ms ahead."""
    paths = sorted(DATA.glob("sleep_*.json.gz"))
    document = json.loads(gzip.decompress(paths[1].read_bytes()))
    for event in document["traceEvents"]:
        if "ts" in event:
            event["ts"] += 250_000
    (tmp_path / "rank1.json").write_text(json.dumps(document))
    plain, shifted = job(paths, timeline=True), job([paths[0], tmp_path / "rank1.json"], timeline=True)
    for one, other in zip(plain["timeline"]["lanes"], shifted["timeline"]["lanes"], strict=True):
        assert one["part"] == other["part"]
        assert other["start_ns"] == pytest.approx(one["start_ns"], abs=2000)
    assert shifted["caused"] == plain["caused"]


def test_the_late_rank_is_late_in_each_step():
    result = job(sorted(DATA.glob("sleep_*.json.gz")))
    assert [(row["rank"], row["step"]) for row in result["caused"]] == [(1, step) for step in range(4)]
    assert all(15 * MS < row["ns"] < 25 * MS for row in result["caused"])  # 20 ms are planted
    assert "timeline" not in result


def test_what_is_caused_adds_up_to_the_blame(megatron):
    for rank in range(8):
        caused = sum(row["ns"] for row in megatron["caused"] if row["rank"] == rank)
        assert caused == pytest.approx(sum(row["ns"] for row in megatron["blame"] if row["rank"] == rank), abs=100)


def test_of_many_ranks_the_late_and_the_waiting_are_shown(tmp_path):
    paths = []
    for rank in range(SHOWN + 4):
        document = json.loads(gzip.decompress((DATA / f"sleep_rank{int(rank == 5)}.json.gz").read_bytes()))
        document["distributedInfo"] |= {"rank": rank, "world_size": SHOWN + 4}
        paths.append(tmp_path / f"{rank}.json")
        paths[-1].write_text(json.dumps(document))
    lanes = job(paths, workers=1, timeline=True)["timeline"]["lanes"]
    assert len(lanes) == SHOWN
    assert 5 in [lane["rank"] for lane in lanes]
