"""The page of a job of several ranks: the answer, each rank's step as a bar, who makes the others wait, and the collectives."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.reports import html, ranks, ranks_timeline, svg, units
from kernelscope.reports.figures import Style
from kernelscope.reports.figures.ranks import ROWS, caused
from kernelscope.reports.figures.ranks import ranks as drawn
from kernelscope.reports.sections import PageTable, ViewCell, ViewColumn, text_cell

_SIZES = {"wide": Style(), "narrow": Style(width_in=4.4, font_pt=9.0)}
_MS = "ms:3"
READING = (
    ("computing", "kernels of the rank run, except those that communicate"),
    ("transfer", "communication while nothing computes, after the last rank began it"),
    ("for ranks", "communication while nothing computes, before the last rank began it"),
    ("for the host", "the device has nothing to do; the capture says what the host did"),
    ("hidden transfer", "communication while other kernels run: it is within computing, and no part of the sum"),
    ("clock", "how far the rank's clock is ahead of the corrected one"),
    ("others wait", "time of all waiting ranks, added up"),
)


@dataclass(frozen=True)
class Section:
    """A table of the page, with its heading and its short name in links."""

    heading: str
    short: str
    table: PageTable

    @property
    def key(self) -> str:
        """Its identifier."""
        return self.table.key


def write(result: Mapping[str, Any], path: Path) -> None:
    """Write the page of a job (analysis.ranks.job). Raises OSError if the file cannot be written."""
    alternative = f"Stacked bars of each rank's step; the numbers are in the table of ranks. {ranks.answer(result)}"
    chart = svg.sized(partial(drawn, result, ranks.NAMES), "ranks", alternative, _SIZES)
    left = len(result["ranks"]) - ROWS
    made = result.get("timeline")
    parts = [ranks_timeline.timeline(made, result["caused"], len(result["ranks"]))] if made else []
    context = {
        "title": f"a job of {len(result['ranks'])} ranks",
        "headline": ranks.costs(result),
        "answer": " ".join(filter(None, (ranks.slowest(result), ranks.slow_links(result), ranks.gains(result)))),
        "work": f"a job of {len(result['ranks'])} ranks",
        "chart": chart,
        "caused": _caused(result),
        "interactive": parts,
        "note": f"the {ROWS} ranks with the longest steps; {left} more are in the table" if left > 0 else "",
        "facts": ranks.notes(result),
        "views": _sections(result),
        "reading": READING,
        "kernelscope": importlib.metadata.version("kernelscope"),
    }
    html.write_page("ranks.html", context, path)


def _caused(result: Mapping[str, Any]) -> Markup | None:
    """Return the figure of who made the others wait in which step; None for a single step, which the table covers."""
    if result["steps"] < 2 or not result["caused"] or result["partial"]:
        return None
    said = "For each rank and step, how long the others waited for it; the sums are in the table of late ranks."
    return svg.sized(partial(caused, result), "caused", said, _SIZES)


def _sections(result: Mapping[str, Any]) -> list[Section]:
    found = [Section("Each rank's step", "Ranks", _ranks(result))]
    if result["blame"] and not result["partial"]:
        found.append(Section("Who makes the others wait", "Who is late", _blame(result["blame"])))
    if result["groups"]:
        found.append(Section("Groups of ranks", "Groups", _groups(result["groups"])))
    if result["collectives"]:
        found.append(Section("Collectives", "Collectives", _operations(result["collectives"])))
    return found


def _time(ns: int) -> ViewCell:
    return ViewCell(units.in_unit(ns, "ms", 3), ns)


def _ranks(result: Mapping[str, Any]) -> PageTable:
    parts = [part for part in JOB_PARTS if result["parts"][part]]
    columns = [ViewColumn("rank"), ViewColumn("step", True, _MS)]
    columns += [ViewColumn(ranks.HEADS.get(part, part), True, _MS) for part in parts]
    columns += [
        ViewColumn(ranks.HIDDEN, True, _MS),
        ViewColumn("clock", True),
        ViewColumn("device", asked=True),
        ViewColumn("capture", asked=True),
    ]
    rows = [
        [
            ViewCell(str(row["rank"]), row["rank"]), _time(row["step_ns"]), *(_time(row[part]) for part in parts),
            _time(row["hidden_ns"]), ViewCell(f"{row['offset_ns'] / 1e6:+,.3f}", row["offset_ns"]),
            text_cell(row["hardware"] or row["device"]), text_cell(Path(row["path"]).name),
        ]
        for row in result["ranks"]
    ]  # fmt: skip
    return PageTable("ranks", "Each rank's step, ms: the parts add up to it", columns, rows)


def _blame(blame: Sequence[Mapping[str, Any]]) -> PageTable:
    longest = max(row["ns"] for row in blame) or 1
    columns = [ViewColumn("rank"), ViewColumn("others wait", True, _MS)]
    columns += [
        ViewColumn("by"),
        ViewColumn("what"),
        ViewColumn("where"),
        ViewColumn("before"),
        ViewColumn("times", True, "count"),
    ]
    rows = [
        [
            text_cell("undecided" if row["rank"] is None else row["rank"]),
            ViewCell(units.in_unit(row["ns"], "ms", 3), row["ns"], bar=row["ns"] / longest),
            text_cell(row["cause"]), text_cell(row["name"], code=True), text_cell(row["where"]), text_cell(row["operation"]),
            ViewCell(units.count(row["count"]), row["count"]),
        ]
        for row in blame
    ]  # fmt: skip
    keys = {"rank": ["undecided" if row["rank"] is None else str(row["rank"]) for row in blame],
            "where": [row["where"] for row in blame]}  # fmt: skip
    caption = "Time the others waited for a rank: ms per step, added up over ranks"
    return PageTable("blame", caption, columns, rows, keys=keys, groups=("rank", "where"), start="rank")


def _groups(groups: Sequence[Mapping[str, Any]]) -> PageTable:
    heads = ("time", "waiting", "transfer")
    columns = [ViewColumn("ranks"), *(ViewColumn(head, True, _MS) for head in heads), ViewColumn("hidden", True)]
    columns += [
        ViewColumn("count", True, "count"),
        ViewColumn("on the bus", True),
        ViewColumn("slower", True),
        ViewColumn("operations"),
    ]
    rows = []
    for row in groups:
        hidden = ranks.hidden(row)
        rows.append(
            [
                text_cell(ranks.group(row)), *(_time(row[f"{name}_ns"]) for name in ("time", "wait", "transfer")),
                ViewCell(f"{hidden:.0%}", hidden), ViewCell(units.count(row["count"]), row["count"]),
                ViewCell(ranks.rate(row["bus_gb_s"]), row["bus_gb_s"]), ViewCell(ranks.slower(row), row["slower"]),
                text_cell(", ".join(row["operations"])),
            ]
        )  # fmt: skip
    caption = "Groups of ranks: ms per step, added up over their ranks; hidden by computing; slower: ratio to similar groups"
    return PageTable("groups", caption, columns, rows)


def _operations(operations: Sequence[Mapping[str, Any]]) -> PageTable:
    heads = ("waiting", "of it exposed", "transfer")
    columns = [ViewColumn("operation"), ViewColumn("size", True), *(ViewColumn(head, True, _MS) for head in heads)]
    columns += [ViewColumn("count", True, "count"), ViewColumn("one takes", True)]
    columns += [ViewColumn(head, True) for head in ranks.RATES.values()]
    rows = [
        [
            text_cell(row["operation"]), ViewCell(ranks.size(row), row["bytes"]),
            *(_time(row[key]) for key in ("wait_ns", "exposed_wait_ns", "transfer_ns")),
            ViewCell(units.count(row["count"]), row["count"]), ViewCell(units.duration(row["single_ns"]), row["single_ns"]),
            *(ViewCell(ranks.rate(row[key]), row[key]) for key in ranks.RATES),
        ]
        for row in operations
    ]  # fmt: skip
    caption = "Collectives: ms per step, added up over ranks; one takes: its transfer; this and the bandwidths are medians"
    return PageTable("collectives", caption, columns, rows)
