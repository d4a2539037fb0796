"""Power, energy, memory, utilisation, clocks, temperature and traffic of NVIDIA GPUs, if NVML answers.

What a GPU offers is found out once, by asking. NVML's clock is not ours: each answer is placed in the middle of its query,
together with the query's duration. The driver's own time stamps are kept beside, for fields that have one.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import psutil

from kernelscope.tracer.outside import gpu
from kernelscope.tracer.outside.samplers import nvml_questions
from kernelscope.tracer.outside.samplers.nvml_questions import FAST_NS, FieldRefusedError, Question
from kernelscope.tracer.outside.samplers.sampler import Sample

MEASURE_S = 1.0  # how long a value is watched to find its update period
_FEWEST_CHANGES = 4
_FAMILY_NS = 1_000_000_000  # how long a list of a process's children stays valid
_periods: dict[str, dict[str, Any]] = {}  # by UUID: measured once for all passes


class NvmlSource:
    """Samples every GPU that NVML sees; `unavailable` says why there is none. Used by one thread at a time.

    energy: query only what the energy pass needs, and do it fast. measure: find out how often power and energy change.
    """

    name = "nvml"

    def __init__(self, energy: bool = False, measure: bool = False) -> None:
        self.unavailable: str | None = None
        self._energy = energy
        self._devices: list[_Device] = []
        self._pynvml: Any = None
        self._family = _Family()
        self._refused: list[str] = []
        try:
            import pynvml

            pynvml.nvmlInit()
            self._pynvml = pynvml
            for index in range(pynvml.nvmlDeviceGetCount()):
                self._open(index)
            if not self._devices:
                self.unavailable = "; ".join(self._refused) or "NVML sees no GPU"
        except ImportError:
            self.unavailable = "the package nvidia-ml-py is not installed"
        except Exception as error:  # NVMLError and whatever a broken driver library raises
            self.unavailable = f"NVML: {error}"
        if measure:
            for device in self._devices:
                device.measure()

    def _open(self, index: int) -> None:
        """Open one GPU; if that fails (lost, no permission), the others are still used."""
        try:
            self._devices.append(_Device(self._pynvml, index, self._family))
        except self._pynvml.NVMLError as error:
            self._refused.append(f"NVML: GPU {index}: {error}")

    def lacks(self, metric: str) -> str | None:
        """Return why no GPU offers a metric; None if one does."""
        if self.unavailable:
            return self.unavailable
        reasons = [device.lacks(metric) for device in self._devices]
        return None if None in reasons else str(reasons[0])

    def sample(self, pid: int | None) -> list[Sample]:
        """Return the current samples, one set per GPU (`gpu` is NVML's index), without metrics that a GPU does not offer."""
        self._family.pid = pid
        return [sample for device in self._devices for sample in device.sample(self._energy)]

    def describe(self) -> dict[str, Any]:
        """Describe the sampled GPUs, what each does not offer and why, and errors meanwhile; or why none is sampled."""
        if self.unavailable:
            return {"source": "nvml", "unavailable": self.unavailable}
        gpus = [device.describe() for device in self._devices]
        return {"source": "nvml", "driver": gpu_driver(self._pynvml), "gpus": gpus, "refused": self._refused}


def gpu_driver(nvml: Any) -> str | None:
    """Return the driver's version; None if unknown."""
    try:
        version = nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return None
    return version.decode("utf8", "replace") if isinstance(version, bytes) else str(version)


class _Family:
    """The watched process with its children; updated once a second, because that takes milliseconds."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._known: tuple[int | None, int, set[int]] = (None, 0, set())

    def __call__(self) -> set[int]:
        pid, until, members = self._known
        now = time.monotonic_ns()
        if self.pid is None:
            return set()
        if pid != self.pid or now >= until:
            members = {self.pid, *_children(self.pid)}
            self._known = (self.pid, now + _FAMILY_NS, members)
        return members


def _children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


class _Device:
    """One GPU: the queries that it answers, and whether it has been lost."""

    def __init__(self, nvml: Any, index: int, family: Callable[[], set[int]]):
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self._gpu = gpu.describe(nvml, index)
        self._not_offered: dict[str, str] = {}
        self._notes: list[str] = []
        self._due: dict[tuple[str, ...], int] = {}
        self._lost = False
        self._power = "none"
        candidates = nvml_questions.questions(nvml, self._handle, family)
        self._questions = [*self._ways_to_power(), *(question for question in candidates if self._offers(question))]

    def _ways_to_power(self) -> list[Question]:
        ways = nvml_questions.power(self._nvml, self._handle)
        average = ways.pop("NVML_FI_DEV_POWER_AVERAGE")
        result = []
        for name, question in ways.items():
            if self._offers(question, name):
                self._power = name
                self._not_offered.pop("gpu_power_w", None)
                result.append(question)
                break
        return [*result, *([average] if self._offers(average) else [])]

    def _offers(self, question: Question, name: str | None = None) -> bool:
        """Try a query once; keep the reason if there is no answer."""
        try:
            question.ask()
        except (self._nvml.NVMLError, FieldRefusedError) as error:
            reason = self._reason(error)
            for metric in question.metrics:
                before = self._not_offered.get(metric)
                refusal = f"{name}: {reason}" if name else reason
                self._not_offered[metric] = f"{before}; {refusal}" if before else refusal
            return False
        return True

    def _reason(self, error: Exception) -> str:
        if isinstance(error, FieldRefusedError):
            return str(self._nvml.NVMLError(error.code))
        return str(error)

    def _code(self, error: Exception) -> int:
        return int(error.code if isinstance(error, FieldRefusedError) else getattr(error, "value", 0))

    def sample(self, energy: bool) -> list[Sample]:
        """Return the readings that are due. A lost GPU is noted once and not queried again; other errors once each."""
        rows: list[Sample] = []
        for question in self._questions:
            if self._lost or (energy and not question.energy):
                continue
            before = time.monotonic_ns()
            if before < self._due.get(question.metrics, 0):
                continue
            try:
                readings = question.ask()
            except (self._nvml.NVMLError, FieldRefusedError) as error:
                self._failed(question, error)
                continue
            after = time.monotonic_ns()
            if question.every_ns > FAST_NS:
                self._due[question.metrics] = after + question.every_ns
            at, spread = (before + after) // 2, after - before
            rows += [
                Sample(metric, value, gpu=self._gpu.index, time_ns=at, spread_ns=spread, source_time_ns=stamp)
                for metric, value, stamp in readings
            ]
        return rows

    def _failed(self, question: Question, error: Exception) -> None:
        gone = self._code(error) in (self._nvml.NVML_ERROR_GPU_IS_LOST, self._nvml.NVML_ERROR_UNINITIALIZED)
        if gone:
            self._lost = True
            note = f"{self._reason(error)}; no longer sampled"
        else:
            note = f"{', '.join(question.metrics)}: {self._reason(error)}"
        if note not in self._notes:
            self._notes.append(note)

    def lacks(self, metric: str) -> str | None:
        """Return why this GPU does not offer a metric; None if it does."""
        offered = any(metric in question.metrics for question in self._questions)
        return None if offered else f"{self._gpu.name}: {self._not_offered.get(metric, 'not offered')}"

    def measure(self) -> None:
        """Find out how often this GPU's power and energy counter change; once per GPU and process."""
        key = self._gpu.uuid or str(self._gpu.index)
        if key not in _periods:
            watched = {question.metrics[0]: question for question in self._questions if question.energy}
            names = [name for name in ("gpu_power_w", "gpu_energy_j") if name in watched]
            _periods[key] = _update_periods([watched[name] for name in names])

    def describe(self) -> dict[str, Any]:
        """Describe this GPU, how its power is reported, what it does not offer, and errors."""
        return {
            **self._gpu.as_dict(),
            "compute_capability": self._gpu.compute_capability,
            "power": {"asked": self._power, **averaging(self._power, self._gpu.compute_capability)},
            "update_periods": _periods.get(self._gpu.uuid or str(self._gpu.index)),
            "not_offered": dict(self._not_offered),
            "notes": list(self._notes),
        }


def averaging(asked: str, capability: str | None) -> dict[str, Any]:
    """Return the time over which a power reading is averaged: windows_ns, all possible lengths, and the source.

    An empty list stands for one update period. Sources: NVML's reference on nvmlDeviceGetPowerUsage; for the part of each
    update period that "instantaneous" power covers, Yang, Adamek and Armour, SC24 (arXiv 2312.02741): 25 of 100 ms on A100 and
    H100.
    """
    ampere = capability is not None and int(capability.split(".")[0]) >= 8
    if asked == "nvmlDeviceGetPowerUsage" and capability is None:
        return {"windows_ns": [1_000_000_000], "source": "unknown architecture: NVML averages over 1 s on all recent ones"}
    if asked == "nvmlDeviceGetPowerUsage" and ampere and capability != "8.0":
        return {
            "windows_ns": [1_000_000_000],
            "source": "NVML's reference: mean of the last second on Ampere (except GA100) and later",
        }
    if capability in ("8.0", "9.0"):
        windows = [25_000_000, 100_000_000]
        return {"windows_ns": windows, "source": "instantaneous to NVML; 25 of 100 ms as Yang et al. measured it (SC24)"}
    return {"windows_ns": [], "source": "instantaneous to NVML; taken as the mean of one update period"}


def _update_periods(questions: list[Question]) -> dict[str, Any]:
    """Query as fast as possible for MEASURE_S and return the median time between changes of each metric.

    Source: the method of ML.ENERGY's Zeus, which polls the counter and measures how long each value stays.
    """
    last: dict[str, float] = {}
    changes: dict[str, list[int]] = {question.metrics[0]: [] for question in questions}
    asked, end = 0, time.monotonic_ns() + round(MEASURE_S * 1e9)
    while questions and time.monotonic_ns() < end:
        asked += 1
        for question in questions:
            try:
                metric, value, _ = question.ask()[0]
            except Exception:  # whatever a broken driver raises only means that it cannot be measured
                return {"method": "not measured: NVML failed meanwhile"}
            if value != last.get(metric):
                changes[metric].append(time.monotonic_ns())
            last[metric] = value
    method = f"median time between changes while asked {asked} times in {MEASURE_S:g} s"
    return {"method": method, **{f"{metric}_ns": _typical_gap(times[1:]) for metric, times in changes.items()}}


def _typical_gap(times: list[int]) -> int | None:
    """Return the median gap; None if there are too few changes for one."""
    gaps = [after - before for before, after in itertools.pairwise(times)]
    return round(median(gaps)) if len(gaps) >= _FEWEST_CHANGES - 1 else None
