"""TensorFlow's operators and oneDNN lines with their layers, on small captures that this project recorded."""

import json
import shutil

import pandas as pd
import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, tensorflow
from kernelscope.analysis.attribution.frameworks.tensorflow_names import GraphNames, fits_shape
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.records import read_object, read_table
from kernelscope.workloads import networks
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "tensorflow"
CAPTURES = ("lenet-train", "mlp-train", "cnn-train", "lstm-infer")


def context_of(folder, mode):
    report = read_object(folder / "child.json")
    clock = Clock.from_anchors(report["anchors"])
    steps, ranges = read_table(folder / "steps.jsonl", "steps"), read_table(folder / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], mode, report, clock)


@pytest.fixture(scope="module")
def captures():
    found = {}
    for name in CAPTURES:
        context = context_of(DATA / name, name.split("-")[1])
        found[name] = context, tensorflow.read(DATA / name, context)
    return found


def of(kernels, layer, phase, kind):
    return kernels[(kernels["layer"] == layer) & (kernels["phase"] == phase) & (kernels["kind"] == kind)]


@pytest.mark.parametrize("name", CAPTURES)
def test_at_least_nine_tenths_of_the_steps_are_explained(captures, name):
    context, evidence = captures[name]
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=evidence.operators, kernels=evidence.kernels)
    trace.check()
    found = partition(trace)
    cells = found.cells
    known = (
        cells["layer"].notna()
        | cells["phase"].isin(["optimizer", "data"])
        | cells["cause"].isin(["in the framework", "synchronisation"])
    )
    assert cells["time_ns"].sum() == found.step_ns
    assert cells[known]["time_ns"].sum() >= 0.92 * found.step_ns
    assert evidence.diagnostics["onednn lines outside of every operator"] == 0
    assert evidence.diagnostics["operators of unknown layer"] == 0


def test_convolutions_and_their_gradients_are_told_apart_with_their_problems(captures):
    context, evidence = captures["lenet-train"]
    steps = len(context.steps)
    for layer, problem in (("conv1", "mb64_ic1oc6_ih28oh28"), ("conv2", "mb64_ic6oc16_ih14oh10")):
        forward = of(evidence.kernels, layer, "forward", "convolution forward")
        weights = of(evidence.kernels, layer, "backward", "convolution weight gradient")
        assert len(forward) == len(weights) == steps
        assert forward["problem"].str.startswith(problem).all()
        assert weights["problem"].str.startswith(problem).all()
        assert (forward["library"] == "onednn").all()
    assert len(of(evidence.kernels, "conv2", "backward", "convolution data gradient")) == steps
    assert of(evidence.kernels, "conv1", "backward", "convolution data gradient").empty  # the images need no gradient


def test_products_carry_their_sizes_and_layers(captures):
    context, evidence = captures["lenet-train"]
    products = evidence.kernels[evidence.kernels["kind"] == "gemm"]
    forward = products[products["phase"] == "forward"]
    found = forward.groupby("layer")[["m", "n", "k"]].first().to_dict("index")
    assert found == {
        "fc1": {"m": 64, "n": 120, "k": 400},
        "fc2": {"m": 64, "n": 84, "k": 120},
        "fc3": {"m": 64, "n": 10, "k": 84},
    }
    backward = products[products["phase"] == "backward"].groupby("layer").size()
    assert (backward == 2 * len(context.steps)).all()
    assert set(backward.index) == {"fc1", "fc2", "fc3"}


def test_conversions_of_layout_belong_to_the_convolution_that_needs_them(captures):
    _, evidence = captures["cnn-train"]
    layouts = evidence.kernels[(evidence.kernels["kind"] == "layout") & (evidence.kernels["library"] == "onednn")]
    assert set(layouts["layer"]) == {"conv1", "conv2", "conv3", "conv4"}
    assert set(layouts[layouts["layer"] == "conv4"]["problem"]) == {"64x64x3x3"}
    assert set(layouts[layouts["layer"] == "conv3"]["problem"]) == {"64x32x3x3"}
    assert layouts["layout"].notna().all()


def test_a_fused_operator_is_the_layers_that_computes_and_says_how_that_is_known(captures):
    _, evidence = captures["cnn-train"]
    fused = evidence.operators[evidence.operators["scope"] == "cnn_1/relu2_1/Relu"]
    assert fused["name"].tolist() == ["_MklNativeFusedConv2D"]
    assert fused["layer"].tolist() == ["conv2"]
    assert fused["attribution"].tolist() == ["graph order"]
    kernels = of(evidence.kernels, "conv2", "forward", "convolution forward")
    assert kernels["attribution"].tolist() == ["graph order"]


