"""What foreign programs showed about PyTorch: closures of optimizers, derivatives of derivatives, parts called alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from kernelscope.analysis import Run, breakdown

SCRIPT = Path(__file__).parent / "children" / "train_derivatives.py"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def profiled(pytorch_run: Callable[[Path, int], Run]) -> Run:
    return pytorch_run(SCRIPT, 8)


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
    assert others[others["step"].isin(data.measured["step"])].groupby("step").size().nunique() == 1
