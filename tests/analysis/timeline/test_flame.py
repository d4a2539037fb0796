"""Frames folded into trees: a small timeline worked out by hand, and real captures walked through instant by instant."""

import itertools
import json
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis import EvidenceError
from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, pytorch
from kernelscope.analysis.timeline.flame import UNKNOWN_LAUNCH, flame
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from tests import places
from tests.places import ROOT

DATA = ROOT / "tests" / "data"
CORPUS = places.CORPUS / "kineto"
MAIN, WORKER, ELSEWHERE = 1, 2, 3


def paths(found, key):
    """The nodes of one tree: {names from the top: (total_ns, own_ns, count)}, the whole is ()."""
    tree = next(tree for tree in found["trees"] if tree["key"] == key)
    path, nodes, inside = [], {}, defaultdict(int)
    for name, depth, total, count in zip(tree["name"], tree["depth"], tree["total_ns"], tree["count"], strict=True):
        path = [*path[:depth], found["names"][name]]
        assert tuple(path[1:]) not in nodes, "one node per path"
        nodes[tuple(path[1:])] = (total, count)
        if depth:
            inside[tuple(path[1:-1])] += total
    assert all(inside[path] <= total for path, (total, _) in nodes.items())
    return {path: (total, total - inside[path], count) for path, (total, count) in nodes.items()}


def rows(table, **columns):
    return conform(table, pd.DataFrame(columns))


def made():
    """Two steps of 100 ns after one of warm-up; a layer with an operator and a GPU's kernel, and a worker with one of its own."""
    steps = rows(
        "steps", step=[0, 1, 2], warmup=[True, False, False], thread=MAIN, start_ns=[0, 100, 200], end_ns=[100, 200, 300]
    )
    names = ["forward", "fc", "step 1", "outlasts"]
    ranges = rows(
        "ranges", thread=MAIN, start_ns=[110, 120, 100, 290], end_ns=[180, 170, 200, 320],
        category=["phase", "layer", "step", "user"], name=names, nested=True, layer=[None, "fc", None, None],
    )  # fmt: skip
    operators = rows(
        "operators", thread=[MAIN, MAIN, MAIN, WORKER], start_ns=[130, 230, 5, 150], end_ns=[150, 260, 20, 210],
        name=["mm", "mm", "mm", "scatter"],
    )  # fmt: skip
    kernels = rows(
        "kernels", start_ns=[140, 190, 20, 150], end_ns=[160, 220, 90, 210], duration_ns=[20, 30, 70, 60], count=1,
        device=["cuda:0", "cuda:0", "cuda:0", "cpu"], thread=[7, 7, 7, WORKER], name=["gemm", "gemm", "gemm", "scatter"],
        launch_ns=[132, None, 6, None], launch_thread=[MAIN, None, MAIN, None],
    )  # fmt: skip
    return Trace(steps=steps, ranges=ranges, operators=operators, kernels=kernels)


def test_frames_of_the_loops_thread_add_up_to_the_steps():
    assert paths(flame(made()), "host-1") == {
        (): (200, 0, None),
        ("step",): (200, 200 - 70 - 30 - 10, 2),
        ("step", "forward"): (70, 20, 1),
        ("step", "forward", "fc"): (50, 30, 1),
        ("step", "forward", "fc", "mm"): (20, 20, 1),
        ("step", "mm"): (30, 30, 1),
        ("step", "outlasts"): (10, 10, 1),
    }


def test_another_thread_has_what_was_recorded_on_it_and_a_kernel_that_is_its_operator_once():
    found = flame(made())
    # the operator reaches into the next step, and is counted in each
    assert paths(found, "host-2") == {(): (60, 0, None), ("scatter",): (60, 60, 2)}
    assert [tree["title"] for tree in found["trees"]][1:3] == ["host: the loop's thread", "host: thread 2"]


