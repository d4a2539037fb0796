"""Changes in the program itself: new lines in the step's loop, its batch, functions that steps recompile.

These rules run first: an added line is the cause, and what it executes only shows it.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from kernelscope.analysis.attribution.frameworks import keras_loops
from kernelscope.analysis.explain import program
from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.causes.input_pipeline import rows_of_data
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

LINES = "changed lines"
BATCH = "larger batch"
COMPILED = "compilation in each step"

_LEAST = 0.25  # of the difference: the changed lines must take at least this share
_MOSTLY, _NOTHING = 0.6, 0.02  # of the difference: the least with what they call; the most of lines on the faster side
_OFTEN = 0.3  # compilations a step: fewer are the end of warm-up
_MOST_NAMED = 2  # recompiled functions that are named
# kind of the reason why a function is recompiled -> what to do
_COMPILE_ONCE = {
    "new": "call jax.jit once, outside the loop, on a function that is defined there",
    "shape": "keep shapes the same from step to step: pad inputs to a few sizes, drop the last smaller batch",
    "type": "keep types the same from step to step: convert inputs with jnp.asarray(x, dtype)",
    "static value": "pass what changes as an array instead of a static argument",
    "structure": "keep the structure of arguments the same from step to step",
    "eager": "compile the step as one function with jax.jit, and keep shapes the same",
    "": "keep shapes, types and static arguments the same from step to step; pad inputs, and create no function in each step",
}
_TRACE_ONCE = {
    "new": "decorate a function with tf.function once, outside the loop",
    "shape": "pad inputs to a few sizes, or let one graph take all: tf.function(reduce_retracing=True) or an input_signature",
    "static value": "pass what changes as a tensor (tf.constant, tf.Variable) instead of a Python value",
    "": "pass tensors of the same types and shapes from step to step, and create no tf.function in each step",
}
_REMEDY = "move it out of the step, do it for the whole batch at once, or on other threads"


def lines(case: Case) -> list[Suspicion]:
    """Lines outside the model that were changed, or that only one side has, and that take longer there.

    Added lines claim what they do in any layer, such as an evaluation. If nothing else differs, they claim the whole
    difference, as they take cores and caches from the rest. Changed lines also did something before, so they claim only what is
    in no layer.
    """
    delta = case.account.wall.delta_ns
    moved = [row for row in case.changes if row["delta_ns"] and row["delta_ns"] * delta > 0]
    amount = sum(row["delta_ns"] for row in moved)
    added = sum(row["delta_ns"] for row in moved if None in (row["a_lines"], row["b_lines"]) and not row["in_model"])
    if _only_added(case):
        claims = evidence.everything(case)
    else:
        claims = evidence.towards(case, amount, case.rows if abs(added) > abs(amount) / 2 else _loop(case))
        claims = {**claims, **_backward(case, claims)}
    if not case.same_framework or compilation(case) or abs(sum(claims.values())) < _LEAST * abs(delta):
        return []
    slow = case.b if delta > 0 else case.a
    moved = moved or case.changes
    where = moved[0]["words"]
    own = max(map(abs, _taken(case)))
    mostly = own >= _MOSTLY * abs(sum(claims.values()))
    rest = f"The lines themselves take {own / 1e6:.3g} ms longer; the rest is in what runs alongside them."
    return [
        Suspicion(
            LINES,
            f"{slow.name} spends more time in changed lines of its own code: {where}",
            claims,
            "high" if mostly else "medium",
            [*([] if mostly else [rest]), *[f"Also changed: {row['words']}." for row in moved[1:3]]],
            _remedy(case, claims),
            precedence=0,
        )
    ]


def _taken(case: Case) -> tuple[int, int]:
    """Return how much longer all changed lines take in B, in ns: by themselves, and with what they call."""
    own, called = (sum(row[name] or 0 for row in case.changes) for name in ("delta_ns", "called_ns"))
    return own, called


def _remedy(case: Case, claims: dict[str, float]) -> str:
    """Return what to do about such lines; if most of their time is in calls of Keras' whole loops, what to call instead."""
    layers = case.rows["layer"].astype("string")
    sums = {layer: sum(claims.get(str(row), 0.0) for row in case.rows.loc[layers == layer, "row"]) for layer in keras_loops.LOOPS}
    layer = max(sums, key=lambda one: abs(sums[one]))
    if abs(sums[layer]) <= abs(sum(claims.values())) / 2:
        return _REMEDY
    name = keras_loops.LOOPS[layer]
    itself = "" if name == "fit" else "the model itself, model(x, training=False), or "
    return f"call {itself}model.{keras_loops.ON_BATCH[name]}: {name} is for whole data sets"


