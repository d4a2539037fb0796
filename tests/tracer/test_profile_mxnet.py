"""Scripts of MXNet that know nothing of us: outputs are as without us, and operators are those of the layers that queued them."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.attribution.frameworks import Clock
from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.onednn import verbose_tables as onednn_verbose
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside.frameworks.mxnet.blocks import Names
from kernelscope.tracer.inside.frameworks.mxnet.queue import BACKWARD, Nodes
from kernelscope.tracer.inside.frameworks.unprinted import Unprinted
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from tests import forked

CHILDREN = Path(__file__).parent / "children"
LONG = pytest.mark.long
# oneDNN's names of the convolutions' sizes, which tell all of them apart
SHAPES = {
    "stem": "ic3oc6_ih16oh16kh5", "features.0.conv1": "ic6oc8_ih16oh16kh3", "features.0.conv2": "ic8oc8_ih16oh16kh3",
    "features.0.short": "ic6oc8_ih16oh16kh1", "features.2.conv1": "ic8oc12_ih8oh8kh3", "features.2.conv2": "ic12oc12_ih8oh8kh3",
    "features.2.short": "ic8oc12_ih8oh8kh1",
}  # fmt: skip


# --- what was queued -------------------------------------------------------------------------------------------------------


def _nodes(*names: str) -> list[dict[str, Any]]:
    """Return a chain of nodes."""
    rows = [("input", *names)[at : at + 2] for at in range(len(names))]
    return [{"op": name, "name": name, "layer": name, "phase": "", "inputs": [source]} for source, name in rows]


def test_backward_passes_take_back_what_was_recorded_from_its_end() -> None:
    described = {
        "net": (_nodes("conv", "relu"), _nodes("d_relu", "d_conv")),
        "loss": (_nodes("loss"), _nodes("d_loss")),
        "metric": (_nodes("mean"), _nodes("d_mean")),
    }
    entries = [(("net", True), ()), (("loss", True), (1,)), (("metric", False), (1,)), ((BACKWARD,), ()), ((BACKWARD,), ())]
    nodes = Nodes(lambda key: described[key[0]]).of(entries)
    assert [(node["name"], node["entry"], node["after"]) for node in nodes] == [
        ("conv", 0, []), ("relu", 0, [0]), ("loss", 1, [1]), ("mean", 2, [2]),
        ("d_loss", 3, []), ("d_relu", 3, [4]), ("d_conv", 3, [5]),
    ]  # fmt: skip


def test_what_several_used_waits_for_the_gradients_of_all_of_them() -> None:
    described = {name: (_nodes(name), _nodes("d_" + name)) for name in ("a", "b", "c", "sum")}
    entries = [(("a", True), ()), (("b", True), (1,)), (("c", True), (2,)), (("sum", True), (1, 2)), ((BACKWARD,), ())]
    nodes = Nodes(lambda key: described[key[0]]).of(entries)
    assert [node["name"] for node in nodes[4:]] == ["d_sum", "d_c", "d_b", "d_a"]
    assert [sorted(node["after"]) for node in nodes] == [[], [0], [0], [1, 2], [], [4], [4], [5, 6]]


# --- names of layers -------------------------------------------------------------------------------------------------------


class Block:
    """Has the attributes of a block of Gluon that are looked at."""

    def __init__(self, prefix: str, **children: Block) -> None:
        self.prefix, self._children, self._params = prefix, children, {}


def _names(*roots: Block) -> Names:
    library = SimpleNamespace(gluon=SimpleNamespace(loss=SimpleNamespace(Loss=type("Loss", (), {}))))
    return Names(library, list(roots))


def test_nodes_belong_to_the_innermost_block_whose_prefix_they_have() -> None:
    net = Block("net0_", features=Block("net0_seq0_", **{"0": Block("net0_seq0_conv0_"), "10": Block("net0_seq0_conv10_")}))
    names = _names(net)
    assert names.of_node("net0_seq0_conv0_fwd") == "features.0"
    assert names.of_node("net0_seq0_conv10_fwd") == "features.10"
    assert names.of_node("net0_seq0__plus0") == "features"
    assert names.of_node("net0_relu0") == "Block"
    assert names.of_node("zeros_without_dtype") is None


def test_a_prefix_that_several_blocks_have_is_the_outer_ones() -> None:
    names = _names(Block("net0_", features=Block("net0_", **{"0": Block("net0_dense0_")})))
    assert names.of_node("net0_relu0") == "Block"
    assert names.of_node("net0_dense0_fwd") == "features.0"


def test_of_several_models_each_has_its_name_in_front() -> None:
    names = _names(Block("a_", head=Block("a_head_")), Block("b_", head=Block("b_head_")))
    assert names.of_node("a_head_fwd") == "Block.head"
    assert names.of_node("b_head_fwd") == "Block 2.head"


def test_only_remarks_are_kept_out_of_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with Unprinted(rb"remark:"):
        os.write(2, b"the script's\nremark: a library's\nno newline")
    os.write(2, b", later\n")
    assert capfd.readouterr().err == "the script's\nno newline, later\n"


# --- scripts -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return str(environments.resolve("mxnet", None).python)
    except ChildError as error:
        pytest.skip(str(error))


def _both(folder: Path, *command: str, **variables: str) -> tuple[Any, Any]:
    """Return the outcomes without and with us."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    plain = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    line = ("profile", "-o", str(folder), "--steps", "6:26", "--quiet", "--", *command)
    return plain, forked.run(*line, timeout=120, env=environment)


