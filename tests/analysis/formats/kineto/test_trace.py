"""PyTorch's chrome traces as traces: every file of the corpus recomputed with plain json, and variants of the format by hand."""

import gzip
import json
import re
from collections import Counter, defaultdict
from decimal import Decimal
from functools import cache

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.files.chrome_json import ODD
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.kineto import trace as kineto
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import TABLES
from tests.analysis.accounting.corpus import marks_of
from tests.places import CORPUS, ROOT

OWN = ROOT / "tests/data/pytorch"
H200 = ROOT / "tests/data/gpu/h200"

# in the corpus's folder of Kineto, but other formats
OTHERS = {
    "AMD-AGI__TraceLens__rocprof_908_results.json.gz",
    "facebookresearch__HolisticTraceAnalysis__execution_trace_benchmark_simple_add_et.json.gz",
    "mlcommons__chakra__json_trace.tar.gz",
}

KERNELS = ("kernel", "Kernel")
COPIES = ("gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
CALLS = ("cuda_runtime", "Runtime", "cuda_driver", "mtia_runtime")
ANNOTATIONS = ("user_annotation", "gpu_user_annotation")


def corpus_files():
    if not CORPUS.is_dir():
        return []
    return [path for path in sorted((CORPUS / "kineto").iterdir()) if path.name not in OTHERS]


def corpus_file(part):
    found = [path for path in corpus_files() if part in path.name]
    if not found:
        pytest.skip("needs ../shared/corpus")
    return found[0]


def marked(paths):
    return [pytest.param(p, id=p.name, marks=marks_of(p)) for p in paths]


def plain(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    return json.loads(content, parse_float=Decimal)


def ns(value):
    exact = Decimal(value) * 1000
    assert exact == exact.to_integral_value()
    return int(exact)


@cache
def recomputed(path):
    """Return base time, and the complete events by category as (name, start, duration, event), of a file read with json."""
    raw = plain(path)
    events = raw if isinstance(raw, list) else raw["traceEvents"]
    base = 0 if isinstance(raw, list) else raw.get("baseTimeNanoseconds", 0)
    by_category = defaultdict(list)
    for event in events:
        if event.get("ph") == "X":
            by_category[event.get("cat")].append((event["name"], base + ns(event["ts"]), ns(event["dur"]), event))
    return by_category, events


@cache
def read(path):
    trace = kineto.read(path)
    trace.check()
    return trace


def chosen(by_category, *categories):
    return [row for category in categories for row in by_category.get(category, [])]


def counted(rows):
    return Counter((name, start, start + duration) for name, start, duration, _ in rows)


def of(table):
    return Counter(zip(table["name"].tolist(), table["start_ns"].tolist(), table["end_ns"].tolist(), strict=True))


@pytest.fixture(params=marked([*corpus_files(), *sorted(OWN.glob("*/*.pt.trace.json.gz"))]))
def path(request):
    return request.param


@pytest.mark.long
def test_kernels_of_every_file_are_those_of_plain_json(path):
    rows, table = chosen(recomputed(path)[0], *KERNELS), read(path).kernels
    if not rows:
        assert (table["device"] != "cuda:0").all()
        return
    assert of(table) == counted(rows)
    totals, counts = defaultdict(int), Counter()
    for name, _, duration, _ in rows:
        totals[name] += duration
        counts[name] += 1
    found = table.astype({"name": "object"}).groupby("name").agg(total=("duration_ns", "sum"), count=("count", "sum"))
    assert found["total"].to_dict() == dict(totals)
    assert found["count"].to_dict() == dict(counts)


def test_streams_correlations_and_launch_sizes_are_those_of_plain_json(path):
    rows = chosen(recomputed(path)[0], *KERNELS)
    if not rows:
        pytest.skip("no kernels")
    table = read(path).kernels.astype("object")
    expected = Counter(
        (
            start,
            arguments["correlation"],
            arguments["stream"],
            arguments["device"],
            arguments.get("registers per thread"),
            ",".join(map(str, arguments["grid"])) if "grid" in arguments else None,
        )
        for _, start, _, event in rows
        for arguments in [event["args"]]
    )
    columns = [table[name] for name in ("start_ns", "correlation", "thread")]
    columns += [table["device"].str.split(":").str[1].astype(int)]
    columns += [table[name].where(table[name].notna(), None) for name in ("registers", "grid")]
    assert Counter(zip(*columns, strict=True)) == expected
    assert set(table["process"]) == {event["pid"] for *_, event in chosen(recomputed(path)[0], *CALLS)}


def test_copies_of_every_file_are_those_of_plain_json(path):
    if "mtia" in path.name:
        pytest.skip("MTIA's copies are events of its own")
    rows, table = chosen(recomputed(path)[0], *COPIES), read(path).copies
    expected = Counter((start, start + duration, event["args"].get("bytes")) for _, start, duration, event in rows)
    size = table["bytes"].astype("object").where(table["bytes"].notna(), None)
    assert Counter(zip(table["start_ns"], table["end_ns"], size, strict=True)) == expected
    assert (table["operation"] == "set").sum() == sum("emset" in name for name, *_ in rows)
    wanted = Counter(name.split(" ")[1] for name, *_ in rows if "Memcpy" in name)
    words = {"HtoD": "host to device", "DtoH": "device to host", "DtoD": "device to device"}
    assert {words[word]: count for word, count in wanted.items()} == Counter(table["operation"][table["operation"] != "set"])


def test_calls_operators_and_annotations_are_those_of_plain_json(path):
    by_category, events = recomputed(path)
    trace = read(path)
    calls = Counter()
    for (name, start, end), count in counted(chosen(by_category, *CALLS)).items():
        calls[re.sub(r"_v\d+$", "", name), start, end] += count
    assert of(trace.calls) == calls
    annotated = [row for row in chosen(by_category, *ANNOTATIONS, "cpu_op", "Operator") if is_annotation(row)]
    host = [row for row in annotated if row[3]["cat"] != "gpu_user_annotation"]
    steps = [row for row in host if row[0].startswith("ProfilerStep#")]
    ranges = trace.ranges[trace.ranges["category"] == "user"]
    assert of(ranges) == counted(annotated) - counted(steps)
    assert sorted(trace.steps["step"]) == sorted(int(name.split("#")[1]) for name, *_ in steps)
    operators = [row for row in chosen(by_category, "cpu_op", "Operator") if not is_annotation(row)]
    assert of(trace.operators) == counted(operators)
    memory = [event for event in events if event.get("name") == "[memory]" and event["ph"] == "i"]
    assert len(trace.memory) == len(memory)
    assert trace.memory["bytes"].sum() == sum(event["args"]["Bytes"] for event in memory)
    syncs = chosen(by_category, "cuda_sync")
    assert len(trace.syncs[trace.syncs["kind"].str.contains("Sync|Wait Event")]) == len(syncs)


def is_annotation(row):
    starts = ("ProfilerStep#", "Optimizer.step#", "Optimizer.zero_grad#", "enumerate(DataLoader)#")
    return row[3]["cat"] in ANNOTATIONS or row[0].startswith(starts)


def test_nothing_of_hosts_users_and_paths_is_kept(path):
    raw = plain(path)
    keys = ("host_name", "username", "traceName", "tw_job") if isinstance(raw, dict) else ()
    words = [str(raw[key]) for key in keys if key in raw]
    text = json.dumps(read(path).info)
    assert not [word for word in words if word in text]


def test_every_file_of_the_corpus_is_told_from_other_formats():
    if not CORPUS.is_dir():
        pytest.skip("needs ../shared/corpus")
    mixed = ("pairs", "ranks", "more", "broken")  # folders with captures of several formats
    files = [path for path in sorted(CORPUS.rglob("*")) if path.is_file() and path.relative_to(CORPUS).parts[0] not in mixed]
    mine = {path for path in files if kineto.matches(read_head(path))}
    assert mine == set(corpus_files())
    assert all(kineto.matches(read_head(path)) for path in OWN.glob("*/*.pt.trace.json.gz"))


# --- steps, layers, backward and forward ---------------------------------------------------------------------------------


def test_steps_are_the_profilers_own_in_their_order():
    trace = read(corpus_file("negative_queue_length"))
    assert trace.steps["step"].tolist() == [550, 551, 552, 553, 554]
    assert (trace.steps["thread"] == 4515).all()
    assert not trace.steps["warmup"].any()
    assert trace.steps["start_ns"].iloc[0] == 1683564901548726_000
    assert trace.steps["end_ns"].iloc[0] == (1683564901548726 + 209748) * 1000


def test_layers_are_the_paths_of_modules_open_around_operators():
    """Each module's path recomputed from the profiler's own numbers: who called whom, through all Python functions."""
    path = corpus_file("h100_Qwen1.5-0.5B")
    functions = {event["args"]["Python id"]: event for *_, event in recomputed(path)[0]["python_function"]}

    def layer(event):
        above = functions.get(event["args"]["Python parent id"])
        before = layer(above) if above else ""
        if not event["name"].startswith("nn.Module: "):
            return before
        return (before + "/" if before else "") + event["name"].removeprefix("nn.Module: ")

    trace, base = read(path), plain(path)["baseTimeNanoseconds"]
    modules = trace.ranges[trace.ranges["category"] == "layer"]
    expected = Counter(
        (ns(event["ts"]) + base, layer(event)) for event in functions.values() if event["name"].startswith("nn.Module: ")
    )
    assert Counter(zip(modules["start_ns"], modules["layer"], strict=True)) == expected
    assert len(modules) == 316
    inside = trace.operators[trace.operators["name"] == "aten::_flash_attention_forward"]
    assert len(inside) == 24
    assert inside["layer"].str.fullmatch(r"Qwen2Model_0/Qwen2DecoderLayer_\d+/Qwen2\w*Attention_\d+").all()
    assert set(inside["attribution"]) == {"launch range"}
    assert set(inside["phase"]) == {"forward"}


@pytest.mark.slow
def test_backward_operators_have_the_layer_of_their_forward_operator():
    """Activation checkpointing: forward operators on two threads, whose sequence numbers count apart."""
    path = corpus_file("mi300_resnet_act_checkpoint")
    events = [event for *_, event in recomputed(path)[0]["cpu_op"]]
    numbered = [event for event in events if "Sequence number" in event["args"]]
    forward = defaultdict(dict)
    for event in sorted(numbered, key=lambda event: event["ts"]):
        if event["args"]["Fwd thread id"] == 0:
            forward[event["tid"]][event["args"]["Sequence number"]] = event
    trace = read(path)
    base = plain(path)["baseTimeNanoseconds"]
    table = trace.operators.astype("object").drop_duplicates(["name", "start_ns"]).set_index(["name", "start_ns"])
    compared = 0
    for event in numbered:
        if event["args"]["Fwd thread id"] > 0:
            made = forward[542].get(event["args"]["Sequence number"])
            row = table.loc[(event["name"], base + ns(event["ts"]))]
            assert row["phase"] == "backward"
            if made is not None:
                expected = table.loc[(made["name"], base + ns(made["ts"]))]
                if isinstance(expected["layer"], str) and row["attribution"] == "sequence number":
                    assert row["layer"] == expected["layer"]
                    compared += 1
    assert compared > 100


# --- other versions of the format, by hand -------------------------------------------------------------------------------


def event(name, category, start, duration, pid=1, tid=1, **arguments):
    keyed = {key.replace("_", " ") if key not in ("stream", "device") else key: value for key, value in arguments.items()}
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": keyed}


def read_text(tmp_path, content, name="trace.json"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert kineto.matches(read_head(path))
    trace = kineto.read(path)
    trace.check()
    return trace


def test_times_are_exact_where_a_double_is_not(tmp_path):
    text = """[
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1700000000123456.789, "dur": 0.001},
        {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": "1700000000123457.001", "dur": "2.5"},
        {"ph": "X", "cat": "cpu_op", "name": "c", "pid": 1, "tid": 1, "ts": 1.700000000123458e15, "dur": 1e-3}
    ]"""
    trace = read_text(tmp_path, text.encode())
    assert trace.operators["start_ns"].tolist() == [1700000000123456789, 1700000000123457001, 1700000000123458000]
    assert (trace.operators["end_ns"] - trace.operators["start_ns"]).tolist() == [1, 2500, 1]
    assert trace.info["clock"] == "wall"


def test_begins_and_ends_are_paired_per_thread(tmp_path):
    rows = [("B", "outer", 1, 0), ("B", "inner", 1, 1), ("B", "other", 2, 2), ("E", "", 1, 3), ("E", "", 1, 5), ("E", "", 2, 9)]
    rows += [("E", "stray", 3, 4), ("B", "open", 1, 7)]
    events = [{"ph": ph, "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts} for ph, name, tid, ts in rows]
    trace = read_text(tmp_path, events)
    found = {row.name: (row.thread, row.start_ns, row.end_ns) for row in trace.operators.astype("object").itertuples(index=False)}
    assert found == {"outer": (1, 0, 5000), "inner": (1, 1000, 3000), "other": (2, 2000, 9000), "open": (1, 7000, 9000)}
    assert trace.diagnostics == {"begins and ends without the other": 2}


def test_ends_without_a_name_or_category_close_what_began_last_on_their_track(tmp_path):
    rows = [
        ("B", "operator", "cpu_op", 1, 0), ("B", "call", "cuda_runtime", 1, 1), ("B", "first", "kernel", 7, 2),
        ("E", "", "", 1, 3), ("B", "profiler", "overhead", 1, 3), ("E", "", "", 1, 4), ("E", "", "", 7, 5),
        ("B", "second", "kernel", 7, 5), ("B", "none", "kernel", 7, 6), ("E", "", "", 7, 6), ("E", "", "", 7, 8),
        ("E", "", "", 1, 9), ("B", "never ended", "kernel", 7, 9), ("E", "", "", 8, 9),
    ]  # fmt: skip
    keys = ("ph", "name", "cat", "tid", "ts")
    events = [{**{key: value for key, value in zip(keys, row, strict=True) if value != ""}, "pid": 1} for row in rows]
    trace = read_text(tmp_path, events)
    found = {
        row.name: (row.start_ns, row.end_ns)
        for table in (trace.kernels, trace.operators, trace.calls)
        for row in table.astype("object").itertuples(index=False)
    }
    assert found == {
        "operator": (0, 9000), "call": (1000, 3000), "first": (2000, 5000), "second": (5000, 8000), "none": (6000, 6000),
    }  # fmt: skip
    assert trace.diagnostics == {"begins and ends without the other": 2}


def test_a_capture_is_the_same_where_its_events_are_begins_and_ends(tmp_path):
    """A real capture; ends say only when and where they are."""
    content = json.loads(gzip.decompress((H200 / "mlp.pt.trace.json.gz").read_bytes()))
    first, placed = min(event["ts"] for event in content["traceEvents"] if event["ph"] == "X"), []
    for event in content["traceEvents"]:
        if "ts" in event:
            event["ts"] = round(event["ts"] - first, 3)  # of which, and of ends, a double holds the nanoseconds
        if event["ph"] != "X":
            placed.append((0, 0, event))
            continue
        start, duration, end = event["ts"], event["dur"], round(event["ts"] + event["dur"], 3)
        begin = {key: value for key, value in event.items() if key != "dur"} | {"ph": "B"}
        placed.append((start, -duration, begin))
        placed.append((end, -1e9 if duration else 1, {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": end}))
    events = [event for *_, event in sorted(placed, key=lambda one: one[:2])]
    one, other = (read_text(tmp_path, {**content, "traceEvents": found}) for found in (content["traceEvents"], events))
    for name in ("calls", "operators"):
        tables = (getattr(trace, name)[["start_ns", "end_ns", "name"]].astype({"name": "str"}) for trace in (one, other))
        rows = [sorted(table.itertuples(index=False, name=None)) for table in tables]
        assert rows[0] == rows[1] != [], name
    starts = [sorted(zip(trace.kernels["start_ns"], trace.kernels["name"], strict=True)) for trace in (one, other)]
    assert starts[0] == starts[1]
    assert other.kernels["duration_ns"].sum() == one.kernels["duration_ns"].sum()  # some begin before the one before has ended
    assert other.diagnostics == one.diagnostics


def test_work_of_a_device_that_never_ends_or_is_of_no_known_phase_is_left_out_and_counted(tmp_path):
    usual = {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 1}}
    phases = ["X", "B", None, "Z", 3, "i", "X"]
    events = [{**usual, "ph": phase, "ts": 10 * place} for place, phase in enumerate(phases)] + [{**usual, "ts": 90}]
    trace = read_text(tmp_path, events)
    assert trace.kernels["start_ns"].tolist() == [0, 60_000]
    assert trace.kernels["duration_ns"].tolist() == [5000, 5000]
    assert trace.diagnostics["begins and ends without the other"] == 1
    assert trace.diagnostics["events of which ph is missing or damaged"] == 5


def test_the_autograd_profilers_own_format(tmp_path):
    def plain_event(name, pid, tid, start, duration):
        return {"name": name, "ph": "X", "ts": start, "dur": duration, "tid": tid, "pid": pid, "args": {}}

    flow = {"name": "conv2d", "ph": "s", "ts": 1.5, "tid": 0, "pid": "CPU functions", "id": 0, "cat": "cpu_to_cuda", "args": {}}
    events = [
        plain_event("conv2d", "CPU functions", 0, 1.5, 10.25),
        flow,
        plain_event("conv2d", "CUDA functions", 0, 20.5, 9.5),
        plain_event("cudnn_convolution", "CPU functions", 0, 2.5, 8),
        plain_event("cudnn_convolution", "CUDA functions", 0, 21, 8.125),
    ]
    trace = read_text(tmp_path, events)
    assert trace.operators["name"].tolist() == ["conv2d", "cudnn_convolution"]
    assert trace.kernels[["name", "operator", "device"]].astype("object").to_numpy().tolist() == [
        ["cudnn_convolution", "cudnn_convolution", "cuda:0"]
    ]
    assert trace.kernels["duration_ns"].tolist() == [8125]
    assert trace.diagnostics == {"device intervals of operators that called others": 1}
    assert trace.info["source"]["tool"] == "torch.autograd.profiler"
    assert trace.info["clock"] == "relative"


def test_operators_of_cpu_only_traces_are_kernels_and_of_others_not(tmp_path):
    product = event("aten::mm", "cpu_op", 10, 5, Input_Dims=[[2, 3], [3, 4]], Input_type=["float", "float"])
    outer = event("aten::linear", "cpu_op", 8, 9)
    trace = read_text(tmp_path, {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [outer, product]})
    row = trace.kernels.astype("object").iloc[0]
    assert len(trace.kernels) == 1
    assert row[["name", "device", "library", "kind", "dtype"]].tolist() == ["aten::mm", "cpu", "aten", "gemm", "f32"]
    assert row[["m", "n", "k"]].tolist() == [2, 4, 3]
    launched = event("cudaLaunchKernel", "cuda_runtime", 11, 1, correlation=3)
    trace = read_text(tmp_path, {"traceEvents": [outer, product, launched]})
    assert len(trace.kernels) == 0
    assert "kernels" in trace.info["unavailable"]


def test_kernels_of_a_graph_share_its_launch_and_name_the_graph(tmp_path):
    arguments = {"correlation": 9, "device": 0, "stream": 7}
    kernels = [event("k", "kernel", start, 1, 0, 7, **arguments) for start in (10, 12)]
    kernels[0]["args"] |= {"graph id": 4, "graph node id": 17179869184}
    kernels[1]["args"] |= {"graph id": 0, "graph node id": 0}
    trace = read_text(tmp_path, [event("cudaGraphLaunch", "cuda_runtime", 1, 2, correlation=9), *kernels])
    assert trace.kernels["correlation"].tolist() == [9, 9]
    assert trace.kernels["process"].tolist() == [1, 1]
    assert trace.kernels["graph"].astype("object").where(trace.kernels["graph"].notna(), None).tolist() == [4, None]


def test_operators_of_kernels_whose_call_is_missing(tmp_path):
    operator = event("aten::mm", "cpu_op", 1, 5, External_id=40)
    lost = event("gemm", "kernel", 10, 1, 0, 7, External_id=40, correlation=8, device=0, stream=7)
    assert read_text(tmp_path, [operator, lost]).kernels["operator"].tolist() == ["aten::mm"]
    repeated = event("gemm", "kernel", 10, 1, 0, 7, External_id=40, correlation=40, device=0, stream=7)
    assert read_text(tmp_path, [operator, repeated]).kernels["operator"].isna().all()


def test_collectives_name_their_operator_and_type(tmp_path):
    kernel = event("ncclDevKernel_AllReduce", "kernel", 10, 1, 0, 7, correlation=8, Collective_name="allreduce", dtype="BFloat16")
    row = read_text(tmp_path, [kernel]).kernels.astype("object").iloc[0]
    assert row[["operator", "dtype"]].tolist() == ["nccl:allreduce", "bf16"]


def test_arrows_tie_backward_to_forward_without_sequence_numbers(tmp_path):
    module = event("nn.Module: Linear_0", "python_function", 0, 9, Python_id=1, Python_parent_id=None, Python_module_id=0)
    engine = "autograd::engine::evaluate_function: AddmmBackward0"
    events = [
        module,
        event("aten::addmm", "cpu_op", 1, 2),
        event(engine, "cpu_op", 20, 5, tid=2),
        event("aten::mm", "cpu_op", 21, 2, tid=2),
        event("aten::sum", "cpu_op", 30, 2, tid=2),
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 5, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 5, "pid": 1, "tid": 2, "ts": 20, "bp": "e"},
    ]
    table = read_text(tmp_path, events).operators.astype("object").set_index("name")
    assert table.loc["aten::addmm", ["layer", "phase", "attribution"]].tolist() == ["Linear_0", "forward", "launch range"]
    assert table.loc["aten::mm", ["layer", "phase", "attribution"]].tolist() == ["Linear_0", "backward", "sequence number"]
    assert table.loc["aten::sum", ["phase", "layer"]].isna().all()


def test_two_forward_threads_with_the_same_sequence_numbers(tmp_path):
    events = []
    for thread, number in ((1, 1), (2, 2)):
        for step in range(3 + thread):
            numbers = {"Sequence_number": step, "Fwd_thread_id": 0}
            events.append(event(f"aten::op{thread}{step}", "cpu_op", 10 * step, 5, tid=thread, **numbers))
            name = f"nn.Module: M{thread}{step}_0"
            events.append(event(name, "python_function", 10 * step - 1, 8, tid=thread, Python_module_id=0))
            numbers["Fwd_thread_id"] = number
            events.append(event(f"Back{thread}{step}", "cpu_op", 100 + 20 * step + thread, 0, tid=9, **numbers))
    table = read_text(tmp_path, events).operators.astype("object").set_index("name")
    # the second number asks for 0 to 4, which only the second thread has all of; the first for 0 to 3, which both have
    assert table.loc["Back24", "layer"] == "M24_0"
    assert table.loc["Back20", "layer"] == "M20_0"
    assert table.loc["Back10", ["layer", "phase"]].isna().tolist() == [True, False]


def test_threads_of_several_processes_are_told_apart(tmp_path):
    events = [event("a", "cpu_op", 0, 1, pid=1, tid=5), event("b", "cpu_op", 0, 1, pid=2, tid=5)]
    events += [event("c", "cpu_op", 0, 1, pid="rank 3", tid="main"), event("d", "cpu_op", 0, 1, pid=2, tid="77")]
    events += [event(f"cudaLaunchKernel{pid}", "cuda_runtime", 0, 1, pid=pid, tid=5, correlation=pid) for pid in (1, 2)]
    events += [event("k", "kernel", 3, 1, 0, 7, correlation=2, device=0, stream=7)]
    trace = read_text(tmp_path, events)
    threads = dict(zip(trace.operators["name"], trace.operators["thread"], strict=True))
    assert threads["a"] == 5
    assert threads["d"] == 77
    assert len(set(threads.values())) == 4
    assert trace.kernels["process"].tolist() == [2]
    assert trace.calls["thread"].nunique() == 2


def test_what_has_no_time_is_counted(tmp_path):
    kernel = event("k", "kernel", 3, 1, 0, 7, correlation=2, device=0, stream=7)
    untimed = event("k", "kernel", None, 1, 0, 7, correlation=5, device=0, stream=7)
    negative = event("aten::mm", "cpu_op", 3, -1)
    zero = event("k", "kernel", 0, 0, 0, 7, correlation=7, device=0, stream=7)
    trace = read_text(tmp_path, [kernel, untimed, negative, zero])
    assert trace.kernels["start_ns"].tolist() == [3000, 0]
    assert trace.diagnostics == {"events without a usable time": 2}


def test_other_accelerators(tmp_path):
    xpu = event("gemm_kernel", "kernel", 3, 1, 0, 2, correlation=2, device=0)
    xpu["args"]["sycl queue"] = 2
    trace = read_text(tmp_path, [event("urEnqueueKernelLaunch", "xpu_runtime", 1, 1, correlation=2), xpu])
    assert trace.kernels[["device", "thread"]].astype("object").to_numpy().tolist() == [["xpu:0", 2]]
    path = CORPUS / "kineto/facebookresearch__HolisticTraceAnalysis__mtia_inference_trace_mtia_inference_rank_0.json.gz"
    if path.exists():
        events = chosen(recomputed(path)[0], "mtia_ccp_events")
        names = Counter(name for name, *_ in events)
        trace = read(path)
        assert set(trace.kernels["device"]) == {"mtia:17"}
        assert trace.kernels["name"].value_counts().to_dict() == {name: names[name] for name in ("remote", "merge", "pe_exe")}
        assert len(trace.copies) == names["dma_request"]
        assert trace.copies["bytes"].sum() == sum(e["args"]["size"] for name, _, _, e in events if name == "dma_request")
        assert trace.syncs["kind"].value_counts().to_dict() == {name: names[name] for name in ("event_record", "event_wait")}


def test_range_profilers_rows_are_no_kernels():
    trace = read(corpus_file("cupti_profiler"))
    assert len(trace.kernels) == 0
    assert "range profiler" in trace.info["unavailable"]["kernels"]
    assert trace.info["not_read"] == {"cuda_profiler_range": 77}


# --- text that is no JSON, and bad input ---------------------------------------------------------------------------------


def test_known_faults_of_profilers_are_mended(tmp_path):
    content = (
        b'{"schemaVersion": 1, "deviceProperties": [], "path": "C:\\Users\\x", "traceEvents": [\n'
        b'{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 1, "dur": 0,'
        b' "args": {"bytes": 5, "correlation": 1, "memory bandwidth (GB/s)": inf, "x": N/A}},\n'
        b'{"ph": "X", "cat": "cpu_op", "name": "a: nan, \x01\xff C:\\\\q", "pid": 1, "tid": 1, "ts": 2, "dur": 1}]}'
    )
    trace = read_text(tmp_path, content)
    assert trace.copies["bytes"].tolist() == [5]
    assert trace.operators["name"].tolist() == ["a: nan,  \ufffd C:\\q"]
    assert trace.diagnostics == {"pieces of text that were no JSON, mended": 1}


@pytest.mark.parametrize("odd", [None, 5, True, "x", [], [{"ph": "X"}, {"ph": "X"}]])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_what_is_no_event_is_left_out_and_told_by_every_command(tmp_path, odd, place):
    events = [event("k", "kernel", start, 2, correlation=start, device=0, stream=7) for start in (1, 5, 9)]
    events[place:place] = [odd, odd]
    for content in (events, {"schemaVersion": 1, "traceEvents": events, "traceName": "t"}):
        trace = read_text(tmp_path, content)
        assert trace.kernels["duration_ns"].tolist() == [2000, 2000, 2000]
        assert trace.diagnostics == captures.lost(trace) == {ODD: 2}


def test_a_file_of_hardly_anything_but_what_is_no_event_is_refused_before_it_takes_much_memory(tmp_path):
    path = tmp_path / "nulls.json"
    path.write_bytes(b'{"schemaVersion": 1, "traceEvents": [{"ph": "X"}' + b",null" * (chrome_json.SIZE) + b"]}")
    with pytest.raises(EvidenceError, match="not a trace"):
        kineto.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"schemaVersion": 1, "traceEvents": [' + b"[" * 100_000, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "args": {"Input Dims": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a', "byte 56"),
        (b'{"traceEvents": [{"ph": "X"}, {"ph" "X"}]}   ', "byte 36"),
        (b'{"traceEvents": [1, 2]}', "not a trace"),
        (b'{"traceEvents": [], "traceEvents": []}', "two lists"),
        (b'{"traceEvents": [{"ph": "X"}], "traceEvents": [{"ph": "B"}]}', "two lists"),
        (b'{"traceEvents": {}}', "no list traceEvents"),
        (b'{"traceEvents": [{"args": 1e999}]}', "not a trace"),
        (b"\x00\x01\x02", "byte 0"),
        (gzip.compress(b"[", mtime=0) + gzip.compress(b" " * (8 << 20), mtime=0) * 50, "150 times"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=message) as refused:
        kineto.read(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


TYPES = [None, True, -1, 0, 2**63, 10**40, 0.5, 1e300, "", "x", "7", [], [1], {}, {"a": [1]}]


@pytest.mark.parametrize("field", ["ph", "ts", "dur", "name", "cat", "pid", "tid", "id", "args"])
def test_wrong_types_in_events_are_survived(tmp_path, field):
    events = []
    for category in ("cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "cuda_sync", "python_function", ""):
        for odd in TYPES:
            events.append(event("ProfilerStep#1", category, 1, 1, correlation=1, device=0, stream=7) | {field: odd})
    trace = read_text(tmp_path, [event("aten::mm", "cpu_op", 1, 1), *events])
    assert set(vars(trace)) >= set(TABLES)


@pytest.mark.parametrize("argument", [
    "correlation", "device", "stream", "grid", "dtype", "bytes", "External id", "Input Dims", "Input type", "Sequence number",
    "Fwd thread id", "Device Type", "Device Id", "Python module id", "graph id", "Collective name", "direction",
])  # fmt: skip
def test_wrong_types_in_arguments_are_survived(tmp_path, argument):
    events = []
    for category in ("cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "cuda_sync", "python_function", "mtia_ccp_events"):
        for odd in TYPES:
            events.append(event("nn.Module: a", category, 1, 1) | {"args": {"correlation": 1, argument: odd}})
            events.append({"ph": "i", "cat": category, "name": "[memory]", "ts": 1, "args": {"Bytes": 1, argument: odd}})
    trace = read_text(tmp_path, [event("aten::mm", "cpu_op", 1, 1), *events])
    assert set(vars(trace)) >= set(TABLES)
