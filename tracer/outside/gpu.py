"""The NVIDIA GPUs of this machine, by NVML, and the numbers under which a process sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernelscope.tracer.inside.remedies import remedied


@dataclass(frozen=True)
class Mig:
    """One instance of a partitioned GPU (MIG, multi-instance GPU)."""

    uuid: str
    name: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Gpu:
    """One GPU. `compute_capability` is written like "9.0"; None stands for what NVML does not give.

    index: NVML's, in the order of PCI addresses. pci: domain:bus:device.function in lower case, such as 0000:1b:00.0.
    mig: its instances; empty if the GPU is not partitioned.
    """

    index: int
    name: str
    memory_bytes: int | None
    compute_capability: str | None
    driver: str | None
    uuid: str | None = None
    pci: str | None = None
    mig: tuple[Mig, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return what identifies this GPU, for run.json."""
        facts = {"index": self.index, "name": self.name, "uuid": self.uuid, "pci": self.pci}
        return {**facts, "mig": [instance.uuid for instance in self.mig] or None}


@dataclass(frozen=True)
class Gpus:
    """All GPUs that NVML sees; if there are none, `reason` says why."""

    devices: tuple[Gpu, ...]
    reason: str | None


@dataclass(frozen=True)
class Seen:
    """A GPU as one process sees it, as cuda:`number`. method: how that is known, or why it is uncertain."""

    number: int
    gpu: Gpu
    mig: Mig | None
    method: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for run.json."""
        facts = {"device": f"cuda:{self.number}", **self.gpu.as_dict(), "method": self.method}
        if self.mig is not None:
            whole = "power, energy, clocks and temperature are those of the whole GPU, including its other instances"
            facts |= {"mig": self.mig.uuid, "note": whole}
        return facts


@lru_cache(maxsize=1)
def find() -> Gpus:
    """Query NVML once. Raises nothing: without a driver, or with a broken one, there are no GPUs and a reason."""
    try:
        import pynvml
    except ImportError:
        return Gpus((), "the package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError) as error:
        return Gpus((), remedied(f"NVML: {error}"))
    devices, refused = [], []
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                devices.append(describe(pynvml, index))
            except pynvml.NVMLError as error:  # lost, or not accessible: still use the others
                refused.append(remedied(f"NVML: GPU {index}: {error}"))
    except pynvml.NVMLError as error:
        return Gpus((), remedied(f"NVML: {error}"))
    finally:
        pynvml.nvmlShutdown()
    return Gpus(tuple(devices), None if devices else "; ".join(refused) or "NVML sees no GPU")


def describe(nvml: Any, index: int) -> Gpu:
    """Return NVML's facts about one GPU (nvml: the initialised module pynvml); raise NVMLError if the GPU cannot be opened."""
    device = nvml.nvmlDeviceGetHandleByIndex(index)

    def answer(question: Any, *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except nvml.NVMLError:
            return None

    memory = answer(nvml.nvmlDeviceGetMemoryInfo, device)
    capability = answer(nvml.nvmlDeviceGetCudaComputeCapability, device)
    address = answer(nvml.nvmlDeviceGetPciInfo, device)
    return Gpu(
        index=index,
        name=_text(answer(nvml.nvmlDeviceGetName, device)) or "unknown",
        memory_bytes=None if memory is None else int(memory.total),
        compute_capability=None if capability is None else "{}.{}".format(*capability),
        driver=_text(answer(nvml.nvmlSystemGetDriverVersion)),
        uuid=_text(answer(nvml.nvmlDeviceGetUUID, device)),
        pci=None if address is None else pci_address(_text(address.busId) or ""),
        mig=tuple(_instances(nvml, device, answer)),
    )


def _instances(nvml: Any, device: Any, answer: Callable[..., Any]) -> list[Mig]:
    """Return the instances of a GPU in MIG mode, in NVML's order; empty slots are skipped."""
    mode = answer(nvml.nvmlDeviceGetMigMode, device)
    if not mode or not mode[0]:
        return []
    handles = [
        answer(nvml.nvmlDeviceGetMigDeviceHandleByIndex, device, place)
        for place in range(answer(nvml.nvmlDeviceGetMaxMigDeviceCount, device) or 0)
    ]
    result = []
    for handle in handles:
        uuid = None if handle is None else _text(answer(nvml.nvmlDeviceGetUUID, handle))
        if uuid:
            memory = answer(nvml.nvmlDeviceGetMemoryInfo, handle)
            name = _text(answer(nvml.nvmlDeviceGetName, handle)) or "unknown"
            result.append(Mig(uuid, name, None if memory is None else int(memory.total)))
    return result


def _text(value: str | bytes | None) -> str | None:
    # bytes up to release 11 of nvidia-ml-py
    return value.decode("utf8", "replace") if isinstance(value, bytes) else value


def pci_address(text: str) -> str | None:
    """Return a PCI address in one form, 0000:1b:00.0 (NVML writes eight digits for the domain, CUDA four); None if invalid."""
    parts = text.strip().lower().replace(".", ":").split(":")
    try:
        domain, bus, device, function = (int(part, 16) for part in (["0"] * (4 - len(parts)) + parts))
    except ValueError:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


# --- what a process sees ----------------------------------------------------------------------------------------------------


def reported(entries: Sequence[Mapping[str, Any]], devices: Sequence[Gpu]) -> list[Seen]:
    """Match a child's report of its devices ({"index", "uuid", "pci"} each, from the CUDA driver) to NVML's, by UUID and PCI.

    This is certain, whatever order CUDA uses. Devices that NVML does not know are left out.
    """
    seen = []
    for entry in entries:
        uuid, address = str(entry.get("uuid") or "").lower(), pci_address(str(entry.get("pci") or ""))
        for gpu in devices:
            instance = next((mig for mig in gpu.mig if uuid and _bare(mig.uuid) == _bare(uuid)), None)
            if instance or (uuid and gpu.uuid and _bare(gpu.uuid) == _bare(uuid)):
                seen.append(Seen(int(entry["index"]), gpu, instance, "UUID, from the CUDA driver in the framework's process"))
                break
            if address and gpu.pci == address:
                only = gpu.mig[0] if len(gpu.mig) == 1 else None
                method = "PCI address, from the CUDA driver in the framework's process"
                seen.append(Seen(int(entry["index"]), gpu, only, method))
                break
    return seen


def _bare(uuid: str) -> str:
    """Return a UUID without GPU- or MIG-, which the CUDA driver leaves out."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def visible(variables: Mapping[str, str], devices: Sequence[Gpu]) -> list[Seen]:
    """Return what a process with these environment variables sees as cuda:0, cuda:1, ..., before its own report.

    CUDA_VISIBLE_DEVICES holds numbers, or prefixes of UUIDs (GPU-..., MIG-...), and is valid up to its first invalid entry; a
    repeated entry makes all devices invisible. Numbers follow CUDA_DEVICE_ORDER: PCI_BUS_ID is NVML's order; FASTEST_FIRST, the
    default, is the same if all GPUs are alike and undocumented otherwise, which `method` then says. On a partitioned GPU, CUDA
    sees only one instance, the first unless another is named.
    Source: CUDA C Programming Guide, CUDA environment variables, and NVIDIA's MIG user guide; the parsing of odd values follows
    PyTorch (torch.cuda._parse_visible_devices).
    """
    text = variables.get("CUDA_VISIBLE_DEVICES")
    if text is not None and text.strip().startswith(("GPU-", "MIG-")):
        return _by_uuid(text, devices)
    chosen = list(range(len(devices))) if text is None else _numbers(text, len(devices))
    method = _order(variables, devices)
    seen: list[Seen] = []
    for number in chosen:
        gpu = devices[number]
        seen.append(Seen(len(seen), gpu, gpu.mig[0] if gpu.mig else None, method))
    divided = [entry for entry in seen if entry.mig is not None]
    return [Seen(0, divided[0].gpu, divided[0].mig, "the first MIG instance: CUDA sees no more")] if divided else seen


def _order(variables: Mapping[str, str], devices: Sequence[Gpu]) -> str:
    if variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return "order of PCI addresses (CUDA_DEVICE_ORDER)"
    if len({gpu.name for gpu in devices}) <= 1:
        return "order of PCI addresses (all GPUs are alike)"
    return "not certain: CUDA orders unlike GPUs by speed; set CUDA_DEVICE_ORDER=PCI_BUS_ID"


def _numbers(text: str, count: int) -> list[int]:
    """Return the numbers in CUDA_VISIBLE_DEVICES up to the first invalid one, parsed like C's strtol: 1gpu is 1."""
    result: list[int] = []
    for entry in text.split(","):
        entry = entry.strip().removeprefix("+")
        digits = entry[: len(entry) - len(entry.lstrip("0123456789"))]
        if not digits or int(digits) >= count:
            break
        if int(digits) in result:
            return []
        result.append(int(digits))
    return result


def _by_uuid(text: str, devices: Sequence[Gpu]) -> list[Seen]:
    """Return the devices that prefixes of UUIDs name; the list ends at a prefix that names none or several."""
    known: list[tuple[str, Gpu, Mig | None]] = [(gpu.uuid, gpu, None) for gpu in devices if gpu.uuid and not gpu.mig]
    known += [(instance.uuid, gpu, instance) for gpu in devices for instance in gpu.mig]
    seen: list[Seen] = []
    for entry in (part.strip() for part in text.split(",")):
        result = [(gpu, mig) for uuid, gpu, mig in known if entry[4:] and uuid.startswith(entry)]
        if len(result) != 1:
            break
        if any((one.gpu, one.mig) == result[0] for one in seen):
            return []
        seen.append(Seen(len(seen), *result[0], "UUID in CUDA_VISIBLE_DEVICES"))
    # CUDA sees one instance of one partitioned GPU, and nothing else
    return seen[:1] if seen and seen[0].mig is not None else seen
