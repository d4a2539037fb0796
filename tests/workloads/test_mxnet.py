"""The MXNet hooks, run in MXNet's own environment."""

import functools
import types

import pytest

from kernelscope.tracer.inside.frameworks.mxnet import workload as module

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run_inside(run_in):
    return functools.partial(run_in, "mxnet")


HOOKS = """
import gzip, json, os, tempfile, types
from kernelscope.tracer.inside.frameworks.mxnet import workload as module
from kernelscope.tracer.inside.ranges import Recorder

folder = tempfile.mkdtemp()
os.environ.update(module.Hooks.environment("kernels"))
os.environ["DNNL_VERBOSE"] = "0"
recorder = Recorder(folder, layers=True)
hooks = module.Hooks({"pass": "kernels", "mode": "train", "folder": folder, "threads": 1, "device": "cpu"}, recorder)
hooks.configure()
import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn

class Residual(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv1 = nn.Conv2D(16, 3, padding=1, in_channels=3, prefix="conv1_")
            self.pool1 = nn.MaxPool2D(2, prefix="pool1_")
            self.conv2 = nn.Conv2D(16, 3, padding=1, in_channels=16, prefix="conv2_")
            self.pool2 = nn.MaxPool2D(2, prefix="pool2_")
            self.fc1 = nn.Dense(10, in_units=144, prefix="fc1_")

    def hybrid_forward(self, F, images):
        x = self.pool1(self.conv1(images))
        return self.fc1(self.pool2(F.elemwise_add(x * 1.5, self.conv2(x), name="add")))

net = Residual(prefix="residual_")
net.initialize()
net.hybridize(static_alloc=True)
program = types.SimpleNamespace(network=types.SimpleNamespace(layers=[types.SimpleNamespace(name="add")]))
program.net, program.loss = net, gluon.loss.SoftmaxCrossEntropyLoss()
program.trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
methods = hooks.attach_layers(program)
hooks.start_operators(program)
batches = [(mx.nd.ones((8, 3, 12, 12)), mx.nd.zeros((8,))) for _ in range(3)]
for images, labels in recorder.steps(iter(batches), 3):
    with autograd.record():
        loss = program.loss(net(images), labels)
    loss.backward()
    program.trainer.step(8)
    loss.mean().asscalar()
    left_open = len(recorder._stack()) - 1
files = hooks.stop_operators()
recorder.flush()
print(json.dumps({
    "ranges": [json.loads(line) for line in open(folder + "/ranges.jsonl")], "left_open": left_open, "files": files,
    "graphs": json.load(open(folder + "/graph.json"))["graphs"], "methods": methods, "settings": hooks.settings(),
    "events": json.load(gzip.open(folder + "/operators.mxnet.json.gz"))["traceEvents"], "versions": hooks.versions(),
}))
"""


@pytest.fixture(scope="module")
def hooked(run_inside):
    return run_inside(HOOKS)


def test_the_graph_names_layers_forward_and_backward_in_the_order_of_execution(hooked):
    network, loss = hooked["graphs"]
    assert network["prefix"] == "residual_"
    forward = [node["layer"] for node in network["nodes"] if node["phase"] == "forward"]
    # an operator that is named as a layer is one, though it is no block; the product is the outer block's own
    assert forward == ["conv1", "pool1", None, "conv2", "add", "pool2", "fc1"]
    backward = [node["layer"] for node in network["nodes"] if node["op"] in ("_backward_Convolution", "_backward_Pooling")]
    assert backward == ["pool2", "conv2", "pool1", "conv1"]
    assert {node["layer"] for node in loss["nodes"]} == {"loss"}


def test_every_operator_of_the_graph_has_a_row_of_its_own_in_each_step(hooked):
    began = [event["name"] for event in hooked["events"] if event["ph"] == "B"]
    assert "ImperativeBulk" not in began
    nodes = [node["op"] for graph in hooked["graphs"] for node in graph["nodes"]]
    for operator in ("Convolution", "Pooling", "FullyConnected", "_backward_Convolution", "_backward_Pooling", "log_softmax"):
        assert began.count(operator) == 3 * nodes.count(operator)


def test_helpers_of_a_gradient_belong_to_the_layer_that_uses_them(hooked):
    helpers = [node for node in hooked["graphs"][0]["nodes"] if node["op"] == "_zeros_without_dtype"]
    assert [node["layer"] for node in helpers] == ["pool2", "pool1"]
    assert {node["phase"] for node in helpers} == {"backward"}


def test_a_sum_of_gradients_belongs_to_the_layer_that_takes_it_back(hooked):
    (total,) = [node for node in hooked["graphs"][0]["nodes"] if node["op"] in ("add_n", "_grad_add")]
    assert (total["layer"], total["phase"]) == ("pool1", "backward")


def test_sums_of_gradients_that_share_a_name_go_each_to_its_next_user():
    nodes = [
        {"op": "add_n", "name": "sum_grad", "inputs": ["net_ln_backward", "net_fc3_backward"]},
        {"op": "_backward_FullyConnected", "name": "net_fc2_backward", "inputs": ["sum_grad", "net_relu1_fwd"]},
        {"op": "add_n", "name": "sum_grad", "inputs": ["sum_grad", "net_fc2_backward"]},
        {"op": "batch_dot", "name": "net_block_fc1_dot0_backward_lhs", "inputs": ["sum_grad"]},
    ]
    root = types.SimpleNamespace(prefix="net_")
    named = module.name_layers(nodes, "net_", module.named_prefixes(root, ["fc2", "block", "block_fc1"]))
    assert [(node["layer"], node["phase"]) for node in named] == [
        ("fc2", "backward"), ("fc2", "backward"), ("block_fc1", "backward"), ("block_fc1", "backward")
    ]  # fmt: skip


def test_ranges_say_what_the_host_does_and_the_last_step_ends_with_nothing_queued(hooked):
    assert hooked["left_open"] == 0

    def of(step):
        rows = [row for row in hooked["ranges"] if row["step"] == step and row["category"] != "step"]
        return [(row["category"], row["name"]) for row in sorted(rows, key=lambda row: row["start_ns"])]

    one = [
        ("data", "data"), ("phase", "forward"), ("layer", "loss"), ("phase", "backward"), ("phase", "optimizer step"),
        ("sync", "asnumpy"),
    ]  # fmt: skip
    assert of(1) == one
    assert of(2) == [*one, ("sync", "waitall")]


def test_settings_versions_and_files_are_told(hooked):
    assert hooked["settings"]["threads"] == 1
    assert hooked["settings"]["onednn"] is True
    assert hooked["settings"]["bulk_execution_train"] is False
    assert hooked["settings"]["execution"] == "hybridized static_alloc=True"
    assert {"mxnet", "numpy", "onednn"} <= set(hooked["versions"])
    assert hooked["files"] == ["operators.mxnet.json.gz", "graph.json"]
    assert set(hooked["methods"]) == {"layers", "phases"}
