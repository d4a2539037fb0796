"""The gain from more threads or devices: speed-up and efficiency against the fewest that ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CONDITIONS = (
    "sweep", "hardware", "framework", "network", "mode", "batch", "threads", "device", "devices", "precision", "layout",
    "autotune",
)  # fmt: skip
Row = Mapping[str, Any]


def efficiencies(cells: Iterable[Row], axis: str) -> list[dict[str, Any]]:
    """Return a row for each finished cell in groups of at least two that differ only in `axis`.

    cells: rows of results.parquet with None for null. axis: threads or devices. Added columns are base (the smallest finished
    value of the axis), speedup (rate over the base's rate), efficiency (speedup over the ratio of threads or devices), and
    efficiency_low and efficiency_high: from opposite ends of both cells' 95% intervals, so wider than 95%. They are null if a
    cell has no interval, and for the base, whose efficiency is 1 by definition.
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
