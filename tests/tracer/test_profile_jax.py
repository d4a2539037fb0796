"""Scripts of JAX that know nothing of us: outputs and compiled functions are as without us, layers have their scopes."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.advise.advice import advise
from kernelscope.analysis.explain.account import account as make_account
from kernelscope.analysis.explain.alignment import align
from kernelscope.analysis.explain.causes import execution
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.model import Case
from kernelscope.analysis.explain.sides import load
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from tests import forked

CHILDREN = Path(__file__).parent / "children"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return str(environments.resolve("jax", None).python)
    except ChildError as error:
        pytest.skip(str(error))


def plain(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=_environment())


def profiled(folder: Path, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    line = ("profile", "-o", str(folder), "--quiet", *options, "--", *command)
    return forked.run(*line, timeout=300, env=_environment())


def _environment() -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}


# The first layer's input has no gradient
PRODUCTS = {
    ("stem", "forward"): 1, ("body", "forward"): 1, ("head", "forward"): 1,
    ("stem", "backward"): 1, ("body", "backward"): 2, ("head", "backward"): 2,
}  # fmt: skip


def products_per_step(run: Run) -> dict[Any, float]:
    """Return how many matrix products each layer and phase has in a measured step."""
    kernels = run.trace().kernels
    products = kernels[kernels["kind"] == "gemm"].groupby(["layer", "phase"], observed=True).size()
    counts: dict[Any, float] = (products / breakdown(run.trace(), "layer").steps).to_dict()
    return counts


def report(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name / "1" / "child.json").read_text())
    return found


def test_a_training_script(python: str, tmp_path: Path) -> None:
    script = (python, str(CHILDREN / "train_jax.py"), "105")
    recorded = functools.partial(profiled, tmp_path / "run", options=("--steps", "10"))
    outcomes = [run(*script) for run in (plain, recorded)]
    assert [done.returncode for done in outcomes] == [3, 3], outcomes[1].stderr
    assert outcomes[0].stdout == outcomes[1].stdout
    run = Run(tmp_path / "run")
    assert run.complete
    assert (run.framework, run.record["options"]["mode"]) == ("jax", "train")
    assert (run.record["options"]["batch"], run.record["batch_source"]) == (128, "the first axis of the function's input")
    trace = run.trace()
    found = breakdown(trace, "layer")
    assert found.coverage >= 0.85
    assert found.table["time_ns"].sum() == found.step_ns
    rows = {(row.layer, row.phase) for row in found.table.itertuples()}
    assert {(layer, phase) for layer in ("stem", "body", "head", "loss") for phase in ("forward", "backward")} <= rows
    assert ("(optimizer)", "optimizer") in rows
    assert not {layer for layer, _ in rows} & {"add", "accuracy", "Net"}
    assert products_per_step(run) == PRODUCTS
    odd = {"a function was called that other steps do not call", "a function was compiled"}
    assert set().union(*(report(tmp_path / "run", name)["odd_steps"] for name in ("clean", "layers", "kernels"))) <= odd


def test_steps_before_an_evaluation_have_all_of_their_work(python: str, tmp_path: Path) -> None:
    """JAX queues work: what is queued when something else begins belongs to the steps before, whose time it is."""
    script = (python, str(CHILDREN / "train_jax.py"), "105", "4")
    done = profiled(tmp_path / "run", *script, options=("--steps", "10"))
    assert done.returncode == 3, done.stderr
    run = Run(tmp_path / "run")
    assert products_per_step(run) == PRODUCTS
    steps = run.trace().steps
    assert steps["warmup"].tolist().count(True) > 2  # an evaluation lies between those that are measured
    edges = [json.loads(line) for line in (tmp_path / "run/clean/1/steps.jsonl").read_text().splitlines()]
    assert all(before["end_ns"] <= after["start_ns"] for before, after in itertools.pairwise(edges))


def test_an_inference_script_of_several_functions(python: str, tmp_path: Path) -> None:
    """A step is a round of both functions; what is compiled ahead of time counts, and what is called once does not."""
    script = (python, str(CHILDREN / "infer_jax.py"))
    done = profiled(tmp_path / "run", *script, options=("--steps", "10"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain(*script).stdout
    run = Run(tmp_path / "run")
    assert (run.framework, run.record["options"]["mode"]) == ("jax", "infer")
    found = breakdown(run.trace(), "layer")
    assert found.coverage >= 0.85
    assert {"prepare", "answer", "(eager)"} <= set(found.table["layer"])  # what picks one number is JAX's own
    assert set(found.table["phase"]) <= {"forward", "other"}
    ranges = [json.loads(line) for line in (tmp_path / "run/kernels/1/ranges.jsonl").read_text().splitlines()]
    assert set(Counter(row["step"] for row in ranges if row["name"] == "call").values()) == {2}
    # the value and numpy's array; the last step of all waits for what it returned besides
    assert min(Counter(row["step"] for row in ranges if row["name"] == "read").values()) == 2


_SAME = """
import functools, inspect, pickle, jax, jax.numpy as jnp
def double(x, *, by=2):
    "Doubles."
    return x * by