def test_each_primitive_lies_inside_its_operator_so_the_clocks_agree(captures):
    for context, evidence in captures.values():
        assert len(context.steps)
        operators = evidence.operators[evidence.operators["scope"].notna()]
        primitives = evidence.kernels[evidence.kernels["library"] == "onednn"].reset_index()
        pairs = primitives.merge(operators, left_on=["thread", "operator"], right_on=["thread", "name"], suffixes=("", "_of"))
        early = (pairs["start_ns_of"] - pairs["start_ns"]).clip(lower=0)
        late = (pairs["end_ns"] - pairs["end_ns_of"]).clip(lower=0)
        outside_ns = (early + late).groupby(pairs["index"]).min()
        assert len(outside_ns) == len(primitives)
        assert outside_ns.max() < 10_000


def test_operators_that_compute_without_a_library_are_eigens_and_none_is_counted_twice(captures):
    _, evidence = captures["lenet-train"]
    eigen = evidence.kernels[evidence.kernels["library"] == "eigen"]
    tanh = eigen[eigen["name"] == "Tanh"]
    assert set(tanh["layer"]) == {"tanh1", "tanh2"}
    assert set(tanh["kind"]) == {"activation"}
    assert not eigen["name"].str.contains("Conv2D|MatMul|AvgPool").any()
    assert not eigen["name"].isin(["ExecutorState::Process", "EagerExecute"]).any()


def test_the_optimizer_and_the_loss_are_recognised(captures):
    for name in ("lenet-train", "mlp-train", "cnn-train"):
        _, evidence = captures[name]
        operators = evidence.operators
        updates = operators[operators["scope"].str.match(r"^(sgd|rm_sprop)/", na=False)]
        assert len(updates)
        assert (updates["phase"] == "optimizer").all()
        loss = operators[operators["layer"] == "loss"]
        assert set(loss["phase"]) == {"forward", "backward"}


def test_random_numbers_of_dropout_belong_to_their_layer(captures):
    _, evidence = captures["mlp-train"]
    random = evidence.kernels[evidence.kernels["kind"] == "random"]
    assert {"dropout1", "dropout2"} <= set(random["layer"])


def test_what_the_host_does_has_no_layer_and_the_waiting_thread_claims_nothing(captures):
    context, evidence = captures["lenet-train"]
    host = evidence.operators[evidence.operators["scope"].isna()]
    assert host["layer"].isna().all()
    assert "ExecutorState::Process" in set(host["name"])
    assert not host["name"].isin(["EagerExecute", "TFE_Py_ExecuteCancelable", "train_step"]).any()
    made = host[host["name"] == "tf.constant"]
    assert (made["phase"] == "data").all()
    assert set(made["thread"]) == set(context.steps["thread"])


def test_work_on_the_threads_of_an_input_pipeline_is_of_the_data(captures, monkeypatch):
    context, before = captures["lenet-train"]
    read = tensorflow.xplane.read

    def with_a_pipeline(path):
        events = read(path)
        work = events[events["name"].str.endswith(":Tanh")].assign(name="resize/Resize:ResizeBicubic")
        steering = work.assign(name="ExecutorState::Process", start_ns=work["start_ns"] + work["duration_ns"] + 1000)
        extra = pd.concat([work, steering]).assign(line="tf_data_private_threadpool/7", line_id=7)
        return pd.concat([events, extra], ignore_index=True)

    monkeypatch.setattr(tensorflow.xplane, "read", with_a_pipeline)
    evidence = tensorflow.read(DATA / "lenet-train", context)
    resized = evidence.kernels[evidence.kernels["operator"] == "ResizeBicubic"]
    assert len(resized) == (before.operators["name"] == "Tanh").sum() == 2 * len(context.steps)
    assert set(resized["phase"]) == {"data"}
    assert resized["layer"].isna().all()
    mine = evidence.operators[evidence.operators["thread"] == 7]
    assert set(mine["name"]) == {"ResizeBicubic", "ExecutorState::Process"}
    assert set(mine["phase"]) == {"data"}
    assert evidence.diagnostics["operators of unknown layer"] == before.diagnostics["operators of unknown layer"]


