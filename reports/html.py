"""Write a self-contained HTML file per comparison, explanation, run or capture: it needs no network and no second file.

The templates beside this module draw the pages, with autoescaping; texts from traces pass through `text.printable` first. The
page's Content-Security-Policy forbids every request, and every script except those of `interactive.scripts`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from kernelscope.analysis.files import whole
from kernelscope.reports import (
    advice,
    breakdown_views,
    breakdown_words,
    captures,
    colours,
    content,
    explanation,
    explanation_views,
    figures,
    interactive,
    sections,
    svg,
    units,
)
from kernelscope.reports.content import Result
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.measured import MeasuredPart
from kernelscope.reports.sections import PageTable
from kernelscope.reports.text import printable

TEMPLATES = Path(__file__).parent / "templates"
_WIDE, _NARROW = figures.Style(), figures.Style(width_in=4.4, font_pt=9.0)
_BESIDE = figures.Style(width_in=6.0)  # beside the list of frameworks
_WATERFALL = figures.Style(width_in=6.6)  # beside the causes
_NUMBERS = "the numbers are in the table of"


def write_comparison(result: Result, path: Path, interactive: Sequence[Interactive] = ()) -> None:
    """Write the report of a comparison (the result of analysis.compare), with its interactive parts.

    Raises OSError if the file cannot be written.
    """
    _write(_page("report.html", {**_context(result, []), "interactive": interactive}), path)


def write_run(
    result: Result,
    breakdowns: Sequence[Mapping[str, Any]],
    path: Path,
    parts: Sequence[MeasuredPart] = (),
    interactive: Sequence[Interactive] = (),
    first: str | None = None,
    advised: Mapping[str, Any] | None = None,
) -> None:
    """Write the report of one run.

    result: analysis.compare of this run alone. breakdowns: Breakdown.as_dict of every table to show; a missing one is
    {"by", "unavailable": reason, "rows": []}. parts: roofline and energy, if the run has them (see `measured`). interactive: its
    interactive parts. first: a remark to read before any table. advised: its advice (analysis.advise). Raises OSError if the file
    cannot be written.
    """
    context = _context(result, breakdowns, parts)
    warnings = [*([first] if first else []), *content.warnings(result, traced=not first)]
    context |= {"interactive": interactive, "warnings": warnings, **_advised(advised)}
    if advised is not None:  # the page of a single run names it above the answer
        name = result["frameworks"][0]
        named = PurePath(result["network"]["name"]).stem == name  # a script's own name
        work = context["work"] if named else f"{name} · {context['work']}"
        context |= {"headline": context["advised"].answer, "work": work}
    _write(_page("report.html", context), path)


def write_explanation(result: Mapping[str, Any], path: Path) -> None:
    """Write the report of an explanation alone (the result of analysis.explain).

    Raises OSError if the file cannot be written.
    """
    _write(_page("explanation.html", _explanation(result)), path)


def write_capture(
    record: Mapping[str, Any],
    breakdowns: Sequence[Mapping[str, Any]],
    path: Path,
    interactive: Sequence[Interactive] = (),
    advised: Mapping[str, Any] | None = None,
    calls: Sequence[Mapping[str, Any]] = (),
    device: Sequence[PageTable] = (),
) -> None:
    """Write the report of an imported capture: import.json and the envelopes of its breakdowns, as `write_run` takes them.

    interactive: its interactive parts. advised: its advice. calls: calls of the device's API (accounting.calls). device: tables
    of what the device did (see `measured`). Raises OSError if the file cannot be written.
    """
    tables = {"calls": breakdown_views.calls(calls), "device": device}
    context = {**_capture(record, breakdowns), **tables, "interactive": interactive}
    context |= _advised(advised)
    if advised is not None:
        context |= {"headline": context["advised"].answer, "whole": context["headline"]}
        context["scope"] = captures.scope(advised, breakdowns)
    _write(_page("capture.html", context), path)


def write_page(template: str, context: Mapping[str, Any], path: Path) -> None:
    """Write a page from one of the templates with its context, for other modules; "interactive" lists its Interactive parts.

    Raises OSError if the file cannot be written.
    """
    _write(_page(template, context), path)


def _write(page: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text(path, page)


def _page(template: str, context: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(printable=printable, signed=units.signed, packed=_packed)
    environment.globals.update(written=sections.WRITTEN)
    return environment.get_template(template).render(
        **{"interactive": [], "advised": None, **context},
        scripts=interactive.scripts(context.get("interactive", [])),
        style=Markup(colours.css() + (TEMPLATES / "style.css").read_text(encoding="utf8")),  # noqa: S704 (our own file)
    )


def _packed(rows: str) -> Markup:
    """Return rows of a table, already escaped by the templates, as the text of a script element."""
    return Markup(interactive.packed(rows))  # noqa: S704 (base64)


def _advised(result: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the context for advice."""
    return {"advised": None if result is None else advice.page(result)}