def test_lines_of_a_program_are_frames_around_what_ran_there():
    trace = made()
    place = {
        "file": "train.py",
        "function": ["loop", "forward", "loop"],
        "line": [7, 3, 7],
        "text": ["y = f(x)", "mm", "y = f(x)"],
    }
    trace.host_lines = rows("host_lines", thread=MAIN, start_ns=[95, 130, 150], end_ns=[130, 150, 240], **place)
    found = flame(trace)
    assert next(tree for tree in found["trees"] if tree["key"] == "lines")["total_ns"][0] == 200
    loop, forward = ("step", "loop (train.py)"), ("step", "forward (train.py)", "3: mm")
    assert (
        paths(found, "lines")
        == {
            (): (200, 0, None),
            ("step",): (200, 200 - 30 - 20 - 90, 2),  # an operator that goes on after its line ends with it
            loop: (30 + 90, 0, 3),
            (*loop, "7: y = f(x)"): (120, 110, 3),
            (*loop, "7: y = f(x)", "mm"): (10, 10, 1),
            forward[:2]: (20, 0, 1),
            forward: (20, 0, 1),
            (*forward, "mm"): (20, 20, 1),
        }
    )


def test_kernels_of_devices_stand_below_what_launched_them():
    assert paths(flame(made()), "device") == {
        (): (50, 0, None),
        ("step", "forward", "fc", "mm"): (20, 0, 0),
        ("step",): (20, 0, 0),
        ("step", "forward"): (20, 0, 0),
        ("step", "forward", "fc"): (20, 0, 0),
        ("step", "forward", "fc", "mm", "gemm"): (20, 20, 1),
        (UNKNOWN_LAUNCH,): (30, 0, 0),
        (UNKNOWN_LAUNCH, "gemm"): (30, 30, 2),
    }


def test_small_frames_are_put_together_and_nothing_is_lost():
    whole, short = flame(made()), flame(made(), most=3)
    for one, other in zip(whole["trees"], short["trees"], strict=True):
        assert one["total_ns"][0] == other["total_ns"][0]
    assert paths(short, "host-1")[("step", "(2 smaller frames)")] == (40, 40, None)


def test_a_capture_without_a_timeline_says_so():
    with pytest.raises(EvidenceError, match="no timeline"):
        flame(Trace())


def test_a_thread_that_only_waits_in_the_operating_system_has_no_tree():
    names = {"name": ["pthread_cond_wait", "cudaLaunchKernel"], "api": ["os", "runtime"], "process": 1}
    calls = rows("calls", thread=[WORKER, MAIN], start_ns=[0, 20], end_ns=[900, 30], **names)
    found = flame(Trace(calls=calls))
    assert [tree["key"] for tree in found["trees"]] == ["cells", "host-1"]
    assert paths(found, "host-1") == {(): (10, 0, None), ("cudaLaunchKernel",): (10, 10, 1)}
    assert found["left_out"] == ["threads that only called the operating system: 1"]


def test_names_of_ranges_do_not_carry_what_tells_each_call_apart():
    names = ["aten::mm, seq = 3, op_id = 7", "aten::mm, seq = 4, op_id = 8"]
    ranges = rows("ranges", thread=MAIN, start_ns=[0, 20], end_ns=[10, 30], category="user", name=names, nested=True)
    assert paths(flame(Trace(ranges=ranges)), "host-1") == {(): (20, 0, None), ("aten::mm",): (20, 20, 2)}


# --- real captures: the tree of each thread again, by asking at every instant what is open -------------------------------------


def walked(intervals):
    """{path: own ns} of one thread's (start, end, name).

    An interval is inside of the last one that is open when it begins, and ends with it at the latest.
    """
    order = sorted(range(len(intervals)), key=lambda row: (intervals[row][0], -intervals[row][1], row))
    cuts = sorted({time for start, end, _ in intervals for time in (start, end)})
    own, path, until, stack = defaultdict(int), {}, {}, []
    for start, end in itertools.pairwise(cuts):
        stack = [row for row in stack if until[row] > start]
        while order and intervals[order[0]][0] == start:
            row = order.pop(0)
            if intervals[row][1] > start:
                path[row] = (*(path[stack[-1]] if stack else ()), intervals[row][2])
                until[row] = min([intervals[row][1], *(until[outer] for outer in stack)])
                stack.append(row)
        if stack:
            own[path[stack[-1]]] += end - start
    return dict(own)