def test_python_that_a_pipeline_calls_is_of_the_data_and_no_kernel(captures, monkeypatch):
    """tf.py_function runs operators one by one on tf.data's threads, as the loop does on its own."""
    context, before = captures["lenet-train"]
    read = tensorflow.xplane.read

    def with_python(path):
        events = read(path)
        work = events[events["name"].str.endswith(":Tanh")].assign(duration_ns=900)
        names = ("EagerPyFunc:EagerPyFunc", "EagerLocalExecute: Sin", "KernelAndDeviceFunc::Run")
        called = [
            work.assign(name=name, start_ns=work["start_ns"] + 1000 + place, duration_ns=900 - 2 * place)
            for place, name in enumerate(names)
        ]
        extra = pd.concat(called).assign(line="tf_data_private_threadpool/7", line_id=7)
        return pd.concat([events, extra], ignore_index=True)

    monkeypatch.setattr(tensorflow.xplane, "read", with_python)
    evidence = tensorflow.read(DATA / "lenet-train", context)
    mine = evidence.operators[evidence.operators["thread"] == 7]
    assert {"EagerPyFunc", "Sin"} <= set(mine["name"])
    assert set(mine["phase"]) == {"data"}
    kernels = evidence.kernels[evidence.kernels["thread"] == 7]
    assert set(kernels["name"]) == {"Sin"}
    loop = set(context.steps["thread"])
    assert (evidence.operators["thread"].isin(loop)).sum() == (before.operators["thread"].isin(loop)).sum() > 0


def test_an_lstm_is_one_layer_with_its_loops_products(captures):
    _, evidence = captures["lstm-infer"]
    products = evidence.kernels[(evidence.kernels["kind"] == "gemm") & (evidence.kernels["layer"] == "lstm1")]
    assert products.groupby(["m", "n", "k"]).size().to_dict() == {(64, 512, 28): 28, (64, 512, 128): 28}
    assert set(products["phase"]) == {"forward"}


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(DATA / "lenet-train", tmp_path / "pass")
    return tmp_path / "pass"


def test_without_onednns_lines_its_operators_count_themselves(copied):
    (copied / "stdout.raw").unlink()
    evidence = tensorflow.read(copied, context_of(copied, "train"))
    by_onednn = evidence.kernels["name"].astype(str).str.startswith("_Mkl")
    assert set(evidence.kernels.loc[by_onednn, "library"]) == {"onednn"}
    assert set(evidence.kernels.loc[~by_onednn, "library"]) == {"eigen"}
    forward = of(evidence.kernels, "conv1", "forward", "convolution forward")
    assert len(forward) == 3
    assert forward["problem"].isna().all()


def test_lines_that_no_operator_ran_are_kept_and_counted(copied):
    stream = copied / "stdout.raw"
    lines = stream.read_text().splitlines()
    pooling = next(line for line in lines if ",pooling," in line)
    context = context_of(copied, "train")
    # the loop's thread has just begun the step: nothing runs yet
    wall_ms = (int(context.steps["start_ns"][1]) + int(context.clock.wall_ns[0] - context.clock.monotonic_ns[0])) / 1e6
    fields = pooling.split(",")
    fields[2], fields[-1] = f"{wall_ms + 0.001:.6f}", "0.001"
    stream.write_text("\n".join([*lines, ",".join(fields), "onednn_verbose,v1,primitive,exec,cut short"]) + "\n")
    evidence = tensorflow.read(copied, context)
    assert evidence.diagnostics["onednn lines outside of every operator"] == 1
    assert evidence.diagnostics["onednn lines that could not be read"] == 1
    lost = evidence.kernels[evidence.kernels["attribution"] == "none"]
    assert lost["kind"].tolist() == ["pooling"]
    assert lost["layer"].isna().all()


def test_a_missing_trace_is_named(copied):
    (copied / "operators.xplane.pb").unlink()
    with pytest.raises(EvidenceError, match=r"operators\.xplane\.pb"):
        tensorflow.read(copied, context_of(copied, "train"))


WHILE = "gradient_tape/lstm_1/lstm1_1/while/lstm_1/lstm1_1/while_grad/body/_94/gradient_tape/lstm_1/lstm1_1/while/gradients"


