"""Find Nsight Systems' `nsys` and CUDA's `nvprof` where people and packages put them."""

from __future__ import annotations

import ctypes
import glob
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 30.0

# Newest first within a pattern; the commands' own folder (target-linux-x64, -sbsa-armv8, ...) differs by package and machine.
_PATTERNS = {
    "nsys": (
        "/opt/nvidia/nsight-systems/*/bin/nsys",
        "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
        "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
        "/opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
        "/usr/local/cuda*/bin/nsys",
        "/usr/local/cuda*/nsight-systems-*/target-linux-*/nsys",
        "/opt/cuda/bin/nsys",
        "/usr/lib/nsight-systems*/target-linux-*/nsys",
        "/usr/lib/nsight-systems*/nsys",
        "/usr/lib/*/nsight-systems*/target-linux-*/nsys",
    ),
    "nvprof": ("/usr/local/cuda*/bin/nvprof", "/opt/cuda/bin/nvprof", "/usr/lib/nvidia-cuda-toolkit/bin/nvprof"),
}
_VERSION = re.compile(r"version\s+(\d+(?:\.\d+)*)")
NAMES = tuple(_PATTERNS)
_NVTX_LIBRARIES = ("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "libnvToolsExt.so")


@dataclass(frozen=True)
class Tool:
    """A profiler that runs: its `name`, `path`, `version` as it tells it ("2022.4.2.1"), and where it was found."""

    name: str
    path: Path
    version: str
    source: str

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, for comparisons."""
        return tuple(int(part) for part in self.version.split("."))


def find(name: str) -> Tool | None:
    """Return the `nsys` or `nvprof` to use, or None: what $KERNELSCOPE_NSYS (_NVPROF) names, the one in PATH, else the newest."""
    found = find_all(name)
    chosen = [tool for tool in found if tool.source != "installed"]
    return chosen[0] if chosen else max(found, key=lambda tool: tool.release, default=None)


def find_all(name: str) -> list[Tool]:
    """Return every installation of the tool that runs, the chosen ones first, each file once."""
    return [found for found in _examined(name) if isinstance(found, Tool)]


def failures(name: str) -> list[str]:
    """Return one line for each installation that does not run, with its path and what it printed."""
    return [found for found in _examined(name) if isinstance(found, str)]


def _examined(name: str) -> Iterator[Tool | str]:
    seen = set()
    for path, source in _places(name):
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        if os.path.isfile(real) and os.access(real, os.X_OK):
            version, failure = _version(path)
            yield f"{path} does not run: {failure}" if version is None else Tool(name, Path(path), version, source)
        elif source not in ("PATH", "installed"):
            yield f"{source} names {path}, where there is none"


def _version(path: str) -> tuple[str | None, str]:
    """Return the version that a tool tells of itself, or None and why not."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)
    printed = (done.stderr + done.stdout).strip()
    match = _VERSION.search(printed)
    if done.returncode == 0 and match:
        return match.group(1), ""
    return None, (printed.splitlines() or [f"exit status {done.returncode}"])[-1]


def _places(name: str) -> Iterator[tuple[str, str]]:
    named = os.environ.get(f"KERNELSCOPE_{name.upper()}")
    if named:
        yield os.path.abspath(os.path.expanduser(named)), f"KERNELSCOPE_{name.upper()}"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder):
            yield os.path.join(folder, name), "PATH"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin", name), variable
    for pattern in _PATTERNS[name]:
        for path in sorted(glob.glob(pattern), reverse=True):
            yield path, "installed"


def nvtx_library() -> str | None:
    """Return the C library through which ranges reach a profiler: a path, or a name that the loader knows; None without one.

    In order: what $KERNELSCOPE_NVTX_LIBRARY names, the wheels `nvidia-nvtx` of this interpreter, the system's.
    """
    named = os.environ.get("KERNELSCOPE_NVTX_LIBRARY")
    paths = [named] if named else []
    for folder in sys.path:
        for name in _NVTX_LIBRARIES:
            paths += glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", name))
    for path in (*paths, *_NVTX_LIBRARIES):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        if hasattr(library, "nvtxRangePushA"):
            return path
    return None
