"""The TensorFlow hooks, run in TensorFlow's own environment."""

import functools

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run_inside(run_in):
    return functools.partial(run_in, "tensorflow")


HOOKS = """
import json, os, socket, sys, tempfile
from kernelscope.tracer.inside.frameworks.tensorflow import workload as hooks_module
from kernelscope.tracer.inside.ranges import Recorder

os.environ.update(hooks_module.Hooks.environment("layers"))
folder = tempfile.mkdtemp()
recorder = Recorder(folder, layers=True)
hooks = hooks_module.Hooks({"pass": "kernels", "folder": folder, "threads": 2, "device": "cpu"}, recorder)
hooks.configure()
import tensorflow as tf

weights = tf.Variable(tf.random.normal((32, 8)))

@tf.function
def somebodys_step(images):
    with tf.GradientTape() as tape:
        with tf.name_scope("fc1"):
            product = images @ weights
        with tf.name_scope("twice"):
            loss = tf.reduce_mean(tf.square(product)) + tf.reduce_mean(tf.abs(product))
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss

batches = [tf.random.normal((16, 32))] * 3
methods = hooks.attach_layers(None)
for _ in range(2):
    somebodys_step(batches[0])
hooks.start_operators(None)
losses = []
for images in recorder.steps(iter(batches), 3):
    losses.append(float(somebodys_step(images)))
    left_open = len(recorder._stack()) - 1
files = hooks.stop_operators()
recorder.flush()
with open(os.path.join(folder, files[0]), "rb") as file:
    trace = file.read()
with open(os.path.join(folder, "operators.sums.json")) as file:
    sums = json.load(file)["sums"]
ranges = [json.loads(line) for line in open(folder + "/ranges.jsonl")]
print(json.dumps({"ranges": ranges, "methods": methods, "files": files, "left": sorted(os.listdir(folder)),
                  "left_open": left_open, "sums": sums, "losses": losses, "size": len(trace),
                  "host_name": (b'"' + bytes([len(socket.gethostname())]) + socket.gethostname().encode()) in trace,
                  "matmul": b"fc1/matmul:" in trace.lower(), "replaced": b"_Mkl" in trace,
                  "settings": hooks.settings(), "versions": hooks.versions()}))
"""


@pytest.fixture(scope="module")
def hooked(run_inside):
    return run_inside(HOOKS)


def test_every_call_of_a_compiled_function_and_every_reading_has_its_range(hooked):
    by_step = {}
    for row in sorted(hooked["ranges"], key=lambda row: row["start_ns"]):
        by_step.setdefault(row["step"], []).append((row["category"], row["name"]))
    expected = [("step", None), ("data", "data"), ("phase", "call"), ("sync", "read")]
    assert len(by_step) == 3
    for step, rows in by_step.items():
        assert rows == [(category, name or f"step {step}") for category, name in expected]
    assert hooked["left_open"] == 0
    assert hooked["losses"][0] > hooked["losses"][2] > 0


def test_the_trace_names_operators_and_keeps_no_name_of_the_machine(hooked):
    assert hooked["files"] == ["operators.xplane.pb"]
    assert hooked["left"] == ["operators.sums.json", "operators.xplane.pb", "ranges.jsonl", "steps.jsonl"]
    assert hooked["matmul"]
    assert not hooked["host_name"]


def test_a_sum_of_gradients_is_kept_with_what_it_adds_up_and_who_takes_it(hooked):
    ((added, takers),) = hooked["sums"].values()
    assert len(added) == 2
    assert all(name.startswith("gradient_tape/twice/") for name in added)
    assert takers
    assert all(name.startswith("gradient_tape/fc1/") for name in takers)


def test_settings_and_versions_are_those_in_force(hooked):
    settings = hooked["settings"]
    assert (settings["threads"], settings["interop_threads"]) == (2, 2)
    assert settings["execution"] == "graph (tf.function)"
    assert settings["memory_format"] == "channels last"
    assert settings["onednn"] is hooked["replaced"]  # which TensorFlow decides by the processor
    assert settings["xla_jit"] == "off"
    assert {"tensorflow", "keras", "numpy"} <= set(hooked["versions"])
    assert "operator names" in hooked["methods"]["layers"]


@pytest.mark.parametrize("value", ["0", "1"])
def test_onednn_is_stated_as_the_operators_show_it(run_inside, value):
    found = run_inside(f'import os\nos.environ["TF_ENABLE_ONEDNN_OPTS"] = "{value}"\n{HOOKS}')
    assert found["settings"]["onednn"] is found["replaced"] is (value == "1")


CHOICES = """
import json
import numpy as np
from kernelscope.workloads import data, networks
from kernelscope.workloads.tensorflow.program import Program
network = networks.get("lenet")
(images, _), = data.batches(network, 4, 0, 1)
refused, outputs = [], []
for choice in ({"precision": "float16"}, {"layout": "channels_first"}, {"layout": "channels_last"}, {"precision": "bfloat16"}):
    try:
        program = Program(network, dict(mode="infer", batch=4, device="cpu", seed=0, threads=1, **choice))
    except ValueError as error:
        refused.append(str(error))
        continue
    program.load(networks.initial_weights(network, 0))
    outputs.append([[float(value) for value in row] for row in program.outputs(images)])
print(json.dumps({"refused": refused, "outputs": outputs, "held": str(program.model.get_layer("conv1").kernel.dtype)}))
"""


def test_bfloat16_computes_nearly_the_same_and_what_is_not_supported_says_so(run_inside):
    found = run_inside(CHOICES)
    assert found["refused"] == [
        "tensorflow: precision float16 is not supported",
        "tensorflow: layout channels_first is not supported",
    ]
    single, half = (np.array(values) for values in found["outputs"])
    assert 1e-4 < np.abs(half - single).max() / np.abs(single).max() < 3e-2  # bfloat16 has 8 bits
    assert found["held"] == "float32"
