"""The report of sweeps: one self-contained HTML page, with the same figures and tables as files beside it."""

from __future__ import annotations

import importlib.metadata
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
from markupsafe import Markup

from kernelscope.analysis.comparisons.sweeps import Sweep, disturbed
from kernelscope.analysis.files import whole
from kernelscope.analysis.published import SOURCES, ConditionGroup, Value, compare
from kernelscope.reports import figures, html, svg, units
from kernelscope.reports.renderers import to_csv
from kernelscope.reports.sections import PageTable
from kernelscope.reports.sweeps import agreement, cells, published, tables
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.sweeps.chart import Chart, Missing
from kernelscope.reports.sweeps.charts import KINDS, charts
from kernelscope.reports.sweeps.panels import panels
from kernelscope.reports.sweeps.reasons import Reason, reasons
from kernelscope.reports.text import printable

_WIDE, _NARROW = figures.Style(), figures.Style(width_in=4.4, font_pt=9.0)
_DPI = 150
_MOST = 300  # rows of a table in the page; files have all rows
READING = (
    ("measured", "median over the windows of all restarts; small print: its 95% interval, over restarts and windows"),
    ("published", f"numbers by others: {agreement.OTHER}; never in a column with measured ones"),
    ("ratio", "a framework's value divided by the reference's under the same conditions, published or measured"),
    ("Spearman, Kendall", "rank correlations: 1 is the same order, -1 the reverse; p: probability of such a value by chance"),
    ("out of memory, timeout, failed", "the cell did not finish; the reason is in the table of cells without a number"),
    ("not available", "the framework is not set up here or cannot express it"),
    ("not run", "the sweep has no such cell"),
    ("\u2014", "unknown, never 0"),
)  # fmt: skip


@dataclass(frozen=True)
class Content:
    """The content of a report of sweeps. measured: a sweep's title and its tables in the form of the literature.

    reasons: why frameworks differ.
    """

    sweeps: Sequence[Sweep]
    rows: list[dict[str, Any]]
    measured: list[tuple[str, list[PageTable]]]
    charts: list[Chart | Missing]
    groups: list[ConditionGroup]
    published: list[Value]
    reasons: list[Reason] = field(default_factory=list)


def content(sweeps: Sequence[Sweep]) -> Content:
    """Return the content of the report of these sweeps."""
    rows = cells.rows(sweeps)
    groups = compare(rows)
    measured = [
        (_title(sweep), _numbered(tables.tables(sweep.experiment, cells.rows([sweep])), number if len(sweeps) > 1 else 0))
        for number, sweep in enumerate(sweeps, 1)
    ]
    stated = published.chosen(rows)
    return Content(sweeps, rows, measured, charts(rows, groups), groups, stated, reasons(rows))


def _numbered(views: Sequence[PageTable], number: int) -> list[PageTable]:
    """Return tables with unique keys for a page of several sweeps; number 0: there is only one."""
    return [replace(view, key=f"{number}-{view.key}") if number else view for view in views]


def write(sweeps: Sequence[Sweep], target: Path) -> list[Path]:
    """Write the page to `target` and its folders of figures (PNG, SVG) and tables (CSV); return the files, the page first.

    Raises OSError if a file cannot be written.
    """
    found = content(sweeps)
    html.write_page("sweep.html", _context(found), target)
    pictures, rows = folders(target)
    return [target, *_write_figures(found.charts, pictures), *_write_tables(found, rows)]


def folders(target: Path) -> list[Path]:
    """Return the folders that `write` fills beside a page: figures and tables, with the page's name unless it is report.html."""
    mine = "" if target.stem == "report" else f"{target.stem}-"
    return [target.parent / f"{mine}{what}" for what in ("figures", "tables")]


def _write_figures(found: Sequence[Chart | Missing], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "kernelscope", "text.parse_math": False}
    for chart in found:
        if isinstance(chart, Chart):
            figure = chart.draw(_WIDE)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # it is laid out once for both files
            with mpl.rc_context(settings), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Glyph .* missing")
                for form in ("png", "svg"):
                    data = io.BytesIO()
                    about = {"Software": None} if form == "png" else dict.fromkeys(("Creator", "Date", "Format", "Type"))
                    figure.savefig(data, format=form, dpi=_DPI, facecolor="white", metadata=about)
                    written.append(folder / f"{chart.key}.{form}")
                    with whole.growing(written[-1]) as path:
                        path.write_bytes(data.getvalue())
    return written


