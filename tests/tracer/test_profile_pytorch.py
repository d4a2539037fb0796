"""What foreign programs showed about PyTorch: closures of optimizers, derivatives of derivatives, parts called alone, loops
without an optimizer, phases that alternate, and traces that outgrow memory.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.staging import stage
from tests.tracer.toy import SHORT, unrecorded
from tests.tracer.toy import profiled as recorded

CHILDREN = Path(__file__).parent / "children"
SCRIPT = CHILDREN / "train_derivatives.py"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def profiled(pytorch_run: Callable[..., Run]) -> Run:
    return pytorch_run(SCRIPT, 8)


@pytest.mark.long
def test_the_closure_is_not_the_optimizers(profiled: Run) -> None:
    table = breakdown(profiled.trace(), "operator").table
    optimizers = set(table[table["phase"] == "optimizer"]["operator"])
    assert not optimizers & {"aten::pow", "aten::mean", "aten::sub", "aten::mm", "aten::addmm", "aten::tanh"}
    outside = table[table["operator"].isin(["aten::pow", "aten::mean"])]
    assert set(outside["phase"]) <= {"other", "backward"}
    assert len(outside)


def test_products_of_second_derivatives_are_their_layers(profiled: Run) -> None:
    """A step multiplies 2 + 1 times forward; each is the one or the other linear layer's, in every derivative too."""
    operators = profiled.trace().operators
    products = operators[operators["name"].isin(["aten::mm", "aten::addmm"])]
    assert set(products["layer"]) == {"first", "second"}
    forward = products[products["name"] == "aten::addmm"].groupby("layer", observed=True).size()
    steps = len(profiled.passes("kernels")[0].measured)
    assert dict(forward) == {"first": 2 * steps, "second": steps}


def test_a_part_that_is_called_alone_has_its_path_in_the_whole(profiled: Run) -> None:
    assert profiled.record["model"]["title"] == "Sequential"
    layers = set(breakdown(profiled.trace(), "layer").table["layer"])
    assert {"first", "bend", "second"} <= layers
    assert not any("Linear" in layer for layer in layers)


def test_each_step_of_the_layers_pass_has_its_ranges(profiled: Run) -> None:
    """However its end was taken, each step has one range of its own, within its times, and in that all others."""
    data = profiled.passes("layers")[0]
    ranges, steps = pd.read_json(data.folder / "ranges.jsonl", lines=True), data.steps
    own = ranges[ranges["category"] == "step"].merge(steps, on="step", suffixes=("", "_step"), validate="one_to_one")
    assert len(own) == len(steps) > 3
    assert list(own["name"]) == [f"step {number}" for number in steps["step"]]
    assert ((own["start_ns_step"] <= own["start_ns"]) & (own["end_ns"] <= own["end_ns_step"])).all()
    assert ((own["end_ns"] - own["start_ns"]) > 0.9 * (own["end_ns_step"] - own["start_ns_step"])).all()
    others = ranges[ranges["category"] != "step"].merge(own, on="step", suffixes=("", "_own"))
    assert len(others) == (ranges["category"] != "step").sum() > 0
    assert ((others["start_ns_own"] <= others["start_ns"]) & (others["end_ns"] <= others["end_ns_own"])).all()
    each = others[others["step"].isin(data.measured["step"])].groupby("step").size()
    left_out = data.report.get("left_out")  # where ranges cost too much, on a busy machine
    assert each.nunique() == (left_out is None or left_out["phases"]), "measured steps have the same ranges, or none"


# --- what ends steps -----------------------------------------------------------------------------------------------------------


def _operators_of_steps(run: Run, name: str) -> set[int]:
    """Return how many operators of this name the measured steps of the kernels pass have."""
    trace = run.trace()
    starts = trace.operators.loc[trace.operators["name"] == name, "start_ns"]
    steps = trace.steps[~trace.steps["warmup"]]
    return {int(starts.between(row.start_ns, row.end_ns).sum()) for row in steps.itertuples()}


def _assert_all_passes(run: Run, mode: str, end: str) -> None:
    assert run.complete
    assert run.record["options"]["mode"] == mode
    for name in ("clean", "layers", "kernels", "lines"):
        (data,) = run.passes(name)
        assert data.report["training"] == (mode == "train")
        assert len(data.measured) == (10 if name == "clean" else 5)
    assert f"each ends {end}\n" in (run.path / "said").read_text()


