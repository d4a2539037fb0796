"""One side of an explanation of device work: the capture, its steps, and the account of one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting.device_account import ALL, DeviceAccount, account, is_host_timed
from kernelscope.analysis.attribution import steps as finding_steps
from kernelscope.analysis.attribution.steps import DetectedSteps, Request
from kernelscope.analysis.attribution.steps.model import critical_device
from kernelscope.analysis.trace import Trace


@dataclass(frozen=True)
class CaptureSide:
    """What is to be explained: where it is and its Trace, read and related."""

    path: str
    trace: Trace


@dataclass
class DeviceSide:
    """A capture with its account. name: A or B, as sentences call it; label: that with what its path tells; path: where it is.
    detected: its steps; None without any.

    trace: with those steps. hardware: the device's name; None where unknown. busy_ns: how long each accelerator is busy in a
    step.
    """

    name: str
    label: str
    path: str
    trace: Trace
    detected: DetectedSteps | None
    account: DeviceAccount
    hardware: str | None
    busy_ns: dict[str, int]

    @property
    def on_cpu(self) -> bool:
        """Whether all kernels ran on the host's processors, as far as the capture tells where kernels ran."""
        kernels, copies = (table["device"].dropna() for table in (self.trace.kernels, self.trace.copies))
        on_host = bool((kernels == "cpu").all() and (copies == "cpu").all())
        return bool(len(kernels)) and on_host and critical_device(self.trace) is None

    @property
    def computes_on(self) -> str:
        """What the side computes on, in words: the CPU; or the device, with its name where that is known."""
        device = critical_device(self.trace) or self.account.device
        return "the CPU" if self.on_cpu else f"{device} ({self.hardware})" if self.hardware else device

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the capture: framework, version, source."""
        return self.trace.info


def applies(a: Trace, b: Trace) -> bool:
    """Return whether two captures hold device work, one of them an accelerator's: both on a timeline, or both as totals only."""
    if all(_is_totals(trace) for trace in (a, b)):
        return not any(_has_layers_on_cpu(trace) for trace in (a, b))
    timed = [
        bool(trace.kernels["start_ns"].notna().any() or len(trace.graphs) or trace.copies["start_ns"].notna().any())
        for trace in (a, b)
    ]
    return all(timed) and any(critical_device(trace) is not None or _only_copies(trace) for trace in (a, b))


def _is_totals(trace: Trace) -> bool:
    """Return whether device work is there, and none of it has a time."""
    work = [trace.kernels, trace.copies]
    return any(map(len, work)) and not len(trace.steps) and all(table["start_ns"].isna().all() for table in work)


def _has_layers_on_cpu(trace: Trace) -> bool:
    """Return whether a processor's totals tell layers, by which they are explained then."""
    kernels = trace.kernels
    return bool(len(kernels)) and bool((kernels["device"] == "cpu").all()) and bool(kernels["layer"].notna().any())


def _only_copies(trace: Trace) -> bool:
    """Return whether copies to or from a device are all that it did."""
    return not len(trace.kernels) and not len(trace.graphs) and bool((trace.copies["device"] != "cpu").any())


def side_of(capture: CaptureSide, label: str, steps: DetectedSteps | None, request: Request, whole: bool) -> DeviceSide:
    """Return a side with its account. label: see labels.labels. steps: its own. whole: take all devices as one."""
    trace = finding_steps.applied(capture.trace, steps)
    done = account(trace, ALL if whole else request.device)
    name = label.partition(" ")[0]
    return DeviceSide(name, label, capture.path, trace, steps, done, hardware_of(trace, done.device), _busy(trace, done))


def _busy(trace: Trace, done: DeviceAccount) -> dict[str, int]:
    """Return how long each accelerator is busy in a step."""
    if done.basis not in ("steps", "window"):
        return {}
    named = pd.concat([trace.kernels["device"].astype("string"), trace.graphs["device"].astype("string")]).dropna().unique()
    devices = sorted(str(name) for name in named if name != "cpu")
    return {name: done.busy_ns if name == done.device else account(trace, name).busy_ns for name in devices}


def takes_all(a: Trace, b: Trace) -> bool:
    """Return whether devices are taken as one: where a side has none but the processors, or operators stand for kernels."""
    return any(is_host_timed(trace) or critical_device(trace) is None for trace in (a, b))


def hardware_of(trace: Trace, device: str) -> str | None:
    """Return the name of a device; of the first accelerator that has one where the capture does not say which it is."""
    named = [one for one in trace.info.get("devices") or [] if isinstance(one, dict) and one.get("name")]
    mine = [str(one["name"]) for one in named if one.get("device") == device]
    others = [str(one["name"]) for one in named if one.get("device") != "cpu"]
    return mine[0] if mine else others[0] if len(set(others)) == 1 else None