def _write_tables(found: Content, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    named = [(view.key, tables.plain(view)) for _, views in found.measured for view in views if view.rows]
    named += [(chart.table.name, chart.table) for chart in found.charts if isinstance(chart, Chart)]
    named.append(("cells", cells.table(found.rows)))
    named.append(("published_values", published.values_table(found.published)))
    named.append(("published_ranks", agreement.ranks_table(found.groups)))
    written = []
    for name, table in named:
        written.append(folder / f"{_file(name)}.csv")
        whole.write_text(written[-1], to_csv(table))
    return written


def _file(name: str) -> str:
    """Return a file name: characters other than letters, digits, dots, dashes and underscores become dashes."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).lstrip(".") or "table"


def _title(sweep: Sweep) -> str:
    return printable(sweep.record.get("title") or sweep.name)


def _context(found: Content) -> dict[str, Any]:
    """Return the context of the template."""
    near = agreement.nearest(found.groups)
    machines = list(dict.fromkeys(printable(row["hardware"]) for row in found.rows if row["hardware"]))
    drawn = [(chart, _drawn(chart)) for chart in found.charts if isinstance(chart, Chart)]
    return {
        "title": ", ".join(_title(sweep) for sweep in found.sweeps),
        "headline": headline(found),
        "work": " \u00b7 ".join([*machines, agreement_line(found.groups)]),
        "reasons": found.reasons,
        "facts": facts(found),
        "failures": _shortened(tables.failures(found.rows)),
        "measured": [(title, [_shortened(view) for view in views]) for title, views in found.measured],
        "charts": [(chart, picture) for chart, picture in drawn if chart.key != "published_ratios"],
        "interactive": panels(found.rows),
        "against": next((pair for pair in drawn if pair[0].key == "published_ratios"), None),
        "missing": [chart for chart in found.charts if isinstance(chart, Missing)],
        "published": published.tables(found.published),
        "ranks": _shortened(published.ranks(near)) if near else None,
        "ratios": _shortened(published.ratios(near)) if near else None,
        "cells": _shortened(tables.all_cells(found.rows)),
        "texts": [(_title(sweep), text) for sweep in found.sweeps if (text := _text(sweep))],
        "kernelscope": importlib.metadata.version("kernelscope"),
        "reading": READING,
        "sources": [SOURCES[key] for key in dict.fromkeys(value.source for value in found.published)],
        "other": agreement.OTHER,
    }


def _text(sweep: Sweep) -> str:
    """Return the text of the sweep's file from its record."""
    return "\n".join(printable(line, 500) for line in str(sweep.record.get("toml") or "").splitlines())


def headline(found: Content) -> str:
    """Return the headline: the framework that is fastest most often, how much slower others are, what was measured."""
    done = sum(map(cells.done, found.rows))
    measured = f"{done} of {len(found.rows)} cells measured" if done < len(found.rows) else f"all {done} cells measured"
    wins = fastest(found.rows)
    behind = _slowest(found.rows)
    if not wins:
        return measured[0].upper() + measured[1:]
    total, most = sum(wins.values()), max(wins.values())
    first = [name for name, count in wins.items() if count == most]
    often = f" in {most} of {total} comparisons" if total > 1 else ""
    if len(first) == 1:
        return printable(f"{first[0]} has the shortest step{often}; {behind}; {measured}", None)
    named = " and ".join(first) if len(first) == 2 else f"no framework is fastest throughout: {len(first)} of them"
    return printable(f"{named} have the shortest step{often} each; {behind}; {measured}", None)


def fastest(rows: Sequence[Row]) -> dict[str, int]:
    """Return how often each framework has the shortest median step, over conditions with at least two finished frameworks."""
    wins: dict[str, int] = {}
    for members in cells.compared(rows):
        name = str(members[0]["framework"])
        wins[name] = wins.get(name, 0) + 1
    return wins


def _slowest(rows: Sequence[Row]) -> str:
    """Return in words which framework is farthest behind the fastest one under the same conditions, and which these are."""
    shortest, longest = max(
        ((members[0], members[-1]) for members in cells.compared(rows)), key=lambda pair: pair[1]["step_ns"] / pair[0]["step_ns"],
        default=(None, None),
    )  # fmt: skip
    if shortest is None or longest is None:
        return ""
    ratio = longest["step_ns"] / shortest["step_ns"]
    times = " against ".join(units.duration(row["step_ns"]) for row in (longest, shortest))
    where = f"{longest['network']} {longest['mode']}, batch {longest['batch']}"
    return f"{longest['framework']} takes up to {ratio:.3g} times as long ({times}; {where})"


def agreement_line(groups: Sequence[ConditionGroup]) -> str:
    """Return in one line how well the order of frameworks agrees with the published one."""
    ranked = [group for group in groups if group.same_kind and group.spearman is not None]
    if not ranked:
        return "no published order to compare with on this kind of device"
    same = sum((group.spearman or 0) > 0 for group in ranked)
    return f"the order of frameworks correlates positively with the published one in {same} of {len(ranked)} groups"


def facts(found: Content) -> list[str]:
    """Return notes on the cells: whether it is unknown where their time goes, how many there are, what disturbed them."""
    counts: dict[str, int] = {}
    for row in found.rows:
        counts[str(row["status"])] = counts.get(str(row["status"]), 0) + 1
    said = [", ".join(f"{count} {status}" for status, count in counts.items())]
    wins = fastest(found.rows)
    if wins:
        ordered = sorted(wins.items(), key=lambda item: -item[1])
        said.append("shortest median step: " + ", ".join(f"{printable(name)} in {count}" for name, count in ordered))
    unknown = [
        f"{chart.title[0].lower()}{chart.title[1:]}: {chart.reason}"
        for chart in found.charts
        if isinstance(chart, Missing) and chart.key == KINDS and any(map(cells.done, found.rows))
    ]
    beside = disturbed(found.rows)
    return [*unknown, *said, *([beside] if beside else [])]


def _shortened(view: PageTable) -> PageTable:
    """Return a table short enough for a page; its caption says that the file has all rows."""
    if len(view.rows) <= _MOST:
        return view
    caption = f"{view.caption} (the first {_MOST} of {len(view.rows)} rows; its file beside this page has them all)"
    return PageTable(view.key, caption, view.columns, view.rows[:_MOST], view.total, view.tools)


def _drawn(chart: Chart) -> Markup:
    """Return a figure as SVG for wide and narrow pages; the style sheet shows one of them."""
    key = chart.key.replace("_", "-")
    both = [
        Markup('<div class="{}">{}</div>').format(
            kind, svg.inline(chart.draw(style), f"{key}-{kind}", printable(chart.alternative), style)
        )
        for kind, style in {"wide": _WIDE, "narrow": _NARROW}.items()
    ]
    return Markup("").join(both)