@pytest.mark.parametrize(
    ("network", "scope", "type_name", "expected"),
    [
        ("lenet", "lenet_1/conv1_1/BiasAdd", "_MklNativeFusedConv2D", ("conv1", "forward", "operator name")),
        ("lenet", "lenet_1/tanh3_1/Tanh", "_MklNativeFusedMatMul", ("fc1", "forward", "graph order")),
        ("lenet", "lenet_1/tanh1_1/Tanh", "Tanh", ("tanh1", "forward", "operator name")),
        ("lenet", "lenet/flatten/Reshape", "Reshape", ("flatten", "forward", "operator name")),
        ("lenet", "gradient_tape/lenet_1/pool1_1/AvgPoolGrad", "_MklNativeAvgPoolGrad", ("pool1", "backward", "operator name")),
        ("lenet", "gradient_tape/lenet_1/fc3_1/BiasAdd/BiasAddGrad", "BiasAddGrad", ("fc3", "backward", "operator name")),
        ("lenet", "loss/Sum", "Sum", ("loss", "forward", "operator name")),
        ("lenet", "sparse_categorical_crossentropy/Cast", "Cast", ("loss", "forward", "operator name")),
        ("lenet", "gradient_tape/loss/SparseSoftmaxCrossEntropyWithLogits/mul", "Mul", ("loss", "backward", "operator name")),
        ("lenet", "sgd/AssignAddVariableOp_4", "AssignAddVariableOp", (None, "optimizer", "operator name")),
        ("mlp", "rm_sprop/truediv_8", "RealDiv", (None, "optimizer", "operator name")),
        ("mlp", "Add/ReadVariableOp", "ReadVariableOp", (None, "optimizer", "operator name")),
        ("mlp", "mlp_1/dropout1_1/stateless_dropout/GreaterEqual", "GreaterEqual", ("dropout1", "forward", "operator name")),
        ("lstm", "lstm_1/lstm1_1/while/body/_1/lstm_1/lstm1_1/while/lstm_cell_1/MatMul", "_MklMatMul",
         ("lstm1", "forward", "operator name")),
        ("lstm", WHILE + "/AddN_4", "AddN", ("lstm1", "backward", "operator name")),
        ("lstm", WHILE + "/lstm_1/lstm1_1/while/lstm_cell_1/split_grad/concat", "ConcatV2",
         ("lstm1", "backward", "operator name")),
        ("lstm", "somebody/elses/Softmax", "Softmax", (None, None, "none")),
    ],
)  # fmt: skip
def test_names_tell_layer_and_phase(network, scope, type_name, expected):
    names = GraphNames(networks.as_dict(networks.get(network)), training=True)
    found = names.resolve(scope, type_name)
    assert (found.layer, found.phase, found.attribution) == expected


RESNET, GOOGLENET, GPT2 = "resnet50_cifar10_1/stage1_block1_", "googlenet_cifar10_1/", "gpt2_1/block1_"


@pytest.mark.parametrize(
    ("network", "scope", "type_name", "expected"),
    [
        ("resnet50_cifar10", RESNET + "bn_shortcut_1/batchnorm/mul_1", "Mul",
         ("stage1_block1_bn_shortcut", "forward", "operator name")),
        ("resnet50_cifar10", "gradient_tape/" + RESNET + "conv2_1/convolution/Conv2DBackpropInput", "Conv2DBackpropInput",
         ("stage1_block1_conv2", "backward", "operator name")),
        # with normalisations between, nothing is fused: an activation's name is its own
        ("resnet50_cifar10", RESNET + "relu3_1/Relu", "_FusedConv2D", ("stage1_block1_relu3", "forward", "operator name")),
        ("vgg16_cifar10", "vgg16_cifar10_1/conv1_2_1/convolution", "_MklNativeConv2D", ("conv1_2", "forward", "operator name")),
        ("vgg16_cifar10", "vgg16_cifar10_1/relu1_2_1/Relu", "_MklNativeFusedConv2D", ("conv1_2", "forward", "graph order")),
        ("googlenet_cifar10", GOOGLENET + "inception3a_relu_project_1/Relu", "_MklNativeFusedConv2D",
         ("inception3a_project", "forward", "graph order")),
        # the padding of a pooling has a row of its own
        ("googlenet_cifar10", GOOGLENET + "pool3_pad_1/Pad", "Pad", ("pool3_pad", "forward", "operator name")),
        ("googlenet_cifar10", "gradient_tape/" + GOOGLENET + "pool3_pad_1/Slice_1", "Slice",
         ("pool3_pad", "backward", "operator name")),
        ("googlenet_cifar10", GOOGLENET + "elsewhere_pad_1/Pad", "Pad", (None, None, "none")),
        # the sum behind a product can be fused with it: block1_proj's, whose other input is the network's own
        ("gpt2", GPT2 + "add1_1/Add", "_MklNativeFusedMatMul", ("block1_proj", "forward", "graph order")),
        # a sum behind a product and another sum
        ("gpt2", GPT2 + "add2_1/Add", "_MklNativeFusedMatMul", ("block1_fc2", "forward", "graph order")),
        ("gpt2", GPT2 + "gelu_1/Tanh", "_MklNativeFusedMatMul", ("block1_fc1", "forward", "graph order")),
    ],
)  # fmt: skip
def test_names_of_deep_networks_tell_the_layers_of_their_branches(network, scope, type_name, expected):
    names = GraphNames(networks.as_dict(networks.get(network)), training=True)
    found = names.resolve(scope, type_name)
    assert (found.layer, found.phase, found.attribution) == expected