def _broken_down(folder: Path, mode: str) -> tuple[Run, pd.DataFrame]:
    """Check what holds for every run; return it with its kernels in measured steps."""
    run = Run(folder)
    assert (run.complete, run.framework, run.record["options"]["mode"]) == (True, "mxnet", mode)
    trace = run.trace()
    found = breakdown(trace, "layer")
    assert int(found.table["time_ns"].sum()) == found.step_ns
    assert found.coverage >= 0.85
    assert trace.diagnostics["operators that did not wait for what they use"] == 0
    kernels = trace.kernels.dropna(subset=["step"])
    return run, kernels.astype(dict.fromkeys(("name", "layer", "phase", "operator"), "string"))


def _at_most_once_a_step(layers: pd.Series, steps: int) -> bool:
    """Return whether no layer has more operators than steps; one more may run after its step."""
    return all(count <= (steps + 1) * len(layer.split(" or ")) for layer, count in Counter(layers).items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "mode"),
    [
        pytest.param("eager", "train", marks=LONG),
        ("graph", "train"),
        pytest.param("static", "train", marks=LONG),
        ("static", "infer"),
    ],
)
def test_gluon(python: str, tmp_path: Path, how: str, mode: str) -> None:
    plain, seen = _both(tmp_path / "run", python, str(CHILDREN / "train_gluon.py"), how, mode, "36")
    assert (plain.returncode, seen.returncode) == (3, 3), seen.stderr
    assert seen.stdout == plain.stdout
    assert seen.stderr.startswith(plain.stderr)
    run, kernels = _broken_down(tmp_path / "run", mode)
    steps = len(run.passes("kernels")[0].measured)
    directions = {"forward": "Convolution"} | ({"backward": "_backward_Convolution"} if mode == "train" else {})
    for phase, name in directions.items():
        mine = kernels[(kernels["name"] == name) & (kernels["phase"] == phase)]
        parts = mine["layer"].str.split(" or ").explode()  # which of several it was depends on when exactly they were queued
        assert set(parts.dropna()) == set(SHAPES)
        assert _at_most_once_a_step(mine["layer"], steps)
    assert {"features.1", "head"} <= set(kernels["layer"])
    if mode == "train":
        assert "loss" in set(kernels["layer"])
        assert run.record["options"]["batch"] == 8


@pytest.mark.slow
def test_convolutions_have_the_shapes_of_the_layers_that_they_are_given_to(python: str, tmp_path: Path) -> None:
    """oneDNN prints each call with its shape and time, because the script's environment says so: the operator that ran then."""
    variables = {"DNNL_VERBOSE": "1", "DNNL_VERBOSE_TIMESTAMP": "1", "MXNET_SUBGRAPH_VERBOSE": "0"}
    _, seen = _both(tmp_path / "run", python, str(CHILDREN / "train_gluon.py"), "static", "train", "36", **variables)
    run, kernels = _broken_down(tmp_path / "run", "train")
    lines = onednn_verbose.parse(stream.split([line for line in seen.stdout.splitlines() if "_verbose," in line]).onednn)
    lines = lines[lines["name"].str.startswith("convolution") & lines["wall_ns"].notna()]
    anchors = json.loads((run.passes("kernels")[0].folder / "child.json").read_text())["anchors"]
    at = Clock.from_anchors(anchors).from_wall(lines["wall_ns"].to_numpy(np.int64)) + lines["duration_ns"].to_numpy(np.int64) // 2
    ran = kernels[kernels["operator"].str.contains("Convolution")].sort_values("start_ns")
    inside = np.searchsorted(ran["start_ns"].to_numpy(), at, side="right") - 1
    held = (inside >= 0) & (at < ran["end_ns"].to_numpy()[np.maximum(inside, 0)])
    assert held.sum() >= 3 * 2 * len(SHAPES)
    found = pd.DataFrame({"layer": ran["layer"].to_numpy()[inside[held]], "problem": lines["problem"].to_numpy()[held]}).dropna()
    fits = [any(SHAPES[layer] in problem for layer in named.split(" or ")) for named, problem in found.to_numpy()]
    assert sum(fits) >= 0.95 * len(fits)  # the library's clock and ours drift apart where the machine is busy
    assert {"stem", "features.0.conv1", "features.2.conv1"} <= set(found["layer"])


@pytest.mark.slow
@pytest.mark.parametrize(("how", "mode"), [("fit", "train"), pytest.param("predict", "infer", marks=LONG)])
def test_module(python: str, tmp_path: Path, how: str, mode: str) -> None:
    plain, seen = _both(tmp_path / "run", python, str(CHILDREN / "fit_module.py"), how, "36")
    assert (plain.returncode, seen.returncode) == (0, 0), seen.stderr
    assert seen.stdout == plain.stdout
    assert seen.stderr.count("graph_executor.cc") == plain.stderr.count("graph_executor.cc")
    run, kernels = _broken_down(tmp_path / "run", mode)
    layers = set(kernels["layer"].dropna())
    assert {"main", "short", "pool", "head", "softmax"} <= layers
    if how == "fit":
        assert {"stem", "norm", "relu", "both"} <= layers
        steps = len(run.passes("kernels")[0].measured)
        forward = kernels[(kernels["name"] == "Convolution") & (kernels["phase"] == "forward")]
        assert {"stem"} <= set(forward["layer"].dropna()) <= {"stem", "main", "short", "main or short"}
        assert _at_most_once_a_step(forward["layer"].dropna(), steps)
    else:
        assert any(layer.startswith("stem") for layer in layers)  # fused with what follows it: what it does alone is not known
