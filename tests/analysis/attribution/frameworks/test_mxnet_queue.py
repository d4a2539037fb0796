"""Which queued operator is which of those that ran: replayed by hand, on steps small enough to think through."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.attribution.frameworks import mxnet_queue
from kernelscope.analysis.errors import EvidenceError

FILE = Path("graph.json")


def node(op, name, after=(), entry=0):
    return {"op": op, "name": name, "layer": name, "phase": "forward", "entry": entry, "after": list(after)}


def matched(nodes, ran, steps=1, queued_ns=(0,), until_ns=None, start=100):
    """Return the names that the operators of these types got, and how many did not wait."""
    record = {
        "graphs": [{"nodes": nodes}],
        "steps": [{"graph": 0, "queued_ns": list(queued_ns), "until_ns": list(until_ns or queued_ns)}] * steps,
    }
    queued = mxnet_queue.parse(record, FILE)
    found, either, early = mxnet_queue.match(queued, pd.Series(ran), np.arange(start, start + len(ran), dtype=np.int64))
    names = [queued.nodes["name"].iloc[row] if row >= 0 else None for row in found]
    return [several or name for several, name in zip(either, names, strict=True)], early


# a residual block: main1 and short wait for the stem, main2 for main1 (through its activation), the sum for both
RESIDUAL = [
    node("Conv", "stem"),
    node("Conv", "main1", [0]),
    node("Act", "act", [1]),
    node("Conv", "main2", [2]),
    node("Conv", "short", [0]),
    node("Add", "sum", [3, 4]),
]


def test_what_waits_for_nothing_more_runs_before_what_was_queued_earlier_and_waits():
    names, early = matched(RESIDUAL, ["Conv", "Conv", "Conv", "Act", "Conv", "Add"])
    assert names == ["stem", "main1", "short", "act", "main2", "sum"]
    assert early == 0


def test_what_was_queued_late_runs_in_the_order_of_queueing():
    nodes = [dict(row, entry=number) for number, row in enumerate(RESIDUAL)]
    # Python queued the shortcut only when main2 was running
    names, early = matched(nodes, ["Conv", "Conv", "Act", "Conv", "Conv", "Add"], queued_ns=[90, 91, 92, 93, 104, 105])
    assert names == ["stem", "main1", "act", "main2", "short", "sum"]
    assert early == 0


def test_where_it_depends_on_when_exactly_a_graphs_nodes_were_queued_both_are_named():
    ran = ["Conv", "Conv", "Act", "Conv", "Conv", "Add"]
    # the graph was being queued while the first four ran: the shortcut may have come before or after main2 was ready
    assert matched(RESIDUAL, ran, until_ns=[104])[0] == ["stem", "main1", "act", "main2 or short", "main2 or short", "sum"]
    # all was queued before the activation ran, after which main2 was ready
    assert matched(RESIDUAL, ran, until_ns=[102])[0] == ["stem", "main1", "act", "short", "main2", "sum"]


def test_of_two_that_are_ready_the_one_that_was_ready_first():
    # x2 is queued later but ready before x1, whose source runs second
    nodes = [node("A", "a"), node("B", "b"), node("X", "x1", [1]), node("X", "x2", [0])]
    assert matched(nodes, ["A", "B", "X", "X"])[0] == ["a", "b", "x2", "x1"]


def test_sources_that_do_not_run_pass_on_what_they_wait_for():
    nodes = [node("A", "a"), node("Never", "n", [0]), node("X", "x1", [1]), node("X", "x2")]
    assert matched(nodes, ["X", "A", "X"])[0] == ["x2", "a", "x1"]


def test_types_of_which_another_number_ran_are_not_guessed():
    assert matched(RESIDUAL, ["Conv", "Conv", "Act", "Conv", "Add"])[0] == [None, None, "act", None, "sum"]


def test_every_step_by_itself():
    once = ["Conv", "Conv", "Conv", "Act", "Conv", "Add"]
    names, early = matched(RESIDUAL, once * 3, steps=3)
    assert names == ["stem", "main1", "short", "act", "main2", "sum"] * 3
    assert early == 0


def test_an_order_that_cannot_be_is_counted():
    names, early = matched(RESIDUAL, ["Conv", "Conv", "Conv", "Conv", "Act", "Add"])
    assert names == ["stem", "main1", "short", "main2", "act", "sum"]
    assert early == 1


@pytest.mark.parametrize(
    "record",
    [
        {"graphs": [{"nodes": [{"op": "A"}]}], "steps": [{"graph": 0, "queued_ns": [1]}]},
        {"graphs": [{"nodes": RESIDUAL}], "steps": [{"graph": 4, "queued_ns": [1], "until_ns": [1]}]},
        {"graphs": [{"nodes": RESIDUAL}], "steps": [{"graph": 0, "queued_ns": [], "until_ns": []}]},
        {"graphs": [{"nodes": RESIDUAL}], "steps": [{"graph": 0, "queued_ns": "soon", "until_ns": [1]}]},
        {"graphs": [{"nodes": RESIDUAL}], "steps": [{"graph": 0, "queued_ns": [1]}]},
        {"graphs": [7], "steps": []},
        {"graphs": [], "steps": [None]},
    ],
)
def test_a_broken_record_is_an_error_that_says_what_to_do(record):
    with pytest.raises(EvidenceError, match=r"graph\.json: .*record the run again"):
        mxnet_queue.parse(record, FILE)


def test_no_steps_match_nothing():
    queued = mxnet_queue.parse({"graphs": [], "steps": []}, FILE)
    found, either, early = mxnet_queue.match(queued, pd.Series(["Conv"]), np.array([1]))
    assert (found.tolist(), either.tolist(), early) == ([-1], [None], 0)
