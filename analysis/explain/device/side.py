"""One side of an explanation of device work: the capture, its steps, and the account of one device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting.device_account import ALL, DeviceAccount, account, is_host_timed
from kernelscope.analysis.attribution import steps as finding_steps
from kernelscope.analysis.attribution.steps import DetectedSteps, Request
from kernelscope.analysis.attribution.steps.model import critical_device
from kernelscope.analysis.explain.trace_layers import range_label
from kernelscope.analysis.trace import EXECUTIONS, UNLISTED, Trace, conform

_ACCELERATORS = {"cuda", "rocm", "npu", "xpu", "mtia", "tpu"}
# Names of kernels that are built for one maker's devices only. RCCL keeps NCCL's names, and hipified kernels CUDA's
_OF_MAKER = {
    "AMD": r"\bck(?:_tile)?::|\bCijk_|\baiter::|\brocprim::|\brocblas_|\bhipcub::|MIOpen|miopen|^__amd_rocclr_",
    "NVIDIA": r"\bcutlass(?:::|_\d)|\bflash(?:::|_)(?:fwd|bwd)_\w*kernel|\bsm\d\d_|_sm\d\d_|xmma_|cudnn::|\bcublasLt?\b|^nvjet_|"
    r"\b(?:maxwell|pascal|volta|turing|ampere|hopper|blackwell)_",
}

_SHORT = 0.01  # of the time: whole tables of operators end with rows that take less


@dataclass(frozen=True)
class CaptureSide:
    """A capture to explain: its path, and its Trace, read and related."""

    path: str
    trace: Trace


@dataclass
class DeviceSide:
    """A capture with its account.

    name: A or B, as used in sentences. label: the name with words from the path. detected: its steps; None without any.
    trace: with those steps. hardware: the device's name; None if unknown. busy_ns: each accelerator's busy time per step.
    """

    name: str
    label: str
    path: str
    trace: Trace
    detected: DetectedSteps | None
    account: DeviceAccount
    hardware: str | None
    busy_ns: dict[str, int]

    @cached_property
    def on_cpu(self) -> bool:
        """Whether all kernels ran on the host's processors, as far as the capture says."""
        kernels, copies = (table["device"].dropna() for table in (self.trace.kernels, self.trace.copies))
        on_host = bool((kernels == "cpu").all() and (copies == "cpu").all())
        return bool(len(kernels)) and on_host and critical_device(self.trace) is None

    @property
    def computes_on(self) -> str:
        """What the side computes on, in words: the CPU, or the device, with its name if known."""
        device = critical_device(self.trace) or self.account.device
        device = "a device whose name was not recorded" if device == ALL else device
        return "the CPU" if self.on_cpu else f"{device} ({self.hardware})" if self.hardware else device

    @cached_property
    def capability(self) -> str | None:
        """The device's compute capability, in words; None if unknown."""
        number = _fact_of(self.trace, self.account.device, "compute_capability")
        return f"compute capability {number}" if number else None

    @property
    def model(self) -> str:
        """The device's name, else its compute capability, else what the side computes on."""
        maker = next(iter(self.makers)) if len(self.makers) == 1 else None
        return self.hardware or self.capability or (f"{maker}'s kernels" if maker else self.computes_on)

    @cached_property
    def makers(self) -> set[str]:
        """The makers of devices for whom kernels were built, as far as their names tell."""
        names = self.trace.kernels["name"].astype("string").dropna().drop_duplicates()
        return {maker for maker, pattern in _OF_MAKER.items() if names.str.contains(pattern, regex=True).any()}

    @cached_property
    def makes(self) -> set[str]:
        """The kinds of accelerators that ran kernels, such as cuda or npu."""
        devices = self.trace.kernels["device"].dropna().unique()
        return {str(device).partition(":")[0] for device in devices} & _ACCELERATORS

    @property
    def counts(self) -> bool:
        """Whether the capture tells how often its kernels ran."""
        return EXECUTIONS not in (self.trace.info.get("unavailable") or {})

    @cached_property
    def lists_operators(self) -> bool:
        """Whether totals are of operators and not of kernels: torch.profiler's tables of processors always are."""
        printed = (self.facts.get("source") or {}).get("format") == "torch-table"
        return printed and (self.on_cpu or self.facts.get("counted") == "operators")

    @cached_property
    def prints_longest_only(self) -> bool:
        """Whether this is a list of the operators that take the device longest, without a sum that tells what it lacks.

        A whole table also lists operators that launch nothing, such as views, and calls of the device's API.
        """
        sums_up = "host_ns" in self.facts or UNLISTED in set(self.trace.kernels["name"].dropna())
        own = self.facts.get("host_own") or {}
        if not self.lists_operators or self.on_cpu or sums_up or not own:
            return False
        longest = all((one.get("device_ns") or 0) > 0 for one in own.values()) and not len(self.trace.totals)
        return longest and float(self.trace.kernels["duration_ns"].min()) > _SHORT * self.account.step_ns

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the capture: framework, version, source."""
        return self.trace.info


def applies(a: Trace, b: Trace) -> bool:
    """Return whether kernels and kinds explain the captures, as both hold device work: an accelerator's, or without layers."""
    sides = (a, b)
    if any(is_totals(trace) for trace in sides):
        apart = len({trace.info.get("counted") for trace in sides}) > 1
        return all(_has_work(trace) and (apart or not _has_layers_on_cpu(trace)) for trace in sides)
    timed = [
        bool(trace.kernels["start_ns"].notna().any() or len(trace.graphs) or trace.copies["start_ns"].notna().any())
        for trace in sides
    ]
    if not all(timed):
        return False
    on_device = any(critical_device(trace) is not None or _only_copies(trace) for trace in sides)
    return on_device or not any(_names_layers(trace) for trace in sides)


