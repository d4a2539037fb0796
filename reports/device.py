"""Tables of a device's work for reading: units, shares, short names, and what the numbers are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.kernels import short_names
from kernelscope.reports import text, units
from kernelscope.reports.table import Table, of_rows

Row = Mapping[str, Any]

TITLES = {
    "occupancy": "Theoretical occupancy by kernel and launch",
    "metrics": "Hardware counters by kernel",
    "tensor-cores": "Tensor cores by element type",
    "tf32": "TF32",
    "streams": "Streams busy at once",
    "overlap": "Computing, communicating and copying at once",
    "copies": "Copies",
    "peak": "Peak memory",
    "memory": "Memory by purpose",
}

_SHARES = (
    "share", "occupancy", "mean_occupancy", "tail", "of_product", "of_copy", "of_roofline", "achieved_occupancy", "sm_throughput",
    "memory_throughput", "tensor_pipe", "theoretical_occupancy", "dram_throughput", "l2_throughput", "l1_throughput",
)  # fmt: skip
_UNITS = {"gflops_per_s": "Gflop/s", "gbytes_per_s": "GB/s", "intensity": "flop/byte"}
_LONGEST = 60  # characters of a text
KERNELS = ("kernel", "name")  # columns with kernel names
_ROOFLINE = {
    "kernel": ("name", "kind", "layer", "phase", "problem", "m", "n", "k", "transpose", "dtype", "algorithm"),
    "layer": ("layer", "phase"),
}
# The column that names a row, and the most important columns if not all fit
NAMES = {
    "roofline by kernel": "name", "roofline by layer": "layer", "occupancy": "kernel",
    "metrics": "kernel", "tensor-cores": "dtype", "tf32": "of",
    "streams": "device", "overlap": "activity", "copies": "operation", "peak": "device", "memory": "kind",
}  # fmt: skip
FIRST = (
    "time (ms)", "duration (ms)", "share", "of_roofline", "bound", "occupancy", "limiter", "mean_occupancy",
    "sm_throughput", "dram_throughput", "l2_throughput", "l1_throughput", "achieved_occupancy", "theoretical_occupancy",
    "tensor_pipe", "dram_bytes", "memory_throughput", "threads_per_warp", "Gflop/s", "GB/s",
    "allocated_bytes", "bytes", "state", "count", "of_product", "of_copy", "flop/byte", "blocks", "waves", "registers",
)  # fmt: skip
_RATES = ("gflops_per_s", "of_product", "gbytes_per_s", "of_copy", "intensity", "bound", "of_roofline", "reason")


def envelope(found: Mapping[str, Sequence[Row] | str]) -> dict[str, Any]:
    """Return tables, and the reasons for missing ones, as content for JSON."""
    shown = {name: rows for name, rows in found.items() if not isinstance(rows, str)}
    return {"tables": shown, "unavailable": {name: why for name, why in found.items() if isinstance(why, str)}}


def table(title: str, rows: Sequence[Row], limit: int = 0) -> Table:
    """Return rows for reading as a table. title: a key of TITLES, or a roofline's title. See `readable`."""
    about = NAMES[title]
    return of_rows(
        title, readable(rows, limit), title=TITLES.get(title, title.capitalize()) + shared_reason(rows), first=(about, *FIRST)
    )


def shared_reason(rows: Sequence[Row]) -> str:
    """Return why something is unknown, for a table's title, if all rows have the same reason."""
    reasons = {row.get("reason") for row in rows}
    (reason,) = reasons if len(reasons) == 1 else (None,)
    return f"; unknown: {text.printable(reason)}" if reason else ""


