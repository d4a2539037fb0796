"""XSpace files of TensorFlow, JAX and PyTorch/XLA: GPUs of either vendor, TPUs, and CPUs if nothing else computes.

A GPU's plane has one line per stream; the profiler derives its lines "XLA Ops", "Framework Ops" and similar ones from the
streams, so they show the same time again. On a TPU the line "XLA Ops" is the work itself; operations that contain others
(loops, calls) are ranges there. Transfers that a TPU makes beside its operations are on "Async XLA Ops". The operations that
start them and wait for them compute nothing, and are syncs. If the transfers of a core were not recorded, its waits stand for
them.

The host's planes hold CUDA or HIP API calls, with the correlation of the work that they launched, executions of TensorFlow's
operators ("conv1/Conv2D:Conv2D"), and other events of the frameworks and Python, which become ranges. Statistics give a kernel's
operator (tf_op for TensorFlow, name for JAX) and its launch's grid, block and memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.protobuf_columns import varint
from kernelscope.analysis.formats import python_functions
from kernelscope.analysis.formats.xplane import columns, functions, gpu, host, kernel_operators, tpu
from kernelscope.analysis.formats.xplane import devices as xplane_devices
from kernelscope.analysis.formats.xplane import steps as xplane_steps
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.trace import Trace, conform, thread_names

_PLANE_NAME = re.compile(rb"/(?:host|device|virtualdevice):|Task Environment|#Chip|Host CPUs|Syscalls")
_SILENT_HOSTS = ("/host:metadata", "/host:tfstreamz", "/host:__ScopeRangeCallStack__")
_LISTED = 16  # devices without events in a note
_NAMED = 4  # planes of unknown devices in a message
_LINE_BITS = (1 << 48) - 1


def matches(head: Head) -> bool:
    """Return whether the content begins like an XSpace: with a plane whose name is known."""
    content = head.content
    try:
        tag, length, position = content[0], *varint(content, 1)
        if tag != 0x0A or length < 4:
            return False
        if content[position] == 0x08:  # a plane's number may precede its name
            _, position = varint(content, position + 1)
        if content[position] != 0x12:
            return False
        length, position = varint(content, position + 1)
    except IndexError:
        return False
    return length < 1000 and _PLANE_NAME.match(content[position : position + length]) is not None


def read(path: Path) -> Trace:
    """Read an XSpace file; raise EvidenceError if it cannot be read or is not one."""
    space = xplane.read_planes(path, columns.INTEGERS, columns.TEXTS)
    missing = [plane.name.startswith("/device:GPU") and kernel_operators.are_missing(plane) for plane in space.planes]
    if any(missing):
        contents = xplane.read_programs(path)
        planes = zip(space.planes, missing, strict=True)
        added = [kernel_operators.added(plane, contents, str(path)) if lacks else plane for plane, lacks in planes]
        space = replace(space, planes=added)
    return of_space(space)


def of_space(space: xplane.Space) -> Trace:
    """Return the Trace of a file's planes, whose events have the statistics columns.INTEGERS and columns.TEXTS."""
    names = ("ranges", "operators", "kernels", "graphs", "copies", "syncs", "memory", "calls")
    tables: columns.Tables = {name: [] for name in names}
    diagnostics: dict[str, int] = {}
    planes = _sorted_out(space, diagnostics)
    for take_apart, parts in ((gpu.take_apart, planes.gpu), (tpu.take_apart, planes.tpu)):
        if parts:
            take_apart(columns.joined(parts), tables, diagnostics)
    on_cpu = not any(len(part) for name in ("kernels", "copies", "graphs") for part in tables[name])
    if on_cpu:
        planes.refuse_unknown_devices()
    maker = "rocm" if any(row["device"].startswith("rocm") for row in [*planes.devices, *planes.empty]) else "cuda"
    hosts = host.events_of(planes.hosts)
    for events in hosts:
        host.take_apart(events, on_cpu, maker, tables, diagnostics)
    columns.count(diagnostics, "events without a usable time", space.damaged)
    columns.count(diagnostics, "errors and warnings of the profiler", len(space.messages))
    trace = Trace(diagnostics=diagnostics)
    frames = {name: columns.joined(parts) for name, parts in tables.items()}
    xplane_devices.separate_launches(frames)
    for name, frame in frames.items():
        setattr(trace, name, conform(name, frame))
    trace.steps = _steps(planes, hosts, trace, diagnostics)
    trace.host_lines = functions.host_lines(hosts, trace.steps, diagnostics)
    trace.info = _info(trace, space, planes)
    python_functions.describe(trace.host_lines, trace.info, functions.MISSING)
    trace.info["threads"] = {}
    for events in hosts:
        trace.info["threads"] |= thread_names.of_lines(events.assign(thread=events["line_id"]))
    return trace


