"""One layer alone in PyTorch's own environment: its outputs and gradients are those of the ordinary step."""

import functools

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run_inside(run_in):
    return functools.partial(run_in, "pytorch")


LAYERS = """
import json, tempfile
import torch
from kernelscope.tracer.inside.frameworks import workload as package
from kernelscope.tracer.inside.frameworks.pytorch.workload import Hooks
from kernelscope.tracer.inside.frameworks.pytorch.replay import _captured
from kernelscope.tracer.inside.ranges import Recorder
from kernelscope.workloads import data, networks
from kernelscope.workloads.pytorch.program import Program

def made(name, mode):
    spec = {"pass": "energy", "folder": tempfile.mkdtemp(), "threads": 1, "device": "cpu", "mode": mode, "seed": 1}
    hooks, network = Hooks(spec, Recorder(spec["folder"])), networks.get(name)
    hooks.configure()
    program = Program(network, spec)
    program.load(networks.initial_weights(network, 1))
    batch = next(program.stream(data.batches(network, 4, 1, 1, None)))
    return hooks, program, lambda: getattr(program, mode)([batch])

def alike(a, b):
    return a is b is None or (a.shape == b.shape and a.stride() == b.stride() and bool(torch.equal(a, b)))

answer = {"alike": {}}
for name, layers in (("lenet", ("conv1", "pool1", "conv2", "fc1")), ("lstm", ("lstm1", "fc1"))):
    for layer in layers:
        hooks, program, step = made(name, "train")
        module, seen = getattr(program.model, layer), {}
        handle = module.register_forward_hook(lambda m, i, o: seen.update(input=i[0], output=o))
        given = []
        def watch(m, i, o, layer=layer):
            if i[0].requires_grad:
                i[0].register_hook(lambda g: given.append(g.clone()))
        second = module.register_forward_hook(watch)
        optimizer = program.optimizer
        program.optimizer = type("Still", (), {"zero_grad": optimizer.zero_grad, "step": lambda self: None})()
        (call,) = _captured(torch, module, step)
        handle.remove(); second.remove()
        before = {k: p.grad.clone() for k, p in module.named_parameters() if p.grad is not None}
        output, gradients = call.run()
        first = output[0] if isinstance(output, tuple) else output
        kept = seen["output"][0] if isinstance(seen["output"], tuple) else seen["output"]
        expected = given + [p.grad for p in module.parameters() if p.requires_grad]
        answer["alike"][name + " " + layer] = [
            alike(first, kept), len(expected) == len(gradients) and all(map(alike, gradients, expected)),
            all(torch.equal(before[k], p.grad) for k, p in module.named_parameters() if k in before), len(gradients)]

hooks, program, step = made("lenet", "infer")
(call,) = _captured(torch, program.model.conv2, step)
output, gradients = call.run()
images = next(program.stream(data.batches(program.network, 4, 1, 1, None)))[0]
with torch.inference_mode():
    m = program.model
    answer["inference"] = [alike(output, m.conv2(m.pool1(m.tanh1(m.conv1(images))))), len(gradients), output.requires_grad]

def reason(change, layer="conv1", mode="train"):
    hooks, program, step = made("lenet", mode)
    step = change(program, step) or step
    try:
        hooks.replayer(program, layer, step)()
    except package.CannotReplay as error:
        return str(error)

def twice(program, step):
    forward = program.model.forward
    program.model.forward = lambda images: forward(images) + forward(images)

def mixed(program, step):
    def run():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            step()
    return run

def unused(program, step):
    program.model.forward = lambda images: program.model.fc3(images.flatten(1)[:, :84])

def in_place(program, step):
    program.model.tanh1 = torch.nn.ReLU(inplace=True)

def compiled(program, step):
    program.model.tanh1 = torch.jit.script(program.model.tanh1)

answer["reasons"] = {
    "plain": reason(lambda p, s: None), "twice": reason(twice), "name": reason(lambda p, s: None, "conv9"),
    "mixed": reason(mixed), "unused": reason(unused), "in place": reason(in_place, "tanh1"), "compiled": reason(compiled),
}
hooks, program, step = made("lenet", "train")
twice(program, step)
answer["calls"] = len(_captured(torch, program.model.conv1, step))
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def answer(run_inside):
    return run_inside(LAYERS)


def test_outputs_and_gradients_are_those_of_the_step(answer):
    # output, gradients, the parameters' own gradients untouched, and how many: inputs that had one, weight, bias
    assert answer["alike"] == {
        "lenet conv1": [True, True, True, 2], "lenet pool1": [True, True, True, 1], "lenet conv2": [True, True, True, 3],
        "lenet fc1": [True, True, True, 3], "lstm lstm1": [True, True, True, 3], "lstm fc1": [True, True, True, 3],
    }  # fmt: skip


def test_inference_has_no_backward(answer):
    assert answer["inference"] == [True, 0, False]


def test_all_calls_of_a_step_are_replayed(answer):
    assert answer["calls"] == 2
    assert answer["reasons"]["twice"] is None


def test_what_cannot_run_alone_has_a_reason(answer):
    reasons = answer["reasons"]
    assert reasons["plain"] is None
    assert reasons["name"] == "the model has no module of this name"
    assert reasons["unused"] == "it is not called in a step"
    assert reasons["mixed"] == "it runs with automatic mixed precision"
    assert "in-place" in reasons["in place"]
    assert reasons["compiled"].startswith("the model is compiled: torch.jit.script")
