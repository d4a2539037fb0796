"""Power, energy, memory, utilisation, clocks and temperature of NVIDIA GPUs, where NVML answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelscope.tracer.outside.samplers.sampler import Sample


class NvmlSource:
    """Samples every GPU that NVML sees; `unavailable` says why there is none."""

    name = "nvml"

    def __init__(self) -> None:
        self.unavailable: str | None = None
        self._devices: list[Any] = []
        self._pynvml: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._pynvml = pynvml
            self._devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            if not self._devices:
                self.unavailable = "NVML sees no GPU"
        except ImportError:
            self.unavailable = "the package nvidia-ml-py is not installed"
        except Exception as error:  # NVMLError and whatever a broken driver library raises
            self.unavailable = f"NVML: {error}"

    def sample(self, pid: int | None) -> list[Sample]:
        """Return the samples of now, one set per GPU (`core` is the GPU's index); what a GPU does not offer is left out."""
        del pid
        return [sample for index, device in enumerate(self._devices) for sample in self._sample(index, device)]

    def _sample(self, index: int, device: Any) -> list[Sample]:
        nvml = self._pynvml
        questions: list[tuple[str, Callable[[], float]]] = [
            ("gpu_power_w", lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1e3),
            ("gpu_energy_j", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3),
            ("gpu_memory_bytes", lambda: float(nvml.nvmlDeviceGetMemoryInfo(device).used)),
            ("gpu_utilisation", lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100.0),
            ("gpu_sm_clock_hz", lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM) * 1e6),
            ("gpu_temperature_c", lambda: float(nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU))),
        ]
        rows = []
        for metric, ask in questions:
            try:
                rows.append(Sample(metric, ask(), index))
            except nvml.NVMLError:
                continue
        return rows

    def describe(self) -> dict[str, Any]:
        """Say which GPUs are sampled, or why none is."""
        if self.unavailable:
            return {"source": "nvml", "unavailable": self.unavailable}
        names = [self._pynvml.nvmlDeviceGetName(device) for device in self._devices]
        return {"source": "nvml", "driver": self._pynvml.nvmlSystemGetDriverVersion(), "gpus": names}
