"""The process that reads a report of Nsight Compute by the library ncu-report, and writes tables (see `ncu_library`).

python -m kernelscope.nsys_wrappers.ncu_pages REPORT LAUNCHES.csv RULES.csv
"""

from __future__ import annotations

import csv
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

RULES = ("launch", "Rule Type", "Rule Description", "Estimated Speedup", "Estimated Speedup Type")
_KINDS = {"OK": "INF", "OPTIMIZATION": "OPT", "WARNING": "WRN", "ERROR": "ERR"}  # as ncu prints them
_LINK = re.compile(r"@(?:url|section|source|sass):(?:[^:@]*:)?([^:@]+)(?::https?:[^@]*)?@")
_OF_DEVICES = ("device__attribute_display_name", "device__attribute_multiprocessor_count")
_KEYS = {
    "Context": ("launch__context_id",),
    "Stream": ("launch__stream_id",),
    "Device": ("launch__device_id", "device__attribute_device_index"),
}
_CAPABILITY = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")


def launches(report: Any) -> Iterator[Any]:
    """Yield the actions of all ranges of a report: kernels, graphs, ranges that were replayed as a whole."""
    for part in report:
        yield from part


def metrics(action: Any) -> dict[str, Any]:
    """Return value and unit of the metrics of a launch that are numbers; of the device's attributes, its name and processors."""
    names = [name for name in action.metric_names() if name in _OF_DEVICES or not name.startswith("device__attribute_")]
    found = [(name, metric) for name in names if (metric := action.metric_by_name(name)).has_value()]
    values = {name: (metric.value(), metric.unit()) for name, metric in found}
    return {name: value for name, value in values.items() if isinstance(value[0], int | float) or name in _OF_DEVICES}


def keys(number: int, action: Any, library: Any) -> dict[str, str]:
    """Return what names a launch, as in the columns of ncu's table."""
    known = set(action.metric_names())

    def whole(name: str) -> int | None:
        metric = action.metric_by_name(name) if name in known else None
        return int(metric.value()) if metric is not None and metric.has_value() else None

    def extent(of: str) -> str:
        parts = [whole(f"launch__{of}_dim_{axis}") for axis in "xyz"]
        return "" if None in parts else f"({', '.join(map(str, parts))})"

    result = {"ID": str(number), "Kernel Name": action.name(library.IAction.NameBase_DEMANGLED) or action.name()}
    for column, names in _KEYS.items():
        first = next((value for name in names if (value := whole(name)) is not None), None)
        result[column] = "" if first is None else str(first)
    result |= {"Block Size": extent("block"), "Grid Size": extent("grid")}
    capability = [whole(name) for name in _CAPABILITY]
    return result | {"CC": "" if None in capability else ".".join(map(str, capability))}


def rules(number: int, action: Any, library: Any) -> Iterator[tuple[object, ...]]:
    """Yield what the rules say of a launch, in the columns RULES."""
    for rule in action.rule_results():
        if not rule.has_rule_message():
            continue
        message = rule.rule_message()
        kind = _KINDS.get(library.MsgType(message["type"]).name)
        if kind is None:
            continue
        saving, of = "", ""
        if rule.has_speedup_estimation():
            told = rule.speedup_estimation()
            saving, of = f"{told['speedup']:.4f}", library.SpeedupType(told["type"]).name.lower()
        yield number, kind, _LINK.sub(r"\1", message["message"]), saving, of


def write(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV in which each text is in quotes, as ncu does."""
    with path.open("w", encoding="utf8", errors="replace", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)


def main(report: str, into: str, rules_into: str) -> None:
    """Read the report and write both tables."""
    library = importlib.import_module("ncu_report")
    named, measured = list[dict[str, str]](), list[dict[str, Any]]()
    said: list[Sequence[object]] = [RULES]
    for number, action in enumerate(launches(library.load_report(report))):
        named.append(keys(number, action, library))
        measured.append(metrics(action))
        said += rules(number, action, library)
    units = {name: unit for one in measured for name, (_, unit) in one.items()}
    columns = list(named[0]) if named else ["ID", "Kernel Name"]
    table = [[*columns, *units], [*[""] * len(columns), *units.values()]]
    for key, one in zip(named, measured, strict=True):
        table.append([*key.values(), *(one[name][0] if name in one else "" for name in units)])
    write(Path(into), table)
    write(Path(rules_into), said)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # whatever a damaged report makes the library say
        sys.exit(f"error: {error}")
