"""The PyTorch hooks, run in PyTorch's own environment."""

import functools

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run_inside(run_in):
    return functools.partial(run_in, "pytorch")


HOOKS = """
import collections, json, sys, tempfile, time
import torch
from torch import nn
from kernelscope.tracer.inside.frameworks.pytorch.workload import Hooks
from kernelscope.tracer.inside.ranges import Recorder

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(16 * 12 * 12, 10)

    def forward(self, images):
        x = self.relu1(self.conv1(images))
        return self.fc1(self.flatten(torch.sin(x + self.conv2(x))))

Program = collections.namedtuple("Program", "model loss optimizer")
folder = tempfile.mkdtemp()
recorder = Recorder(folder, layers=True)
hooks = Hooks({"pass": "layers", "folder": folder, "threads": 1, "device": "cpu"}, recorder)
hooks.configure()
model = Residual()
program = Program(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1))
methods = hooks.attach_layers(program)
gradients = []
for name, parameter in model.named_parameters():
    parameter.register_post_accumulate_grad_hook(lambda p, name=name: gradients.append((name, time.perf_counter_ns())))
batches = [(torch.rand(8, 3, 12, 12), torch.randint(0, 10, (8,))) for _ in range(3)]
for images, labels in recorder.steps(iter(batches), 3):
    program.optimizer.zero_grad()
    loss = program.loss(model(images), labels)
    loss.backward()
    program.optimizer.step()
    loss.item()
    left_open = len(recorder._stack()) - 1
recorder.flush()
ranges = [json.loads(line) for line in open(folder + "/ranges.jsonl")]
print(json.dumps({"ranges": ranges, "gradients": gradients, "methods": methods, "left_open": left_open,
                  "settings": hooks.settings(), "versions": hooks.versions()}))
"""


@pytest.fixture(scope="module")
def hooked(run_inside):
    return run_inside(HOOKS)


def test_gradients_of_parameters_are_computed_inside_their_layers_backward_range(hooked):
    backward = [r for r in hooked["ranges"] if r["category"] == "layer" and r["phase"] == "backward"]
    assert len(hooked["gradients"]) == 3 * 6
    for name, time_ns in hooked["gradients"]:
        around = [r["layer"] for r in backward if r["start_ns"] <= time_ns < r["end_ns"]]
        assert around == [name.rpartition(".")[0]]


def test_backward_visits_every_layer_once_and_leaves_functions_outside_of_modules_alone(hooked):
    one_step = [r for r in hooked["ranges"] if r["step"] == 1]
    backward = sorted((r for r in one_step if r["category"] == "layer" and r["phase"] == "backward"), key=lambda r: r["start_ns"])
    assert [r["layer"] for r in backward] == ["loss", "fc1", "flatten", "conv2", "relu1", "conv1"]
    gap = backward[3]["start_ns"] - backward[2]["end_ns"]  # the gradients of sin and of the addition
    assert gap > 0
    forward = [r["layer"] for r in sorted(one_step, key=lambda r: r["start_ns"]) if r["layer"] and r["phase"] == "forward"]
    assert forward == ["conv1", "relu1", "conv2", "flatten", "fc1", "loss"]


def test_ranges_nest_and_close(hooked):
    assert hooked["left_open"] == 0
    names = [r["name"] for r in hooked["ranges"] if r["step"] == 1 and r["category"] in ("phase", "sync")]
    assert sorted(names) == ["backward", "forward", "optimizer step", "optimizer zero_grad"]
    (whole,) = [r for r in hooked["ranges"] if r["step"] == 1 and r["name"] == "backward"]
    inside = [r for r in hooked["ranges"] if r["step"] == 1 and r["category"] == "layer" and r["phase"] == "backward"]
    assert all(whole["start_ns"] <= r["start_ns"] <= r["end_ns"] <= whole["end_ns"] for r in inside)


def test_settings_and_versions_are_told(hooked):
    assert hooked["settings"]["threads"] == 1
    assert hooked["settings"]["memory_format"] == "channels first"
    assert hooked["settings"]["execution"] == "eager"
    assert {"pytorch", "numpy", "onednn", "mkl"} <= set(hooked["versions"])
    assert set(hooked["methods"]) == {"layers", "phases"}


