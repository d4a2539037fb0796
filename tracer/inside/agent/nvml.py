"""Power, energy, memory, utilisation, clock and temperature of NVIDIA GPUs through the driver's own library.

The driver installs libnvidia-ml.so.1 wherever there is a GPU, so nothing else is needed to query it. Functions and structures
are those of nvml.h, which keeps them for good under their versioned names.
"""

import ctypes
import time
from typing import Any, Dict, Iterator, List, Optional

from kernelscope.tracer.inside.clock import now_ns

_SUCCESS = 0
_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_FIELD_POWER_INSTANT = 186  # mW now; GetPowerUsage is an average over a second on most GPUs since Ampere
_FEWEST_CHANGES = 4  # of a value, for the time between them to mean anything
_PCI_INFO = 128  # bytes, more than nvmlPciInfo_t has: its bus id is the text at _PCI_BUS_ID
_PCI_BUS_ID = slice(36, 68)


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Value(ctypes.Union):
    _fields_ = [
        ("d", ctypes.c_double), ("ui", ctypes.c_uint), ("ul", ctypes.c_ulong), ("ull", ctypes.c_ulonglong),
        ("sll", ctypes.c_longlong),
    ]  # fmt: skip


class _Field(ctypes.Structure):
    _fields_ = [
        ("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_int), ("status", ctypes.c_int), ("value", _Value),
    ]  # fmt: skip


class NvmlSource(object):
    """Samples every GPU that the driver shows; `unavailable` says why there is none."""

    def __init__(self) -> None:
        self.unavailable: Optional[str] = None
        self._devices: List[Any] = []
        self._library: Any = None
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self.unavailable = "NVML: no driver (libnvidia-ml.so.1 cannot be loaded)"
            return
        status = self._library.nvmlInit_v2()
        if status != _SUCCESS:
            self.unavailable = "NVML: nvmlInit failed with status %d" % status
            return
        count = ctypes.c_uint()
        self._library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == _SUCCESS:
                self._devices.append((index, handle))
        if not self._devices:
            self.unavailable = "NVML sees no GPU"

    def sample(self, pid: Optional[int]) -> List[Any]:
        """Return the current [(metric, value, core, device)], without metrics that a GPU does not offer."""
        del pid
        return [
            (metric, value, None, "cuda:%d" % index)
            for index, handle in self._devices
            for metric, value in self._answers(handle)
            if value is not None
        ]

    def facts(self) -> Dict[str, Any]:
        """Return the driver's version, the CUDA version that it supports, and what each GPU is and offers; None if unknown."""
        version, cuda = ctypes.create_string_buffer(96), ctypes.c_int()
        told = not self.unavailable and self._library.nvmlSystemGetDriverVersion(version, len(version)) == _SUCCESS
        ask = getattr(self._library, "nvmlSystemGetCudaDriverVersion_v2", None)
        served = None if self.unavailable or ask is None or ask(ctypes.byref(cuda)) != _SUCCESS else cuda.value
        return {
            "unavailable": self.unavailable,
            "driver": version.value.decode("utf8", "replace") if told else None,
            "cuda": None if served is None else "%d.%d" % (served // 1000, served % 1000 // 10),
            "gpus": [dict(self._facts(index, handle), **self._abilities(handle)) for index, handle in self._devices],
        }

    def _abilities(self, handle: Any) -> Dict[str, Any]:
        """Return which metrics a GPU offers and which not, its compute capability, memory, PCI address and MIG mode."""
        answers = dict(self._answers(handle))
        major, minor, memory, mig, pending = (ctypes.c_int(), ctypes.c_int(), _Memory(), ctypes.c_uint(), ctypes.c_uint())
        capability = getattr(self._library, "nvmlDeviceGetCudaComputeCapability", None)
        known = capability is not None and capability(handle, ctypes.byref(major), ctypes.byref(minor)) == _SUCCESS
        mode = getattr(self._library, "nvmlDeviceGetMigMode", None)
        divided = mode is not None and mode(handle, ctypes.byref(mig), ctypes.byref(pending)) == _SUCCESS and mig.value == 1
        address = ctypes.create_string_buffer(_PCI_INFO)
        ask = getattr(self._library, "nvmlDeviceGetPciInfo_v3", None)
        placed = ask is not None and ask(handle, address) == _SUCCESS
        return {
            "compute_capability": "%d.%d" % (major.value, minor.value) if known else None,
            "memory_bytes": memory.total if self._asked("nvmlDeviceGetMemoryInfo", handle, memory) else None,
            "pci": address.raw[_PCI_BUS_ID].split(b"\0")[0].decode("ascii", "replace") if placed else None,
            "mig": divided,
            "power": "NVML_FI_DEV_POWER_INSTANT" if self._instant_power(handle) is not None else "nvmlDeviceGetPowerUsage",
            "offered": [metric for metric in answers if answers[metric] is not None],
            "not_offered": [metric for metric in answers if answers[metric] is None],
        }

    def update_periods(self, seconds: float) -> List[Dict[str, Any]]:
        """Query power and energy as fast as possible for this long; return, per GPU, the median time between changes in ns.

        None if a value changed too rarely. asked: how often each was queried. Source: the method of ML.ENERGY's Zeus.
        """
        return [dict(_periods(self._questions(handle), seconds), device="cuda:%d" % index) for index, handle in self._devices]

    def _questions(self, handle: Any) -> Dict[str, Any]:
        instant = self._instant_power(handle) is not None
        return {
            "gpu_power_w_ns": lambda: self._instant_power(handle) if instant else self._number("nvmlDeviceGetPowerUsage", handle),
            "gpu_energy_j_ns": lambda: self._number("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.c_ulonglong),
        }

    def _answers(self, handle: Any) -> Iterator[Any]:
        memory, busy = _Memory(), _Utilisation()
        used = self._asked("nvmlDeviceGetMemoryInfo", handle, memory)
        shares = self._asked("nvmlDeviceGetUtilizationRates", handle, busy)
        power = self._instant_power(handle)
        average = self._number("nvmlDeviceGetPowerUsage", handle, scale=1e-3)
        yield "gpu_power_w", average if power is None else power
        yield "gpu_power_average_w", average
        yield "gpu_energy_j", self._number("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.c_ulonglong, 1e-3)
        yield "gpu_memory_bytes", float(memory.used) if used else None
        yield "gpu_utilisation", busy.gpu / 100.0 if shares else None
        yield "gpu_memory_utilisation", busy.memory / 100.0 if shares else None
        yield "gpu_sm_clock_hz", self._number("nvmlDeviceGetClockInfo", handle, ctypes.c_uint, 1e6, _CLOCK_SM)
        yield "gpu_temperature_c", self._number("nvmlDeviceGetTemperature", handle, ctypes.c_uint, 1.0, _TEMPERATURE_GPU)

    def _instant_power(self, handle: Any) -> Any:
        field = _Field(field=_FIELD_POWER_INSTANT)
        ask = getattr(self._library, "nvmlDeviceGetFieldValues", None)
        if ask is None or ask(handle, 1, ctypes.byref(field)) != _SUCCESS or field.status != _SUCCESS:
            return None
        return field.value.ui * 1e-3

    def _asked(self, name: str, handle: Any, answer: Any, *arguments: Any) -> bool:
        function = getattr(self._library, name, None)
        return function is not None and function(handle, *(arguments + (ctypes.byref(answer),))) == _SUCCESS

    def _number(self, name: str, handle: Any, kind: Any = ctypes.c_uint, scale: float = 1.0, *arguments: Any) -> Optional[float]:
        answer = kind()
        return answer.value * scale if self._asked(name, handle, answer, *arguments) else None

    def describe(self) -> Dict[str, Any]:
        """Describe the sampled GPUs, or say why none is sampled."""
        if self.unavailable:
            return {"source": "nvml", "unavailable": self.unavailable}
        return {"source": "nvml", "gpus": [self._facts(index, handle) for index, handle in self._devices]}

    def _facts(self, index: int, handle: Any) -> Dict[str, Any]:
        found = {"device": "cuda:%d" % index}
        for key, function in (("name", "nvmlDeviceGetName"), ("uuid", "nvmlDeviceGetUUID")):
            text = ctypes.create_string_buffer(96)
            if getattr(self._library, function)(handle, text, len(text)) == _SUCCESS:
                found[key] = text.value.decode("utf8", "replace")
        return found


def _periods(questions: Dict[str, Any], seconds: float) -> Any:
    """Ask all questions in turn for this long; return the median time between changes of each answer, in ns."""
    changes: Dict[str, List[int]] = {name: [] for name in questions}
    last: Dict[str, Any] = {}
    asked = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        asked += 1
        for name, ask in questions.items():
            value = ask()
            if value is not None and value != last.get(name):
                changes[name].append(now_ns())
                last[name] = value
    found: Dict[str, Optional[int]] = {"asked": asked}
    for name, times in changes.items():
        # the first entry is the first answer, not a change: when that value began is unknown
        gaps = sorted(after - before for before, after in zip(times[1:], times[2:]))
        found[name] = gaps[len(gaps) // 2] if len(gaps) >= _FEWEST_CHANGES - 1 else None
    return found