@pytest.mark.parametrize("arguments", [(), pytest.param(("evaluates first",), marks=pytest.mark.long)])
def test_parameters_that_are_updated_by_hand(pytorch_run: Callable[..., Run], arguments: tuple[str, ...]) -> None:
    """Each step is one of training, with its update, also where passes began while the script evaluated."""
    run = pytorch_run(CHILDREN / "train_by_hand.py", 10, *arguments)
    _assert_all_passes(run, "train", "where Model is called in training mode after a backward, as no optimizer is made")
    assert _operators_of_steps(run, "aten::embedding_dense_backward") == {1}
    assert _operators_of_steps(run, "aten::embedding") == {1}
    # Of the kernels pass: on a busy machine the layers pass of so short a step keeps no ranges, as it should
    assert {"encoder", "rnn", "decoder"} <= set(breakdown(run.trace(), "layer").table["layer"])


@pytest.mark.parametrize(
    ("how", "mode", "batch", "forward", "backward", "end"),
    [
        ("phases", "train", 8, 2, 2, "with an optimizer's step"),
        pytest.param("accumulation", "train", 32, 8, 8, "with an optimizer's step", marks=pytest.mark.long),
        ("evaluation", "infer", 8, 2, 0, "with a call of Sequential"),
        pytest.param("evaluation_first", "train", 8, 2, 2, "with an optimizer's step", marks=pytest.mark.long),
        ("without_modules", "train", None, 0, 0, "with a backward, as no optimizer is made"),
    ],
)
def test_all_passes_have_steps_of_one_kind(
    pytorch_run: Callable[..., Run], how: str, mode: str, batch: int | None, forward: int, backward: int, end: str
) -> None:
    run = pytorch_run(CHILDREN / "train_phases.py", 10, how)
    _assert_all_passes(run, mode, end)
    assert run.record["options"]["batch"] == batch
    assert run.passes("clean")[0].report["settings"].get("autograd_in_inference") == (False if mode == "infer" else None)
    left_out = run.record.get("left_out_steps", {}).get("reasons", {})
    assert ("a model was switched to evaluation" in left_out) == (how == "phases")
    assert _operators_of_steps(run, "aten::addmm") == {forward}
    assert _operators_of_steps(run, "AddmmBackward0") == {backward}


# --- bounds --------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_memory_does_not_grow_with_the_steps_of_the_kernels_pass(pytorch_run: Callable[..., Run]) -> None:
    """The trace is written in parts, however many annotations are open; without that the process grows by 185 MB here."""
    run = pytorch_run(CHILDREN / "train_images.py", 40, options=("--max-trace-size", "100MB", "--warmup", "3"))
    (data,) = run.passes("kernels")
    assert len(data.measured) == 20
    assert _operators_of_steps(run, "aten::convolution") == {6}
    assert _operators_of_steps(run, "ConvolutionBackward0") == {6}
    resident = data.samples().query("metric == 'resident_bytes'")["value"]
    grown = resident.max() - resident.min()
    assert grown < 120e6
    # where the system takes back what is not used for a while, less has to be written early
    assert len(data.report["operator_files"]) > 2 or grown < 60e6


def test_samples_of_a_step_are_concluded_only_where_the_calls_tell(tmp_path: Path) -> None:
    """A layer that takes the sequence first, a second model, or an output without its rows: then the count is unknown."""
    line = [str(environments.resolve("pytorch", None).python), str(CHILDREN / "samples.py"), str(stage(tmp_path))]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == {
        "one call": 32, "several calls": 128, "the last step": 7, "a step without calls": 32, "two models": None,
        "after two models": 32, "a dict": 16, "no rows": None, "one axis": None, "sequence first": None, "batch first": 12,
    }  # fmt: skip


_FORKS = """
import ctypes, os, sys, torch
torch.set_num_threads(1)
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(80):
    optimizer.zero_grad()
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
if not os.fork():
    ctypes.CDLL(None).printf(b"from C ")
    print("from Python", flush=True)
    sys.exit(7)
print("left with", os.WEXITSTATUS(os.wait()[1]))
"""


