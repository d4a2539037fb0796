"""Rooflines of one or several runs as an interactive part of a page: hovering names a kernel, a click leads to its row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.reports import units
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import printable

MOST = 500  # points of a run: the kernels that took longest
_PHASES = ("forward", "backward", "optimizer", "data", "other")
_NOTE = (
    "A point is a kernel with one problem; its area shows the total time of its executions. The line is the lower of the "
    "measured largest copy and the measured product; data in caches moves faster, so points can lie above the slope"
)
Row = Mapping[str, Any]


def roofline(sides: Sequence[tuple[str, Mapping[str, Any] | str]]) -> Interactive:
    """Return the rooflines of runs: (name, Roofline.as_dict by kernel or the reason why there is none) for each."""
    found = [(name, side) for name, side in sides if not isinstance(side, str)]
    missing = [f"{name}: {side}" for name, side in sides if isinstance(side, str)]
    drawn = [_side(name, side) for name, side in found]
    for side in drawn:
        missing += [f"{side['name']}: {side['left']}"] if side["left"] else []
    drawn = [side for side in drawn if side["points"]]
    said = "; ".join(
        f"{side['name']}: {units.counted(len(side['points']), 'kernel')}, {side['line']['name'] or 'no ceilings'}"
        for side in drawn
    )
    return Interactive(
        "rooflines", "Roofline of kernels", "scatter", {"several": len(sides) > 1, "sides": drawn} if drawn else {},
        f"Attained operations per second over operations per byte of each kernel. {said or 'Nothing to draw'}. The same numbers "
        f"are in the table Roofline by kernel{'' if len(sides) == 1 else ' of the page of each run'}.",
        "; ".join([*([_NOTE] if drawn else []), *missing]),
    )  # fmt: skip


def anchor(place: int) -> str:
    """Return the identifier of a row of the roofline's table, by its place in Roofline.as_dict."""
    return f"roofline-row-{place}"


def _side(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    known = [(place, row) for place, row in enumerate(found["rows"]) if row["gflops_per_s"] and row["intensity"]]
    shown = known[:MOST]
    whole = max(int(found["kernel_ns"]), 1)
    left = len(found["rows"]) - len(known)
    said = [f"{units.counted(left, 'kernel')} without known operations or bytes"] if left else []
    said += [f"{units.counted(len(known) - MOST, 'kernel')} that took less"] if len(known) > MOST else []
    return {
        "name": printable(name),
        "left": f"left out: {', '.join(said)}" if said else "",
        "points": [_point(row, place, whole) for place, row in shown],
        "line": _roof(found, [row for _, row in shown]),
    }


def _point(row: Row, place: int, whole: int) -> dict[str, Any]:
    share = row["duration_ns"] / whole
    about = [printable(row["name"])]
    where = [printable(row[key]) for key in ("layer", "phase", "kind", "problem", "dtype") if row.get(key) is not None]
    about += [" \u00b7 ".join(where)] if where else []
    about.append(f"{row['gflops_per_s']:,.4g} Gflop/s at {row['intensity']:,.4g} operations per byte")
    if row["of_roofline"] is not None:
        about.append(f"{units.percent(row['of_roofline'])} of what its {row['bound']} allows")
    about.append(f"{units.duration(row['duration_ns'])} in {row['count']:,} executions, {units.percent(share)} of all kernels")
    keys = {key: printable(row[of]) for key, of in _KEYS.items() if row.get(of) is not None}
    return {
        "x": row["intensity"], "y": row["gflops_per_s"], "size": round(8 + 40 * math.sqrt(share), 1), "about": about,
        "phase": row["phase"] if row.get("phase") in _PHASES else "other", "row": anchor(place), "keys": keys,
    }  # fmt: skip


_KEYS = {"kernel": "name", "layer": "layer", "phase": "phase"}


def _roof(found: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Return the roof over the points: the product of the most frequent type, and the largest copy."""
    ceilings = found["ceilings"] or {}
    products = {entry["dtype"]: entry["flops_per_s"] / 1e9 for entry in ceilings.get("products", [])}
    if not rows or not products or not ceilings["copies"]:
        return {"name": "", "points": []}
    types = [str(row.get("dtype")) for row in rows if str(row.get("dtype")) in products]
    kind = max(dict.fromkeys(types), key=types.count) if types else next(iter(products))
    copy = max(ceilings["copies"], key=lambda entry: entry["bytes"])
    slope, flat = copy["bytes_per_s"] / 1e9, products[kind]
    knee = flat / slope
    low, high = (ends(*(row["intensity"] for row in rows), knee) for ends in (min, max))
    return {
        "name": f"{printable(kind)} product {flat:,.0f} Gflop/s, copy of {units.size(copy['bytes'])} {slope:,.1f} GB/s",
        "points": [[low / 2, low / 2 * slope], [knee, flat], [high * 2, flat]],
    }
