"""Messages between two ranks: real pipelines of three stages, and kernels that tell their peers as those of newer traces do."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.ranks import point_to_point
from kernelscope.analysis.ranks.clocks import Clocks, by_messages
from kernelscope.analysis.ranks.inherited import Waits, charged
from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.analysis.ranks.recording import read
from kernelscope.analysis.trace import Trace, conform
from kernelscope.reports.ranks import answer, notes
from tests.analysis.ranks.test_groups import talks
from tests.places import ROOT, corpus

DATA = ROOT / "tests" / "data" / "ranks"


def recorded(fault):
    return [DATA / f"pipe_{fault}_rank{rank}.json.gz" for rank in range(3)]


@pytest.fixture(scope="module")
def slow():
    return job(recorded("slow"))


def test_the_slow_stage_is_named(slow):
    """It sleeps 4 ms before each of 4 micro-batches, of 3 steps; the stages before and after it wait for it."""
    said = answer(slow)
    assert "Rank 1 makes the others wait most" in said
    assert "in ranges (planted)" in said
    first = slow["blame"][0]
    assert (first["rank"], first["name"], first["count"]) == (1, "planted", 12)
    assert first["ns"] > 2 * 16_000_000  # each of both, a step
    [won] = [row["saved_ns"] for row in slow["what_if"]["changes"] if row["name"] == "no late rank"]
    assert won == pytest.approx(16_000_000, rel=0.15)


def test_stages_that_are_alike_are_not_blamed():
    result = job(recorded("plain"))
    assert "No rank works longer than the others" in answer(result)
    assert result["messages"] == result["matched"] == 48  # 4 micro-batches there and back over 2 borders, in 3 steps


def test_nothing_is_lost(slow):
    assert all(sum(row[part] for part in JOB_PARTS) == row["step_ns"] for row in slow["ranks"])
    exposed = sum(row["exposed_wait_ns"] for row in slow["collectives"])
    assert sum(row["ns"] for row in slow["blame"]) == pytest.approx(exposed, abs=len(slow["blame"]))
    assert slow["unmatched"] == 0


def test_messages_of_both_ways_tell_clocks(slow, tmp_path):
    """The three processes ran on one machine, whose clock is set 250 ms back in the files of the last."""
    uncertainty = slow["clocks"]["uncertainty_ns"]
    assert all(abs(row["offset_ns"]) <= uncertainty for row in slow["ranks"])
    *same, last = recorded("slow")
    capture = json.loads(gzip.decompress(last.read_bytes()))
    for event in capture["traceEvents"]:
        if "ts" in event:
            event["ts"] -= 250_000
    (tmp_path / "rank2.json").write_text(json.dumps(capture))
    shifted = job([*same, tmp_path / "rank2.json"])
    offsets, before = ([row["offset_ns"] for row in result["ranks"]] for result in (shifted, slow))
    assert (offsets[2] - offsets[0]) - (before[2] - before[0]) == pytest.approx(-250_000_000, abs=2_000)
    assert [row["ns"] for row in shifted["blame"]][:3] == pytest.approx([row["ns"] for row in slow["blame"]][:3], rel=0.01)
    assert any("48 messages between two ranks; the fastest of them correct the clocks" in note for note in notes(shifted))


def test_the_offset_is_the_middle_of_the_quickest_messages():
    """Rank 1's clock is 100 ns ahead, its partner's messages take 30 ns at least, its own 10: the middle is 10 off, within 20."""
    sender, receiver = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])
    took = np.array([100 + 30, 100 + 90, -100 + 10, -100 + 40])
    found = by_messages(
        Clocks(np.zeros(2, dtype=np.int64), 0, 0, 0), np.array([0, 1]), sender, receiver, np.zeros(4, dtype=np.int64), took
    )
    assert found.offsets_ns[1] - found.offsets_ns[0] == 110
    assert (found.uncertainty_ns, found.impossible) == (20, 0)


def waits(start, wait, before, last, clear=True):
    start, wait, before = (np.array(values) for values in (start, wait, before))
    masked = np.ma.masked_array(start, mask=start < 0)
    return Waits(masked, wait, wait, np.ma.masked_array(before, mask=masked.mask), np.array(last), np.full(len(last), clear))


def test_waiting_that_is_handed_on_is_charged_to_who_it_comes_from():
    """Rank 1 waits 60 for rank 0's message, then works 30 and sends: rank 2 has waited 90 of which only 30 are rank 1's."""
    chain = waits(
        start=[[100, 40, -1], [-1, 130, 40]], wait=[[0, 60, 0], [0, 0, 90]], before=[[100, 40, 0], [0, 30, 40]], last=[0, 1]
    )
    assert charged(chain).to_numpy().tolist() == [[0, 0, 120], [1, 1, 30]]


def test_what_came_before_an_earlier_message_is_charged_there():
    """Rank 0 waits 80 until rank 1 receives; of that, rank 1 worked 50 before it sent to rank 2, and 20 after it; 10 it sent."""
    pair = waits(start=[[-1, 60, 60], [10, 90, -1]], wait=[[0, 0, 0], [80, 0, 0]], before=[[0, 60, 60], [10, 20, 0]], last=[1, 1])
    assert charged(pair).to_numpy().tolist() == [[0, 1, 50], [1, 1, 30]]


def test_nobody_is_charged_where_it_is_not_known_who_came_last():
    chain = waits(start=[[100, 40]], wait=[[0, 60]], before=[[100, 40]], last=[0], clear=False)
    assert charged(chain).to_numpy().tolist() == [[0, -1, 60]]


def test_kernels_that_tell_their_peer_are_messages(tmp_path):
    """Two ranks' real kernels, each told to send to the other or to receive from it, in turns, as ProcessGroupNCCL writes it."""
    paths, times = [], []
    for rank, path in enumerate(sorted(corpus("ranks/megatron_tp8").glob("*.json.gz"))[:2]):
        capture = json.loads(gzip.decompress(path.read_bytes()))
        capture["distributedInfo"]["world_size"] = 2
        own = sorted((event for event in capture["traceEvents"] if talks(event)), key=lambda event: event["ts"])
        for number, event in enumerate(own):
            sends = (number % 2 == 0) == (rank == 0)
            told = (
                {"Collective name": "send", "Dst Rank": 1 - rank} if sends else {"Collective name": "recv", "Src Rank": 1 - rank}
            )
            event["args"] |= {"In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Half", "Group size": 2, **told}
        times.append([(event["ts"] * 1000, (event["ts"] + event["dur"]) * 1000) for event in own])
        paths.append(tmp_path / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(capture))
    result = job(paths)
    start, end = (np.array(times)[:, :, at].T for at in (0, 1))
    sends = np.arange(len(start)) % 2 == 0  # by rank 0
    there, back = (end[sends, 1] - start[sends, 0]).min(), (end[~sends, 0] - start[~sends, 1]).min()
    offset = result["ranks"][1]["offset_ns"] - result["ranks"][0]["offset_ns"]
    assert offset == pytest.approx((there - back) / 2, abs=2)
    begun = start - [0, offset]
    waited = np.clip(np.minimum(begun.max(axis=1, keepdims=True) - begun, end - start), 0, None)
    [row] = result["collectives"]
    assert (row["operation"], row["bytes"], row["members"], row["count"]) == ("send and receive", 2000, 2, 84)
    assert row["wait_ns"] == pytest.approx(waited.sum(), abs=200)
    assert (result["messages"], result["unmatched"]) == (84, 0)
    assert not any("without naming their peers" in note for note in notes(result))


