"""Functions of Python in torch.profiler's traces: whose time it is, recomputed from the profiler's own parents, and by hand."""

import gzip
import json
import re
from collections import Counter
from decimal import Decimal

import pytest

import kernelscope as ks
from kernelscope.analysis.attribution.host_lines import OUTSIDE, UNKNOWN
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.kineto import trace as kineto
from kernelscope.analysis.timeline.flame import flame
from kernelscope.analysis.timeline.lanes import timeline
from tests.places import corpus

ASCEND = "more/Ascend__msinsight__test_data_pytorch_text_level0_rank0_ascend_pt_ASCEND_PROFILER_OUTPUT_trace_view.json"


def time_of(table):
    """Nanoseconds of each function of a table of host lines."""
    result = Counter()
    for file, function, line, start, end in zip(
        *(table[name] for name in ("file", "function", "line", "start_ns", "end_ns")), strict=True
    ):
        result[file, line, function] += end - start
    return result


def recomputed(path, thread, program, libraries):
    """The same from the durations of functions and the ids of their parents, without looking at when any of them ran."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    events = json.loads(content, parse_float=Decimal)
    events = events["traceEvents"] if isinstance(events, dict) else events
    functions = {e["args"]["Python id"]: e for e in events if e.get("cat") == "python_function" and e["tid"] == thread}
    own = {number: int(e["dur"] * 1000) for number, e in functions.items()}
    for event in functions.values():
        if event["args"]["Python parent id"] in own:
            own[event["args"]["Python parent id"]] -= int(event["dur"] * 1000)

    def owner(number):
        chain = []
        while number in functions:
            found = re.fullmatch(r"(.+)\((\d+)\): (.+)", functions[number]["name"])
            chain += [(found[1], int(found[2]), found[3])] if found else []
            number = functions[number]["args"]["Python parent id"]
        for wanted in (program, libraries):
            mine = [place for place in chain if place[0].startswith(wanted)]
            if mine:
                return mine[0]
        return chain[0] if chain else None

    result = Counter()
    for number, ns in own.items():
        result[owner(number)] += ns
    del result[None]
    return Counter({place: ns for place, ns in result.items() if ns})


@pytest.mark.parametrize(
    ("name", "thread", "program", "libraries"),
    [
        ("pairs/qa-repeat-control/a.json.gz", 4399, ("torch_prof.py",), ()),
        ("kineto/AMD-AGI__TraceLens__h100_Qwen1.5-0.5B.json.gz", 25286, ("moca/",), ("transformers/", "numpy/", "tqdm/")),
        ("kineto/AMD-AGI__TraceLens__mi300_resnet_act_checkpoint.json.gz", 542, ("train_ddp.py",), ("torchvision/",)),
        pytest.param(
            "kineto/AMD-AGI__TraceLens__vllm_graph_capture_rank_0.pt.trace.json.gz", 851, ("torch_guard.py",),
            ("vllm/", "aiter/", "numpy/", "transformers/", "pydantic/", "packaging/", "typing_extensions.py", "flashinfer/"),
            marks=[pytest.mark.slow, pytest.mark.long],
        ),
    ],
)  # fmt: skip
def test_each_function_has_its_time_and_that_of_what_it_calls_elsewhere(name, thread, program, libraries):
    path = corpus(name)
    lines = kineto.read(path).host_lines
    assert (lines["start_ns"].to_numpy()[1:] >= lines["end_ns"].to_numpy()[:-1]).all()
    assert (lines["end_ns"] > lines["start_ns"]).all()
    found, expected = time_of(lines), recomputed(path, thread, program, libraries)
    assert found == expected


@pytest.mark.parametrize("name", [
    "pairs/qa-repeat-control/a.json.gz", "kineto/AMD-AGI__TraceLens__h100_Qwen1.5-0.5B.json.gz",
    "kineto/AMD-AGI__TraceLens__mi300_resnet_act_checkpoint.json.gz", "kineto/AMD-AGI__TraceLens__b200_eager_trace.json.gz",
])  # fmt: skip
def test_host_time_and_devices_and_idle_time_add_up_to_the_step(name):
    trace = ks.read(corpus(name))
    result = ks.breakdown(trace, "line")
    assert result.table["host_ns"].sum() == result.step_ns
    assert (result.table["device_ns"] + result.table["idle_ns"]).sum() == result.table["time_ns"].sum() == result.step_ns
    assert (result.table[["host_ns", "device_ns", "idle_ns"]] >= 0).to_numpy().all()
    assert set(result.table["method"]) <= {"python functions", "none"}
    assert result.window == ("capture" if "b200" in name else "steps")
    tree = next(tree for tree in flame(trace)["trees"] if tree["key"] == "lines")
    if "b200" not in name:
        assert tree["total_ns"][0] == (trace.steps["end_ns"] - trace.steps["start_ns"]).sum()
    assert tree["title"] == "host: functions of the program"


def test_ascends_traces_have_functions_too():
    path = corpus(ASCEND)
    trace = ks.read(path)
    assert trace.info["source"]["format"] == "ascend-trace"
    assert set(trace.host_lines["file"]) > {"main.py"}
    assert "python_function" not in trace.info["not_read"]
    events = [e for e in json.loads(path.read_text(), parse_float=Decimal) if e.get("cat") == "python_function"]
    named = sorted((Decimal(e["ts"]) * 1000, Decimal(e["dur"]) * 1000) for e in events if re.match(r".+\(\d+\): ", e["name"]))
    covered, reached = Decimal(0), Decimal(0)
    for start, lasted in named:
        covered += max(start + lasted - max(start, reached), 0)
        reached = max(reached, start + lasted)
    assert (trace.host_lines["end_ns"] - trace.host_lines["start_ns"]).sum() == covered


# --- by hand ----------------------------------------------------------------------------------------------------------------


def event(name, category, start, duration, tid=1, pid=1, **arguments):
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": arguments}


def function(name, start, duration, tid=1, **arguments):
    return event(name, "python_function", start, duration, tid, **arguments)


def read(tmp_path, *events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": list(events)}))
    return ks.read(path)


def pieces(trace):
    columns = ("start_ns", "end_ns", "file", "function", "line")
    return [tuple(row) for row in trace.host_lines[[*columns]].astype(object).to_numpy().tolist()]


MODULE = "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py(1501): _call_impl"
STEP = (
    event("ProfilerStep#3", "user_annotation", 0, 100),
    function("train.py(80): <module>", 0, 100),
    function("train.py(31): train_step", 10, 60),
    function(MODULE, 20, 30),
    function("nn.Module: Net_0", 21, 28, **{"Python module id": 0}),
    function("/home/alice/work/net.py(7): forward", 22, 20),
    function("<built-in method conv2d of type object at 0x7f01>", 25, 10),
    event("aten::conv2d", "cpu_op", 26, 8),
    event("cudaLaunchKernel", "cuda_runtime", 27, 2, correlation=1),
    event("conv", "kernel", 30, 30, tid=7, pid=0, correlation=1, device=0, stream=7),
    function("<built-in method item of Tensor object at 0x7f02>", 55, 10),
    function("threading.py(1032): _bootstrap", 0, 100, tid=2),
)


def test_the_innermost_function_of_the_program_owns_an_instant(tmp_path):
    trace = read(tmp_path, *STEP)
    assert pieces(trace) == [
        (0, 10_000, "train.py", "<module>", 80), (10_000, 22_000, "train.py", "train_step", 31),
        (22_000, 42_000, "/home/alice/work/net.py", "forward", 7), (42_000, 70_000, "train.py", "train_step", 31),
        (70_000, 100_000, "train.py", "<module>", 80),
    ]  # fmt: skip
    assert trace.host_lines["text"].isna().all()
    assert trace.info["not_read"] == {"python_function": 1}  # of the other thread
    assert trace.info["host_lines"] == "python functions"
    assert "lines" not in trace.info["unavailable"]


def test_device_work_is_that_of_the_function_that_launched_it(tmp_path):
    table = ks.breakdown(read(tmp_path, *STEP), "line").table.set_index("function")
    assert table["host_ns"].to_dict() == {"train_step": 40_000, "<module>": 40_000, "forward": 20_000}
    assert table["device_ns"].to_dict() == {"forward": 30_000, "train_step": 0, "<module>": 0}
    # the kernel runs from 30 to 60
    assert table["idle_ns"].to_dict() == {"forward": 8_000, "train_step": 12_000 + 10_000, "<module>": 40_000}
    assert not {OUTSIDE, UNKNOWN} & set(table.index)


def test_trees_and_lanes_call_functions_by_their_names(tmp_path):
    trace = read(tmp_path, *STEP)
    found = flame(trace)
    tree = next(tree for tree in found["trees"] if tree["key"] == "lines")
    names = [found["names"][name] for name in tree["name"]]
    shown = dict(zip(names, zip(tree["depth"], tree["total_ns"], strict=True), strict=True))
    assert shown == {
        "all": (0, 100_000), "step": (1, 100_000), "train_step (train.py)": (2, 40_000), "<module> (train.py)": (2, 40_000),
        "forward (/home/alice/work/net.py)": (2, 20_000), "aten::conv2d": (3, 8_000), "cudaLaunchKernel": (4, 2_000),
    }  # fmt: skip
    made = timeline(trace)
    lane = next(lane for lane in made["lanes"] if lane["kind"] == "lines")
    labels = [made["labels"]["name"][label] for label in lane["rows"][0]["label"]]
    assert labels == ["<module>", "train_step", "forward", "train_step", "<module>"]


def test_without_the_programs_functions_a_librarys_count_and_then_all(tmp_path):
    trace = read(
        tmp_path,
        event("aten::mm", "cpu_op", 12, 1),
        function("/usr/lib/python3.11/runpy.py(3): run", 0, 50),
        function("/venv/lib/python3.11/site-packages/somelib/core.py(5): call", 10, 20),
        function("torch/functional.py(1): einsum", 12, 5),
        function("transformers/trainer.py(9): step", 20, 5),
        function("<frozen os>(2): getenv", 35, 5),
    )
    assert pieces(trace) == [
        (0, 10_000, "runpy.py", "run", 3), (10_000, 20_000, "somelib/core.py", "call", 5),
        (20_000, 25_000, "transformers/trainer.py", "step", 9), (25_000, 30_000, "somelib/core.py", "call", 5),
        (30_000, 35_000, "runpy.py", "run", 3), (35_000, 40_000, "<frozen os>", "getenv", 2),
        (40_000, 50_000, "runpy.py", "run", 3),
    ]  # fmt: skip


def test_one_function_around_all_gives_way_to_what_it_calls_of_libraries(tmp_path):
    around = [
        event("ProfilerStep#3", "user_annotation", 0, 100),
        function("bench/main.py(80): <module>", 0, 100),
        function("bench/model.py(40): run", 2, 96),
        function("transformers/pipelines/base.py(7): __call__", 10, 80),
        function("transformers/image_transforms.py(390): normalize", 20, 30),
        function("torch/functional.py(1): einsum", 25, 5),
    ]
    assert pieces(read(tmp_path, *around)) == [
        (0, 2_000, "bench/main.py", "<module>", 80), (2_000, 10_000, "bench/model.py", "run", 40),
        (10_000, 20_000, "transformers/pipelines/base.py", "__call__", 7),
        (20_000, 50_000, "transformers/image_transforms.py", "normalize", 390),
        (50_000, 90_000, "transformers/pipelines/base.py", "__call__", 7), (90_000, 98_000, "bench/model.py", "run", 40),
        (98_000, 100_000, "bench/main.py", "<module>", 80),
    ]  # fmt: skip
    several = read(tmp_path, *around, function("bench/data.py(3): load", 60, 20))
    places = {(file, function) for _, _, file, function, _ in pieces(several)}
    assert places == {("bench/main.py", "<module>"), ("bench/model.py", "run"), ("bench/data.py", "load")}


def test_a_pipeline_of_a_library_is_told_by_what_takes_long_in_it():
    """A function of the program that calls the pipeline is open for the whole step: it would be the only line."""
    path = corpus("kineto/AMD-AGI__TraceLens__h100_timesformer.json.gz")
    with gzip.open(path, "rt") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    functions = [one for one in events if one.get("cat") == "python_function"]
    lines = ks.read(path).host_lines
    for name in (
        "transformers/image_transforms.py(390): normalize",
        "transformers/pipelines/video_classification.py(174): read_video_pyav",
    ):
        function = name.rpartition(" ")[2]
        mine = lines[
            (lines["function"] == function).to_numpy(bool) & lines["file"].astype("string").str.startswith("transformers")
        ]
        lasted = sum(one["dur"] for one in functions if one["name"].endswith(name)) / 1000
        assert 0.85 * float(lasted) < int((mine["end_ns"] - mine["start_ns"]).sum()) / 1e6 <= float(lasted)


def test_without_steps_the_thread_that_is_in_functions_for_longest(tmp_path):
    """Backward's thread runs more operators than the loop's, and is in functions for checkpoints."""
    backward = [event("aten::mm", "cpu_op", 50 + number, 1, tid=2) for number in range(9)]
    checkpoint = function("net.py(7): recompute", 52, 4, tid=2)
    waiting = function("threading.py(1): wait", 0, 200, tid=3)
    trace = read(
        tmp_path, event("aten::mm", "cpu_op", 5, 1), function("train.py(1): step", 0, 99), *backward, checkpoint, waiting
    )
    assert pieces(trace) == [(0, 99_000, "train.py", "step", 1)]
    assert trace.host_lines["thread"].tolist() == [1]
    assert trace.info["not_read"] == {"python_function": 2}


def test_cells_of_notebooks_are_the_programs_and_generated_code_is_not(tmp_path):
    names = ["<ipython-input-3-ab>(1): <module>", "<eval_with_key>.8(4): forward", "/tmp/torchinductor_x/ab/c.py(9): call"]
    trace = read(tmp_path, *(function(name, number, 9 - 2 * number) for number, name in enumerate(names)))
    assert pieces(trace) == [(0, 9_000, "<ipython-input-3-ab>", "<module>", 1)]


@pytest.mark.parametrize("functions", [
    [], [function("<built-in function len>", 1, 5)], [function("nn.Module: Net_0", 1, 5, **{"Python module id": 0})],
    [{"ph": "X", "cat": "python_function", "pid": 1, "tid": 1, "ts": 1, "dur": 3, "args": {}}],
])  # fmt: skip
def test_without_a_function_that_has_a_file_there_are_no_lines(tmp_path, functions):
    trace = read(tmp_path, event("aten::mm", "cpu_op", 2, 1), *functions)
    assert trace.host_lines.empty
    unread = sum("Python module id" not in one["args"] for one in functions)
    assert trace.info.get("not_read", {}).get("python_function", 0) == unread
    with pytest.raises(EvidenceError, match=r"no host lines in this capture: .*with_stack=True"):
        ks.breakdown(trace, "line")


def test_wild_names_are_survived(tmp_path):
    names = [
        "(1): f",
        "x(1): ",
        "a (2)/b.py(3): g(4): h",
        "c.py(99999999999999999999): f",
        "d.py(-1): f",
        ": ",
        "e.py(0): <lambda>",
    ]
    trace = read(tmp_path, *(function(name, 10 * number, 5) for number, name in enumerate(names)))
    assert [row[2:] for row in pieces(trace)] == [("a (2)/b.py(3): g", "h", 4), ("e.py", "<lambda>", 0)]
