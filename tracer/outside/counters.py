"""Whether this machine lets us read hardware counters and the processor's energy counters, and if not why."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import platform
import struct
from pathlib import Path

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE_BYTES = 112
_EXCLUDE_KERNEL_AND_HYPERVISOR = (1 << 5) | (1 << 6)


def hardware_counters() -> str | None:
    """Return None when the cycles of this process can be counted, else the reason, found by trying."""
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
        return "the processor's counters are not passed on to this machine (as in most virtual machines)"
    if code in (errno.EACCES, errno.EPERM):
        return f"not allowed: kernel.perf_event_paranoid is {_paranoid()} (2 or less lets a user count their own processes)"
    return os.strerror(code)


def _paranoid() -> str:
    try:
        return Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    except OSError:
        return "unknown"


def energy_counters(root: str = "/sys/class/powercap") -> tuple[list[str], str | None]:
    """Return the names of the readable RAPL domains (package-0, dram, ...), and why there are none or fewer."""
    names, refused = [], 0
    for path in sorted(glob.glob(os.path.join(glob.escape(root), "*rapl*", "energy_uj"))):
        folder = Path(path).parent
        try:
            Path(path).read_text()
            names.append((folder / "name").read_text().strip())
        except OSError:
            refused += 1
    if refused:
        return names, f"{refused} energy_uj files in {root} may be read by root only (sudo chmod a+r them)"
    return names, None if names else "the kernel offers no RAPL here (as in most virtual machines)"
