"""The timeline of a representative step: a small one worked out by hand, and real captures recomputed without the code."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis import EvidenceError
from kernelscope.analysis.accounting import partition
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.frameworks import Clock, Context, mxnet, pytorch
from kernelscope.analysis.timeline.lanes import LABEL, rows_of, timeline
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from tests.places import CORPUS, ROOT

DATA = ROOT / "tests" / "data"
MAIN, WORKER = 1, 2
LINE = {"file": "train.py", "function": "f", "line": 3, "text": "go()"}
LANES = ("lines", "ranges", "operators", "calls", "kernels", "graphs", "copies", "syncs")


def small():
    """Steps of 900, 1,000 and 5,000 ns after one of warm-up; in the second an operator with a kernel beside one of a worker."""
    steps = [(0, 9000), (10_000, 10_900), (11_000, 12_000), (20_000, 25_000)]
    rows = [
        {"step": i, "window": 0, "warmup": i == 0, "thread": MAIN, "start_ns": s, "end_ns": e} for i, (s, e) in enumerate(steps)
    ]
    ranges = [
        {"thread": MAIN, "start_ns": 11_000, "end_ns": 12_000, "category": "step", "name": "step 2"},
        {"thread": MAIN, "start_ns": 11_000, "end_ns": 11_100, "category": "data", "name": "data", "phase": "data"},
        {"thread": MAIN, "start_ns": 11_100, "end_ns": 11_600, "category": "phase", "name": "forward", "phase": "forward"},
        {"thread": MAIN, "start_ns": 11_150, "end_ns": 11_500, "category": "layer", "name": "fc1", "layer": "fc1"},
    ]
    operators = [
        {"thread": MAIN, "start_ns": 11_200, "end_ns": 11_450, "name": "addmm", "layer": "fc1", "phase": "forward"},
        {"thread": WORKER, "start_ns": 11_950, "end_ns": 12_050, "name": "copy_"},
    ]
    kernel = {"count": 1, "device": "cpu", "layer": "fc1", "phase": "forward"}
    kernels = [
        {**kernel, "start_ns": 11_250, "end_ns": 11_350, "duration_ns": 100, "thread": MAIN, "name": "sgemm", "kind": "gemm"},
        {**kernel, "start_ns": 11_300, "end_ns": 11_420, "duration_ns": 120, "thread": WORKER, "name": "tanh"},
    ]
    tables = {"steps": rows, "ranges": ranges, "operators": operators, "kernels": kernels}
    return Trace(**{name: conform(name, table) for name, table in tables.items()})


def events(lane, labels):
    """Return (row, start, duration, name) of a lane's events."""
    return [
        (number, start, duration, labels["name"][label])
        for number, row in enumerate(lane["rows"])
        for start, duration, label in zip(row["start_ns"], row["duration_ns"], row["label"], strict=True)
    ]


def test_the_step_nearest_the_median_with_its_lanes_by_hand():
    made = timeline(small())
    about = {key: made[key] for key in ("step", "steps", "thread", "wall_ns", "median_ns", "cut", "together_ns")}
    assert about == {
        "step": 2, "steps": 3, "thread": MAIN, "wall_ns": 1000, "median_ns": 1000, "cut": 1, "together_ns": 0,
    }  # fmt: skip
    found = {
        (lane["kind"], lane["device"], lane["thread"]): (lane["events"], lane["sum_ns"], events(lane, made["labels"]))
        for lane in made["lanes"]
    }
    assert found == {
        ("step", None, None): (10, 1000, [
            (0, 0, 100, "data"), (0, 100, 50, "in phases"), (0, 150, 50, "in layers"), (0, 200, 50, "in operators"),
            (0, 250, 170, "(computing)"), (0, 420, 30, "in operators"), (0, 450, 50, "in layers"), (0, 500, 100, "in phases"),
            (0, 600, 350, "outside of ranges"), (0, 950, 50, "in the framework"),
        ]),
        ("ranges", None, MAIN): (3, 950, [(0, 0, 100, "data"), (0, 100, 500, "forward"), (1, 150, 350, "fc1")]),
        ("operators", None, MAIN): (1, 250, [(0, 200, 250, "addmm")]),
        ("operators", None, WORKER): (1, 50, [(0, 950, 50, "copy_")]),
        ("kernels", "cpu", MAIN): (1, 100, [(0, 250, 100, "sgemm")]),
        ("kernels", "cpu", WORKER): (1, 120, [(0, 300, 120, "tanh")]),
    }  # fmt: skip


