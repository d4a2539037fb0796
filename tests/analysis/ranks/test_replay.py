"""A job played again: times worked out by hand, and captures into which faults were planted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.ranks.clocks import Clocks
from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.recording import SEGMENT, RankRecording
from kernelscope.analysis.ranks.replay import MOST_ERROR, played, what_if
from kernelscope.analysis.ranks.waiting import singles, waits
from tests.places import ROOT, corpus

DATA = ROOT / "tests" / "data" / "ranks"


def rank(collectives, exposed, end, ahead=0):
    """Return a rank whose clock is ahead. collectives: (start, end); exposed: (collective, start, end)."""
    table = pd.DataFrame(
        [{"operation": "all-reduce", "group": None, "start_ns": s + ahead, "end_ns": e + ahead} for s, e in collectives]
    )
    names = ["collective", "start_ns", "end_ns"]
    pieces = pd.DataFrame([(number, s + ahead, e + ahead) for number, s, e in exposed], columns=names)
    return RankRecording(
        path="", rank=None, told_by="", world=None, device="cuda:0", hardware=None, steps=1, step_ns=end,
        window_ns=(ahead, end + ahead), parts={}, warnings=(),
        table={"collectives": table.assign(before_ns=0, idle_ns=0), "exposed": pieces,
               "segments": pd.DataFrame(columns=list(SEGMENT))}.__getitem__,
    )  # fmt: skip


def message(collectives, exposed, end, groups=("0>1", "0>1"), posted=()):
    """Return a rank that sends and receives. groups, posted: of each message."""
    one = rank(collectives, exposed, end)
    table = one.collectives.assign(group=list(groups), posted_ns=pd.array(list(posted), dtype="Int64"))
    return replace(one, table=lambda name: table if name == "collectives" else one.table(name))


def clocks(*offsets):
    return Clocks(np.array(offsets), 0, 0, 0)


# Rank 0 works 10, 5 and 1; rank 1 works 30, 8 and 2. Transfers take 2 and 3.
WAITING = [(10, 32), (37, 43)], [(0, 10, 32), (1, 37, 43)], 44
LATE = [(30, 32), (40, 43)], [(0, 30, 32), (1, 40, 43)], 45


@pytest.mark.parametrize("ahead", [0, 1000])
def test_what_is_changed_is_what_changes(ahead):
    made, measured = played(np.array([[0, 0], [1, 1]]), [rank(*WAITING), rank(*LATE, ahead=ahead)], clocks(0, ahead))
    assert (measured, made.time()) == (45, 45)
    error, times = what_if(made, measured, [1])
    assert error == 0
    assert times == {
        "no late rank": 10 + 2 + 5 + 3 + 1,
        "balanced work": 20 + 2 + 6.5 + 3 + 1.5,
        "no transfer": 30 + 8 + 2,
    }


def test_a_collective_that_work_hides_costs_nothing():
    """Both work 20, and a transfer of 10 begins at once; that it takes no time helps nobody."""
    hidden = [(0, 10)], [], 20
    made, measured = played(np.array([[0, 0]]), [rank(*hidden), rank(*hidden)], clocks(0, 0))
    assert what_if(made, measured, []) == (0, {"balanced work": 20, "no transfer": 20})


def test_half_hidden_work_keeps_its_place():
    """Rank 0 works 4 beside a transfer of 10 and then waits; rank 1 begins it 6 later: without that all are done 6 earlier."""
    first, second = ([(0, 16)], [(0, 4, 16)], 18), ([(6, 16)], [(0, 10, 16)], 18)
    made, measured = played(np.array([[0, 0]]), [rank(*first), rank(*second)], clocks(0, 0))
    error, times = what_if(made, measured, [1])
    assert (error, measured) == (0, 18)
    assert times["no late rank"] == 12


def test_who_sends_and_goes_on_is_held_up_by_nobody():
    """Rank 0 sends at 10 and at 30, for 2 each, and is done at 40. Rank 1 asks for the first at 20, which is there, and for the
    second at 25: it has it at 33, and works 12 more."""
    sender = [(10, 12), (30, 32)], [(0, 10, 12), (1, 30, 32)], 40
    receiver = [(20, 21), (25, 33)], [(0, 20, 21), (1, 25, 33)], 45
    both = [message(*sender, posted=[10, 30]), message(*receiver, posted=[5, 6])]
    places = np.array([[0, 0], [1, 1]])
    assert waits(places, both, clocks(0, 0)).tolist() == [[0, 0], [0, 30 - 25]]
    assert np.array_equal(singles(places, both, clocks(0, 0)), [np.nan, 33 - 30], equal_nan=True)
    made, measured = played(places, both, clocks(0, 0))
    assert (made.work.tolist(), made.time(), measured) == ([40, 45 - 1 - 8], 45, 45)
    error, times = what_if(made, measured, [0])
    assert error == 0
    assert times["no transfer"] == 30 + 12
    assert times["no late rank"] == 0.9 * 30 + 3 + 12  # it works 36 in place of 40
    blame = pd.DataFrame({"collective": [1], "rank": [0], "others_ns": [5]})
    _, times = what_if(played(places, both, clocks(0, 0), blame)[0], measured, [0])
    assert times["no late rank"] == (30 - 4) + 3 + 12  # it works less where it was waited for


def test_a_message_is_sent_when_it_was_whatever_its_sender_waits_for_before_it_is_asked_for():
    """Rank 0 sends at 10, then waits for rank 1 from 12 until 31; rank 1 sends at 30, and asks for the first at 50."""
    sent, asked = [(10, 11), (12, 31)], [(30, 30), (50, 51)]
    both = [message(sent, [(0, 10, 11), (1, 12, 31)], 60, ["0>1", "1>0"], [10, pd.NA]),
            message(asked, [(1, 50, 51)], 60, ["1>0", "0>1"], [30, 4])]  # fmt: skip
    made, measured = played(np.array([[1, 0], [0, 1]]), both, clocks(0, 0))
    assert made.time() == measured == 60
    _, times = what_if(made, measured, [1])  # rank 1 works 59, rank 0 works 60 - 19: less than 30 before it sends
    assert times["no late rank"] == pytest.approx(30 * 41 / 59 + 1 + 29)


def test_what_cannot_be_played_is_not_predicted():
    """Work that stands still between collectives for no reason that was recorded: both wait for something else."""
    table = [(0, 1), (50, 51)], [(0, 0, 1), (1, 2, 51)], 52
    made, measured = played(np.array([[0, 0], [1, 1]]), [rank(*table), rank(*table)], clocks(0, 0))
    error, times = what_if(made, measured, [])
    assert abs(error) > MOST_ERROR
    assert times == {}


@pytest.mark.parametrize("name", ["megatron_tp8", "param_dlrm8/kineto"])
def test_jobs_of_others_are_played_as_they_were(name):
    told = job(sorted(corpus(f"ranks/{name}").glob("*.json*")), workers=1)["what_if"]
    assert abs(told["error"]) < 0.001
    for row in told["changes"]:
        assert row["saved_ns"] == told["measured_ns"] - row["step_ns"]


@pytest.mark.parametrize(("fault", "planted_ns"), [("sleep", 20_000_000), ("input", 10_000_000)])
def test_without_a_planted_sleep_a_step_takes_less_by_it(fault, planted_ns):
    told = job(sorted(DATA.glob(f"{fault}_*")), workers=1)["what_if"]
    assert told["late_ranks"] == [1]
    saved = {row["name"]: row["saved_ns"] for row in told["changes"]}
    assert saved["no late rank"] == pytest.approx(planted_ns, rel=0.2)
    assert saved["balanced work"] == pytest.approx(planted_ns / 2, rel=0.25)


def test_without_most_ranks_nothing_is_predicted():
    assert job(sorted(corpus("ranks/hta_sampled_128").glob("*.json.gz")), workers=1)["what_if"] is None
