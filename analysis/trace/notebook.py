"""HTML for notebooks: small tables of traces and results, with all text escaped and the remaining rows summed into one.

Notebooks call `_repr_html_` of a cell's last value. Nothing here reads files or computes new results.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelscope.analysis.accounting.breakdowns import Breakdown
    from kernelscope.analysis.trace import Trace

_ROWS = 12  # shown of a table
_TEXT = 200  # characters of a cell
_SINGLE = {"mean_ns": "average, ns", "median_ns": "median, ns", "min_ns": "shortest, ns", "max_ns": "longest, ns"}
_LEFT, _RIGHT = "text-align:left", "text-align:right"


class Shown(dict[str, Any]):
    """A result, plain data with a schema, that displays itself in notebooks."""

    def __repr__(self) -> str:
        return f"<{self.get('schema')}: {', '.join(map(str, self))}>"

    def _repr_html_(self) -> str:
        schema = str(self.get("schema"))
        show = next((show for name, show in _RESULTS.items() if schema.startswith(f"kernelscope/{name}/")), None)
        return show(self) if show else _page(schema, "", "")


def of_trace(trace: Trace, tables: Iterable[str]) -> str:
    """Return a summary of a Trace: those of its tables (by these names) that have rows, and its diagnostics."""
    info = trace.info
    source = info.get("source") or {}
    names = [info.get(name) for name in ("framework", "network_name", "mode")] + [
        source.get(name) for name in ("tool", "version")
    ]
    rows = []
    for name in tables:
        table = getattr(trace, name)
        if len(table):
            rows.append([name, f"{len(table):,}", ", ".join(map(str, table.columns[table.notna().any()]))])
    remarks = [f"{name}: {count:,}" for name, count in trace.diagnostics.items() if count]
    remarks += [str(line) for line in info.get("warnings") or []]
    return _page(
        "Trace " + " ".join(str(name) for name in names if name), _table(["table", "rows", "columns"], rows, [1]), *remarks
    )


def of_breakdown(breakdown: Breakdown, short: Callable[[str], str]) -> str:
    """Return a breakdown's largest rows, the others summed, and the total, in exact ns. short: shortens a kernel's name."""
    table = breakdown.table
    column = "duration_ns" if breakdown.step_ns is None else "time_ns"
    single = {name: title for name, title in _SINGLE.items() if name in table and table[name].notna().any()}
    numbered = ("count", "duration_ns", "time_ns", "share", "method", *_SINGLE)
    keys = [name for name in table.columns if name not in numbered and table[name].notna().any()]
    shown, rest, whole = table.head(_ROWS).to_dict("records"), table.iloc[_ROWS:], int(table[column].sum())
    rows = []
    for row in shown:
        name = short(str(row[keys[0]])) if breakdown.by == "kernel" else row[keys[0]]
        numbers = [*_time(row[column], whole), row["count"], *(row[key] for key in single)]
        rows.append([name, *map(_number, numbers), *(row[key] for key in keys[1:])])
    blank = [""] * (len(single) + len(keys))
    rows += (
        [[f"({len(rest)} other{'s' if len(rest) > 1 else ''})", *map(_number, _time(rest[column].sum(), whole)), *blank]]
        if len(rest)
        else []
    )
    rows += [["all", *map(_number, _time(whole, whole)), *blank]]
    unit = {"steps": "ns per step", "capture": "ns", "totals": "ns, durations added"}[breakdown.window]
    note = f"known for {breakdown.coverage:.1%}" + (f", {breakdown.steps:,} steps" if breakdown.steps else "")
    heads = [*keys[:1], unit, "share", "calls", *single.values(), *keys[1:]]
    return _page(f"Step by {breakdown.by}" if breakdown.steps else f"By {breakdown.by}",
                 _table(heads, rows, range(1, 4 + len(single))), note)  # fmt: skip


def _time(ns: Any, whole: int) -> tuple[int, str | None]:
    """Return a row's time and its share of the whole."""
    return int(ns), _share(int(ns), whole)


def _number(value: Any) -> Any:
    """Return a number with thousands separators, and anything else unchanged."""
    return f"{int(value):,}" if isinstance(value, int | float) and value == value else value


def _comparison(result: Mapping[str, Any]) -> str:
    rows = [
        [row["framework"], _ms(row["step_median_ns"]), _ms(row.get("slower_ns")), f"{row['ratio']:.2f}", row.get("steps")]
        for row in sorted(result["summary"], key=lambda row: int(row["step_median_ns"]))
    ]
    work = [
        result["network"].get("name"),
        result["mode"],
        f"batch {result['batch']}" if result.get("batch") else None,
        result["device"],
    ]
    title = "Comparison: " + " · ".join(str(part) for part in work if part)
    notes = [_difference(part) for part in result.get("explanations") or []]
    return _page(title, _table(["side", "median step, ms", "slower by, ms", "ratio", "steps"], rows, [1, 2, 3, 4]), *notes)


def _explanation(result: Mapping[str, Any]) -> str:
    whole = int(result["wall_delta_ns"])
    matches = [[finding["title"], int(finding["explains_ns"]), finding.get("confidence")] for finding in result["findings"]]
    rows = [*matches, ["not explained", whole - sum(row[1] for row in matches), None], ["difference", whole, None]]
    shown = [[title, f"{ns:+,}", _share(ns, whole), sure] for title, ns, sure in rows]
    notes = [f"no cause is named: {result['abstained']}"] if result.get("abstained") else []
    return _page(_difference(result), _table(["cause", "ns per step", "share", "confidence"], shown, [1, 2]), *notes)


_RESULTS = {"compare": _comparison, "explain": _explanation}


def _difference(result: Mapping[str, Any]) -> str:
    a, b = (result[side].get("name") or side.upper() for side in ("a", "b"))
    return f"{b} against {a}: {result['wall_delta_ns'] / 1e6:+,.3f} ms per step"


def _page(title: str, table: str, *notes: str) -> str:
    paragraphs = "".join(f"<p>{_escaped(note)}</p>" for note in notes if note)
    return f'<div class="kernelscope"><p><b>{_escaped(title)}</b></p>{table}{paragraphs}</div>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int]) -> str:
    """Return a table; the columns in `right` are right-aligned."""
    sides = [_RIGHT if place in right else _LEFT for place in range(len(heads))]
    head = "".join(f'<th style="{side}">{_escaped(text)}</th>' for side, text in zip(sides, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f'<td style="{side}">{_escaped(cell)}</td>' for side, cell in zip(sides, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(value: object) -> str:
    """Return a value as HTML text: hidden characters escaped, long text cut, a dash if unknown."""
    if value is None or value != value:
        return "—"
    text = str(value)
    text = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
    return html.escape("".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text))


def _ms(ns: float | None) -> str | None:
    return None if ns is None else f"{ns / 1e6:,.3f}"


def _share(ns: float, whole: float) -> str | None:
    return f"{ns / whole:.1%}" if whole else None
