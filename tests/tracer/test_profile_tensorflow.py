"""Profiled scripts of TensorFlow: what names in graphs stand for, and real scripts that do not notice."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.attribution.frameworks.tensorflow_names import RecordedNames
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside.frameworks.tensorflow.eager import Made, Opened
from kernelscope.tracer.inside.frameworks.tensorflow.graphs import Calls, rendered
from kernelscope.tracer.inside.frameworks.tensorflow.library import REMARKS
from kernelscope.tracer.inside.frameworks.unprinted import Unprinted
from kernelscope.tracer.outside import environments
from tests import forked

SCRIPT = Path(__file__).parent / "children" / "train_tensorflow.py"
_STEP = "__inference_step_12"


def _names(training: bool = True, **parts: Any) -> RecordedNames:
    table = {"function": "step", "scopes": {}, "operators": {}, "fused": {}, **parts}
    return RecordedNames.of({"functions": {_STEP: table}}, "scopes.json", training)


def _found(names: RecordedNames, scope: str, kind: str, function: str | None = _STEP) -> tuple[str | None, str | None]:
    resolved = names.resolve(scope, kind, function)
    return resolved.layer, resolved.phase


# --- names in graphs -----------------------------------------------------------------------------------------------------------


def test_a_scope_belongs_to_who_opened_it_whatever_its_number() -> None:
    names = _names(scopes={"net_1/conv2d_1": ["conv2d", "forward"], "net_1/conv2d_1_2": ["conv2d_1", "forward"]})
    assert _found(names, "net_1/conv2d_1/convolution", "Conv2D") == ("conv2d", "forward")
    assert _found(names, "StatefulPartitionedCall/net_1/conv2d_1_2/convolution", "Conv2D") == ("conv2d_1", "forward")
    gradient = "StatefulPartitionedCall/gradient_tape/net_1/conv2d_1/convolution/Conv2DBackpropFilter"
    assert _found(names, gradient, "_MklNativeConv2DBackpropFilter") == ("conv2d", "backward")


def test_the_deepest_scope_that_is_known_counts() -> None:
    names = _names(scopes={"net": ["net", "forward"], "net/block": ["block", "forward"], "adam": [None, "optimizer"]})
    assert _found(names, "net/block/unknown/MatMul", "MatMul") == ("block", "forward")
    assert _found(names, "net/Relu", "Relu") == ("net", "forward")
    assert _found(names, "cond/then/_3/adam/Sqrt_1", "Sqrt") == (None, "optimizer")


def test_operators_without_a_scope_are_known_one_by_one() -> None:
    names = _names(operators={"AddN_1": ["conv", "backward"], "Sum": ["metrics", "other"]})
    assert _found(names, "StatefulPartitionedCall/AddN_1", "AddN") == ("conv", "backward")
    assert _found(names, "StatefulPartitionedCall/Sum", "Sum") == ("metrics", "other")


def test_what_nothing_tells_is_the_functions() -> None:
    names = _names()
    assert _found(names, "Relu_3", "Relu") == ("step", "forward")
    assert _found(names, "gradient_tape/Relu_3", "ReluGrad") == ("step", "backward")
    assert _found(names, "Relu_3", "Relu", "__inference_other_loop_977") == ("other_loop", "forward")
    assert _found(names, "Relu_3", "Relu", None) == (None, None)
    assert _found(names, "AssignSubVariableOp_2", "AssignSubVariableOp") == (None, "optimizer")
    assert _found(_names(training=False), "AssignSubVariableOp_2", "AssignSubVariableOp") == ("step", "forward")
    assert _found(names, "IteratorGetNext", "IteratorGetNext") == (None, "data")


def test_of_two_graphs_of_a_function_only_what_they_agree_on_counts() -> None:
    table = {"function": "step", "operators": {}, "fused": {}}
    first = {**table, "scopes": {"a": ["one", "forward"], "b": ["two", "forward"]}}
    second = {**table, "scopes": {"a": ["one", "forward"], "b": ["three", "forward"]}}
    names = RecordedNames({"__inference_step_1": first, "__inference_step_2": second}, True)
    assert _found(names, "b/MatMul", "MatMul", "__inference_step_2") == ("three", "forward")
    assert _found(names, "a/MatMul", "MatMul", "__forward_step_3") == ("one", "forward")
    assert _found(names, "b/MatMul", "MatMul", "__forward_step_3") == ("step", "forward")


def test_functions_that_were_made_before_are_part_of_those_that_call_them() -> None:
    inner = {"function": "forward", "scopes": {"net_1/dense": ["dense", "forward"]}, "operators": {}, "fused": {}, "calls": []}
    outer = {"function": "step", "scopes": {"adam": [None, "optimizer"]}, "operators": {}, "fused": {}, "calls": ["forward"]}
    names = RecordedNames({"__inference_forward_5": inner, _STEP: outer}, True)
    assert _found(names, "StatefulPartitionedCall/net_1/dense/MatMul", "MatMul") == ("dense", "forward")
    assert _found(names, "PartitionedCall/gradients/net_1/dense/MatMul_grad/MatMul", "MatMul") == ("dense", "backward")
    other = RecordedNames({"__inference_forward_5": inner, _STEP: {**outer, "calls": []}}, True)
    assert _found(other, "StatefulPartitionedCall/net_1/dense/MatMul", "MatMul") == ("step", "forward")


def test_a_fused_operator_belongs_to_the_product_in_it() -> None:
    scopes = {name: [name, "forward"] for name in ("conv1", "conv2", "relu")}
    fused = {"relu/Relu": ["conv1/convolution"], "Add": ["conv1/convolution", "conv2/convolution"]}
    names = _names(scopes=scopes, fused=fused)
    assert _found(names, "relu/Relu", "Relu") == ("relu", "forward")
    assert _found(names, "relu/Relu", "_MklNativeFusedConv2D") == ("conv1", "forward")
    assert _found(names, "Add", "_FusedConv2D") == ("step", "forward")  # of which of the two?
    names.saw("relu/Relu", "_FusedConv2D", _STEP)  # the first one ran elsewhere
    assert _found(names, "Add", "_FusedConv2D") == ("conv2", "forward")
    assert _found(names, "unheard/of", "_FusedMatMul") == ("step", "forward")


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"functions": []},
        {"functions": {"f": {"function": "f", "scopes": {"a": "b"}, "operators": {}, "fused": {}}}},
        {"functions": {"f": {"function": 1, "scopes": {}, "operators": {}, "fused": {}}}},
        {"functions": {"f": {"function": "f", "scopes": {}, "operators": {}, "fused": {"a": [1]}}}},
    ],
)
def test_a_damaged_table_of_scopes_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError, match=r"scopes\.json: has no table of scopes; record the script again"):
        RecordedNames.of(content, "scopes.json", True)


# --- the calls of layers -------------------------------------------------------------------------------------------------------


class _Layer:
    def __init__(self, name: str):
        self.name = name


def test_layers_have_their_paths_and_repeated_calls_their_numbers() -> None:
    calls, model, inner, activation = Calls(), _Layer("model"), _Layer("inner"), _Layer("relu")
    names = []
    for layer, ends in ((model, 0), (inner, 0), (activation, 1), (activation, 2), (activation, 2)):
        names.append(calls.enter(layer, True))
        for _ in range(ends):
            calls.leave()
    shown = [rendered(name, several=False) for name in names]
    assert shown == ["model", "inner", "inner.relu", "inner.relu (2)", "relu"]
    assert rendered(names[1], several=True) == "model.inner"


def test_two_layers_of_one_name_are_told_apart() -> None:
    calls, model, layers = Calls(), _Layer("model"), [_Layer("same"), _Layer("same")]
    calls.enter(model, True)
    shown = []
    for layer in (*layers, *layers):
        shown.append(rendered(calls.enter(layer, True), several=False))
        calls.leave()
    assert shown == ["same", "same #2", "same (2)", "same #2 (2)"]


class _Tensor:
    def __init__(self, number: int):
        self._id = number


def test_an_eager_operator_belongs_to_the_call_that_made_its_output() -> None:
    made = Made()
    made.add(Opened(1, "block.conv", begun=11), 20, [_Tensor(19)])
    made.add(Opened(0, "block", begun=10), 30, [_Tensor(29)])
    assert made.layer([_Tensor(15)], []) == "block.conv"
    assert made.layer([_Tensor(25)], []) == "block"
    assert made.layer([None, _Tensor(35)], []) is None
    assert made.layer([], [_Tensor(3), _Tensor(14)]) == "block.conv"  # it never left that call
    assert made.layer([], [_Tensor(19)]) is None  # anybody may have taken what the call returned
    assert made.only() is None


def test_the_profilers_own_messages_are_kept_from_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with Unprinted(REMARKS):
        os.write(2, b"mine\nI0000 00:00:1.2    34 profiler_session.cc:117] Profiler session initializing.\nno newline")
    assert capfd.readouterr().err == "mine\nno newline"


# --- real scripts --------------------------------------------------------------------------------------------------------------


def _profiled(folder: Path, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    options = ("--steps", "10", "--warmup", "5")
    return forked.run("profile", "-o", str(folder), "--quiet", *options, "--", *command, timeout=300, **more)


def _plain(*command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)


def _told(text: str) -> list[str]:
    """Return the lines of a stderr that are not ours, without times and numbers of threads."""
    ours = ("kernelscope: ", "run folder: ")
    return [re.sub(r"^([IWE]0000) [\d:.]+ +\d+ ", r"\1 ", line) for line in text.splitlines() if not line.startswith(ours)]


@functools.cache
def _python() -> str:
    return str(environments.resolve("tensorflow", None).python)


def _layers(run: Run) -> set[str]:
    found = breakdown(run.trace(), "layer")
    assert int(found.table["time_ns"].sum()) == found.step_ns
    assert found.coverage >= 0.85
    return set(found.table["layer"])


def _convolutions(run: Run) -> dict[str, set[str]]:
    """Return the layers whose convolutions ran, by kind of kernel."""
    table = breakdown(run.trace(), "layer-kernel").table
    kinds = table[table["kind"].astype(str).str.startswith("convolution")]
    return {str(kind): set(rows["layer"]) for kind, rows in kinds.groupby("kind", observed=True)}


@pytest.mark.long
@pytest.mark.slow
def test_a_loop_in_a_function(tmp_path: Path) -> None:
    """The script's outputs are as without us; convolutions that were fused with what follows them are their own layers'."""
    plain = _plain(_python(), str(SCRIPT), "function")
    seen = _profiled(tmp_path / "run", _python(), str(SCRIPT), "function")
    assert (plain.returncode, seen.returncode) == (3, 3), seen.stderr
    assert seen.stdout == plain.stdout
    told = _told(plain.stderr)
    assert _told(seen.stderr)[: len(told)] == told, "what we say comes after it"
    run = Run(tmp_path / "run")
    assert run.record["options"]["mode"] == "train"
    assert run.record["options"]["batch"] == 16
    assert {"stem", "block1.activation", "block1.activation (2)", "pool", "head", "loss", "(optimizer)", "(data)"} <= _layers(run)
    all_of_them = {"stem", *(f"block{b}.{c}" for b in (1, 2) for c in ("first", "second"))}
    assert _convolutions(run) == {
        "convolution forward": all_of_them,
        "convolution weight gradient": all_of_them,
        "convolution data gradient": all_of_them - {"stem"},
    }
    assert "ONEDNN_VERBOSE" in run.kernels_pass().report["methods"]["kernels"]


@pytest.mark.slow
def test_fit(tmp_path: Path) -> None:
    """The graph's scopes are numbered like layers; the first convolution is the one that has no data gradient."""
    done = _profiled(tmp_path / "run", _python(), str(SCRIPT), "fit")
    assert done.returncode == 3, done.stderr
    run = Run(tmp_path / "run")
    assert {"conv2d", "conv2d_1", "batch_normalization", "inner.conv2d_2", "head", "metrics", "(optimizer)"} <= _layers(run)
    found = _convolutions(run)
    assert found["convolution data gradient"] == {"conv2d_1", "inner.conv2d_2"}
    assert found["convolution weight gradient"] == {"conv2d", "conv2d_1", "inner.conv2d_2"}


