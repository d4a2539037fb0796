"""Find Nsight Systems' `nsys`, Nsight Compute's `ncu` and CUDA's `nvprof` in the usual places, and what each can do."""

from __future__ import annotations

import ctypes
import glob
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelscope.tracer.inside import temporary

_TIMEOUT_S = 30.0

# Newest first within a pattern; the commands' own folder (target-linux-x64, -sbsa-armv8, ...) depends on package and machine.
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
        "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
        "/usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
    ),
    "ncu": (
        "/opt/nvidia/nsight-compute/*/ncu",
        "/usr/local/cuda*/bin/ncu",
        "/usr/local/cuda*/nsight-compute-*/ncu",
        "/usr/local/NVIDIA-Nsight-Compute*/ncu",
        "/opt/cuda/nsight_compute/ncu",
        "/usr/lib/nsight-compute*/ncu",
        "/usr/lib/nvidia-cuda-toolkit/bin/ncu",
    ),
    "nvprof": ("/usr/local/cuda*/bin/nvprof", "/opt/cuda/bin/nvprof", "/usr/lib/nvidia-cuda-toolkit/bin/nvprof"),
}
# Inside a conda or pip environment, relative to its folder.
_IN_ENVIRONMENT = {
    "nsys": ("bin/nsys", "nsight-systems-*/bin/nsys", "nsight-compute*/host/target-linux-*/nsys"),
    "ncu": ("bin/ncu", "nsight-compute*/ncu", "ncu"),
    "nvprof": ("bin/nvprof",),
}
_IN_WHEELS = {
    "ncu": ("nvidia/nsight_compute*/**/ncu", "nsight_compute*/**/ncu"),
    "nsys": ("nvidia/nsight_systems*/**/nsys", "nsight_systems*/**/nsys"),
}
_IMPORTERS = tuple(
    f"{folder}/QdstrmImporter"
    for folder in ("host-linux-*", "nsight-systems*/host-linux-*", "host/host-linux-*", "linux-desktop-*", "host/linux-desktop-*")
)
_OPTION = re.compile(r"^\s+(?:-\w, ?)?(--[a-z][a-z-]+)", re.MULTILINE)
_VERSION = re.compile(r"(?:[Vv]ersion|Nsight Systems)\s+(\d+(?:\.\d+)*)")
NAMES = ("nsys", "nvprof")  # the tools that record
_NVTX_LIBRARIES = ("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "libnvToolsExt.so")


@dataclass(frozen=True)
class Tool:
    """A profiler that runs: its `name`, `path`, `version` as it prints it ("2022.4.2.1"), and `source`, where it was found."""

    name: str
    path: Path
    version: str
    source: str

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, for comparisons."""
        return tuple(int(part) for part in self.version.split("."))


def find(name: str) -> Tool | None:
    """Return the `nsys`, `ncu` or `nvprof` to use; None without any.

    It is the one that $KERNELSCOPE_NSYS (_NCU, _NVPROF) names, else the newest that is `usable`, else the newest. nvprof must
    match its toolkit, so the one in PATH or $CUDA_HOME comes before newer ones.
    """
    found = find_all(name)
    first = [tool for tool in found if tool.source == _variable(name) or (name == "nvprof" and tool.source != "installed")]
    if first:
        return first[0]
    newest_first = sorted(found, key=lambda tool: tool.release, reverse=True)
    return next((tool for tool in newest_first if usable(tool) is None), next(iter(newest_first), None))


def examine(name: str, path: str | Path) -> Tool | str:
    """Return the tool at a path that the user named, a program or an installation's folder; or one line on what is wrong."""
    named = os.path.abspath(os.path.expanduser(path))
    places = [named]
    if os.path.isdir(named):
        places = _inside(named, (name, *_IN_ENVIRONMENT[name], f"target-linux-*/{name}"))
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            version, failure = _version(place)
            return f"{place} is not {name}: {failure}" if version is None else Tool(name, Path(place), version, "named")
    return f"{named}: there is no program {name}; give the path of {name} itself"


@cache
def usable(tool: Tool) -> str | None:
    """Return None if this nsys can produce reports, else one line that says why not. Other tools need nothing more.

    nsys writes a stream, and a separate program, QdstrmImporter, makes the report. Packages may put that elsewhere or leave out
    its libraries. If none is found nearby, a capture of `true` shows whether nsys works without it.
    """
    if tool.name != "nsys":
        return None
    program = importer(tool)
    if program is not None:
        version, failure = _version(str(program))
        lacks = f"its importer does not run: {failure}; install what it lacks, or another nsys"
        return None if version else f"nsys {tool.version} ({tool.path}): {lacks}"
    with temporary.folder() as folder:
        command = [str(tool.path), "profile", "--trace=none", "--sample=none", "--cpuctxsw=none", f"--output={folder}/trial"]
        try:
            subprocess.run(
                [*command, "/bin/true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_TIMEOUT_S, check=False, cwd=folder,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return f"nsys {tool.version} ({tool.path}) does not record: {error}"
        if glob.glob(os.path.join(glob.escape(folder), "trial.*rep")):
            return None
    return f"nsys {tool.version} ({tool.path}): its QdstrmImporter, which makes reports, is missing; install the whole package"


def importer(tool: Tool) -> Path | None:
    """Return the program that turns a .qdstrm into a report, in a folder beside nsys's or near it; None without one."""
    real = Path(os.path.realpath(tool.path))
    for base in real.parents[1:5]:
        for pattern in _IMPORTERS:
            found = [path for path in sorted(base.glob(pattern)) if os.access(path, os.X_OK)]
            if found:
                return found[-1]
    return None


@cache
def offered(tool: Tool) -> frozenset[str]:
    """Return the long options of `nsys profile` in the installation's own help; empty if it prints none."""
    try:
        return frozenset(_OPTION.findall(_run(str(tool.path), "profile", "--help").stdout))
    except (OSError, subprocess.SubprocessError):
        return frozenset()


def find_all(name: str) -> list[Tool]:
    """Return every installation of the tool that runs, the chosen ones first, each file once."""
    return [found for found in _examined(name) if isinstance(found, Tool)]


def failures(name: str) -> list[str]:
    """Return one line for each installation that does not run, with its path and its output."""
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
        elif source in (_variable(name), "CUDA_HOME", "CUDA_PATH"):
            yield f"{source} names {path}, which is not a program"


def _version(path: str) -> tuple[str | None, str]:
    """Return the version that a tool prints; or None and the reason."""
    try:
        done = _run(path, "--version")
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)
    printed = (done.stderr + done.stdout).strip()
    match = _VERSION.search(printed)
    if done.returncode == 0 and match:
        return match.group(1), ""
    return None, (printed.splitlines() or [f"exit status {done.returncode}"])[-1]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that prints and ends; return the completed process."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf8", errors="replace", timeout=_TIMEOUT_S, check=False
    )


def _variable(name: str) -> str:
    return f"KERNELSCOPE_{name.upper()}"


def _places(name: str) -> Iterator[tuple[str, str]]:
    named = os.environ.get(_variable(name))
    if named:
        yield os.path.abspath(os.path.expanduser(named)), _variable(name)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder):
            yield os.path.join(folder, name), "PATH"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin", name), variable
    for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        for path in _inside(os.environ.get(variable), _IN_ENVIRONMENT[name]):
            yield path, variable
    for pattern in _PATTERNS[name]:
        for path in sorted(glob.glob(pattern), reverse=True):
            yield path, "installed"
    for folder in sys.path:
        for path in _inside(folder, _IN_WHEELS.get(name, ())):
            yield path, "installed"


def _inside(folder: str | None, patterns: tuple[str, ...]) -> list[str]:
    """Return the paths that match these patterns inside a folder."""
    if not folder:
        return []
    found = [glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True) for pattern in patterns]
    return [path for paths in found for path in sorted(paths)]


def nvtx_library() -> str | None:
    """Return the C library through which ranges reach a profiler: a path, or a name that the loader knows; None without one.

    Tried in order: $KERNELSCOPE_NVTX_LIBRARY, this interpreter's wheels `nvidia-nvtx`, the system's library.
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
