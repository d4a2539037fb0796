"""Which NVIDIA GPUs this machine has, as NVML tells it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class Gpu:
    """One GPU. `compute_capability` is written as in "9.0"; what NVML does not tell is None."""

    index: int
    name: str
    memory_bytes: int | None
    compute_capability: str | None
    driver: str | None


@dataclass(frozen=True)
class Gpus:
    """All GPUs that NVML sees; when there are none, `reason` says why."""

    devices: tuple[Gpu, ...]
    reason: str | None


@lru_cache(maxsize=1)
def find() -> Gpus:
    """Ask NVML once. Raises nothing: a machine without a driver, or with a broken one, has no GPUs and a reason."""
    try:
        import pynvml
    except ImportError:
        return Gpus((), "the package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError) as error:
        return Gpus((), f"NVML: {error}")
    try:
        devices = tuple(_describe(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        return Gpus((), f"NVML: {error}")
    finally:
        pynvml.nvmlShutdown()
    return Gpus(devices, None if devices else "NVML sees no GPU")


def _describe(nvml: Any, index: int) -> Gpu:
    device = nvml.nvmlDeviceGetHandleByIndex(index)

    def told(question: Any, *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except nvml.NVMLError:
            return None

    memory = told(nvml.nvmlDeviceGetMemoryInfo, device)
    capability = told(nvml.nvmlDeviceGetCudaComputeCapability, device)
    return Gpu(
        index=index,
        name=_text(told(nvml.nvmlDeviceGetName, device)) or "unknown",
        memory_bytes=None if memory is None else int(memory.total),
        compute_capability=None if capability is None else "{}.{}".format(*capability),
        driver=_text(told(nvml.nvmlSystemGetDriverVersion)),
    )


def _text(value: str | bytes | None) -> str | None:
    # bytes up to release 11 of nvidia-ml-py
    return value.decode("utf8", "replace") if isinstance(value, bytes) else value