def inside(table, steps, name):
    """(thread, start, end, name) of the pieces of a table's rows in the steps, or of all rows where there are none."""
    columns = zip(table["thread"], table["start_ns"], table["end_ns"], name, strict=True)
    for thread, start, end, text in columns:
        for low, high in steps or [(start, end)]:
            if min(end, high) > max(start, low):
                yield int(thread), max(start, low), min(end, high), text


def of_every_thread(trace):
    steps = trace.steps[~trace.steps["warmup"]]
    windows = list(zip(steps["start_ns"], steps["end_ns"], strict=True))
    found = defaultdict(list)
    for thread, (start, end) in zip(steps["thread"], windows, strict=True):
        found[thread].append((start, end, "step"))
    ranges = trace.ranges[trace.ranges["nested"] & ~trace.ranges["category"].isin(["step", "mark"])]
    operators = trace.operators[trace.operators["thread"].notna()]
    kernels = trace.kernels[(trace.kernels["device"] == "cpu") & trace.kernels["thread"].notna()]
    known = set(zip(operators["thread"], operators["start_ns"], operators["end_ns"], strict=True))
    own = [key not in known for key in zip(kernels["thread"], kernels["start_ns"], kernels["end_ns"], strict=True)]
    for table in (ranges, operators, trace.calls, kernels[np.array(own, dtype=bool)]):
        for thread, start, end, text in inside(table, windows, table["name"].astype(str)):
            found[thread].append((start, end, text))
    return {thread: walked(rows) for thread, rows in found.items()}


def lenet():
    folder = DATA / "pytorch" / "lenet-train"
    report = read_object(folder / "child.json")
    steps, ranges = read_table(folder / "steps.jsonl", "steps"), read_table(folder / "ranges.jsonl", "ranges")
    context = Context(steps, ranges, report["network"], "train", report, Clock.from_anchors(report["anchors"]))
    evidence = pytorch.read(folder, context)
    return Trace(
        steps=steps, ranges=ranges, operators=conform("operators", evidence.operators),
        kernels=conform("kernels", evidence.kernels),
    )  # fmt: skip


def imported(path):
    if not path.is_file():
        pytest.skip(f"no {path.name} on this machine")
    return ks.read(path)


CAPTURES = {
    "a run": lenet,
    "kineto": lambda: imported(DATA / "pytorch" / "lenet-train" / "operators.pt.trace.json.gz"),
    "tensorflow": lambda: imported(next((DATA / "tensorflow").glob("*/operators.xplane.pb"))),
    "mxnet": lambda: imported(next((DATA / "mxnet").glob("*/operators.mxnet.json.gz"))),
    "a GPU": lambda: imported(CORPUS / "pytorch__kineto__gpu_metrics_input.json"),
}


@pytest.mark.parametrize("capture", CAPTURES)
def test_trees_are_what_a_walk_through_every_instant_gives(capture):
    trace = CAPTURES[capture]()
    found = flame(trace, most=10**9)
    json.dumps(found, allow_nan=False)
    expected = [walk for walk in of_every_thread(trace).values() if walk]
    trees = [paths(found, tree["key"]) for tree in found["trees"] if tree["key"].startswith("host")]
    assert trees
    mine = [{path: own for path, (_, own, _) in tree.items() if own} for tree in trees]
    for tree in mine:
        assert tree in expected
    assert len(mine) == min(len(expected), 8)
    parts = partition(trace)
    assert paths(found, "cells")[()][0] == parts.step_ns
    if len(parts.steps):
        assert paths(found, "host-1")[()][0] == parts.totals["wall_ns"]


def test_work_on_a_gpu_adds_up_to_its_kernels_durations():
    trace = imported(CORPUS / "pytorch__kineto__gpu_metrics_input.json")
    on_gpu = trace.kernels[trace.kernels["device"] != "cpu"]
    nodes = paths(flame(trace), "device")
    assert nodes[()][0] == int((on_gpu["end_ns"] - on_gpu["start_ns"]).sum()) > 0
    by_name = defaultdict(int)
    for path, (_, own, _) in nodes.items():
        by_name[path[-1:]] += own
    sums = on_gpu.groupby("name", observed=True)["duration_ns"].sum()
    assert {path[0]: own for path, own in by_name.items() if own} == sums.to_dict()
