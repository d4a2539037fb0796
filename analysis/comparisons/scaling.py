"""How much more threads or devices bring: speed-up and efficiency against the fewest of them that ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CONDITIONS = (
    "sweep", "hardware", "framework", "network", "mode", "batch", "threads", "device", "devices", "precision", "layout",
    "autotune",
)  # fmt: skip
Row = Mapping[str, Any]


def efficiencies(cells: Iterable[Row], axis: str) -> list[dict[str, Any]]:
    """Return a row a cell that is done, of those that differ in nothing but `axis` and of which there are two or more.

    cells: rows of results.parquet with None for null. axis: threads or devices. Added to a cell's own columns are base (the
    fewest of the axis that are done), speedup (rate over the base's rate), efficiency (speedup over how many times as many there
    are), and efficiency_low and efficiency_high: from the opposite ends of both cells' 95% intervals, so that they are wider than
    95%; null where a cell has no interval, and the base's own, which is 1 by definition, has none either.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in cells:
        if row["status"] == "done" and row["samples_per_second"] and row[axis]:
            groups.setdefault(tuple(row.get(key) for key in CONDITIONS if key != axis), []).append(row)
    result = []
    for rows in groups.values():
        ordered = sorted(rows, key=lambda row: row[axis])
        if ordered[0][axis] != ordered[-1][axis]:
            result += [_against(row, ordered[0], axis) for row in ordered]
    return result


def _against(row: Row, base: Row, axis: str) -> dict[str, Any]:
    times = row[axis] / base[axis]
    speedup = row["samples_per_second"] / base["samples_per_second"]
    ends = [row.get("samples_per_second_low"), row.get("samples_per_second_high")]
    base_ends = [base.get("samples_per_second_high"), base.get("samples_per_second_low")]
    known = row is not base
    low, high = (end / other / times if known and end and other else None for end, other in zip(ends, base_ends, strict=True))
    return {
        **row,
        "base": base[axis],
        "speedup": speedup,
        "efficiency": speedup / times,
        "efficiency_low": low,
        "efficiency_high": high,
    }
