"""The OpenMPI libraries that CNTK is linked against, from the system or unpacked beside its environment without root.

CNTK 2.7 needs `libmpi.so.12` and `libmpi_cxx.so.1` (OpenMPI 1.10). Later releases up to OpenMPI 4 have the same functions under
other numbers, so two links with these names suffice; OpenMPI 5 dropped the C++ library. A single process never starts MPI,
which only has to load. So an unpacked OpenMPI works, although its own files are not where it expects them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from kernelscope.tracer.outside.errors import ChildError

WANTED = ("libmpi.so.12", "libmpi_cxx.so.1")
# Numbers of OpenMPI 1.10, 2, and 3 to 4, which have the C++ library: number of libmpi -> number of libmpi_cxx.
_NUMBERS = {"12": "1", "40": "40", "20": "20"}
_PACKAGES = ("libopenmpi3", "libopenmpi3t64", "libopenmpi2", "libopenmpi1.10")
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
    "/usr/lib64/openmpi/lib", "/usr/lib/openmpi/lib", "/usr/lib/x86_64-linux-gnu/openmpi/lib",
    "/usr/local/openmpi/lib", "/usr/local/mpi/lib", "/opt/openmpi/lib",
)  # fmt: skip
# The C and C++ run-time libraries must be the system's own: a second copy breaks a process.
_NEVER = re.compile(r"libc6|libc-bin|libstdc\+\+\d|libgcc|gcc-\d|libgomp")
_REMEDY = "install OpenMPI 4 or older with its C++ library (Debian, Ubuntu: apt install libopenmpi3)"
_TIMEOUT_S = 300.0


def provide(folder: Path, log: IO[str]) -> list[str]:
    """Return the folders to add to the child's LD_LIBRARY_PATH so that CNTK finds its MPI.

    Files that are made or downloaded go into `folder`, output of commands into `log`. If there is no MPI, raises ChildError
    that says what to install.
    """
    system = locate()
    mpi, cxx = system or _fetch(folder, log)
    links = folder / "links"
    links.mkdir(parents=True, exist_ok=True)
    for name, library in zip(WANTED, (mpi, cxx), strict=True):
        (links / name).unlink(missing_ok=True)
        (links / name).symlink_to(library)
    if system is None:
        return [str(links), *_library_folders(folder / "root")]
    # leave out folders that the loader searches anyway: put first, they could replace an interpreter's own libraries
    usual = {"/usr/lib", "/usr/lib64", *_known_to_the_loader()}
    return [str(links)] + [str(mpi.parent)] * (str(mpi.parent) not in usual)


def _library_folders(root: Path) -> list[str]:
    """Return the folders of an unpacked system with shared libraries, except plug-ins."""
    folders = {
        path.parent for base in ("usr/lib", "lib") for path in (*root.glob(f"{base}/lib*.so*"), *root.glob(f"{base}/*/lib*.so*"))
    }
    return sorted(str(folder) for folder in folders)


def locate(folders: Sequence[str] | None = None) -> tuple[Path, Path] | None:
    """Return the system's libmpi and libmpi_cxx of one release (only from `folders`, if given); None without them."""
    places = list(folders) if folders is not None else [*_known_to_the_loader(), *_search_path(), *_FOLDERS]
    for number, cxx_number in _NUMBERS.items():
        for place in places:
            mpi, cxx = Path(place, f"libmpi.so.{number}"), Path(place, f"libmpi_cxx.so.{cxx_number}")
            if mpi.exists() and cxx.exists():
                return mpi, cxx
    return None


def _search_path() -> list[str]:
    return [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]


def _known_to_the_loader() -> list[str]:
    """Return the folders of the MPI libraries in the loader's cache."""
    ldconfig = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if ldconfig is None:
        return []
    try:
        done = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    paths = re.findall(r"libmpi\S* .*=> (\S+)", done.stdout)
    return list(dict.fromkeys(os.path.dirname(path) for path in paths))


def _fetch(folder: Path, log: IO[str]) -> tuple[Path, Path]:
    """Download Debian's or Ubuntu's packages as an ordinary user and unpack them into `folder`."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise ChildError(f"cntk needs OpenMPI's libmpi and libmpi_cxx, which were not found; {_REMEDY}")
    downloads, root = folder / "downloads", folder / "root"
    for new in (downloads, root):
        new.mkdir(parents=True, exist_ok=True)
    if not _download([], downloads, log) and not _download(_private_lists(folder, log), downloads, log):
        raise ChildError(
            f"cntk needs OpenMPI's libmpi and libmpi_cxx, and apt-get could not download them; see {log.name}, or {_REMEDY}"
        )
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(root)], log, root)
    shutil.rmtree(downloads)
    shutil.rmtree(folder / "apt", ignore_errors=True)
    shutil.rmtree(root / "usr" / "share", ignore_errors=True)
    result = locate([os.path.dirname(path) for path in root.glob("usr/lib/**/libmpi.so.*")])
    if result is None:
        raise ChildError(f"cntk needs libmpi_cxx, which the OpenMPI of this distribution no longer has; {_REMEDY}")
    return result


def _private_lists(folder: Path, log: IO[str]) -> list[str]:
    """Return apt-get options for package lists of our own, as images often have no or outdated system lists."""
    lists, cache = folder / "apt" / "lists", folder / "apt" / "cache"
    options = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "Debug::NoLocking=1"]
    options += ["-o", "APT::Sandbox::User=", "-o", "APT::Update::Post-Invoke-Success::=", "-o", "Acquire::Retries=2"]
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (cache / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    _run(["apt-get", *options, "update"], log, folder)
    return options


def _download(options: list[str], downloads: Path, log: IO[str]) -> bool:
    """Download OpenMPI and those of its dependencies that are not installed; return whether that worked."""
    for package in _PACKAGES:
        plan = ["apt-get", *options, "-s", "-y", "--no-install-recommends", "install", package]
        names = needed_packages(_run(plan, log, downloads) or "")
        if names and _run(["apt-get", *options, "download", *names], log, downloads) is not None:
            return True
    return False


def needed_packages(plan: str) -> list[str]:
    """Return the packages to download, from the output of `apt-get -s install`, without the C and C++ run-time libraries."""
    names = re.findall(r"^Inst (\S+) .*?\(\S+", plan, re.MULTILINE)
    return [name for name in names if not _NEVER.match(name)]


def _run(command: list[str], log: IO[str], folder: Path) -> str | None:
    """Run a command in `folder` and log its output; return its standard output, or None if it failed."""
    log.write(f"$ {' '.join(command)}\n")
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, timeout=_TIMEOUT_S, check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        log.write(f"{error}\n")
        return None
    log.write(done.stdout + done.stderr)
    log.flush()
    return done.stdout if done.returncode == 0 else None