@pytest.mark.long
@pytest.mark.slow
def test_an_eager_loop(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", _python(), str(SCRIPT), "eager")
    assert done.returncode == 3, done.stderr
    run = Run(tmp_path / "run")
    assert {"stem", "block1.activation (2)", "head", "loss", "(optimizer)"} <= _layers(run)
    found = _convolutions(run)
    assert found["convolution weight gradient"] == {"stem", *(f"block{b}.{c}" for b in (1, 2) for c in ("first", "second"))}


@pytest.mark.long
@pytest.mark.slow
def test_functions_that_run_as_python_step_as_eager_loops_do(tmp_path: Path) -> None:
    """Alone shows steps of a tf.function that tf.config.run_functions_eagerly keeps from becoming a graph."""
    done = _profiled(tmp_path / "run", _python(), str(SCRIPT), "as Python")
    assert done.returncode == 3, done.stderr
    run = Run(tmp_path / "run")
    assert run.complete
    assert run.record["options"]["mode"] == "train"
    assert {"stem", "block1.activation (2)", "head", "loss", "(optimizer)"} <= _layers(run)


@pytest.mark.slow
def test_predict(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", _python(), str(SCRIPT), "predict")
    assert done.returncode == 3, done.stderr
    run = Run(tmp_path / "run")
    assert run.record["options"]["mode"] == "infer"
    assert {"convolution", "dense"} <= _layers(run)
    assert _convolutions(run) == {"convolution forward": {"convolution"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "mode", "end"),
    [
        ("optimizer", "train", "with a call of Session.run that trains"),
        pytest.param("hand", "train", "with a call of Session.run that trains", marks=pytest.mark.long),
        pytest.param("compute", "infer", "with a call of Session.run", marks=pytest.mark.long),
    ],
)
def test_sessions(tmp_path: Path, how: str, mode: str, end: str) -> None:
    """Each call that trains ends a step; without one each that returns a value, and not the initializer's."""
    script = SCRIPT.with_name("train_session.py")
    plain = _plain(_python(), str(script), how)
    seen = _profiled(tmp_path / "run", _python(), str(script), how)
    assert (plain.returncode, seen.returncode) == (0, 0), seen.stderr
    assert seen.stdout == plain.stdout
    assert f"each ends {end}\n" in seen.stderr
    run = Run(tmp_path / "run")
    assert run.record["options"]["mode"] == mode
    assert run.complete
