"""Scripts of Keras that know nothing of us, on JAX and on PyTorch: batches are steps, layers have their paths on both."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.advise.advice import advise
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from tests import forked

SCRIPT = Path(__file__).parent / "children" / "train_keras.py"
LAYERS = {"stem", "pool", "block.wide", "block.narrow", "dropout", "head"}
pytestmark = pytest.mark.slow


@pytest.fixture(params=[pytest.param("jax", marks=pytest.mark.long), "torch"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(backend: str) -> str:
    try:
        return str(environments.resolve(f"keras-{backend}", None).python)
    except ChildError as error:
        pytest.skip(str(error))


def _environment(backend: str) -> dict[str, str]:
    quiet = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {**os.environ, **quiet, "KERAS_BACKEND": backend}


def plain(backend: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=_environment(backend)
    )


def profiled(backend: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    line = ("profile", "-o", str(folder / "run"), "--steps", "10", "--quiet", "--", *command)
    return forked.run(*line, timeout=300, cwd=folder, env=_environment(backend))


def recorded(backend: str, tmp_path: Path, *command: str) -> Run:
    """Return the run of a command that prints the same with and without us."""
    runs = (functools.partial(plain, backend, tmp_path / "a"), functools.partial(profiled, backend, tmp_path / "b"))
    without, done = (run(*command) for run in runs)
    assert done.returncode == without.returncode == 0, done.stderr
    assert done.stdout == without.stdout
    run = Run(tmp_path / "b" / "run")
    assert run.complete
    assert run.framework == f"keras-{backend}"
    assert run.record["version"].startswith("3.")
    return run


def topics(run: Run) -> list[str]:
    return [one["topic"] for one in advise(run.path)["advice"]]


def test_fit(backend: str, python: str, tmp_path: Path) -> None:
    run = recorded(backend, tmp_path, python, str(SCRIPT), "fit")
    assert run.record["options"]["mode"] == "train"
    found = breakdown(run.trace(), "layer")
    assert found.coverage >= 0.85
    assert found.table["time_ns"].sum() == found.step_ns
    rows = {(row.layer, row.phase) for row in found.table.itertuples()}
    assert {(layer, phase) for layer in LAYERS - {"dropout"} for phase in ("forward", "backward")} <= rows
    assert {("dropout", "forward"), ("loss", "forward"), ("(optimizer)", "optimizer"), ("(data)", "data")} <= rows
    assert not any("(2)" in str(layer) for layer, _ in rows)
    named = {layer["name"]: layer for layer in run.record["model"]["layers"]}
    assert named["stem"] == {"name": "stem", "type": "Conv2D", "parameters": 3 * 3 * 3 * 16 + 16}
    assert named["block.narrow"]["parameters"] == 128 * 64 + 64
    assert "whole loops in each step" not in topics(run), "fit is the loop"
    odd = {"the model was evaluated", "a model was switched to evaluation", "a function was compiled",
           "a function was called that other steps do not call"}  # fmt: skip
    assert run.passes("clean")[0].report["odd_steps"].keys() <= odd


@pytest.mark.long
def test_predict(backend: str, python: str, tmp_path: Path) -> None:
    run = recorded(backend, tmp_path, python, str(SCRIPT), "predict")
    assert run.record["options"]["mode"] == "infer"
    found = breakdown(run.trace(), "layer")
    assert found.coverage >= 0.85
    fused = {"pool"} if backend == "jax" else set()  # XLA computes it with the layer before
    assert LAYERS - {"dropout"} - fused <= set(found.table["layer"])
    assert not {"loss", "(optimizer)"} & set(found.table["layer"])
    assert "backward" not in set(found.table["phase"])


PREDICTING = """
import sys

import keras
import numpy


class Predicts(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.predict(images[:16], verbose=0)


model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=sys.argv[1] == "eager")
images, labels = numpy.zeros((16 * 100, 32), "float32"), numpy.zeros(16 * 100, "int32")
model.fit(images, labels, batch_size=16, epochs=1, verbose=0, callbacks=[Predicts()])
"""


@pytest.mark.long
@pytest.mark.parametrize("way", ["eager", "graph"])
def test_what_a_callback_predicts_and_calls_of_the_model_end_no_step(way: str, tmp_path: Path) -> None:
    """Both have the model of the steps, and happen within each: a step would be cut in two, one of them without its training."""
    try:
        python = str(environments.resolve("tensorflow", None).python)
    except ChildError as error:
        pytest.skip(str(error))
    script = tmp_path / "predicting.py"
    script.write_text(PREDICTING)
    done = profiled("tensorflow", tmp_path / "b", python, str(script), way)
    assert done.returncode == 0, done.stderr
    run = Run(tmp_path / "b" / "run")
    [clean] = run.passes("clean")
    times = (clean.measured["end_ns"] - clean.measured["start_ns"]).to_numpy()
    assert len(times) == 10
    assert times.min() > times.max() / 50, "a step that was cut holds next to nothing"
    assert topics(run)[0] == "whole loops in each step"
    [first, *_] = advise(run.path)["advice"]
    assert first["title"] == "Keras' predict is called once in each step, for small batches"
    assert "predicting.py:10 `self.model.predict(images[:16], verbose=0)`" in first["evidence"][-1]
    table = breakdown(run.trace(), "layer").table
    assert table.loc[table["layer"] == "(predict)", "time_ns"].sum() > table.loc[table["layer"] == "(data)", "time_ns"].sum()