def alike(a: CaptureSide, b: CaptureSide) -> tuple[CaptureSide, CaptureSide]:
    """Return both captures as totals if only one has a timeline: a span cannot be compared with a sum of durations."""
    if is_totals(a.trace) == is_totals(b.trace):
        return a, b
    sides = [CaptureSide(side.path, side.trace if is_totals(side.trace) else _as_totals(side.trace)) for side in (a, b)]
    return sides[0], sides[1]


def _as_totals(trace: Trace) -> Trace:
    """Return a trace's device work without its times of day: durations that add up."""
    names = ("kernels", "copies")
    tables = {name: conform(name, getattr(trace, name).drop(columns=["start_ns", "end_ns", "step"])) for name in names}
    return Trace(**tables, totals=trace.totals, metrics=trace.metrics, info=trace.info, diagnostics=trace.diagnostics)


def _has_work(trace: Trace) -> bool:
    return bool(len(trace.kernels) or len(trace.copies))


def _names_layers(trace: Trace) -> bool:
    """Return whether the capture says what parts of the program its work belongs to: layers, or ranges of the user."""
    layers = any(bool(table["layer"].notna().any()) for table in (trace.kernels, trace.operators))
    return layers or any(range_label(str(name)) is not None for name in trace.ranges["name"].dropna().unique())


def is_totals(trace: Trace) -> bool:
    """Return whether the capture has device work, and none of it has a start time."""
    work = [trace.kernels, trace.copies]
    return any(map(len, work)) and not len(trace.steps) and all(table["start_ns"].isna().all() for table in work)


def _has_layers_on_cpu(trace: Trace) -> bool:
    """Return whether totals of a CPU name layers: these captures are explained by layer instead."""
    kernels = trace.kernels
    return bool(len(kernels)) and bool((kernels["device"] == "cpu").all()) and bool(kernels["layer"].notna().any())


def _only_copies(trace: Trace) -> bool:
    """Return whether a device did nothing but copies."""
    return not len(trace.kernels) and not len(trace.graphs) and bool((trace.copies["device"] != "cpu").any())


def side_of(
    capture: CaptureSide, label: str, steps: DetectedSteps | None, request: Request, whole: bool, with_idle: bool = False
) -> DeviceSide:
    """Return a side with its account. label: see labels.labels. whole: take all devices as one. with_idle: as in `account`."""
    trace = finding_steps.applied(capture.trace, steps)
    done = account(trace, ALL if whole else request.device, with_idle=with_idle)
    name = label.partition(" ")[0]
    return DeviceSide(name, label, capture.path, trace, steps, done, hardware_of(trace, done.device), _busy(trace, done))


def _busy(trace: Trace, done: DeviceAccount) -> dict[str, int]:
    """Return each accelerator's busy time per step (ns)."""
    if done.basis not in ("steps", "window"):
        return {}
    named = pd.concat([trace.kernels["device"].astype("string"), trace.graphs["device"].astype("string")]).dropna().unique()
    devices = sorted(str(name) for name in named if name != "cpu")
    return {name: done.busy_ns if name == done.device else account(trace, name).busy_ns for name in devices}


def takes_all(a: Trace, b: Trace) -> bool:
    """Return whether to take all devices as one: if a side has only processors, or its operators stand for kernels."""
    return any(is_host_timed(trace) or critical_device(trace) is None for trace in (a, b))


def hardware_of(trace: Trace, device: str) -> str | None:
    """Return a device's name; if the capture does not name it, that of its accelerators, if they share one; else None."""
    return _fact_of(trace, device, "name")


def _fact_of(trace: Trace, device: str, fact: str) -> str | None:
    """Return a fact of a device, or of all accelerators that have it if it is the same; None if unknown."""
    known = [one for one in trace.info.get("devices") or [] if isinstance(one, dict) and one.get(fact)]
    mine = [str(one[fact]) for one in known if one.get("device") == device]
    others = [str(one[fact]) for one in known if one.get("device") != "cpu"]
    return mine[0] if mine else others[0] if len(set(others)) == 1 else None
