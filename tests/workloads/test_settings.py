"""Settings that decide how operators are executed are recorded as they are in force, whatever the program does."""

import pytest

pytestmark = pytest.mark.slow

START = """
import json
from kernelscope.tracer.inside import frameworks

class Recorder(object):
    in_step, marker_fd = False, None

recorder = Recorder()
hooks = frameworks.hooks("{framework}")({{"pass": "clean", "mode": "train", "threads": 2, "device": "cpu"}}, recorder)
hooks.configure()
seen = {{"before": hooks.settings()}}
"""

TENSORFLOW = (
    START.format(framework="tensorflow")
    + """
import keras, numpy
import tensorflow as tf

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
images = tf.constant(numpy.ones((2, 4), "float32"))

def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(images))
    return tape.gradient(loss, model.trainable_variables)

model(images)  # outside of any step, as users do to build a model
recorder.in_step = True
COMPILE
seen["step"] = hooks.settings()
seen["removed"] = not hasattr(tf.GradientTape.__enter__, "__wrapped__") and "__call__" not in keras.Model.__dict__
print(json.dumps(seen))
"""
)


@pytest.mark.parametrize(
    ("code", "execution", "jit"),
    [
        pytest.param("tf.function(step)()", "graph (tf.function)", "off", marks=pytest.mark.long),
        ("tf.function(step, jit_compile=True)()", "graph (tf.function)", "jit_compile"),
        pytest.param("step()", "eager", "off", marks=pytest.mark.long),
        pytest.param("tf.config.run_functions_eagerly(True); tf.function(step)()", "eager", "off", marks=pytest.mark.long),
    ],
)
def test_tensorflow_eager_or_compiled(run_in, code, execution, jit):
    seen = run_in("tensorflow", TENSORFLOW.replace("COMPILE", code))
    assert (seen["step"]["execution"], seen["step"]["xla_jit"]) == (execution, jit)
    assert seen["removed"], "what watches a step must not stay in it"


MXNET = (
    START.format(framework="mxnet")
    + """
import mxnet as mx
from mxnet.gluon import loss, nn

net = nn.HybridSequential()
net.add(nn.Dense(3, in_units=4), nn.Dense(2, in_units=3))
COMPILE
seen["step"] = hooks.settings()
print(json.dumps(seen))
"""
)


@pytest.mark.parametrize(
    ("code", "execution", "bulk_size"),
    [
        ("", "imperative", 0),
        ("net.hybridize(static_alloc=True)", "hybridized static_alloc=True", 0),
        pytest.param("net.hybridize(); net.hybridize(False)", "imperative", 0, marks=pytest.mark.long),
        ("other = loss.SoftmaxCrossEntropyLoss(); net.hybridize(); other.hybridize(False)", "hybridized", 0),
        ("mx.engine.set_bulk_size(7)", "imperative", 7),
    ],
)
def test_mxnet_hybridized_or_not_and_bulk_execution(run_in, code, execution, bulk_size):
    seen = run_in("mxnet", MXNET.replace("COMPILE", code))
    assert (seen["before"]["execution"], seen["before"]["bulk_size"]) == ("imperative", 0)
    assert (seen["step"]["execution"], seen["step"]["bulk_size"]) == (execution, bulk_size)
    assert seen["step"]["bulk_execution_train"] is True


def test_mxnet_bulk_execution_switched_off_by_the_program(run_in):
    seen = run_in("mxnet", MXNET.replace("COMPILE", 'import os; os.environ["MXNET_EXEC_BULK_EXEC_TRAIN"] = "0"'))
    assert seen["step"]["bulk_execution_train"] is False


PYTORCH = (
    START.format(framework="pytorch")
    + """
import torch

model = torch.nn.Linear(4, 3)
COMPILE
seen["step"] = hooks.settings()
print(json.dumps(seen))
"""
)


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("", {}),
        ('model = torch.compile(model, backend="eager")', {"execution": "compiled: torch.compile backend=eager"}),
        pytest.param(
            '@torch.compile(backend="eager")\ndef step(): pass',
            {"execution": "compiled: torch.compile backend=eager"},
            marks=pytest.mark.long,
        ),
        pytest.param(
            'model.compile(backend="eager")', {"execution": "compiled: torch.compile backend=eager"}, marks=pytest.mark.long
        ),
        ("model = torch.jit.script(model)", {"execution": "compiled: torch.jit.script"}),
        (
            "torch.autograd.set_detect_anomaly(True); torch.backends.mkldnn.set_flags(_enabled=False); torch.set_num_threads(1); "
            "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
            "import atexit; p = torch.profiler.profile(); p.start(); atexit.register(p.stop)",
            {"anomaly_detection": True, "onednn": False, "threads": 1, "cores": 1, "profiler": True},
        ),
    ],
)
def test_pytorch_settings_that_a_program_changes(run_in, code, changed):
    seen = run_in("pytorch", PYTORCH.replace("COMPILE", code))
    assert seen["step"] == {**seen["before"], **changed}


CNTK = (
    START.format(framework="cntk")
    + """
import cntk
from cntk.debugging import set_node_timing

COMPILE
seen["step"] = hooks.settings()
print(json.dumps(seen))
"""
)


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("", {}),
        (
            "set_node_timing(True); cntk.debugging.set_computation_network_trace_level(1); "
            "cntk.debugging.set_checked_mode(True); cntk.cntk_py.force_deterministic_algorithms()",
            {"node_timing": True, "trace_level": 1, "checked_mode": True, "deterministic_algorithms": True},
        ),
    ],
)
def test_cntk_diagnostics_that_a_program_switches_on(run_in, code, changed):
    seen = run_in("cntk", CNTK.replace("COMPILE", code))
    assert seen["step"] == {**seen["before"], **changed}
