"""Profiles of Triton's Proton: a tree of scopes whose leaves are kernels with the sums of their times.

A frame's metrics are its own and not included in those of the frames around it. Every frame with a time on a device is a kernel,
and the frames around it are its scope; __proton_launch_metadata holds kernels that the user's own launch hooks ran. Instrumented
kernels have cycles in place of times, and program counter samples are not executions: both are counted and not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.trace import Trace, conform

_FRAME = re.compile(r'"frame"\s*:\s*\{[^{}]*"name"')
_TIME = re.compile(r'"(?:time|cpu_time|cycles|normalized_cycles|num_samples)[^"]*"|"metrics"\s*:')
_TIME_KEYS = {"time (ns)": 1, "time (us)": 1_000, "time (ms)": 1_000_000, "time (s)": 1_000_000_000}
_READ = frozenset({*_TIME_KEYS, "count", "device_id", "device_type"})
_LONGEST_NS = 1 << 62
_PREFIXES = {"HIP": "rocm", "CUDA": "cuda"}
_HOOK = "__proton_launch_metadata"
_ROOT = "ROOT"
_NAMED = 6  # metrics in a note


class _Frame(msgspec.Struct, gc=False):
    name: str = ""


class _Node(msgspec.Struct, gc=False):
    frame: _Frame
    metrics: dict[str, Any] = {}
    children: list[msgspec.Raw] = []


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_NODE = msgspec.json.Decoder(_Node)
_DEVICES = msgspec.json.Decoder(dict[str, dict[str, dict[str, Any]]])


@dataclass
class _KernelRows:
    """Kernels and host scopes in the order of the tree.

    others: how many frames have each metric that is not read. doubtful: frames with an invalid time or number of executions.
    """

    kernels: list[dict[str, Any]] = field(default_factory=list)
    host: list[dict[str, Any]] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)
    doubtful: int = 0


def matches(head: Head) -> bool:
    """Return whether the file is a list that begins with a tree of frames with metrics."""
    text = head.text.lstrip()
    return head.is_text and text.startswith("[") and _FRAME.search(text) is not None and _TIME.search(text) is not None


def read(path: Path) -> Trace:
    """Read a profile; raise EvidenceError if it cannot be read or is not one."""
    try:
        parts = _LIST.decode(read_content(path))
        rows, devices = _KernelRows(), []
        for part in parts:
            if b'"frame"' in bytes(part):
                _walk(part, rows)
            else:
                devices += _devices(_DEVICES.decode(part))
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{path}: not a profile of Proton ({error}); write it again") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(f"{path}: not JSON, or cut short ({error}); write the profile again") from error
    if not rows.kernels and not rows.host:
        shown = ", ".join(sorted(rows.others)[:_NAMED]) or "none at all"
        raise EvidenceError(
            f"{path}: no frame has a time on a device (its metrics: {shown}); profile with the backend cupti or roctracer"
        )
    unavailable = {"times": "Proton's profiles are totals; proton.start(data='trace') records a timeline"}
    if not rows.kernels:
        unavailable["kernels"] = "no frame has a time on a device"
    diagnostics = {"frames with a time or a count that is none": rows.doubtful}
    return Trace(
        kernels=conform("kernels", pd.DataFrame(rows.kernels)),
        totals=conform("totals", pd.DataFrame(rows.host)),
        info={
            "source": {"format": "proton", "tool": "Triton Proton", "version": None, "schema": None},
            "clock": "none",
            "devices": devices,
            "unavailable": unavailable,
            "notes": _notes(rows),
        },
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _walk(root: msgspec.Raw, rows: _KernelRows) -> None:
    """Add the kernels of a tree, without recursion, as trees of Python stacks are deep."""
    waiting: list[tuple[msgspec.Raw, str]] = [(root, "")]
    while waiting:
        raw, scope = waiting.pop()
        node = _NODE.decode(raw)
        _add(node, scope, rows)
        inner = scope if node.frame.name in (_ROOT, "") else f"{scope}/{node.frame.name}" if scope else node.frame.name
        waiting += [(child, inner) for child in reversed(node.children)]


def _add(node: _Node, scope: str, rows: _KernelRows) -> None:
    """Add a frame's own metrics."""
    metrics = node.metrics
    for name, value in metrics.items():
        if name not in _READ and not name.startswith("cpu_time") and value not in (0, None):
            rows.others[name] = rows.others.get(name, 0) + 1
    if node.frame.name == _ROOT and not scope:
        return  # it has zeros for metrics of other frames
    host = next((_time(metrics, f"cpu_{key}", factor) for key, factor in _TIME_KEYS.items() if f"cpu_{key}" in metrics), None)
    if host is not None:
        name = f"{scope}/{node.frame.name}" if scope else node.frame.name
        rows.host.append({"table": "ranges", "name": name, "count": None, "duration_ns": host})
    key = next((key for key in _TIME_KEYS if key in metrics), None)
    if key is None:
        return
    duration, count = _time(metrics, key, _TIME_KEYS[key]), metrics.get("count")
    if duration is None or isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count < 1 << 53:
        rows.doubtful += 1
    elif duration or count:
        rows.kernels.append(_kernel(node, scope, duration, int(count)))


def _time(metrics: dict[str, Any], key: str, factor: int) -> int | None:
    value = metrics.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value * factor < _LONGEST_NS:
        return None
    return round(value * factor)


def _kernel(node: _Node, scope: str, duration: int, count: int) -> dict[str, Any]:
    kind, number = node.metrics.get("device_type"), node.metrics.get("device_id")
    known = isinstance(kind, str) and isinstance(number, str | int)
    return {
        "name": node.frame.name,
        "duration_ns": duration,
        "count": count,
        "device": f"{_prefix(str(kind))}:{number}" if known else None,
        "layer": scope or None,
        "attribution": "launch range" if scope else "none",
    }


def _prefix(kind: str) -> str:
    return _PREFIXES.get(kind, kind.lower())


def _devices(properties: dict[str, dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the devices as listed in info."""
    result = []
    for kind, numbers in properties.items():
        for number, facts in numbers.items():
            arch, units = facts.get("arch"), facts.get("num_sms")
            entry: dict[str, Any] = {"device": f"{_prefix(kind)}:{number}", "name": arch if isinstance(arch, str) else None}
            if isinstance(arch, str) and re.fullmatch(r"\d{2,3}", arch):
                entry |= {"name": None, "compute_capability": f"{arch[:-1]}.{arch[-1]}"}
            if isinstance(units, int):
                entry["core_count"] = units
            result.append(entry)
    return result


def _notes(rows: _KernelRows) -> list[str]:
    notes = ["layers are the frames around a kernel: the program's own scopes, or the Python stack"]
    if any(_HOOK in (row["layer"] or "") for row in rows.kernels):
        notes.append(f"kernels below {_HOOK} were run to count a launch's operations and bytes, not by the program")
    if rows.others:
        shown = ", ".join(f"{name} {count:,}" for name, count in sorted(rows.others.items())[:_NAMED])
        notes.append(f"metrics that are not read, with the number of frames that have them: {shown}")
    return notes