def test_kernels_of_batches_are_said_to_tell_no_peer():
    """Older traces tell of no kernel to whom it sends, as all do of batches: NCCL has one kernel for all of these."""
    paths = sorted(corpus("ranks/hta_sampled_128").glob("*.json.gz"))
    names = [
        event["name"] for path in paths for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        if event.get("cat") == "kernel"
    ]  # fmt: skip
    [said] = [note for note in notes(job(paths)) if "without naming their peers" in note]
    assert said.startswith(f"{sum(name.startswith('ncclKernel_SendRecv') for name in names)} kernels of all ranks send")


# --- stages that hold two chunks each, and send without waiting ---------------------------------------------------------------


def interleaved(fault):
    return [DATA / f"inter_{fault}_rank{rank}.json.gz" for rank in range(2)]


def test_the_slow_chunk_of_an_interleaved_pipeline_is_named_with_its_size():
    """It sleeps 4 ms before each of 4 micro-batches; sends go on until the step ends, where the rank waits for them."""
    result = job(interleaved("slow"))
    assert result["messages"] == result["matched"] == 72  # 4 micro-batches there and back over 3 borders, in 3 steps
    assert "Rank 1 makes the others wait most" in answer(result)
    first = result["blame"][0]
    assert (first["rank"], first["name"]) == (1, "planted")
    assert first["ns"] == pytest.approx(16_000_000, rel=0.1)
    assert all(sum(row[part] for part in JOB_PARTS) == row["step_ns"] for row in result["ranks"])