@dataclass
class _Planes:
    """A file's planes by kind. devices, empty: entries for info, of devices with and without events.

    gpu, tpu: events. hosts: planes with the number of their process. unknown: numbers of events on planes of unknown devices.
    """

    devices: list[dict[str, Any]] = field(default_factory=list)
    empty: list[dict[str, Any]] = field(default_factory=list)
    gpu: list[pd.DataFrame] = field(default_factory=list)
    tpu: list[pd.DataFrame] = field(default_factory=list)
    hosts: list[tuple[xplane.Plane, int]] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)

    def refuse_unknown_devices(self) -> None:
        """Raise EvidenceError if devices of other kinds have events."""
        if self.unknown:
            named = ", ".join(f"{name!r} ({count:,} events)" for name, count in list(self.unknown.items())[:_NAMED])
            raise EvidenceError(
                f"the work of {named} cannot be read yet, and the host's side alone would mislead; only GPUs and TPUs are read"
            )


def _sorted_out(space: xplane.Space, diagnostics: dict[str, int]) -> _Planes:
    """Return a file's planes by kind."""
    result, names = _Planes(), xplane_devices.Planes()
    for number, plane in enumerate(space.planes):
        device, process = names.device(plane)
        if device and not len(plane.events):
            result.empty.append(xplane_devices.described(plane, device))
        elif device:
            result.devices.append(xplane_devices.described(plane, device))
            events = _device_events(plane, device, number).assign(process=process)
            (result.tpu if device.startswith("tpu") else result.gpu).append(events)
        elif plane.name.startswith("/host:") and plane.name not in _SILENT_HOSTS:
            result.hosts.append((plane, process))
        elif plane.name not in _SILENT_HOSTS:
            columns.count(diagnostics, "events of other planes not read", len(plane.events))
    result.unknown = dict(names.unknown)
    return result


def _device_events(plane: xplane.Plane, device: str, number: int) -> pd.DataFrame:
    """Return a plane's events with their device and, as lane, a number of their line that no other plane or thread has.

    A device's own line numbers are small and repeat.
    """
    lanes = (plane.events["line_id"] & _LINE_BITS) + (number + 1 << 48)
    return plane.events.assign(device=columns.constant(plane.events.index, device), lane=lanes)


def _steps(planes: _Planes, hosts: list[pd.DataFrame], trace: Trace, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return the steps in the file."""
    on_devices = next((steps for part in (planes.gpu, planes.tpu) if len(steps := _device_steps(part))), pd.DataFrame())
    on_host = next((steps for events in hosts if len(steps := xplane_steps.of_host(events))), pd.DataFrame())
    steps = conform("steps", xplane_steps.chosen(on_host, on_devices, trace))
    kept = xplane_steps.apart(steps)
    columns.count(diagnostics, "steps inside of others", len(steps) - len(kept))
    return kept


def _device_steps(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return xplane_steps.of_devices(columns.joined(parts)) if parts else pd.DataFrame()


def _framework(trace: Trace) -> str | None:
    """Return the framework, if names in the file prove it."""
    ranges = trace.ranges["name"].cat.categories.astype("str")
    if len(ranges) and ranges.str.startswith(("PjitFunction", "TfrtTpuLoadedExecutable", "PyClient", "PjRt")).any():
        return "jax"
    if trace.operators["scope"].notna().any() or (
        len(ranges) and ranges.str.startswith(("ExecutorState::", "EagerExecute")).any()
    ):
        return "tensorflow"
    return None


def _info(trace: Trace, space: xplane.Space, planes: _Planes) -> dict[str, Any]:
    devices, empty = planes.devices, planes.empty
    notes = ["the profiler's picoseconds are rounded to ns"]
    if empty:
        more = ", ..." if len(empty) > _LISTED else ""
        notes.append(f"{len(empty)} devices without events: {', '.join(row['device'] for row in empty[:_LISTED])}{more}")
    if trace.kernels["name"].astype("string").str.startswith("__amd_rocclr_").any():
        notes.append("ROCm copies and fills memory with its own kernels, named __amd_rocclr_...")
    if (
        len(trace.calls)
        and len(trace.ranges)
        and not np.isin(trace.calls["thread"].unique(), trace.ranges["thread"].unique()).any()
    ):
        notes.append("calls have the system's thread ids and ranges have hashes of them: kernels cannot be joined to ranges")
    unavailable = {}
    if trace.kernels.empty:
        unavailable["kernels"] = "no device's plane holds work, and no host's plane an operator that computes"
    if len(trace.kernels) and trace.calls.empty:
        unavailable["launches"] = "the file holds no GPU API calls"
    if not devices and len(trace.kernels):
        devices = [{"device": "cpu", "name": None}]
    info: dict[str, Any] = {
        "source": {"format": "xplane", "tool": "XLA profiler", "version": None, "schema": None},
        "clock": "wall" if space.wall_clock else "relative",
        "framework": _framework(trace),
        "devices": devices,
        "unavailable": unavailable,
        "notes": notes,
    }
    if planes.unknown:
        shown = ", ".join(f"{name} {count:,}" for name, count in list(planes.unknown.items())[:_NAMED])
        info |= {"not_read": planes.unknown, "warnings": [f"events of unknown devices are not read: {shown}"]}
    return info