def _explanation(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of an explanation's page."""
    known = [str(result[name]) for name in ("network", "mode") if result.get(name)]
    known += [f"batch {result['batch']}"] if result.get("batch") else []
    return {
        "title": explanation.title(result),
        "headline": explanation.answer(result),
        "work": " \u00b7 ".join([*known, *explanation.recordings(result)]),
        "explanations": _explained([result]),
        "kernelscope": importlib.metadata.version("kernelscope"),
        "reading": content.EXPLAINED_READING + content.HOST_READING,
    }


def _explained(
    results: Sequence[Mapping[str, Any]], evidence: explanation_views.Evidence | None = None
) -> list[tuple[explanation_views.Explained, Markup]]:
    """Return explanations with their waterfalls, for wide and for narrow pages."""
    found = []
    for number, result in enumerate(results, 1):
        view = explanation_views.explained(result, explanation.key(number), evidence)
        sizes = {"wide": _WATERFALL, "narrow": _NARROW}
        found.append((view, svg.sized(partial(figures.waterfall, result), view.key, view.alternative, sizes)))
    return found


def _capture(record: Mapping[str, Any], breakdowns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the context of an imported capture's page."""
    shown = captures.first(breakdowns)
    return {
        "title": " · ".join(entry["name"] for entry in record["sources"]),
        "headline": captures.headline(record, breakdowns),
        "work": f"an imported capture: {', '.join(entry['name'] for entry in record['sources'])}",
        "chart": _chart_of_rows(shown) if shown is not None else None,
        "facts": breakdown_views.capture_facts(captures.facts(record, breakdowns)),
        "warnings": captures.warnings(record),
        "findings": [*captures.findings(record), *captures.not_shown(breakdowns)],
        "breakdowns": [breakdown_views.breakdown(part) for part in captures.shown(breakdowns)],
        "samples": breakdown_views.samples(record.get("samples", [])),
        "created": record.get("created"),
        "kernelscope": record.get("kernelscope"),
        "reading": content.READING,
    }


def _chart_of_rows(shown: Mapping[str, Any]) -> Markup:
    """Return the bars of a breakdown as SVG for wide and for narrow pages."""
    alternative = f"Bars of the {breakdown_words.whole(shown)} by {shown['by']}; {_NUMBERS} the same name."
    return svg.sized(partial(figures.rows, shown), "rows", alternative, {"wide": _WIDE, "narrow": _NARROW})


def _context(result: Result, breakdowns: Sequence[Mapping[str, Any]], parts: Sequence[MeasuredPart] = ()) -> dict[str, Any]:
    """Return the context of a comparison's or a run's page."""
    return {
        "alone": len(result["frameworks"]) == 1,
        "title": f"{result['network']['name']} · {result['mode']} · {', '.join(result['frameworks'])}",
        "headline": content.headline(result),
        "work": content.work(result),
        "machine": content.machine(result),
        "sides": sections.sides(result),
        "sides_in_order": result["frameworks"],
        "warnings": content.warnings(result),
        "resolution": content.resolution(result),
        "left_out": result["left_out"],
        "charts": _charts(result),
        "explanations": _explained(result.get("explanations") or [], sections.evidence(result)),
        "summary": sections.summary(result),
        "layers": sections.side_by_side(result, "layers"),
        "kinds": sections.side_by_side(result, "kinds"),
        "cells": sections.side_by_side(result, "cells") if result.get("cells") else None,
        "kernels": sections.kernels(result),
        "lines": sections.lines(result),
        "fairness_line": content.fairness_line(result),
        "failures": content.failures(result),
        "fairness": sections.fairness(result),
        "settings": sections.settings(result),
        "passes": sections.passes(result),
        "methods": sections.methods(result),
        "versions": sections.versions(result),
        "breakdowns": [breakdown_views.breakdown(part) for part in breakdowns],
        "parts": [(part, _drawn(part)) for part in parts],
        "command": content.command(result),
        "created": result.get("created"),
        "kernelscope": result.get("kernelscope"),
        "reading": content.READING + (content.EXPLAINED_READING if result.get("explanations") else ()),
    }


def _drawn(part: MeasuredPart) -> Markup | None:
    """Return a part's figure as SVG for wide pages; None if it has none."""
    if part.draw is None:
        return None
    key = sections.identifier(part.title)
    # names in a roofline do not fit a narrow page, which has the interactive roofline
    return svg.sized(part.draw, key, printable(part.alternative), {"wide": _WIDE})


def _charts(result: Result) -> dict[str, Callable[[], Markup]]:
    """Return functions that draw the figures as SVG for wide and narrow pages; the style sheet shows one of both."""
    drawn: dict[str, tuple[Callable[[Result, figures.Style], Figure], str]] = {
        "step_times": (figures.step_times, _alternative(result)),
        "kinds": (figures.kinds_stacked, f"Stacked bars of each framework's step by kind of kernel; {_NUMBERS} kinds."),
        "layers_stacked": (figures.layers_stacked, f"Stacked bars of each framework's step by layer; {_NUMBERS} layers."),
        "layers": (figures.layers, f"A panel per framework with a bar per layer, split by phase; {_NUMBERS} layers."),
    }
    charts: dict[str, Callable[[], Markup]] = {}
    for name, (draw, alternative) in drawn.items():
        sizes = {"wide": _BESIDE if name == "kinds" and len(result["frameworks"]) > 1 else _WIDE, "narrow": _NARROW}
        if name == "layers":
            del sizes["narrow"]  # on narrow pages the bars in the table of layers show the same
        charts[name] = partial(svg.sized, partial(draw, result), name, alternative, sizes)
    return charts


def _alternative(result: Result) -> str:
    parts = [f"{row['framework']} {units.duration(row['step_median_ns'])}" for row in content.by_speed(result)]
    return printable(f"Bar chart. Median step time, fastest first: {', '.join(parts)}.")