def _only_added(case: Case) -> bool:
    """Return whether the sides differ only in lines outside the model that do next to nothing on the faster side.

    The lines must take a large share of the difference; or most of it with what they call, as timing makes that longer. Lines
    that make batches belong to the input pipeline. Models of other sizes may be the cause as well.
    """
    delta = case.account.wall.delta_ns
    faster, sign = ("a_ns", 1) if delta > 0 else ("b_ns", -1)
    if not case.changes or any(row["in_model"] or (row[faster] or 0) > _NOTHING * abs(delta) for row in case.changes):
        return False
    if ev.parameters(case.a) != ev.parameters(case.b):
        return False
    if abs(float(rows_of_data(case)["delta_ns"].sum())) > abs(delta) / 2:
        return False
    own, called = (sign * ns for ns in _taken(case))
    arguments = [program.arguments(side) for side in (case.a, case.b)]
    same = arguments[0] == arguments[1] and not evidence.differing(case)
    return same and (own >= _LEAST * abs(delta) or called >= _MOSTLY * abs(delta))


def _backward(case: Case, claims: dict[str, float]) -> dict[str, float]:
    """Return the claims of the backward pass of what lines of the loop compute; it is in no layer and runs in another line.

    Empty unless these lines compute: else another change may be the cause.
    """
    loop = _loop(case)
    ahead = loop[(loop["phase"] != "backward").to_numpy(bool) & ~loop["cell"].str.startswith("(").to_numpy(bool)]
    sign = 1 if case.account.wall.delta_ns > 0 else -1
    if not any(claims.get(str(row), 0.0) * sign > 0 for row in ahead["row"]):
        return {}
    back = loop[(loop["phase"] == "backward").to_numpy(bool)]
    return evidence.claims(back[(back["delta_ns"] * sign > 0).to_numpy(bool)])


def _loop(case: Case) -> pd.DataFrame:
    """Return the rows of what the step does outside layers, the optimizer and data loading."""
    rows = case.rows
    loop = rows["layer"].str.startswith("(") & ~rows["layer"].isin(["(data)", "(optimizer)", "(synchronisation)"])
    loop &= ~rows["phase"].isin(["data", "optimizer"])
    return rows[loop.fillna(False).to_numpy(bool)]


def batch(case: Case) -> list[Suspicion]:
    """A step of one side has more samples."""
    sizes = [side.facts.get("batch") for side in (case.a, case.b)]
    delta = case.account.wall.delta_ns
    if not all(isinstance(size, int) and size > 0 for size in sizes) or sizes[0] == sizes[1]:
        return []
    a, b = (int(str(size)) for size in sizes)
    if (b > a) != (delta > 0):
        return []
    walls = case.account.wall.a_ns, case.account.wall.b_ns
    most = (max(a, b) / min(a, b) - 1) * min(walls)  # n times the work takes at most n times as long
    each = [wall / size for wall, size in zip(walls, (a, b), strict=True)]
    large = case.b if b > a else case.a
    return [
        Suspicion(
            BATCH,
            f"a step of {large.name} has more samples: {a} in {case.a.name}, {b} in {case.b.name}",
            evidence.everything(case, min(1.0, most / abs(delta))),
            "medium",
            [f"Per sample: {evidence.both_times(case, *each)}."],
            "compare time per sample, or give both sides the same batch",
            precedence=0,
        )
    ]


def compilation(case: Case) -> list[Suspicion]:
    """One side compiles a function in every step, or in many steps."""
    counts, times = ([_per_step(side, name) for side in (case.a, case.b)] for name in ("count", "ns"))
    if None in counts or None in times:
        return []
    more, amount = float(counts[1] or 0) - float(counts[0] or 0), float(times[1] or 0) - float(times[0] or 0)
    if abs(more) < _OFTEN or more * amount <= 0 or amount * case.account.wall.delta_ns <= 0:
        return []
    slow = case.b if more > 0 else case.a
    functions = slow.facts["compiled"].get("functions") or []
    remedies = _TRACE_ONCE if "tensorflow" in str(slow.framework) else _COMPILE_ONCE
    rows = case.rows
    if abs(amount) < abs(case.account.wall.delta_ns):  # longer compilation also takes cores from other work
        rows = rows[rows["cell"].str.startswith("(host").fillna(False).to_numpy(bool)]
    return [
        Suspicion(
            COMPILED,
            f"{slow.name} recompiles functions in its steps: {evidence.pair(case, (counts[0], counts[1]))} a step",
            evidence.towards(case, amount, rows),
            "high",
            [*map(_reason, functions[:_MOST_NAMED]), f"Compilation takes {evidence.both_times(case, *times)} a step."],
            remedies.get(functions[0]["kind"] if functions else "", remedies[""]),
            precedence=0,
        )
    ]


def _reason(function: dict[str, Any]) -> str:
    """Say why a function is recompiled: train_step, 20 times: the shape of x changes (float32[31] after ...)."""
    example = f" ({function['example']})" if function.get("example") else ""
    return f"Recompiled: {function['name']}, {function['count']} times in the clean steps: {function['why']}{example}."


def _per_step(side: Side, name: str) -> float | None:
    """Return compilations ("count") or their time ("ns") per step of the clean pass; None if not recorded."""
    noted = side.facts.get("compiled")  # from the first restart
    return float(noted[name]) / len(side.clean[0]) if isinstance(noted, dict) and side.clean else None


RULES: tuple[Rule, ...] = (compilation, lines, batch)