def test_labels_say_what_is_known_and_null_elsewhere():
    made = timeline(small())
    rows = list(zip(*(made["labels"][name] for name in LABEL), strict=True))
    assert len(rows) == len(set(rows))
    assert ("sgemm", "fc1", "forward", "gemm", None, None, None, None) in rows
    assert ("fc1", "fc1", None, "layer", None, None, None, None) in rows
    assert ("in operators", None, None, None, None, None, None, None) in rows


def test_the_whole_recording_with_its_steps():
    made = timeline(small(), whole=True)
    assert (made["wall_ns"], made["step_ns"], made["steps"]) == (25_000, [11_000, 12_000], 3)
    lanes = {(lane["kind"], lane["thread"]): events(lane, made["labels"]) for lane in made["lanes"]}
    assert lanes["steps", None] == [
        (0, 0, 9000, "step 0 (warm-up)"), (0, 10_000, 900, "step 1"), (0, 11_000, 1000, "step 2"), (0, 20_000, 5000, "step 3"),
    ]  # fmt: skip
    assert lanes["operators", WORKER] == [(0, 11_950, 100, "copy_")], "what reaches beyond the step is not cut"
    assert made["cut"] == 0
    (owned,) = (lane for lane in made["lanes"] if lane["kind"] == "step")
    assert owned["sum_ns"] == 25_000


def test_in_the_step_that_is_shown_first_nothing_is_put_together():
    trace = small()
    busy = [{"thread": MAIN, "start_ns": at, "end_ns": at + 5, "name": "tiny"} for at in range(0, 25_000, 10)]
    trace.operators = conform("operators", busy)
    made = timeline(trace, most=600, whole=True)
    assert made["together_ns"] > 0
    (lane,) = (lane for lane in made["lanes"] if lane["kind"] == "operators")
    (row,) = lane["rows"]
    inside = [events for start, events in zip(row["start_ns"], row["events"], strict=True) if 11_000 <= start < 12_000]
    assert inside == [1] * 100
    assert sum(row["events"]) == lane["events"] == len(busy)
    assert sum(row["busy_ns"]) == lane["sum_ns"] == 5 * len(busy)
    assert max(row["events"]) > 1


def test_a_kernel_says_when_and_by_whom_it_was_launched():
    kernel = {"count": 1, "device": "cuda:0", "thread": 7, "grid": "128,1,1", "block": "256,1,1", "registers": 40}
    rows = [
        {**kernel, "name": "k", "start_ns": 500, "end_ns": 700, "duration_ns": 200, "launch_ns": 350, "launch_thread": MAIN},
        {**kernel, "name": "k", "start_ns": 800, "end_ns": 900, "duration_ns": 100},
    ]
    made = timeline(Trace(kernels=conform("kernels", rows)))
    (lane,) = (lane for lane in made["lanes"] if lane["kind"] == "kernels")
    (row,) = lane["rows"]
    assert (row["launched_ns"], row["launcher"][0]) == ([150, -1], MAIN)
    assert made["labels"]["launch"][row["label"][0]] == "grid 128,1,1, block 256,1,1, 40 registers"
    known = {"devices": [{"device": "cuda:0", "compute_capability": "9.0"}]}
    rows = [{**row, "shared_memory": 0} for row in rows]  # 65536 registers hold six blocks of 256 threads: 48 of 64 warps
    made = timeline(Trace(kernels=conform("kernels", rows), info=known))
    assert "grid 128,1,1, block 256,1,1, 40 registers, 75% occupancy, limited by registers" in made["labels"]["launch"]


