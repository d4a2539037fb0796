"""The queries to NVML about one GPU: the metrics that each answers, and how often it is worth making."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FAST_NS = 0  # with every reading
SLOW_NS = 1_000_000_000
RARE_NS = 5_000_000_000  # NVML counts PCIe traffic during the call, 20 ms each

# A reading: metric, value, and NVML's own time stamp in ns since the epoch if the field has one
Reading = tuple[str, float, int | None]

_ALL_LINKS = 0xFFFFFFFF  # scope of the NVLink fields: the sum over all links
_NOT_SUPPORTED = 3
_VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


@dataclass(frozen=True)
class Question:
    """One call and the metrics that it answers. energy: whether the energy pass, which reads fast, makes it too."""

    metrics: tuple[str, ...]
    ask: Callable[[], list[Reading]]
    every_ns: int = FAST_NS
    energy: bool = False


class FieldRefusedError(Exception):
    """A field of nvmlDeviceGetFieldValues returned an error code of its own."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


def field(nvml: Any, device: Any, number: int, scope: int | None = None) -> tuple[float, int | None]:
    """Return a field's value and NVML's time stamp (ns since the epoch; None if it has none); raise FieldRefusedError."""
    value = nvml.nvmlDeviceGetFieldValues(device, [number if scope is None else (number, scope)])[0]
    if value.nvmlReturn:
        raise FieldRefusedError(int(value.nvmlReturn))
    if not 0 <= value.valueType < len(_VALUE_TYPES):
        raise FieldRefusedError(_NOT_SUPPORTED)
    stamp = int(value.timestamp)
    return float(getattr(value.value, _VALUE_TYPES[value.valueType])), stamp * 1000 if stamp > 0 else None


def questions(nvml: Any, device: Any, processes: Callable[[], set[int]]) -> list[Question]:
    """Return the queries for any GPU, except power (see `power`); `processes` returns whose memory counts as the child's."""

    def one(metric: str, ask: Callable[[], float], every_ns: int = FAST_NS, energy: bool = False) -> Question:
        return Question((metric,), lambda: [(metric, float(ask()), None)], every_ns, energy)

    def clock(kind: int) -> Callable[[], float]:
        return lambda: nvml.nvmlDeviceGetClockInfo(device, kind) * 1e6

    def pcie(counter: int) -> Callable[[], float]:
        return lambda: nvml.nvmlDeviceGetPcieThroughput(device, counter) * 1000.0  # NVML counts in kB/s

    heat = nvml.NVML_TEMPERATURE_GPU
    return [
        one("gpu_energy_j", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3, energy=True),
        one("gpu_memory_bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(device).used),
        Question(("gpu_process_memory_bytes",), lambda: _process_memory(nvml, device, processes)),
        Question(("gpu_utilisation", "gpu_memory_utilisation"), lambda: _utilisation(nvml, device)),
        one("gpu_sm_clock_hz", clock(nvml.NVML_CLOCK_SM)),
        one("gpu_memory_clock_hz", clock(nvml.NVML_CLOCK_MEM)),
        one("gpu_temperature_c", lambda: nvml.nvmlDeviceGetTemperature(device, heat), SLOW_NS // 2, energy=True),
        one("gpu_throttle_reasons", lambda: _throttling(nvml, device)),
        one("gpu_pcie_tx_bps", pcie(nvml.NVML_PCIE_UTIL_TX_BYTES), RARE_NS),
        one("gpu_pcie_rx_bps", pcie(nvml.NVML_PCIE_UTIL_RX_BYTES), RARE_NS),
        _nvlink("gpu_nvlink_tx_bytes", nvml, device, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
        _nvlink("gpu_nvlink_rx_bytes", nvml, device, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
    ]


def power(nvml: Any, device: Any) -> dict[str, Question]:
    """Return the ways to query power, best first, by name: the instantaneous field, NVML's old call; and the 1 s average."""

    def of_field(metric: str, number: int, energy: bool) -> Question:
        def ask() -> list[Reading]:
            milliwatts, stamp = field(nvml, device, number)
            return [(metric, milliwatts / 1e3, stamp)]

        return Question((metric,), ask, energy=energy)

    def usage() -> list[Reading]:
        return [("gpu_power_w", nvml.nvmlDeviceGetPowerUsage(device) / 1e3, None)]

    return {
        "NVML_FI_DEV_POWER_INSTANT": of_field("gpu_power_w", nvml.NVML_FI_DEV_POWER_INSTANT, energy=True),
        "nvmlDeviceGetPowerUsage": Question(("gpu_power_w",), usage, energy=True),
        "NVML_FI_DEV_POWER_AVERAGE": of_field("gpu_power_average_w", nvml.NVML_FI_DEV_POWER_AVERAGE, energy=False),
    }


def _nvlink(metric: str, nvml: Any, device: Any, number: int) -> Question:
    def ask() -> list[Reading]:
        kibibytes, stamp = field(nvml, device, number, _ALL_LINKS)
        return [(metric, kibibytes * 1024.0, stamp)]

    return Question((metric,), ask, SLOW_NS)


def _utilisation(nvml: Any, device: Any) -> list[Reading]:
    rates = nvml.nvmlDeviceGetUtilizationRates(device)
    return [("gpu_utilisation", rates.gpu / 100.0, None), ("gpu_memory_utilisation", rates.memory / 100.0, None)]


def _throttling(nvml: Any, device: Any) -> float:
    """Return the bit mask of nvmlClocksThrottleReasons; its call was renamed in driver 535."""
    try:
        return float(nvml.nvmlDeviceGetCurrentClocksEventReasons(device))
    except (nvml.NVMLError_FunctionNotFound, AttributeError):
        return float(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))


def _process_memory(nvml: Any, device: Any, processes: Callable[[], set[int]]) -> list[Reading]:
    """Return the memory of the watched processes; nothing while the GPU knows none of them."""
    mine = processes()
    used = [entry.usedGpuMemory for entry in nvml.nvmlDeviceGetComputeRunningProcesses(device) if entry.pid in mine]
    known = [float(value) for value in used if value is not None]
    return [("gpu_process_memory_bytes", sum(known), None)] if known else []