def test_a_sum_of_gradients_is_of_the_layer_that_makes_all_of_it_else_of_the_one_whose_output_it_is_of():
    backward = "gradient_tape/" + GOOGLENET
    branches = [backward + f"inception5a_{part}_1/convolution/Conv2DBackpropInput" for part in ("conv1", "reduce3")]
    takers = {
        "AddN": [backward + "inception4e_concat_1/Slice"],
        "AddN_1": ["AddN_2"],
        "AddN_2": [backward + "pool3_1/MaxPool/MaxPoolGrad"],
        "AddN_3": [backward + "inception3a_relu1_1/ReluGrad", backward + "inception3a_relu3_1/ReluGrad"],
        "AddN_4": ["AddN_4"],
    }
    sums = {name: [branches, names] for name, names in takers.items()}
    sums["AddN_5"] = [["AddN_6", branches[0]], takers["AddN"]]
    sums["AddN_6"] = [[branches[0] + "_1"], takers["AddN"]]
    names = GraphNames(networks.as_dict(networks.get("googlenet_cifar10")), training=True, sums=sums)
    found = {name: names.resolve(name, "AddN") for name in (*sums, "PartitionedCall/AddN_1")}
    assert {place.phase for place in found.values()} == {"backward"}
    assert {name: place.layer for name, place in found.items()} == {
        "AddN": "inception4e_concat",
        "AddN_1": "pool3",
        "AddN_2": "pool3",
        "AddN_3": None,
        "AddN_4": None,
        "AddN_5": "inception5a_conv1",
        "AddN_6": "inception5a_conv1",
        "PartitionedCall/AddN_1": "pool3",
    }


@pytest.mark.parametrize(
    "content",
    ['{"sums": []}', '{"sums": {"AddN": "conv"}}', '{"sums": {"AddN": [["a"], [1]]}}', '{"sums": {"AddN": ["a", "b"]}}', "{}"],
)
def test_a_file_of_sums_that_is_not_as_agreed_is_refused(tmp_path, content):
    shutil.copytree(DATA / "lenet-train", tmp_path / "run")
    (tmp_path / "run" / "operators.sums.json").write_text(content)
    with pytest.raises(EvidenceError, match=r"operators\.sums\.json: does not say what sums"):
        tensorflow.read(tmp_path / "run", context_of(DATA / "lenet-train", "train"))


@pytest.mark.parametrize(
    ("primitive", "problem", "layers"),
    [
        ("convolution", "mb64_ic32oc32_ih32oh30kh3sh1dh0ph0_iw32ow30kw3sw1dw0pw0", {"conv2"}),
        ("pooling", "mb64ic64_ih13oh6kh2sh2dh0ph0_iw13ow6kw2sw2dw0pw0", {"pool2"}),
        ("inner_product", "mb64ic2304oc512", {"fc1"}),
        ("gemm_api", "512x64:64x10", {"fc2"}),
        ("gemm_api", "64x512:512x2304", {"fc1"}),
        ("reorder", "64x32x3x3", {"conv3"}),
        ("reorder", "64x64x13x13", {"conv4", "relu4", "pool2"}),
    ],
)
def test_problems_fit_the_layers_of_their_shape(primitive, problem, layers):
    network = networks.as_dict(networks.get("cnn"))
    fitting = {layer["name"] for layer in network["layers"] if fits_shape(primitive, problem, layer)}
    assert fitting == layers


@pytest.mark.parametrize(
    ("network", "primitive", "problem", "layers"),
    [
        ("gpt2", "matmul", "256x768:768x2304", {"qkv"}),
        ("gpt2", "matmul", "256x3072:3072x768", {"fc1", "fc2"}),
        ("gpt2", "matmul", "2x12x128x64:2x12x64x128", {"attention"}),
        ("gru", "matmul", "64x100:100x300", {"gru1"}),
    ],
)
def test_products_fit_the_layers_of_blocks(network, primitive, problem, layers):
    described = networks.as_dict(networks.get(network))
    fitting = {layer["name"] for layer in described["layers"] if fits_shape(primitive, problem, layer)}
    assert {
        name.removeprefix("block1_") for name in fitting if not name.startswith("block") or name.startswith("block1_")
    } == layers


def test_the_capture_holds_no_name_of_a_machine_or_user():
    for path in DATA.rglob("*"):
        if path.is_file():
            assert b"/home/" not in path.read_bytes()
            assert b"/root/" not in path.read_bytes()
    assert "executable" not in json.loads((DATA / "lenet-train" / "child.json").read_text())