@pytest.mark.parametrize(
    ("types", "shapes", "values", "told"),
    [
        ('["float", "Scalar", ""]', "[[2, 3], [], []]", '["", "15", ""]', "float[2, 3], 15, none"),
        ('["float"]', "[[2, 3]]", None, "float[2, 3]"),
        (None, "[7, [1]]", None, "7, [1]"),
        ("[", "{}", "nothing", None),
        (None, None, None, None),
    ],
)
def test_an_operator_says_what_it_was_called_with(types, shapes, values, told):
    row = {
        "thread": MAIN,
        "start_ns": 500,
        "end_ns": 700,
        "name": "aten::to",
        "types": types,
        "shapes": shapes,
        "arguments": values,
    }
    kernel = {"count": 1, "device": "cuda:0", "thread": 7, "name": "k", "start_ns": 500, "end_ns": 700, "duration_ns": 200}
    made = timeline(Trace(kernels=conform("kernels", [kernel]), operators=conform("operators", [row])))
    (lane,) = (lane for lane in made["lanes"] if lane["kind"] == "operators")
    assert made["labels"]["arguments"][lane["rows"][0]["label"][0]] == told


def test_causes_that_share_an_instant_are_named_together():
    trace = small()
    trace.operators = conform("operators", [
        {"thread": MAIN, "start_ns": 11_650, "end_ns": 11_850, "name": "addmm", "layer": "fc1"},
        {"thread": WORKER, "start_ns": 11_750, "end_ns": 11_950, "name": "copy_"},
    ])  # fmt: skip
    owned = partition.owners(trace, 11_600, 12_000)
    pieces = [
        (start, end, None if pd.isna(cause) else cause)
        for start, end, cause in zip(owned["start_ns"], owned["end_ns"], owned["cause"], strict=True)
    ]
    assert pieces == [
        (11_600, 11_650, "outside of ranges"), (11_650, 11_750, "in operators"),
        (11_750, 11_850, "in operators + in the framework"), (11_850, 11_950, "in the framework"),
        (11_950, 12_000, "outside of ranges"),
    ]  # fmt: skip


def test_device_work_calls_and_host_lines_have_lanes_by_stream_and_thread():
    device = {"start_ns": 100, "end_ns": 300, "duration_ns": 200, "count": 1, "device": "cuda:0"}
    call = {"process": 1, "thread": MAIN, "api": "runtime", "correlation": 1}
    tables = {
        "kernels": [{**device, "thread": 7, "name": "gemm_128x64"}, {**device, "thread": None, "name": "relu"}],
        "copies": [{**device, "device": "cuda:1", "thread": 7, "operation": "host to device"}, {**device, "operation": "set"}],
        "graphs": [{"start_ns": 400, "end_ns": 500, "device": "cuda:0", "thread": 7}],
        "syncs": [{"start_ns": 500, "end_ns": 600, "device": "cuda:0", "kind": "stream"}],
        "calls": [{**call, "start_ns": 0, "end_ns": 90, "name": "cudaLaunchKernel"}],
        "host_lines": [{"thread": MAIN, "start_ns": 0, "end_ns": 600, **LINE}],
    }
    made = timeline(Trace(**{name: conform(name, rows) for name, rows in tables.items()}))
    assert (made["step"], made["steps"], made["wall_ns"]) == (None, 0, 600)
    labels = list(zip(*(made["labels"][name] for name in ("name", "kind", "library", "problem")), strict=True))
    lanes = [
        (lane["kind"], lane["device"], lane["thread"], lane["sum_ns"], *labels[lane["rows"][0]["label"][0]])
        for lane in made["lanes"][1:]
    ]
    assert lanes == [
        ("kernels", "cuda:0", None, 200, "relu", None, None, None),
        ("kernels", "cuda:0", 7, 200, "gemm_128x64", None, None, None),
        ("graphs", "cuda:0", 7, 100, "graph", None, None, None),
        ("copies", "cuda:0", None, 200, "memory set", None, None, None),
        ("copies", "cuda:1", 7, 200, "copy host to device", None, None, None),
        ("syncs", "cuda:0", None, 100, "stream", None, None, None),
        ("lines", None, MAIN, 600, "go()", None, "train.py", "line 3"),
        ("calls", None, MAIN, 90, "cudaLaunchKernel", "launching", None, None),
    ]
    owned = [(start, lasted, name) for _, start, lasted, name in events(made["lanes"][0], made["labels"])]
    assert owned == [
        (0, 90, "launching"), (90, 10, "unknown"), (100, 200, "(computing)"), (300, 100, "unknown"),
        (400, 100, "device: graph whose kernels were not recorded"), (500, 100, "unknown"),
    ]  # fmt: skip