WRAPPED = """
import json
import numpy
import torch
from torch import nn
from kernelscope.tracer.inside.frameworks.pytorch.workload import layer_modules
from kernelscope.workloads import networks
from kernelscope.workloads.pytorch import program

class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, images):
        return self.module(images)

class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        self.model = Wrapper(Wrapper(self.model))

network = networks.get("lenet")
found = {}
for kind in (program.Program, Program):
    made = kind(network, {"mode": "train"})
    made.load(networks.initial_weights(network, 0))
    images = numpy.random.RandomState(1).rand(2, 1, 28, 28).astype("float32")
    found[kind.__module__] = {
        "layers": [name for name, _ in layer_modules(made.model)], "parameters": made.parameters(),
        "shapes": made.layer_shapes(images), "outputs": made.outputs(images).tolist(),
    }
print(json.dumps({"plain": found["kernelscope.workloads.pytorch.program"], "wrapped": found["__main__"]}))
"""


def test_what_only_wraps_a_model_changes_nothing(run_inside):
    found = run_inside(WRAPPED)
    assert found["wrapped"] == found["plain"]
    assert found["plain"]["layers"][:2] == ["conv1", "tanh1"]


NAMED = """
import json
from kernelscope.tracer.inside.frameworks.pytorch.workload import program_layers
from kernelscope.workloads import data, networks
from kernelscope.workloads.pytorch.program import Program

def made(name, **options):
    network = networks.get(name)
    program = Program(network, dict(options, mode="infer", batch=4, seed=0, threads=1, dropout=False))
    program.load(networks.initial_weights(network, 0))
    return program

nested = made("resnet50_cifar10")
found = {"described": [layer.name for layer in nested.network.layers],
         "layers": [[name, type(module).__name__] for name, module in program_layers(nested)]}
del nested.network  # as a user's own program has none
found["foreign"] = [name for name, _ in program_layers(nested)]
images = data.batches(networks.get("cnn"), 4, 0, 1)[0][0]
for precision in (None, "float32", "bfloat16", "float16"):
    for layout in (None, "channels_last", "tiled"):
        try:
            program = made("cnn", precision=precision, layout=layout)
            tensor = program.placed(images)
            answer = [program.outputs(images).tolist(), list(tensor.stride()), str(program.model(tensor).dtype)]
        except ValueError as error:
            answer = str(error)
        found["%s %s" % (precision, layout)] = answer
try:
    made("lstm", layout="channels_last")
except ValueError as error:
    found["rows"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def named(run_inside):
    return run_inside(NAMED)


def test_layers_of_nested_modules_have_the_names_of_the_description(named):
    layers = dict(named["layers"])
    assert set(layers) == set(named["described"]) - {"loss"}
    assert layers["stage3_block1_bn_shortcut"] == "BatchNorm2d"
    assert layers["stage4_block3_add"] == "Add"
    assert "stage4.block3.add" in named["foreign"], "other programs keep the paths of their modules"


def test_precision_and_layout_are_chosen_or_refused(named):
    plain, strides, dtype = named["None None"]
    assert (strides, dtype) == ([3072, 1024, 32, 1], "torch.float32")
    assert named["float32 None"][0] == plain
    last, strides, _ = named["None channels_last"]
    assert strides == [3072, 1, 96, 3]
    assert last == [pytest.approx(row, abs=1e-6) for row in plain]
    for layout in ("None", "channels_last"):
        half, _, dtype = named[f"bfloat16 {layout}"]
        assert dtype == "torch.float32", "the result is float32 again"
        assert half != plain
        assert half == [pytest.approx(row, abs=0.02 * max(map(abs, row))) for row in plain]  # 8 bits of each product
    assert named["float16 None"] == "pytorch: precision float16 is not supported"
    assert named["None tiled"] == "pytorch: layout tiled is not supported"
    assert named["rows"] == "pytorch: layout channels_last is not supported by lstm, which takes no images"
