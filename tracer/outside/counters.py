"""Whether this machine lets us read hardware counters and the processor's energy counters; if not, why."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import platform
import struct
from dataclasses import dataclass
from pathlib import Path

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE_BYTES = 112
_EXCLUDE_KERNEL_AND_HYPERVISOR = (1 << 5) | (1 << 6)
POWERCAP = "/sys/class/powercap"


def hardware_counters() -> str | None:
    """Return None if this process's cycles can be counted, else the reason; found by trying."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return f"not tried on {platform.machine()}"
    # struct perf_event_attr: type 0 (hardware), its size, config 0 (cycles); then the flags at byte 40
    head = struct.pack("<IIQQQQQ", 0, _ATTRIBUTE_BYTES, 0, 0, 0, 0, _EXCLUDE_KERNEL_AND_HYPERVISOR)
    attributes = ctypes.create_string_buffer(head.ljust(_ATTRIBUTE_BYTES, b"\0"), _ATTRIBUTE_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(number, attributes, 0, -1, -1, 0)
    if descriptor >= 0:
        os.close(descriptor)
        return None
    code = ctypes.get_errno()
    if code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this machine has no access to the processor's counters (as in most virtual machines)"
    if code in (errno.EACCES, errno.EPERM):
        return f"not allowed: kernel.perf_event_paranoid is {_paranoid()} (2 or less lets a user count their own processes)"
    return os.strerror(code)


def _paranoid() -> str:
    try:
        return Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    except OSError:
        return "unknown"


@dataclass(frozen=True)
class EnergyDomain:
    """A readable RAPL domain: package-0, dram, core, ...; package: the socket that it belongs to.

    range_uj: the value at which the counter wraps around to 0.
    """

    name: str
    package: int
    file: Path
    range_uj: int


def energy_domains(root: str = POWERCAP) -> tuple[list[EnergyDomain], str | None]:
    """Return this machine's readable RAPL domains, each once, and why there are none or fewer.

    A package may be listed twice, as intel-rapl and intel-rapl-mmio: two ways to the same counter. The first is used.
    """
    result: dict[tuple[str, int], EnergyDomain] = {}
    refused = 0
    for path in sorted(
        glob.glob(os.path.join(glob.escape(root), "*rapl*", "energy_uj")), key=lambda name: ("mmio" in name, name)
    ):
        folder = Path(path).parent
        try:
            Path(path).read_text()
            domain = _domain(folder)
        except (OSError, ValueError):
            refused += 1
            continue
        result.setdefault((domain.name, domain.package), domain)
    if refused:
        return list(result.values()), f"{refused} energy_uj files in {root} can be read only by root (sudo chmod a+r them)"
    return list(result.values()), None if result else "the kernel offers no RAPL here (as in most virtual machines)"


def _domain(folder: Path) -> EnergyDomain:
    # intel-rapl:0 is a package, intel-rapl:0:2 a domain within it
    package = int(folder.name.split(":")[1])
    limit = int((folder / "max_energy_range_uj").read_text())
    return EnergyDomain((folder / "name").read_text().strip(), package, folder / "energy_uj", limit)


def energy_counters(root: str = POWERCAP) -> tuple[list[str], str | None]:
    """Return the names of the readable RAPL domains (package-0, dram, ...), and why there are none or fewer."""
    domains, reason = energy_domains(root)
    return [domain.name for domain in domains], reason