g = jax.jit(double, static_argnames="by")
print(repr(g).split(" at ")[0], g.__name__, g.__doc__, g.__module__, inspect.signature(g), g.__wrapped__ is double)
print(sorted(dir(g)))
print(g.lower(1.0, by=3).as_text()[:40], g.eval_shape(1.0), jax.make_jaxpr(g)(1.0), jax.jit(g)(2.0), jax.grad(g)(3.0))
print(jax.vmap(g)(jnp.arange(3.0)), g._cache_size(), isinstance(g, type(jax.jit(lambda x: x))), len({g: 1}))
class Model:
    scale = 3.0
    @functools.partial(jax.jit, static_argnums=0)
    def method(self, x): return x * self.scale
    @jax.jit
    def self_is_a_name(self): return self + 1
    @staticmethod
    @jax.jit
    def still(x): return x + 1
print(Model().method(2.0), Model.method(Model(), 2.0), Model.still(1.0), Model.self_is_a_name(self=1.0))
try:
    print(pickle.loads(pickle.dumps(g))(2.0, by=5))
except (AttributeError, pickle.PicklingError) as error:
    print(error)
late = jax.jit(donate_argnums=0)(lambda x: x + 1)
x = jnp.ones(3)
print(late(x), x.is_deleted(), jax.lax.scan(lambda c, x: (g(c), x), 1.0, jnp.arange(3.0))[0])
with jax.disable_jit():
    print(g(2.0))
try:
    g(object())
except TypeError as error:
    print(str(error).split(" at ")[0])
print(inspect.signature(jax.jit), jax.value_and_grad(double).__name__, jax.value_and_grad(double)(2.0))
"""


def test_compiled_functions_are_what_they_were(python: str, tmp_path: Path) -> None:
    done, without = profiled(tmp_path / "run", python, "-c", _SAME, options=("--once", "--quiet")), plain(python, "-c", _SAME)
    assert without.returncode == 0, without.stderr
    assert done.stdout == without.stdout


def test_a_script_that_profiles_itself_keeps_its_profile(python: str, tmp_path: Path) -> None:
    code = (
        "import jax, jax.numpy as jnp, glob, sys\n"
        "f = jax.jit(lambda x: x @ x)\nx = jnp.eye(256)\n"
        "for step in range(60):\n"
        "    if step == 38: jax.profiler.start_trace(sys.argv[1])\n"
        "    x = f(x)\n"
        "jax.profiler.stop_trace()\n"
        "print(len(glob.glob(sys.argv[1] + '/**/*.xplane.pb', recursive=True)))\n"
    )
    options = ("--steps", "20:60")
    done = profiled(tmp_path / "run", python, "-c", code, str(tmp_path / "own"), options=options)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


_ANEW = """
import sys, jax, jax.numpy as jnp
jitted = jax.jit(lambda w, x, scale: w - jax.grad(lambda w: ((x @ w) ** 2).mean() * scale)(w), static_argnames="scale")
anew = lambda w, x: w - jax.grad(lambda w: ((x @ w) ** 2).mean())(w)
w, how = jnp.ones((8, 8)), sys.argv[1]
for step in range(60):
    x = jnp.ones((16 + step if how == "shape" else 16, 8))
    w = jax.jit(lambda w, x: anew(w, x))(w, x) if how == "new" else jitted(w, x, scale=1.0 + step * (how == "static value"))
print(float(w.sum()))
"""


@pytest.mark.parametrize(
    ("how", "why", "example"),
    [
        ("shape", "the shape of x changes", "float32[{0},8] after float32[{1},8]"),
        pytest.param("static value", "the static value of scale changes", "{0}.0 after {1}.0", marks=pytest.mark.long),
        pytest.param(
            "new", "it is a new function each time, created by jax.jit, a lambda or a nested function within the step", None,
            marks=pytest.mark.long,
        ),
        pytest.param("same", None, None, marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_why_functions_are_compiled_anew(how: str, why: str | None, example: str | None, python: str, tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", python, "-c", _ANEW, how, options=("--steps", "6", "--warmup", "5"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain(python, "-c", _ANEW, how).stdout
    found = report(tmp_path / "run", "clean")["compiled"]
    functions = [one for one in found["functions"] if one["name"] == "<lambda>"]
    if why is None:
        assert found == {"count": 0, "ns": 0, "functions": []}
        return
    assert [(one["count"], one["kind"], one["why"]) for one in functions] == [(6, how, why)]
    numbers = [int(number) for number in re.findall(r"\b(\d+)(?=,8\]|\.0)", functions[0]["example"] or "")]
    assert functions[0]["example"] == (example.format(*numbers) if example else None)
    assert not numbers or numbers[0] == numbers[1] + 1
    parts = {part["what"]: part["ns"] for part in advise(tmp_path / "run")["parts"]}
    assert max(parts, key=lambda what: parts[what]) == "compiling", parts


_JITTED_AGAIN = """
import jax, jax.numpy as jnp
from functools import partial
def step(scale, w, x):
    return w - scale * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)
