"""Fetches programs and what they need from the registry into a folder of their own in the user's cache.

    foreign/environments/<name>-<key>/    a virtual environment that sees the framework's packages of `kernelscope env` too
    foreign/sources/<package>-<version>/  an unpacked source distribution

The key is a hash of the pinned packages, so that changed pins make a new one.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from catalogue import ENVIRONMENTS, Environment

from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import KernelscopeError

FETCH_LIMIT_S = 900
_READY = "ready"


class Missing(Exception):
    """Something that cannot be had; the text says why."""


def folder() -> Path:
    """Return the folder of foreign programs in the user's cache."""
    return environments.home() / "foreign"


def python(name: str, fetch: bool = True) -> tuple[Path, dict[str, str]]:
    """Return an environment's interpreter and the variables that it needs, making it first; raise Missing."""
    wanted = ENVIRONMENTS[name]
    try:
        base = environments.resolve(wanted.framework, None)
    except KernelscopeError as error:
        raise Missing(str(error)) from error
    if not wanted.packages + wanted.alone:
        return base.python, base.variables
    key = hashlib.sha256(repr((wanted, str(base.python))).encode()).hexdigest()[:12]
    path = folder() / "environments" / f"{name}-{key}"
    if not (path / _READY).exists():
        if not fetch:
            raise Missing(f"no environment of {name}: make foreign")
        _build(path, wanted, base.python)
    return path / "bin" / "python", base.variables


def _build(path: Path, wanted: Environment, base: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    run([base, "-m", "venv", "--without-pip", path])
    own, site = path / "bin" / "python", "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    (Path(run([own, "-c", site]).strip()) / "framework.pth").write_text(run([base, "-c", site]))
    fixed = path / "constraints.txt"  # the framework and all that is beside it stay as they are; a local version is no pin
    installed = run([base, "-m", "pip", "freeze"]).splitlines()
    fixed.write_text("".join(line.partition("+")[0] + "\n" for line in installed if "==" in line))
    install = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*install, "--constraint", fixed, *wanted.packages])
    if wanted.alone:
        run([*install, "--no-deps", *wanted.alone])
    (path / _READY).touch()


def source(pin: str, fetch: bool = True) -> Path:
    """Return the folder of an unpacked source distribution, fetching it first; raise Missing."""
    path = folder() / "sources" / pin.replace("==", "-")
    if path.is_dir():
        return path
    if not fetch:
        raise Missing(f"no source distribution of {pin}: make foreign")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        packed = Path(temporary) / "packed"
        pip = shutil.which("pip", path=str(Path(sys.executable).parent)) or "pip"
        run([pip, "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", packed, pin])
        [archive] = packed.iterdir()
        with tarfile.open(archive) as file:
            file.extractall(temporary, filter="data")
        archive.unlink()
        packed.rmdir()
        [unpacked] = Path(temporary).iterdir()
        unpacked.rename(path)
    return path


def run(command: list[str | Path]) -> str:
    """Run a command and return what it printed; raise Missing with the last line that it printed when it fails."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=FETCH_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]}: {error}") from error
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.startswith("ERROR")] or ["failed"]
        raise Missing(f"{' '.join(map(str, command[1:4]))}: {lines[0]}")
    return done.stdout