def readable(rows: Sequence[Row], limit: int = 0) -> list[dict[str, Any]]:
    """Return rows with units; rows beyond `limit` (0: no limit) become one.

    Empty columns are left out, and so is a reason that all rows share, which the title states (see shared_reason).
    """
    shown = list(rows[:limit] if limit > 0 else rows)
    rest = rows[len(shown) :]
    if rest:
        shown.append(_together(rest))
    columns = [name for name in (rows[0] if rows else ()) if any(row.get(name) is not None for row in shown)]
    columns = [name for name in columns if name != "reason"] if shared_reason(rows) else columns
    apart = short_names.apart(str(row[name]) for row in shown for name in KERNELS if row.get(name))
    return [{_heading(name): _cell(name, row.get(name), apart) for name in columns} for row in shown]


def _together(rest: Sequence[Row]) -> dict[str, Any]:
    """Return the sums of the rows that are not shown."""
    names = [name for name in rest[0] if isinstance(rest[0][name], str) or rest[0][name] is None]
    adding = [name for name in rest[0] if name in ("count", "share") or name.endswith("_ns")]
    sums = {name: sum(row[name] or 0 for row in rest) for name in adding}
    label = next((name for name in ("kernel", "name", "layer", "kind") if name in rest[0]), names[0] if names else None)
    return {**({label: f"({len(rest)} more)"} if label else {}), **sums}


def _heading(name: str) -> str:
    if name in _UNITS:
        return _UNITS[name]
    return name.removesuffix("_ns") + " (ms)" if name.endswith("_ns") else name


def _cell(name: str, value: Any, apart: Mapping[str, str]) -> Any:
    if value is None:
        return None
    if name.endswith("_ns"):
        return f"{value / 1e6:,.3f}"
    if name in _SHARES:
        return units.percent(value)
    if name == "bytes" or name.endswith("_bytes") or name == "shared_memory":
        return units.size(value)
    if isinstance(value, str) and name in KERNELS:
        own = apart.get(value)
        return text.printable(short_names.short(value) + (f" ({own})" if own else ""))
    if isinstance(value, str):
        shown = text.printable(value)
        return shown if len(shown) <= _LONGEST or name in ("reason", "evidence") else f"{shown[: _LONGEST - 2]} …"
    return value


def rates(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a roofline's rows (Roofline.as_dict) with the columns for reading."""
    keys = _ROOFLINE[found["by"]]
    times = ("count", "time_ns") if found["step_ns"] is not None else ("count", "duration_ns")
    whole = max(int(found["step_ns"] or found["kernel_ns"]), 1)
    rows = []
    for row in found["rows"]:
        share = {"share": row[times[1]] / whole}
        rows.append({name: row[name] for name in (*keys, *times)} | share | {name: row[name] for name in _RATES})
    return rows


def roofline_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the lines below a roofline: its ceilings, how much of it is known, notes."""
    whole = max(int(found["kernel_ns"]), 1)
    over = units.counted(found["steps"], "step") if found["steps"] else "the whole capture"
    lines = [
        f"kernels: {units.duration(found['kernel_ns'])} in {over}; operations or bytes are known for "
        f"{units.percent(found['known_ns'] / whole)} of it; bytes are algorithmic: inputs read once, outputs written once"
    ]
    ceilings = found["ceilings"]
    if ceilings:
        where = ", ".join(str(ceilings[name]) for name in ("framework", "device") if ceilings[name])
        threads = f", {ceilings['threads']} threads" if ceilings["threads"] else ""
        products = [f"{entry['dtype']} {entry['flops_per_s'] / 1e9:,.1f} Gflop/s" for entry in ceilings["products"]]
        copies = [f"{units.size(entry['bytes'])} {entry['bytes_per_s'] / 1e9:,.1f} GB/s" for entry in ceilings["copies"]]
        date = f" {str(ceilings['measured'])[:10]}" if ceilings.get("measured") else ""
        lines.append(f"ceilings ({ceilings['source']}{date}: {where}{threads}): products {', '.join(products) or 'none'}")
        lines.append(f"copies (bytes read and written): {', '.join(copies) or 'none'}")
    return [text.printable(line, 2000) for line in [*lines, *(f"note: {note}" for note in found["notes"])]]
