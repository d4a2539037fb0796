"""How traces and results show themselves in notebooks: small HTML, every text escaped, the rest of a table as one row.

Notebooks call `_repr_html_` of what a cell ends with. Nothing here reads files or computes anything new.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelscope.analysis.accounting.breakdowns import Breakdown
    from kernelscope.analysis.trace import Trace

_ROWS = 12  # of a table
_TEXT = 200  # characters of a cell
_LEFT, _RIGHT = "text-align:left", "text-align:right"


class Shown(dict[str, Any]):
    """A result, plain data with a schema, that shows itself in notebooks."""

    def __repr__(self) -> str:
        return f"<{self.get('schema')}: {', '.join(map(str, self))}>"

    def _repr_html_(self) -> str:
        schema = str(self.get("schema"))
        show = next((show for name, show in _RESULTS.items() if schema.startswith(f"kernelscope/{name}/")), None)
        return show(self) if show else _page(schema, "", "")


def of_trace(trace: Trace, tables: Iterable[str]) -> str:
    """Return what a Trace holds: its tables, by these names, with their rows, and diagnostics."""
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


def of_breakdown(breakdown: Breakdown) -> str:
    """Return a breakdown's largest rows, the others as one, and the whole, in exact ns."""
    table, timed = breakdown.table, breakdown.step_ns is not None
    column = "time_ns" if timed else "duration_ns"
    keys = [name for name in table.columns if name not in ("count", "duration_ns", "time_ns", "share", "method")]
    keys = [name for name in keys if table[name].notna().any()]
    whole = int(table[column].sum())
    rows = [[*(row[name] for name in keys), int(row[column])] for row in table.head(_ROWS).to_dict("records")]
    rest = table.iloc[_ROWS:]
    blank = [""] * (len(keys) - 1)
    rows += [[f"({len(rest)} others)", *blank, int(rest[column].sum())]] if len(rest) else []
    rows += [["all", *blank, whole]]
    shown = [[*row[:-1], f"{row[-1]:,}", _share(row[-1], whole)] for row in rows]
    unit = {"steps": "ns per step", "capture": "ns", "totals": "ns, durations added"}[breakdown.window]
    note = f"coverage {breakdown.coverage:.1%}" + (f", {breakdown.steps:,} steps" if breakdown.steps else "")
    return _page(f"Step by {breakdown.by}" if breakdown.steps else f"By {breakdown.by}",
                 _table([*keys, unit, "share"], shown, [len(keys), len(keys) + 1]), note)  # fmt: skip


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
    """Return a table; columns in `right` are aligned to the right."""
    sides = [_RIGHT if place in right else _LEFT for place in range(len(heads))]
    head = "".join(f'<th style="{side}">{_escaped(text)}</th>' for side, text in zip(sides, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f'<td style="{side}">{_escaped(cell)}</td>' for side, cell in zip(sides, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(value: object) -> str:
    """Return a value as HTML text: hidden characters as escapes, long text cut, what is not known as a dash."""
    if value is None or value != value:
        return "—"
    text = str(value)
    text = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
    return html.escape("".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text))


def _ms(ns: float | None) -> str | None:
    return None if ns is None else f"{ns / 1e6:,.3f}"


def _share(ns: float, whole: float) -> str | None:
    return f"{ns / whole:.1%}" if whole else None
