"""The figures of a comparison, a run, a capture or an explanation, by their file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from kernelscope.reports import explanation
from kernelscope.reports.content import Result
from kernelscope.reports.figures import breakdown, comparison, run
from kernelscope.reports.figures import explanation as explaining
from kernelscope.reports.figures.drawing import Style

Draw = Callable[[Style], Figure]
Figures = dict[str, Draw]

# Breakdowns that are useful as bars, if they have several rows; steps have their own figure
_BROKEN_DOWN = ("phase", "kind", "layer", "kernel", "operator", "range", "idle", "line")


def of_comparison(result: Result) -> Figures:
    """Return the figures of a comparison (the result of analysis.compare), including those of its explanations."""
    found: Figures = {
        "step_times": partial(comparison.step_times, result),
        "kinds": partial(comparison.kinds_stacked, result),
        "layers_stacked": partial(comparison.layers_stacked, result),
        "layers": partial(comparison.layers, result),
    }
    for part in result.get("explanations") or []:
        a, b = explanation.names(part)
        found |= {f"{name}-{b}-against-{a}": draw for name, draw in of_explanation(part).items()}
    return found


def of_explanation(result: Mapping[str, Any]) -> Figures:
    """Return the figures of an explanation (the result of analysis.explain)."""
    found: Figures = {"waterfall": partial(explaining.waterfall, result)}
    if result["findings"]:
        found["causes"] = partial(explaining.causes, result)
    return found


def of_run(result: Result, breakdowns: Sequence[Mapping[str, Any]], restarts: Sequence[Sequence[int]]) -> Figures:
    """Return the figures of one run, without its roofline (see `measured`).

    result: analysis.compare of this run alone. breakdowns: as for `html.write_run`. restarts: as for `run.steps`.
    """
    found: Figures = {"layers": partial(comparison.layers, result), **_of_breakdowns(breakdowns)}
    if any(restarts):
        found["steps"] = partial(run.steps, restarts)
    return found


def of_capture(breakdowns: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the figures of an imported capture."""
    return _of_breakdowns(breakdowns)


def _of_breakdowns(breakdowns: Sequence[Mapping[str, Any]]) -> Figures:
    shown = [part for part in breakdowns if part["by"] in _BROKEN_DOWN and len(breakdown.lengths(part)) > 1]
    return {f"by_{part['by']}": partial(breakdown.rows, part) for part in shown}