def test_chunks_that_are_alike_are_not_blamed():
    result = job(interleaved("plain"))
    assert "No rank works longer than the others" in answer(result)


@pytest.mark.parametrize("fault", ["plain", "slow"])
def test_an_interleaved_pipeline_is_played_as_it_was(fault):
    assert abs(job(interleaved(fault))["what_if"]["error"]) < 0.001


def test_without_the_slow_chunk_a_step_takes_less_by_what_its_rank_works_more():
    """Of two ranks that wait for each other at each message, all that one works more is waited for; without it they are alike."""
    result = job(interleaved("slow"))
    changes = {row["name"]: row for row in result["what_if"]["changes"]}
    work = [row["compute"] + row["idle, by the host"] for row in result["ranks"]]
    assert work[1] - work[0] == pytest.approx(16_000_000, rel=0.25)  # 5 ms of stalls on rank 0 are no fault of rank 1
    assert changes["no late rank"]["saved_ns"] == pytest.approx(work[1] - work[0], rel=0.05)
    alike = job(interleaved("plain"))["what_if"]
    assert [row["saved_ns"] for row in alike["changes"] if row["name"] == "balanced work"] == pytest.approx([0], abs=200_000)


@pytest.mark.parametrize("fault", ["plain", "slow"])
def test_a_send_that_does_not_wait_lasts_as_long_as_its_operator(fault):
    """By the events themselves: gloo's ranges of sends last until the program asks for them, its operators return at once."""
    for path in interleaved(fault):
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        took = {name: sum(event["dur"] for event in events if event.get("name") == name) for name in ("gloo:send", "c10d::send")}
        assert took["gloo:send"] > 20 * took["c10d::send"]
        [one] = read(path)
        rank = int(one.rank)
        sends = one.collectives[one.collectives["group"].astype("string").str.startswith(f"{rank}>").to_numpy(bool)]
        assert len(sends) == 36
        assert int((sends["end_ns"] - sends["start_ns"]).sum()) == pytest.approx(took["c10d::send"] * 1000, abs=36_000)


@pytest.mark.parametrize("fault", ["plain", "slow"])
def test_a_receive_begins_when_the_program_asks_for_it(fault):
    """By the events themselves: from the last begin or end of an operator or range of its thread until gloo's range ends."""
    for path in interleaved(fault):
        events = pd.DataFrame(json.loads(gzip.decompress(path.read_bytes()))["traceEvents"])
        events = events[(events["ph"] == "X") & events["cat"].isin(["cpu_op", "user_annotation"])]
        received = events[events["name"] == "gloo:recv"]
        edges = np.sort(np.concatenate([events["ts"], events["ts"] + events["dur"]]))
        over = (received["ts"] + received["dur"]).to_numpy()
        asked = edges[np.searchsorted(edges, over - 0.001) - 1]
        assert events["tid"].nunique() == 1
        [one] = read(path)
        own = one.collectives[one.collectives["group"].astype("string").str.endswith(f">{one.rank}").to_numpy(bool)]
        assert int((own["end_ns"] - own["start_ns"]).sum()) == pytest.approx(((over - asked) * 1000).sum(), abs=36_000)
        assert len(own) == 36
        assert (own["posted_ns"] < own["start_ns"]).all()


def test_a_thread_that_did_nothing_before_has_no_last_time_of_another_thread():
    """Thread 1 did something at 50; thread 2 nothing before its row ends at 90."""
    operators = pd.DataFrame({"name": ["a", "b"], "thread": [1, 2], "start_ns": [10, 200], "end_ns": [50, 300]})
    trace = Trace(operators=conform("operators", operators))
    rows = pd.DataFrame({"thread": [1, 2], "start_ns": [60, 60], "end_ns": [90, 90]})
    assert point_to_point._last_before(trace, rows).tolist() == [50, np.iinfo(np.int64).min]
