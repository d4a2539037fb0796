"""Scripts of CNTK, on Python 3.6, that know nothing of us: outputs are as without us, layers have the paths of their blocks."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside.frameworks.cntk.graph import Paths
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from tests import forked

SCRIPT = Path(__file__).parent / "children" / "train_cntk.py"
LAYERS = {"Convolution 1", "BatchNormalization 1", "Convolution 2", "MaxPooling 1", "hidden", "Dense 1"}


# --- names of layers -------------------------------------------------------------------------------------------------------


def _function(uid: str, op: str, inputs: Any = (), name: str = "", inside: Any = None, parameters: int = 0) -> Any:
    """Return what has the attributes of a CNTK function that are looked at."""
    made = SimpleNamespace(uid=uid, op_name=op, name=name, is_block=inside is not None, block_root=inside, outputs=[])
    weights = [
        SimpleNamespace(uid=f"{uid}W{n}", name="W", shape=(3, 4), is_output=False, is_parameter=True, is_constant=False)
        for n in range(parameters)
    ]
    outputs = [SimpleNamespace(owner=source, uid=source.uid, is_output=True, is_parameter=False) for source in inputs]
    made.inputs, made.parameters, made.root_function = weights + outputs, weights, made
    return made


def _dense(number: int, source: Any = (), name: str = "") -> Any:
    times = _function(f"Times{number}", "Times", parameters=1)
    return _function(f"Block{number}", "Dense", source, name, inside=times, parameters=1)


def test_layers_without_names_are_numbered_in_the_order_of_computation() -> None:
    first = _dense(9)
    second = _dense(4, [first])
    paths = Paths()
    paths.add(_function("Block99", "CrossEntropy", [second], inside=_function("Minus1", "Minus")), "loss")
    assert {uid: node["layer"] for uid, node in paths.graph["nodes"].items()} == {
        "Times9": "Dense 1", "Times4": "Dense 2", "Minus1": "loss",
    }  # fmt: skip
    assert paths.types == {"Dense 1": ("Dense", 12), "Dense 2": ("Dense", 12), "loss": ("CrossEntropy", 0)}


def test_blocks_in_blocks_have_their_path_and_what_only_computes_is_its_layers() -> None:
    inner = _dense(1, name="inner")
    activation = _function("Block2", "SoftPlus", [inner], inside=_function("Exp2", "Exp"))
    paths = Paths()
    paths.add(_function("Block3", "Residual", name="outer", inside=activation, parameters=1))
    assert {uid: node["layer"] for uid, node in paths.graph["nodes"].items()} == {"Times1": "outer.inner", "Exp2": "outer"}


def test_parameters_with_a_path_name_the_layer_that_uses_them() -> None:
    kernel, bias = _function("Transpose1", "TransposeAxes", parameters=1), _function("Reshape1", "Reshape", parameters=1)
    kernel.inputs[0].name, bias.inputs[0].name = "conv_1/kernel", "conv_1/bias"
    convolution = _function("Convolution1", "Convolution", [kernel])
    image = {"is_output": False, "is_parameter": False, "is_constant": False, "is_input": True}
    convolution.inputs.append(SimpleNamespace(uid="Input1", name="images", shape=(3, 8, 8), **image))
    plus = _function("Plus1", "Plus", [convolution, bias])
    paths = Paths()
    paths.add(_function("ReLU1", "ReLU", [plus]))
    assert {uid: node["layer"] for uid, node in paths.graph["nodes"].items()} == {
        "Transpose1": "conv_1", "Convolution1": "conv_1", "Reshape1": "conv_1", "Plus1": "conv_1", "ReLU1": "ReLU 1",
    }  # fmt: skip
    assert paths.types["conv_1"] == ("Convolution", 24)


# --- scripts -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> tuple[str, dict[str, str]]:
    """The environment's Python, which is 3.6, and the variables that it needs."""
    try:
        found = environments.resolve("cntk", None)
    except ChildError as error:
        pytest.skip(str(error))
    return str(found.python), {**os.environ, **found.variables, "OMP_NUM_THREADS": "1"}


def _both(script: tuple[str, dict[str, str]], folder: Path, *arguments: str) -> tuple[Any, Any]:
    python, variables = script
    command = [python, str(SCRIPT), *arguments]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=variables)
    line = ("profile", "-o", str(folder), "--steps", "8:28", "--quiet", "--", *command)
    return plain, forked.run(*line, timeout=120, env=variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "mode"), [("trainer", "train"), pytest.param("session", "train", marks=pytest.mark.long), ("eval", "infer")]
)
def test_a_script(script: tuple[str, dict[str, str]], tmp_path: Path, how: str, mode: str) -> None:
    plain, seen = _both(script, tmp_path / "run", how, "40")
    assert (plain.returncode, seen.returncode) == (3, 3), seen.stderr
    assert seen.stdout == plain.stdout
    assert seen.stderr.startswith(plain.stderr)
    run = Run(tmp_path / "run")
    assert (run.framework, run.record["options"]["mode"]) == ("cntk", mode)
    trace = run.trace()
    found = breakdown(trace, "layer")
    assert int(found.table["time_ns"].sum()) == found.step_ns
    assert found.coverage >= 0.85
    assert set(found.table["layer"]) >= LAYERS
    assert trace.diagnostics["cntk_nodes_without_layer"] == 0
    assert trace.diagnostics["mkl_calls_outside_nodes"] == 0
    # convolutions' shapes, from calls of MKL on our clock, agree with the layers of the nodes that ran then
    steps = len(run.passes("kernels")[0].measured)
    assert steps >= 3
    kernels = trace.kernels.dropna(subset=["step"]).astype({"kind": str, "layer": str, "problem": str})
    forward = kernels[kernels["kind"] == "convolution forward"]
    assert Counter(zip(forward["layer"], forward["problem"], strict=True)) == {
        ("Convolution 1", "mb8_ic3oc6_ih16oh16kh3sh1ph1_iw16ow16kw3sw1pw1"): steps,
        ("Convolution 2", "mb8_ic6oc8_ih16oh16kh5sh1ph2_iw16ow16kw5sw1pw2"): steps,
    }
    products = kernels[(kernels["kind"] == "gemm") & (kernels["phase"] == "forward") & kernels["layer"].isin(LAYERS)]
    assert Counter(zip(products["layer"], products["problem"], strict=True)) == {
        ("hidden", "m32 n8 k512"): steps, ("Dense 1", "m10 n8 k32"): steps,
    }  # fmt: skip