def test_short_events_are_put_together_and_nothing_is_lost():
    steps = [{"step": 0, "warmup": False, "thread": MAIN, "start_ns": 0, "end_ns": 100_000}]
    tiny = [{"thread": MAIN, "start_ns": 10 * i, "end_ns": 10 * i + 6, "name": f"op{i % 7}"} for i in range(5000)]
    long = [{"thread": MAIN, "start_ns": 60_000, "end_ns": 90_000, "name": "long"}]
    trace = Trace(steps=conform("steps", steps), operators=conform("operators", tiny + long))
    made = timeline(trace, most=300)
    assert sum(len(row["label"]) for lane in made["lanes"] for row in lane["rows"]) <= 300
    assert made["together_ns"] > 6
    (lane,) = [lane for lane in made["lanes"] if lane["kind"] == "operators"]
    assert (lane["events"], lane["sum_ns"]) == (5001, 5000 * 6 + 30_000)
    assert sum(itertools.chain(*(row["events"] for row in lane["rows"]))) == 5001
    assert sum(itertools.chain(*(row["busy_ns"] for row in lane["rows"]))) == lane["sum_ns"]
    (row,) = lane["rows"]
    assert (row["start_ns"][-1], row["duration_ns"][-1], row["events"][-1]) == (60_000, 30_000, 1)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_those_of_first_fit(seed):
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 400, 300))
    end = start + random.integers(0, 40, 300)
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    free, expected = [], []
    for begun, over in zip(start.tolist(), end.tolist(), strict=True):
        row = next((number for number, until in enumerate(free) if until <= begun), len(free))
        free[row : row + 1] = [over]
        expected.append(row)
    assert rows_of(start, end).tolist() == expected


def test_what_has_no_timeline_says_so():
    with pytest.raises(EvidenceError, match="no timeline"):
        timeline(Trace())
    warm = [{"step": 0, "warmup": True, "thread": MAIN, "start_ns": 0, "end_ns": 10}]
    with pytest.raises(EvidenceError, match="no measured step"):
        timeline(Trace(steps=conform("steps", warm)))


# --- real captures ----------------------------------------------------------------------------------------------------------


def recorded(module, folder, mode):
    report = read_object(folder / "child.json")
    steps, ranges = (read_table(folder / f"{name}.jsonl", name) for name in ("steps", "ranges"))
    context = Context(steps, ranges, report["network"], mode, report, Clock.from_anchors(report["anchors"]))
    evidence = module.read(folder, context)
    tables = {"operators": evidence.operators, "kernels": conform("kernels", evidence.kernels)}
    return Trace(steps=steps, ranges=ranges, **{name: conform(name, table) for name, table in tables.items()})


def capture(name):
    path = CORPUS / name
    if not path.exists():
        pytest.skip(f"no corpus at {CORPUS}")
    return ks.read(path)


@pytest.fixture(scope="module")
def trace(request):
    if request.param == "pytorch":
        return recorded(pytorch, DATA / "pytorch" / "lenet-train", "train")
    if request.param == "mxnet":
        return recorded(mxnet, DATA / "mxnet" / "lenet-train", "train")
    return capture(request.param)


