"""Words and numbers of an imported capture for every renderer: selections from import.json and its breakdowns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.accounting.host_rows import summed_up
from kernelscope.reports import breakdown_words, units

Record = Mapping[str, Any]
Envelopes = Sequence[Mapping[str, Any]]

_TELLS = 0.01  # of the time: a breakdown with less coverage is not shown
_DEVICES = 16  # named at most: no machine has more, but a damaged capture may
_ALIKE = 0.98  # of the recording: an answer about this much counts as about all of it
ROWS = 15  # of the first table

# Names of the Trace's tables in text
_TABLES = {
    "steps": "steps", "kernels": "kernels", "graphs": "graph executions", "copies": "copies and memory sets",
    "calls": "API calls", "syncs": "synchronisations", "ranges": "ranges", "operators": "operators", "memory": "memory events",
    "totals": "totals", "samples": "samples", "lines": "host lines",
}  # fmt: skip


def headline(record: Record, breakdowns: Envelopes) -> str:
    """Return in one line which tool recorded the capture on which device, and how busy the device was."""
    info = record["info"]
    source = info.get("source", {})
    tool = " ".join(str(source[key]) for key in ("tool", "version") if source.get(key)) or str(source.get("format"))
    names = sorted({str(device["name"]) for device in info.get("devices", []) if device.get("name")})
    functions = info.get("counted") == "functions"
    busy = _busy(breakdowns, functions) if record["tables"].get("kernels") else _contents(record)
    parts = [tool, f"on {', '.join(names)}" if names else "", busy]
    return ": ".join(filter(None, [" ".join(filter(None, parts[:2])), parts[2]]))


def _busy(breakdowns: Envelopes, functions: bool) -> str:
    totals = totals_of(breakdowns)
    if "wall_ns" not in totals:
        what = "in functions of Python" if functions else "of kernels"
        return f"{units.duration(totals['kernel_sum_ns'])} {what}" if totals.get("kernel_sum_ns") else ""
    share = totals["kernel_busy_ns"] / totals["wall_ns"] if totals["wall_ns"] else None
    return f"kernels ran in {units.percent(share)} of {units.duration(totals['wall_ns'])}"


def _contents(record: Record) -> str:
    """Return what a capture without kernels contains."""
    tables = [f"{units.count(record['tables'][name])} {title}" for name, title in _TABLES.items() if name in record["tables"]]
    return ", ".join(tables[:3]) or "nothing was recorded"


def totals_of(breakdowns: Envelopes) -> Mapping[str, int]:
    """Return the known sums of the window (kernel_sum_ns, kernel_busy_ns, device_busy_ns, wall_ns)."""
    return next((part["totals"] for part in breakdowns if part.get("totals")), {})


def scope(advised: Mapping[str, Any], breakdowns: Envelopes) -> str:
    """Say which part of the recording a page's answer covers, if its tables cover more; empty if they cover the same."""
    wall_ns = totals_of(breakdowns).get("wall_ns")
    tables = next((part for part in breakdowns if part["rows"]), None)
    if wall_ns is None or tables is None or tables.get("window") != "capture":
        return ""
    below = f"The chart and the tables below cover the whole recording, {units.duration(wall_ns)}"
    if advised["per"] == "a step":
        step = f"The answer above is about a step, {units.duration(advised['step_ns'])}."
        return f"{step} {below}; `kernelscope breakdown --steps auto` shows the step's."
    if advised.get("recorded_ns") or advised["step_ns"] >= _ALIKE * wall_ns:
        return ""
    return (
        f"The answer above is about the {units.duration(advised['step_ns'])} from the first to the last work on the device. "
        f"{below}, including what the host did before and after."
    )


