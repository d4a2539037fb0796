"""What changed in the program between two recordings, with the time of the changed lines on both sides.

Times are those of `line_times`: each instant of a step belongs to one line, so lines of functions that changed lines call are
not included unless they changed as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from kernelscope.analysis.explain import line_times, program
from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import execution, input_pipeline, precision, threads
from kernelscope.analysis.explain.model import Account, Case

_SHOWN = 160  # characters of a line
_MATTERS = 0.25  # of a cause's ms: changed lines are named with it if they take at least this much longer
_MOST = 0.5  # of a cause's ms: changed lines of a class are named with it if its layers have at least this share
_PIPELINE = re.compile(
    r"py_function|numpy_function|DataLoader|Dataset|\.map\(|\.batch\(|__getitem__|collate|num_workers|prefetch"
)
# Lines that set up what a cause is about: their own time says nothing
_SETS = {
    input_pipeline.CAUSE: _PIPELINE,
    execution.CAUSE: re.compile(r"tf\.function|run_eagerly|run_functions_eagerly|\bjit\b|jit_compile|hybridize|\.compile\("),
    precision.CAUSE: re.compile(
        r"float64|double\(|bfloat16|float16|half\(|autocast|mixed_precision|set_global_policy|matmul_precision"
    ),
    threads.CAUSE: re.compile(r"threads|num_threads|THREADS"),
}
_IMPORT = re.compile(r"(?:import|from)\s")
_OF_TRAINING = re.compile(r"optimi[sz]ers?\b|\boptim\.|learning_rate|\blr\b|\.compile\(|\blosses\.|\bloss_fn|\bcriterion")
_LINES = 3  # changed lines of one class that are named
_OF_MODELS = {"forward", "call", "__call__", "hybrid_forward"}  # functions that define what a model computes


def changed(case: Case) -> list[dict[str, Any]]:
    """Return the changes as plain data, largest difference first; among equals imports last.

    Keys: file, a_lines and b_lines ([first, last]; null), line and text (of the statement that takes longest, else the first),
    within (the classes and functions around it), in_model (whether the innermost one defines what a model computes), a_ns,
    b_ns, delta_ns (per step; null if lines were not timed), called_ns (the difference including what the lines call, which
    timing lengthens), and words: all that as part of a sentence.
    """
    result = program.changes(case)
    times = {"a": line_times.times(case.a), "b": line_times.times(case.b)} if result else {}
    sources = {"a": case.a.sources, "b": case.b.sources}
    rows = [_row(change, times, sources, case.account) for change in result]
    return sorted(rows, key=lambda row: (-abs(row["delta_ns"] or 0), bool(_IMPORT.match(row["text"]))))


def _row(
    change: program.LineChange, times: dict[str, pd.DataFrame | None], sources: Mapping[str, Mapping[str, str]], account: Account
) -> dict[str, Any]:
    row: dict[str, Any] = {"file": change.file}
    for name, (first, texts) in (("a", change.a), ("b", change.b)):
        row[f"{name}_lines"] = [first, first + len(texts) - 1] if texts else None
    row["a_ns"], row["b_ns"] = own = _both(change, times, "time_ns")
    name, (first, texts), path = ("b", change.b, change.b_file) if change.b[1] else ("a", change.a, change.a_file)
    before = "\n".join(change.a[1]) if name == "b" else ""
    new = [first + place for place, text in enumerate(texts) if text.strip() and text.strip() not in before]
    row["line"] = line_times.longest(times[name], path, new) or next(iter(new), first)
    row["text"] = texts[min(max(row["line"] - first, 0), len(texts) - 1)].strip()[:_SHOWN]
    row["within"] = program.enclosing(sources[name].get(path or "", ""), row["line"])
    row["in_model"] = bool(row["within"]) and row["within"][-1] in _OF_MODELS
    known = None not in (row["a_ns"], row["b_ns"])
    row["delta_ns"] = row["b_ns"] - row["a_ns"] if known else None
    a_ns, b_ns = called = _both(change, times, "profiled_ns")
    row["called_ns"] = None if a_ns is None or b_ns is None else b_ns - a_ns
    several = max(len(change.a[1]), len(change.b[1])) > 1
    row["words"] = _words(row, _moved(called, own, account, several))
    return row


def _both(change: program.LineChange, times: Mapping[str, pd.DataFrame | None], column: str) -> tuple[int | None, int | None]:
    """Return the time of the changed lines on both sides (see line_times.of_lines)."""
    (a, a_texts), (b, b_texts) = change.a, change.b
    a_ns = line_times.of_lines(times["a"], change.a_file, a, len(a_texts), column)
    return a_ns, line_times.of_lines(times["b"], change.b_file, b, len(b_texts), column)


def _moved(profiled: tuple[int | None, int | None], own: tuple[int | None, int | None], account: Account, several: bool) -> str:
    """Say how much longer the changed lines take, with what they call if that was timed; empty if unknown.

    Also empty if that is more than a step: then something else disturbed the pass that times lines. several: whether there are
    several lines.
    """
    most = max(account.wall.a_ns, account.wall.b_ns)
    for (a, b), remark in ((profiled, f" with what {'they call' if several else 'it calls'}"), (own, "")):
        if a is not None and b is not None and (a or b):
            seen = account.floor * max(a, b) < abs(b - a) <= most
            return f" ({(b - a) / 1e6:+.3g} ms a step{remark})" if seen else ""
    return ""


def remedy(case: Case, change: Mapping[str, Any]) -> str:
    """Say what to do with a changed line that makes a side do other work, or more of it."""
    sides = (case.a.name, case.b.name)
    slow, fast = reversed(sides) if case.account.wall.delta_ns > 0 else sides
    line = f"{change['file']} line {change['line']}"
    own = (change["b_lines"] is not None) == (slow == case.b.name)  # the line shown is the slower side's
    if own:
        what = f"{line} of {slow} causes this work: undo it, or do once, before the loop, what is the same in each step"
    elif change["b_lines"] is None:
        what = f"{slow} lacks {line} of {fast}: bring it back"
    else:
        what = f"do in {slow} what {line} of {fast} does"
    return f"{what}; or count this as the price of the change"


def named(case: Case, granted: Mapping[str, int], cause: str = "") -> tuple[dict[str, Any], str] | None:
    """Return the change that is evidence for a cause, and a sentence on it; None if there is none. granted: the cause's ns by
    row.

    It is the lines whose own time changed with it; or those in the class of a module whose layers hold most of the cause,
    preferring parts of the model to the whole; or lines that set up what the cause is about, such as pipelines, whose threads
    have no timed lines; or the only change.
    """
    explains = sum(granted.values())
    moved = [row for row in case.changes if row["delta_ns"] and row["delta_ns"] * explains > 0]
    sets = [row for row in case.changes if cause in _SETS and _SETS[cause].search(row["text"])]
    setting = [row["words"] for row in sets]
    if moved and abs(moved[0]["delta_ns"]) >= _MATTERS * abs(explains):
        return moved[0], f"Changed: {'; '.join(dict.fromkeys([moved[0]['words'], *setting][:_LINES]))}."
    in_class = _in_class(case, granted, _MOST * abs(explains))
    if in_class is not None:
        return in_class
    if setting:
        return sets[0], f"Changed: {'; '.join(setting[:_LINES])}."
    only = len(case.changes) == 1 and not elsewhere(case, cause)
    return (case.changes[0], f"The only change of the program: {case.changes[0]['words']}.") if only else None


def elsewhere(case: Case, cause: str) -> bool:
    """Return whether all changed lines concern the optimizer or the loss, while the cause is the input: they did not make it."""
    return cause == input_pipeline.CAUSE and bool(case.changes) and all(_OF_TRAINING.search(row["text"]) for row in case.changes)


def _in_class(case: Case, granted: Mapping[str, int], least: float) -> tuple[dict[str, Any], str] | None:
    """Return the changed lines in a class whose layers have at least so much of a cause, preferring the class with fewest
    layers.
    """
    found: list[tuple[bool, int, dict[str, Any], list[str]]] = []
    for row in case.changes:
        layers = _layers_of_class(case, row["within"])
        if layers and abs(_within(case, granted, layers)) >= least:
            whole = any("." not in layer and layer[:1].isupper() for layer in layers)
            found.append((not row["in_model"], len(layers) if not whole else len(case.rows) + 1, row, layers))
    if not found:
        return None
    _, _, first, layers = min(found, key=lambda one: one[:2])
    more = [row["words"] for _, _, row, others in found if others == layers and row is not first]
    return first, f"Changed: {'; '.join([first['words'], *more[: _LINES - 1]])}, which is the code of {ev.listed(layers)}."


def _layers_of_class(case: Case, within: Sequence[str]) -> list[str]:
    """Return the paths of the modules with a class that a line is in."""
    modules = [module for side in (case.b, case.a) for module in side.trace.info.get("modules") or []]
    return list(dict.fromkeys(str(module["name"]) for module in modules if module["type"] in within))


def _within(case: Case, granted: Mapping[str, int], paths: Sequence[str]) -> int:
    """Return how much of a cause is in these modules and their parts; the outermost module's path is its class's name."""
    rows = case.rows.loc[[row for row in granted if row in case.rows.index]]
    whole = {str(module.name) for side in (case.a, case.b) for module in side.layers if "." not in module.name} & set(paths)
    mine = rows["layer"].map(lambda layer: any(f"{layer}.".startswith((f"{path}.", f"{path} (")) for path in paths)).astype(bool)
    if whole and any(path[:1].isupper() for path in whole):
        mine |= ~rows["layer"].str.startswith("(")
    return sum(granted[str(row)] for row in rows.index[mine])


def _words(row: dict[str, Any], moved: str) -> str:
    """Describe a change: train.py line 26 `x = torch.stack(...)` (+4.1 ms a step with what it calls)."""
    first, last = row["b_lines"] or row["a_lines"]
    others = "" if first == last else f" and others of lines {first} to {last}"
    gone = "" if row["b_lines"] else " (of A, gone in B)"
    return f"{row['file']} line {row['line']}{gone} `{row['text']}`{others}{moved}"
