"""Tables for people, of kernels, kinds, layers, operators and ranges: the rows of the device first, then one row of the host.

Data for programs keeps a row for each cause of time without kernels, sorted by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelscope.analysis.accounting.cell_labels import KERNELS

Row = dict[str, Any]
ONE = "(host: no kernel running)"
_NAMED = 3  # causes that the one row names, longest first
_LONG = 0.01  # of the whole
_HOST = "(host: "
# The column that names a table's rows of the host
_COLUMNS = {**dict.fromkeys(KERNELS, "kernel"), "kind": "kind", "layer": "layer", "operator": "operator", "range": "activity"}
_SUMS = ("duration_ns", "time_ns", "share")


def summed_up(by: str, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of the device, and one row for the host, which names the longest causes if rows have causes."""
    device, host = apart(by, rows)
    return device, [_one(by, host)] if len(host) > 1 else host


def apart(by: str, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of the device and those of the host. Only tables in _COLUMNS have rows of the host.

    A long range of the program in which no kernel runs stays among the device's rows: it has no other row.
    """
    column = _COLUMNS.get(by)
    host = [row for row in rows if str(row.get(column)).startswith(_HOST)] if column else []
    if by == "range":
        at_host = set(map(id, host))
        seen = {row["range"] for row in rows if id(row) not in at_host} | {None}
        host = [row for row in host if row["range"] in seen or (row["share"] or 0) < _LONG]
    mine = set(map(id, host))
    return [row for row in rows if id(row) not in mine], host


def _one(by: str, rows: Sequence[Row]) -> Row:
    """Return rows of the host as one. A cause may have several rows, as in tables by layer."""
    sums = {name: sum(row[name] or 0 for row in rows) for name in _SUMS}
    if by == "layer":  # its rows name no causes
        return dict.fromkeys(rows[0]) | {"layer": rows[0]["layer"]} | sums
    times: dict[str, int] = {}
    for row in rows:
        cause = str(row[_COLUMNS[by]])[len(_HOST) : -1]
        times[cause] = times.get(cause, 0) + (row["time_ns"] or 0)
    causes = sorted(times, key=lambda cause: -times[cause])
    rest = len(causes) - _NAMED
    named = ", ".join(causes[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    if by == "range":
        return dict.fromkeys(rows[0]) | {"range": ONE, "activity": f"{_HOST}{named})"} | sums
    detail = "kind" if by in KERNELS else "method"  # the column for the causes
    return dict.fromkeys(rows[0]) | {_COLUMNS[by]: ONE, detail: named} | sums