def test_a_process_that_is_forked_behind_the_passes_ends(tmp_path: Path) -> None:
    """Alone shows that what torch.profiler leaves in a process does not keep its forked ones from their end."""
    python = str(environments.resolve("pytorch", None).python)
    done = recorded(tmp_path / "run", python, "-c", _FORKS, options=SHORT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(["from", "Python", "from", "C", "left", "with", "7"])
    assert "steps: clean 5, layers 2, kernels 2, lines 2" in done.stderr


_MODE = """
import collections, torch
from torch.utils._python_dispatch import TorchDispatchMode

class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        calls[str(function).split(".")[1]] += 1
        return function(*arguments, **(keywords or {}))

calls = collections.Counter()
texts, table, layer = torch.arange(80).reshape(4, 20), torch.nn.Embedding(80, 4), torch.nn.Linear(4, 4)
model = torch.nn.Sequential(table, layer)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with Counting():
    for step in range(80):
        optimizer.zero_grad()
        model(texts).sum().backward()
        optimizer.step()
print(sorted(calls.items()))
"""


# What would fail, or count differently, if we asked its objects anything: in one program, as each one takes seconds to record
_OBJECTS = """
import collections, sys, torch, warnings, weakref
from unittest import mock
from torch.overrides import TorchFunctionMode

warnings.simplefilter("error", torch.jit.TracerWarning)
calls = collections.Counter()

class Watching(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        calls["mode"] += 1
        return function(*arguments, **(keywords or {}))

class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        calls["own"] += 1
        return super().__torch_function__(function, types, arguments, keywords or {})

    @property
    def shape(self):
        raise RuntimeError("asked for its shape")

    @property
    def grad_fn(self):
        raise SystemExit("asked for what made it")

class Lazy(dict):
    def values(self):
        raise RuntimeError("asked for its values")

class Unbound:
    @property
    def __class__(self):
        raise RuntimeError("asked for its class")

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def parameters(self, recurse=True):
        raise RuntimeError("asked for its parameters")

    def named_modules(self, *arguments, **keywords):
        raise RuntimeError("asked for its modules")

    def modules(self):
        raise RuntimeError("asked for its modules")

    def __eq__(self, other):  # so that it has no hash
        raise RuntimeError("asked whether it is another one")

    def __getattr__(self, name):
        return super().__getattr__(name) if name == "inner" else sys.exit("asked for " + name)

    def forward(self, given, others, *proxies):
        return {"first": self.inner(given), "others": others}

layer, model = torch.nn.Linear(4, 4), Model()
lazy = Lazy(a=1)
proxies = [weakref.proxy(lazy), mock.MagicMock(spec=dict), mock.MagicMock(spec=torch.Tensor), Unbound()]
optimizer = torch.optim.SGD([*layer.parameters(), *model.inner.parameters()], lr=0.1)
for step in range(90):
    optimizer.zero_grad()
    given = torch.ones(8, 4)
    nested = torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(5, 4)])
    loss = torch.cat(layer(nested).unbind()).sum() + model(given, Lazy(a=given), *proxies)["first"].sum()
    loss = loss + layer(given.as_subclass(Own)).as_subclass(torch.Tensor).sum()
    if step % 3 == 0:
        loss = loss + torch.jit.trace(layer, given, check_trace=False)(given).sum()
    with Watching():
        loss = loss + layer(layer(given)).sum()
        loss.backward()
        optimizer.step()
print(sorted(calls.items()), loss.item(), [len(proxy.mock_calls) for proxy in proxies[1:3]])
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [(_MODE, "('_record_function_enter_new', 160), ('_record_function_exit', 160)"), (_OBJECTS, "('mode', ")],
    ids=["dispatch mode", "objects and function mode"],
)
def test_modes_and_objects_of_the_program_see_its_own_calls_and_none_of_ours(tmp_path: Path, program: str, said: str) -> None:
    """Such as the end of the annotation around an optimizer's step, in which a pass ends, or how many rows an input has."""
    python = str(environments.resolve("pytorch", None).python)
    alone = unrecorded(python, "-c", program)
    assert said in alone.stdout
    done = recorded(tmp_path / "run", python, "-c", program, options=SHORT, timeout=60)
    assert "steps: clean 5, layers 2, kernels 2, lines 2" in done.stderr
    assert done.stdout == alone.stdout
