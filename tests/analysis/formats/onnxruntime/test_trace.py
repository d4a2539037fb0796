"""ONNX Runtime's own profile: recorded ones of processors and made ones of GPUs; numbers are plain sums of the JSON."""

import gzip
import json
from collections import Counter

import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import problems
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.formats.onnxruntime import nodes
from kernelscope.analysis.recordings import captures
from tests.analysis.formats.onnxruntime import profiles
from tests.analysis.formats.onnxruntime.profiles import CPU, CUDA
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "onnxruntime" / "profiles"
CNN, PARALLEL = DATA / "cnn.json.gz", DATA / "parallel.json.gz"  # 2 threads, 4 images; 2 operators at once, with a Loop
KERNELS_US, COPIES_US = 300 + 40 + 200, 5 + 4  # of a run in profiles.GPU_NODES


def events(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def nodes_of(found):
    return [one for one in found if one["cat"] == "Node" and one["name"].endswith("_kernel_time")]


def read(tmp_path, found, text=None):
    path = tmp_path / "onnxruntime_profile__2024-01-02_03-04-05.json"
    path.write_text(text or profiles.text(found))
    assert detect(path).name == "onnxruntime"
    return captures.read(path)


@pytest.mark.parametrize("path", [CNN, PARALLEL])
def test_nodes_and_runs_are_those_of_the_file(path):
    trace, found = captures.read(path), events(path)
    inner = [one for one in nodes_of(found) if one["args"]["op_name"] != "Loop"]
    assert Counter(trace.kernels["operator"]) == Counter(one["args"]["op_name"] for one in inner)
    assert trace.kernels["duration_ns"].sum() == 1000 * sum(one["dur"] for one in inner)
    assert (trace.kernels["start_ns"] - 1).tolist() == [1000 * one["ts"] for one in inner]
    assert len(trace.operators) == len(nodes_of(found))
    runs = [one for one in found if one["name"] == "model_run"]
    assert (trace.steps["end_ns"] - trace.steps["start_ns"]).tolist() == [1000 * one["dur"] for one in runs]
    assert set(trace.kernels["device"]) == {"cpu"}
    assert not trace.diagnostics
    assert trace.kernels["step"].notna().all()


def test_the_steps_add_up():
    found = partition(captures.read(CNN))
    lengths = [one["dur"] for one in events(CNN) if one["name"] == "model_run"]
    assert found.cells["time_ns"].sum() == found.step_ns == 1000 * sum(lengths) / len(lengths)


def test_shapes_types_libraries_and_layers():
    kernels = captures.read(CNN).kernels
    convolution = kernels[(kernels["operator"] == "Conv").to_numpy()].iloc[0]
    first = next(one for one in nodes_of(events(CNN)) if one["args"]["op_name"] == "Conv")
    (_, image), (_, weights) = ((key, size) for one in first["args"]["input_type_shape"][:2] for key, size in one.items())
    assert str(convolution["problem"]).startswith(":".join("x".join(map(str, size)) for size in (image, weights)))
    assert (convolution["dtype"], convolution["library"], convolution["layout"]) == ("f32", "mlas", "nchwc")
    assert set(kernels["layer"]) == {
        *(f"features/{name}{number}" for name in ("relu", "pool") for number in range(3)), "Flatten", "fc", "Softmax",
    }  # fmt: skip
    product = kernels[(kernels["operator"] == "Gemm").to_numpy()].iloc[0]
    assert (product["m"], product["n"], product["k"], product["kind"]) == (4, 10, 64 * 8 * 8, "gemm")
    moved = kernels[(kernels["operator"] == "ReorderOutput").to_numpy()]
    assert set(moved["layer"]) == {"features/pool2"}
    assert set(moved["attribution"]) == {"stream order"}


def test_settings_are_what_the_file_shows():
    cnn, parallel = captures.read(CNN).info, captures.read(PARALLEL).info
    assert cnn["settings"] == {"providers": CPU, "threads": 2, "execution_mode": "ORT_SEQUENTIAL"}
    assert cnn["batch"] == 4
    assert parallel["settings"]["execution_mode"] == "ORT_PARALLEL"
    assert "batch" not in parallel
    assert len({one["tid"] for one in nodes_of(events(PARALLEL))}) == captures.read(PARALLEL).kernels["thread"].nunique()


def test_what_is_outside_of_runs_is_no_step():
    ranges = captures.read(CNN).ranges
    names = Counter(one["name"] for one in events(CNN) if one["cat"] == "Session")
    assert Counter(ranges["name"].astype(str)) == names
    loading = ranges[ranges["name"].isin(["model_loading_uri", "session_initialization"])]
    assert (loading["end_ns"] <= captures.read(CNN).steps["start_ns"].min()).all()
    assert set(loading["category"]) == {"user"}


@pytest.mark.parametrize("bytes_left", [0, 3, 40, 200])
def test_a_cut_profile_is_read_as_far_as_it_is_whole(tmp_path, bytes_left):
    text = gzip.decompress(CNN.read_bytes()).decode()
    end = text.rindex("}}", 0, len(text) // 2) + 2  # behind a node
    trace = read(tmp_path, [], text[: end + bytes_left])
    whole = [one for one in nodes_of(events(CNN)) if json.dumps(one["ts"]) in text[:end]][: len(trace.operators)]
    assert len(trace.operators) == text[:end].count("_kernel_time")
    assert len(whole) == len(trace.operators)
    assert any("is not closed" in line for line in trace.info["warnings"])
    assert trace.diagnostics.get("the file ends inside of an event", 0) == (bytes_left > 2)


def test_an_object_with_the_list_is_read_too(tmp_path):
    wrapped = read(tmp_path, [], json.dumps({"traceEvents": events(CNN)}))
    assert wrapped.kernels["duration_ns"].sum() == captures.read(CNN).kernels["duration_ns"].sum()


def test_quoted_lines_are_read_without_their_brackets(tmp_path):
    lines = profiles.text(profiles.cuda(2)).splitlines()
    trace = read(tmp_path, [], "\n".join([*lines[3:-3], "..."]))
    assert len(trace.kernels) == sum('"Kernel"' in line and "Memcpy" not in line for line in lines[3:-3])
    assert any("is not closed" in line for line in trace.info["warnings"])


def test_kernels_of_a_gpu_belong_to_the_nodes_that_launched_them(tmp_path):
    trace = read(tmp_path, profiles.cuda(4))
    assert trace.kernels["duration_ns"].sum() == 4 * 1000 * KERNELS_US
    assert trace.copies["duration_ns"].sum() == 4 * 1000 * COPIES_US
    assert Counter(trace.copies["operation"]) == {"host to device": 4, "device to host": 4}
    assert set(trace.kernels["device"]) == {"cuda:0"}
    assert set(trace.kernels["thread"]) == {7}
    assert Counter(trace.kernels["layer"]) == {"conv1": 8, "fc": 4}
    assert Counter(trace.kernels["operator"]) == {
        "Conv": 8,
        "Gemm": 4,
    }
    assert Counter(trace.kernels["step"]) == dict.fromkeys(range(4), 3)
    assert set(trace.kernels["grid"]) == {"4,4,4"}
    assert (trace.kernels["launch_ns"] <= trace.kernels["start_ns"]).all()
    assert "kernels" not in trace.info["unavailable"]


def test_kernels_that_stand_before_their_node_and_name_only_its_operator(tmp_path):
    found = profiles.cuda(4)
    for one in found:
        one["args"].pop("parent_name", None)
    order = sorted(range(len(found)), key=lambda place: (_node_of(found, place), found[place]["cat"] != "Kernel", place))
    trace = read(tmp_path, [found[place] for place in order])
    assert Counter(trace.kernels["layer"]) == {"conv1": 8, "fc": 4}
    assert not any("without their API call" in name for name in trace.diagnostics)


def _node_of(found, place):
    return max((number for number in range(place + 1) if found[number]["cat"] != "Kernel"), default=0)


@pytest.mark.parametrize(
    ("clock", "reason"), [("behind", "in a row behind the node's own begin"), ("ends", "overlap"), ("other", "not the host's")]
)
def test_begins_that_are_not_true_make_totals(tmp_path, clock, reason):
    trace = read(tmp_path, profiles.cuda(4, clock=clock))
    assert reason in trace.info["unavailable"]["times"]
    assert not trace.has_timeline()
    assert trace.kernels["duration_ns"].sum() == 4 * 1000 * KERNELS_US
    assert Counter(trace.kernels["layer"]) == {
        "conv1": 8,
        "fc": 4,
    }
    runs = trace.totals[(trace.totals["name"] == "model_run").to_numpy()].iloc[0]
    assert (runs["count"], runs["duration_ns"]) == (4, 4 * 700_000)


def test_nodes_that_only_queue_work_are_no_kernels(tmp_path):
    trace = read(tmp_path, profiles.cuda(4, with_kernels=False))
    assert trace.kernels.empty
    assert len(trace.operators) == 4 * len(profiles.GPU_NODES)
    assert len(trace.steps) == 4
    assert f"nodes of {CUDA} queue work" in trace.info["unavailable"]["kernels"]
    assert "nsys" in trace.info["unavailable"]["kernels"]


@pytest.mark.parametrize(
    ("provider", "operator", "device"),
    [("CoreMLExecutionProvider", "CoreML_123_1", None), ("OpenVINOExecutionProvider", "OpenVINO-EP-subgraph_1", None),
     ("XnnpackExecutionProvider", "Conv", "cpu")],
)  # fmt: skip
def test_providers_that_compute_while_they_are_called(tmp_path, provider, operator, device):
    trace = read(
        tmp_path, [*profiles.loading(), profiles.node(operator, f"{operator}_0", 2000, 90, provider), *profiles.run(1990, 120)]
    )
    kernel = trace.kernels.iloc[0]
    assert kernel["duration_ns"] == 90_000
    assert kernel["device"] == device if device else trace.kernels["device"].isna().all()
    assert kernel["kind"] == ("convolution forward" if device else "fused")
    assert any(provider in note for note in trace.info["notes"]) == (device is None)


def test_work_of_rocm_and_of_webgpu(tmp_path):
    rocm, webgpu = "ROCMExecutionProvider", "WebGpuExecutionProvider"
    node = [*profiles.loading(), profiles.node("Conv", "/c/Conv", 1020, 30, rocm)]
    name = {"op_name": "Conv", "parent_name": "/c/Conv_kernel_time"}
    work = [
        profiles.event("Kernel", "igemm_fwd_gtcx", 1060, 200, -1, stream="0x7f1", **name),
        profiles.event("Kernel", "hipMemcpyAsync", 1300, 3, -1, stream="0x7f2", kind="D2H", **name),
        profiles.event("Kernel", "hipMemsetAsync", 1310, 2, -1, stream="0x7f1", size="4096", **name),
    ]
    trace = read(tmp_path, [*node, *work, profiles.event("Api", "hipLaunchKernel", 1025, 4), *profiles.run(1000, 600)])
    assert (set(trace.kernels["device"]), trace.kernels["layer"].tolist()) == ({"rocm:0"}, ["c"])
    assert dict(zip(trace.copies["operation"], trace.copies["bytes"].fillna(0), strict=True)) == {
        "device to host": 0,
        "set": 4096,
    }
    assert trace.copies["thread"].tolist() == [1, 0]
    assert set(trace.calls["name"]) == {"Conv", "hipLaunchKernel"}

    found = [*profiles.loading(), profiles.node("Conv", "/c/Conv", 1020, 30, webgpu), *profiles.run(1000, 600)]
    trace = read(tmp_path, [*found, profiles.event("Api", "Conv2DMatMul", 1100, 222, -1, shapes="inputs[0] = {1,2} ")])
    assert (trace.kernels["device"].tolist(), trace.kernels["duration_ns"].tolist()) == (["gpu:0"], [222_000])
    assert "which node" in trace.info["unavailable"]["launches"]
    trace = read(tmp_path, [*found, profiles.event("Api", "Conv2DMatMul", 0, 222, -1)])  # the device's own clock begins at 0
    assert not trace.has_timeline()


def test_profiles_of_old_versions(tmp_path):
    old = [
        profiles.event("Session", "model_loading_uri", 13, 30_779),
        profiles.event("Node", "_fence_before", 96_802, 1, op_name="Conv"),
        profiles.event("Node", "_kernel_time", 96_807, 12_944, op_name="Conv"),
        profiles.event("Node", "_fence_after", 109_756, 0, op_name="Conv"),
        profiles.event("Node", "FusedNode_1_kernel_time", 120_000, 378),
    ]
    for one in old[-1:]:
        del one["args"]
    trace = read(tmp_path, old)
    assert trace.kernels["duration_ns"].tolist() == [12_944_000, 378_000]
    assert trace.kernels["kind"].tolist() == [
        "convolution forward",
        "fused",
    ]
    assert "the profile holds no run" in trace.info["unavailable"]["times"]
    assert not trace.has_timeline()
    assert trace.diagnostics == {"fences of no length, not read": 1}
    assert any("does not say which provider" in note for note in trace.info["notes"])


def test_a_providers_name_may_stand_in_the_nodes_name(tmp_path):
    found = [
        profiles.event("Node", f"{name}_kernel_time", 2000 + 100 * number, 90)
        for number, name in enumerate(("DmlFusedNode_0_41", "/stft/STFT", "TensorrtExecutionProvider_TRTKernel_graph_1_0"))
    ]
    trace = read(tmp_path, [*profiles.loading(), *found, *profiles.run(1990, 500)])
    assert trace.kernels.empty
    assert trace.info["settings"]["providers"] == "DmlExecutionProvider, TensorrtExecutionProvider"


def test_runs_of_several_threads(tmp_path):
    found = [*profiles.loading()]
    for number, thread in enumerate((7, 8, 7, 8, 7)):
        begin = 1000 + 300 * number
        found += [profiles.node("Conv", "c", begin + 20, 400, tid=thread), *profiles.run(begin, 500, thread)]
    trace = read(tmp_path, found)
    assert set(trace.steps["thread"]) == {7}
    assert len(trace.steps) == 3
    assert len(trace.kernels) == 5
    assert trace.diagnostics["steps of other threads"] == 2


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('[\n{"cat" : "Session","dur" :5,"ts" :4,"ph" : "X","name" :"model_loading_uri","args" : {}}\n]', "no run and no node"),
        ('[{"cat" : "Node" "name" :"a_kernel_time","dur" :5},{"cat" : "Node"}]', "not JSON, or cut short"),
        ('[{"cat" : "Node","name" :"a_kernel_time","dur" :"x"}]', "no run and no node"),
    ],
)  # fmt: skip
def test_a_damaged_profile_is_refused_in_one_line(tmp_path, content, what):
    path = tmp_path / "profile.json"
    path.write_text(content)
    with pytest.raises(EvidenceError, match=what) as caught:
        captures.read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "operator", "layer"),
    [
        ("/layer1/layer1.0/conv1/Conv", "Conv", "layer1/layer1.0/conv1"),
        ("/layer1/relu/Relu_output_0_nchwc", "Conv", "layer1/relu"),
        ("/layer1/Add_3", "Add", "layer1"),
        ("StatefulPartitionedCall/model/dense/MatMul", "MatMul", "model/dense"),
        ("fused fc1", "FusedGemm", "fc1"),
        ("/Softmax", "Softmax", "Softmax"),
        ("Conv_12", "Conv", "Conv_12"),
        ("ReorderOutput_token_5", "ReorderOutput", None),
        ("Memcpy_token_422", "MemcpyToHost", None),
        ("TensorrtExecutionProvider_TRTKernel_graph_main_1_0", "TRTKernel_graph_main_1_0", "TRTKernel_graph_main_1_0"),
        ("", "Conv", None),
    ],
)
def test_layers_are_the_paths_in_nodes_names(name, operator, layer):
    assert nodes.path(name, operator) == layer


@pytest.mark.parametrize("operator", ["Conv", "FusedConv"])
def test_explanations_know_what_a_convolution_computes(operator):
    work = problems.of_operator(operator, "[[4, 3, 8, 8], [16, 3, 3, 3], [16]]")
    assert (work.batch, work.parameters) == (4, 16 * 3 * 3 * 3 + 16)
    assert work.with_output((4, 16, 8, 8)).flops == 4 * 16 * 8 * 8 * (2 * 3 * 3 * 3 + 1)
