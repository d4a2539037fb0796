"""Changes of programs from outside: each does what it says in the real framework, and nothing is changed without being named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.confirm.interventions import INTERVENTIONS
from kernelscope.tracer.inside import changes
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from kernelscope.tracer.outside.staging import stage

CHILDREN = Path(__file__).parent / "children"
CORES = len(os.sched_getaffinity(0))
PLAIN = {
    "met": [], "last channels": False, "fused": None, "foreach": None, "type": "torch.float32", "checked": True,
    "forward passes": 2, "deterministic": True, "threads": 1, "onednn": False, "double": ["torch.float64"] * 2,
    "gradients": True, "batches": [0.0, 2.0],
}  # fmt: skip


Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(stage(tmp_path_factory.mktemp("staged")))


def _running(framework: str, child: str, staged: str) -> Run:
    """Return what runs a child of a framework with the named changes, and returns what it printed."""
    try:
        environment = environments.resolve(framework, None)
    except ChildError as error:
        pytest.skip(str(error))

    def run(*names: str) -> dict[str, Any]:
        line = [str(environment.python), str(CHILDREN / child), *names]
        variables = {**os.environ, **environment.variables, "PYTHONPATH": staged}
        done = subprocess.run(line, capture_output=True, text=True, timeout=100, check=False, env=variables)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


@pytest.fixture(scope="module")
def changed(staged: str) -> Run:
    run = _running("pytorch", "changed_torch.py", staged)
    return lambda *names: run(*(f"pytorch:{name}" for name in names))


@pytest.mark.slow
def test_without_a_change_the_program_is_as_it_is(changed: Run) -> None:
    """Alone shows what the others are compared with: checks, checkpoints and one thread, as the program asks for them."""
    assert changed() == PLAIN


@pytest.mark.slow
def test_each_change_does_what_it_says_and_is_noted(changed: Run) -> None:
    """Alone shows the changes in PyTorch itself, in two runs as some exclude each other."""
    named = ("channels last", "fused optimizer", "no checks", "not deterministic", "no checkpoints", "all cores", "onednn",
             "gradients let go")  # fmt: skip
    found = changed(*named)
    noted = found.pop("met")
    expected: dict[str, Any] = {"last channels": True, "fused": True, "checked": False, "forward passes": 1}
    expected.update(deterministic=False, threads=CORES, onednn=True, gradients=False)
    assert found == {key: expected.get(key, value) for key, value in PLAIN.items() if key != "met"}
    assert {name for name, _ in noted} == set(named)
    other = changed("bfloat16", "foreach optimizer", "one batch", "single precision", "values")
    values = [float(what) for name, what in other["met"] if name == "values"]
    assert other["type"] == "torch.bfloat16"
    assert other["foreach"] is True
    assert other["double"] == ["torch.float32"] * 2
    assert other["batches"] == [0.0, 0.0]
    assert len(values) == 1
    assert 0.1 < values[0] < 10


@pytest.mark.slow
def test_changes_of_jax(staged: str) -> None:
    """Alone shows the changes in JAX itself: what is compiled, what is written over, and that results stay what they are."""
    run = _running("jax", "changed_jax.py", staged)
    plain = run()
    expected = {
        "double": True,
        "gradients in Python": 2,
        "written over": False,
        "jit off": True,
        "name": "step",
        "lowered": "Lowered",
    }
    assert {key: plain[key] for key in expected} == expected
    noted = [float(what) for _, what in run("jax:values")["met"]]
    assert noted[:2] == [16.0, 16.0], "gradients with their values that are not compiled"
    assert noted[-1] == pytest.approx(plain["last"])
    changed = run(*(f"jax:{name}" for name in ("compiled", "compiled gradients", "donated", "single precision", "values")))
    assert {name for name, _ in changed["met"]} == {"compiled", "compiled gradients", "donated", "single precision", "values"}
    expected.update({"double": False, "gradients in Python": 0, "written over": True, "jit off": False})
    assert {key: changed[key] for key in expected} == expected
    assert changed["loss"] == plain["loss"] == [16.0, 16.0]
    assert changed["last"] == pytest.approx(plain["last"])
    assert [float(what) for name, what in changed["met"] if name == "values"] == pytest.approx(noted)


@pytest.mark.long
@pytest.mark.slow
def test_changes_of_tensorflow_and_keras(staged: str) -> None:
    """Alone shows the changes in Keras itself, and that losses are noted of `fit` and of functions."""
    run = _running("tensorflow", "changed_tensorflow.py", staged)
    epochs = [[[0, 1], [2, 3]]] * 2
    plain = {"met": [], "eager": True, "compiled": False, "total": 5.0, "type": "float64", "made": 8, "epochs": epochs}
    plain["computed in"] = "<dtype: 'float32'>"
    assert run() == {**plain, "told": [0, 1]}
    changed = run("keras:compiled", "keras:single precision", "keras:values", "tensorflow:values", "tensorflow:cached input")
    assert (changed["made"], changed["epochs"]) == (4, epochs)
    assert changed["type"] == "float32"
    assert changed["compiled"]
    assert not changed["eager"]
    assert [float(what) for name, what in changed["met"] if name == "tensorflow:values"] == [5.0]
    losses = [float(what) for name, what in changed["met"] if name == "keras:values"]
    assert len(losses) == 2
    assert losses[0] == pytest.approx(9.0), "(4 - 1) squared"
    silent = run("keras:silent", "keras:values", "keras:bfloat16", "tensorflow:silent")
    assert silent["told"] == []
    assert {name for name, _ in silent["met"]} == {"keras:silent", "keras:values", "keras:bfloat16", "tensorflow:silent"}
    assert "bfloat16" in silent["computed in"]


@pytest.mark.slow
def test_changes_of_cntk(staged: str) -> None:
    """Alone shows changes in CNTK itself, under its Python 3.6: what is set is off, and what asked for it is told."""
    run = _running("cntk", "changed_cntk.py", staged)
    unchanged = run()
    assert {"met": [], "asked": [1000, True]}.items() <= unchanged.items()
    plain = run("cntk:plain learners")
    assert plain["met"] == [["plain learners", "Learner"]]
    assert plain["bias"] == 0.25 * 2 * 3, "the rate times the gradient of (0 - 3) squared"
    assert unchanged["bias"] != plain["bias"]
    changed = run("cntk:untraced")
    assert changed["asked"] == [0, False]
    assert changed["met"] == [["untraced", "set_computation_network_trace_level"], ["untraced", "set_checked_mode"]]


def test_of_other_frameworks_nothing_is_changed() -> None:
    patches = Patches()
    changes.apply("torch", ["mxnet:hybridized", "keras:graphs"], patches, lambda name, what: pytest.fail(name))
    changes.apply("numpy", ["pytorch:compiled"], patches, lambda name, what: pytest.fail(name))
    assert patches._made == []


def test_a_process_stays_on_the_larger_part_of_what_it_may_use(tmp_path: Path) -> None:
    """In a process of its own, on a machine that is said to have two nodes."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("one processor")
    for node, text in enumerate((f"{allowed[0]}", f"{allowed[1]}-{allowed[-1]},4000-4003")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{text}\n")
    child = (
        "import json, os, sys; from kernelscope.tracer.inside.changes import calls; calls.NODES = sys.argv[1]; met = []; "
        "calls.one_node(None, None, met.append); print(json.dumps([met, sorted(os.sched_getaffinity(0))]))"
    )
    line = [sys.executable, "-c", child, str(tmp_path / "node[0-9]*" / "cpulist")]
    met, used = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    assert met == ["affinity"]
    assert used in (allowed[:1], allowed[1:])
    assert len(used) == max(1, len(allowed) - 1)


def test_every_change_is_used() -> None:
    """What no intervention makes would be there for nothing."""
    used = {name for one in INTERVENTIONS for name in one.changes}
    for family in changes.MODULES.values():
        module = __import__(f"kernelscope.tracer.inside.changes.{family}", fromlist=["CHANGES"])
        assert {f"{family}:{name}" for name in module.CHANGES} - used <= {f"{family}:values"}