w, x = jnp.ones((8, 8)), jnp.ones((16, 8))
for _ in range(60):
    w = jax.jit({})(w, x)
print(float(w.sum()))
"""


@pytest.mark.parametrize(
    ("made", "compiled"), [("partial(step, 0.1)", 6), pytest.param("step_of_one", 0, marks=pytest.mark.long)]
)
def test_a_function_that_the_loop_compiles_again_is_one_function(made: str, compiled: int, python: str, tmp_path: Path) -> None:
    """JAX keeps what it compiled of one function, and traces it no more: nothing but the call tells that it trains."""
    code = _JITTED_AGAIN.format(made).replace("\nfor ", "\nstep_of_one = partial(step, 0.1)\nfor ")
    done = profiled(tmp_path / "run", python, "-c", code, options=("--steps", "6", "--warmup", "5"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain(python, "-c", code).stdout
    assert json.loads((tmp_path / "run/run.json").read_text())["options"]["mode"] == "train"
    found = report(tmp_path / "run", "clean")
    assert sum(one["count"] for one in found["compiled"]["functions"] if one["kind"] == "new") == compiled


_EAGER = """
import sys, jax, jax.numpy as jnp
w, x = jnp.ones((64, 64)), jnp.ones((32, 64)) * 0.1
def step(w):
    value, gradient = jax.value_and_grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w)
    return w - 0.1 * gradient
step = jax.jit(step) if sys.argv[1] == "jitted" else step
for _ in range(100):
    w = step(w)
print(round(float(w.sum()), 2))
"""


def test_a_step_that_is_called_operation_by_operation_is_a_named_cause(python: str, tmp_path: Path) -> None:
    sides = []
    for how in ("jitted", "eager"):
        done = profiled(tmp_path / how, python, "-c", _EAGER, how, options=("--steps", "10"))
        assert done.returncode == 0, done.stderr
        sides.append(load(tmp_path / how))
        sides[-1].foreign_cores = 0.0  # other tests may run beside this one
    explained = explain(*sides)
    assert explained["abstained"] or explained["findings"][0]["cause"] == "eager against graph"
    matches = align(sides[0].layers, sides[1].layers, None)
    case = Case(*sides, matches, make_account(*sides, matches), {})
    [found] = [*execution.seen(case), *execution.partly(case)]  # also where the machine is too busy for causes
    assert re.fullmatch(r"-c runs \d+ operations one by one, -c as one compiled function", found.title)
    assert sum(found.claims.values()) > 0
    assert "jax.jit" in found.remedy


@pytest.fixture(scope="module")
def modules() -> str:
    """The interpreter of an environment with flax and Equinox."""
    folder = Path(__file__).parents[1] / "tools" / "foreign"
    sys.path.insert(0, str(folder))
    try:
        import fetching

        return str(fetching.python("jax-modules")[0])
    except fetching.Missing as error:
        pytest.skip(str(error))
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize("library", ["nnx", pytest.param("equinox", marks=pytest.mark.long)])
def test_modules_of_nnx_and_equinox_are_layers(library: str, modules: str, tmp_path: Path) -> None:
    script = (modules, str(CHILDREN / "train_modules.py"), library, "60")
    done = profiled(tmp_path / "run", *script, options=("--steps", "10"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain(*script).stdout  # weights, and how often functions were compiled
    found = breakdown(Run(tmp_path / "run").trace(), "layer")
    assert "coverage_of" not in found.info
    rows = {(row.layer, row.phase) for row in found.table.itertuples()}
    layers = ("stem", "blocks.0.wide", "blocks.0.norm", "blocks.1.wide", "blocks.1.norm", "head")
    assert {(layer, phase) for layer in layers for phase in ("forward", "backward")} <= rows
    assert not {layer for layer, _ in rows if "eqx" in layer or "Wrapper" in layer}