SOURCES = (
    "pytorch",
    "mxnet",
    "kineto/pytorch__kineto__resnet50_nw0_worker0.1623143089861.pt.trace.json.gz",
    "nsys/zx3xyy__assignment2-systems__result_2_7B_compile_ro.sqlite",
)


def recomputed(trace, low, high):
    """Return (events, ns) of every lane, one event after the other: its part inside the window."""
    found = {}
    for kind in LANES:
        rows = trace.host_lines if kind == "lines" else getattr(trace, kind)
        columns = [rows[name].tolist() for name in ("start_ns", "end_ns", "thread")]
        other = rows["device"].tolist() if kind in ("kernels", "graphs", "copies", "syncs") else [None] * len(rows)
        skipped = (rows["category"] == "step").tolist() if kind == "ranges" else [False] * len(rows)
        for start, end, thread, device, skip in zip(*columns, other, skipped, strict=True):
            if skip or pd.isna(start) or not (start < high and (end > low or start == end >= low)):
                continue
            key = (kind, None if pd.isna(device) else device, None if pd.isna(thread) else int(thread))
            count, ns = found.get(key, (0, 0))
            found[key] = count + 1, ns + min(end, high) - max(start, low)
    return found


@pytest.mark.parametrize("trace", SOURCES, indirect=True)
def test_lanes_of_real_captures_add_up_to_what_their_tables_hold(trace):
    made = timeline(trace)
    steps = trace.steps[~trace.steps["warmup"]]
    if len(steps):
        begun, over = device_steps.bounds(steps)
        place = steps["step"].tolist().index(made["step"])
        low, high = int(begun[place]), int(over[place])
        wall = sorted((over - begun).tolist())
        middle = (wall[(len(wall) - 1) // 2] + wall[len(wall) // 2]) / 2
        assert abs(high - low - middle) == min(abs(one - middle) for one in wall)
    else:
        tables = [getattr(trace, name) for name in LANES[1:]]
        low = min(int(table["start_ns"].min()) for table in tables if table["start_ns"].notna().any())
        high = low + made["wall_ns"]
    assert made["wall_ns"] == high - low
    lanes = {(lane["kind"], lane["device"], lane["thread"]): lane for lane in made["lanes"]}
    first = lanes.pop(("step", None, None))
    found = lanes.pop(("steps", None, None), None)  # those of a capture that marks none
    assert (found is not None) == bool(made["found"])
    assert {key: (lane["events"], lane["sum_ns"]) for key, lane in lanes.items()} == recomputed(trace, low, high)
    for lane in [first, *lanes.values()]:
        drawn = [duration for row in lane["rows"] for duration in row["duration_ns"]]
        assert (len(drawn), sum(drawn)) == (lane["events"], lane["sum_ns"])
        for row in lane["rows"]:
            start, duration = np.array(row["start_ns"]), np.array(row["duration_ns"])
            assert (start[1:] >= (start + duration)[:-1]).all(), "no two events of a row overlap"
            assert start[0] >= 0
            assert start[-1] + duration[-1] <= made["wall_ns"]
    assert first["sum_ns"] == made["wall_ns"]


@pytest.mark.parametrize("trace", SOURCES[:3], indirect=True)
def test_owners_of_a_step_are_those_of_the_partition(trace):
    made = timeline(trace)
    cells = partition.partition(replace(trace, steps=trace.steps[trace.steps["step"] == made["step"]])).cells
    expected = cells["time_ns"].groupby(cells["cause"].fillna("(computing)")).sum().to_dict()
    found = dict.fromkeys(expected, 0.0)
    for _, _, duration, name in events(made["lanes"][0], made["labels"]):
        causes = name.split(" + ")
        for cause in causes:
            found[cause] += duration / len(causes)
    if not any(" + " in name for name in made["labels"]["name"] if name):
        assert found == expected
    assert found.keys() == expected.keys()
    assert sum(found.values()) == pytest.approx(made["wall_ns"])
