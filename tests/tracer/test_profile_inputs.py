"""Input pipelines of scripts that know nothing of us: what makes a batch is input, whatever it uses, and slow ones are named."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.explain.account import account as make_account
from kernelscope.analysis.explain.alignment import align
from kernelscope.analysis.explain.causes import input_pipeline
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.model import Case
from kernelscope.analysis.explain.sides import load
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from tests import forked

CHILDREN = Path(__file__).parent / "children"
pytestmark = pytest.mark.slow

Profiled = Callable[..., Path]


@pytest.fixture
def profiled(tmp_path: Path) -> Profiled:
    """The function that profiles a script of tests/tracer/children with these arguments and returns the run folder."""

    def profile(framework: str, *arguments: str) -> Path:
        try:
            python = str(environments.resolve(framework, None).python)
        except ChildError as error:
            pytest.skip(str(error))
        folder = tmp_path / "-".join(arguments)
        line = ("profile", "-o", str(folder), "--steps", "10", "--quiet", "--")
        command = (python, str(CHILDREN / f"inputs_{framework}.py"), *arguments)
        done = forked.run(*line, *command, timeout=300, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"})
        assert done.returncode == 0, done.stderr
        return folder

    return profile


def assert_input_is_named(a: Path, b: Path) -> list[str]:
    """Most of B's step is input; where the machine is quiet enough for causes, that is the first. Return the rule's evidence."""
    table = breakdown(Run(b).trace(), "layer").table
    assert table.loc[table["layer"] == "(data)", "time_ns"].sum() > 0.5 * table["time_ns"].sum()
    sides = [load(a), load(b)]
    for side in sides:
        side.foreign_cores = 0.0  # other tests may run beside this one
    found = explain(*sides)
    assert found["abstained"] or [one["cause"] for one in found["findings"]][:1] in ([], ["input pipeline"])
    matches = align(sides[0].layers, sides[1].layers, None)
    account = replace(make_account(*sides, matches), samples=None, by_restart=None)
    account.rows["significant"] = True
    case = Case(*sides, matches, account, {})
    more = input_pipeline.rows_of_data(case)["delta_ns"].sum()
    # where nothing runs beside, it is more than half of a step, and the rest takes as long in both
    if account.wall.delta_ns < account.wall.b_ns / 4 or account.rows["delta_ns"].sum() < more / 2:
        pytest.skip("the machine was so busy that the plain program was as slow")
    [suspicion] = input_pipeline.waiting_for_data(case)
    return suspicion.evidence


@pytest.mark.parametrize("how", ["loader", pytest.param("items", marks=pytest.mark.long)])
def test_what_a_data_set_computes_is_input(how: str, profiled: Profiled) -> None:
    """By modules and by functions, through a DataLoader and without one."""
    sides = [profiled("pytorch", how, what) for what in ("plain", "transformed")]
    trace = Run(sides[1]).trace()
    assert trace.ranges["layer"].isin(["conv", "loss"]).any()
    pooled = trace.kernels[trace.kernels["operator"] == "aten::avg_pool2d"]
    assert len(pooled)
    assert set(pooled["phase"]) == {"data"}
    assert pooled["layer"].isna().all()
    assert not set(breakdown(trace, "layer").table["layer"]) & {"Blur", "pool"}
    assert_input_is_named(*sides)


@pytest.mark.parametrize("how", [pytest.param("loop", marks=pytest.mark.long), "fit"])
def test_python_in_a_pipeline_of_tensorflow_is_input(how: str, profiled: Profiled) -> None:
    evidence = assert_input_is_named(*(profiled("tensorflow", how, what) for what in ("plain", "python")))
    assert any("pipeline calls Python" in sentence for sentence in evidence)


def test_what_a_data_set_of_mxnet_computes_is_input(profiled: Profiled) -> None:
    kernels = Run(profiled("mxnet", "loader")).trace().kernels
    assert set(kernels[kernels["name"] == "clip"]["phase"]) == {"data"}