def facts(record: Record, breakdowns: Envelopes) -> list[tuple[str, str]]:
    """Return names and values of what was read."""
    info = record["info"]
    source = info.get("source", {})
    found = [("file", f"{entry['name']} ({units.size(entry['bytes'])})") for entry in record["sources"]]
    found.append(("format", " ".join(str(source[key]) for key in ("format", "schema") if source.get(key))))
    active = {row["device"]: row for row in record.get("devices", [])}
    devices = info.get("devices", [])
    found += [("device", _device(device, active.get(device["device"]))) for device in devices[:_DEVICES]]
    found += [("device", f"and {len(devices) - _DEVICES:,} more")] if len(devices) > _DEVICES else []
    functions = info.get("counted") == "functions"
    titles = _TABLES | ({"kernels": "functions", "totals": "cumulative times"} if functions else {})
    found += [(title, units.count(record["tables"][name])) for name, title in titles.items() if name in record["tables"]]
    known = totals_of(breakdowns)
    named = {
        "kernel_sum_ns": "sum of kernel times", "kernel_busy_ns": "some kernel running",
        "device_busy_ns": "device busy, copies too", "wall_ns": "wall time",
    }  # fmt: skip
    if functions:
        named["kernel_sum_ns"] = "functions' own times add up to"
    seen = known if record["tables"].get("kernels") else {key: known[key] for key in ("wall_ns",) if key in known}
    found += [(title, units.duration(seen[key])) for key, title in named.items() if key in seen]
    whole = known.get("kernel_sum_ns")
    for key in ("kind", "range", "operator", "layer"):
        if whole and known.get(f"known_{key}_ns"):
            found.append((f"{key} known", f"{units.percent(known[f'known_{key}_ns'] / whole)} of kernel time"))
    return found


def _device(device: Mapping[str, Any], active: Mapping[str, Any] | None) -> str:
    named = str(device["device"]) + (f": {device['name']}" if device.get("name") else "")
    if active is None:
        return named
    busy = active["kernel_busy_ns"]
    ran = f"{units.counted(active['kernels'], 'kernel')}, {units.duration(active['kernel_sum_ns'])} in total"
    return f"{named}: {ran}" + (f", busy {units.duration(busy)}" if busy is not None else "")


def warnings(record: Record) -> list[str]:
    """Return the warnings to read before any table."""
    return [str(line) for line in record["info"].get("warnings", [])]


def findings(record: Record) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return sections of (name, sentence): oddities, missing data, notes."""
    info = record["info"]
    odd = [_odd(name, count) for name, count in sorted(record["diagnostics"].items()) if count]
    sections = [
        ("Oddities in the capture", odd),
        ("What the capture does not hold", [(str(name), str(reason)) for name, reason in info.get("unavailable", {}).items()]),
        ("Notes", [("", str(line)) for line in info.get("notes", [])]),
    ]
    return [(title, lines) for title, lines in sections if lines]


def _odd(name: str, count: int) -> tuple[str, str]:
    """Return an oddity and how much of it there is; the value is a time if the name ends in ns."""
    return (name.removesuffix(", ns"), units.duration(count)) if name.endswith(", ns") else (name, units.count(count))


def first(breakdowns: Envelopes) -> Mapping[str, Any] | None:
    """Return the best overview: the breakdown by kind, else by range, else by line; None if there is none of them."""
    return next((part for by in ("kind", "range", "line") for part in breakdowns if part["by"] == by and part["rows"]), None)


# Breakdowns by how much they say about a capture, most first
_ORDER = ("kernel", "kind", "range", "operator", "layer", "layer-kernel", "phase", "idle", "step", "line")


def longest_first(breakdowns: Envelopes) -> Mapping[str, Any] | None:
    """Return the overview with its longest rows first and the host's rows summed up last; ROWS of them are shown."""
    table = first(breakdowns)
    if table is None:
        return None
    device, host = summed_up(table["by"], sorted(table["rows"], key=breakdown_words.row_ns, reverse=True))
    return {**table, "rows": [*device, *host]}


def title(table: Mapping[str, Any]) -> str:
    """Return the heading of a breakdown."""
    return f"{breakdown_words.whole(table).capitalize()} {breakdown_words.by(table)}"


def shown(breakdowns: Envelopes) -> list[Mapping[str, Any]]:
    """Return the breakdowns that the capture allows and that have enough coverage, in _ORDER; one step alone is no table."""
    there = [part for part in breakdowns if part["rows"] and (part["coverage"] > _TELLS or part["by"] == "kernel")]
    there = [part for part in there if part["by"] != "step" or len(part["rows"]) > 1]
    return sorted(there, key=lambda part: _ORDER.index(part["by"]) if part["by"] in _ORDER else len(_ORDER))


def not_shown(breakdowns: Envelopes) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return a section with the breakdowns that the capture does not allow, and why; empty if it allows all."""
    reasons: dict[str, list[str]] = {}
    for part in breakdowns:
        if part.get("unavailable"):
            reasons.setdefault(str(part["unavailable"]), []).append(str(part["by"]))
    missing = [(f"by {', '.join(names)}", reason) for reason, names in reasons.items()]
    return [("Breakdowns that the capture does not allow", missing)] if missing else []
