"""Build one environment: create it, install into it, verify that it imports, and record what it holds.

`environment.json` is written last: a folder without it is half-built.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Protocol

from kernelscope.tracer.inside import durable, interrupts
from kernelscope.tracer.outside import openmpi
from kernelscope.tracer.outside.errors import ChildError, InputError
from kernelscope.tracer.outside.interpreters import Interpreter
from kernelscope.tracer.outside.recipes import Recipe, pip_hashes

MARKER = "environment.json"
SCHEMA = 1
_IMPORT_TIMEOUT_S = 300.0
_INDEX_TIMEOUT_S = 5.0

# Variables that would make pip install elsewhere, or a child import from elsewhere.
_LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "VIRTUAL_ENV")
_PIP = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

# Imports the modules in the first argument and prints the framework's version. Frameworks print while they are imported, so the
# answer is marked. Runs under any Python 3.
_PROBE = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
names = sys.argv[1].split(",")
modules = []
for name in names:
    try:
        modules.append(importlib.import_module(name))
    except BaseException as error:
        print("\\nkernelscope-probe: " + json.dumps({
            "failed": name, "error": "%s: %s" % (type(error).__name__, (str(error).strip() or "no message").splitlines()[-1])}))
        sys.exit(1)
first = modules[0]
cuda = None
if names[0] == "torch":
    cuda = first.version.cuda
elif names[0] == "tensorflow":
    cuda = first.sysconfig.get_build_info().get("cuda_version")
print("\\nkernelscope-probe: " + json.dumps({"version": first.__version__, "cuda": cuda}))
"""


class BuildProgress(Protocol):
    """Receives progress: `stage` once per stage, `detail` often."""

    def stage(self, text: str) -> None:
        """Report that a new stage begins."""

    def detail(self, text: str) -> None:
        """Report what the stage is busy with."""


class Silent:
    """Shows nothing."""

    def stage(self, text: str) -> None:
        """Do nothing."""

    def detail(self, text: str) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Probe:
    """The outcome of importing a framework: its `version` and the CUDA release of its build, or `failure` in one line."""

    version: str | None = None
    cuda: str | None = None
    failure: str | None = None


def clean_variables(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without variables that redirect imports or pip, and with `extra`."""
    return {**{name: value for name, value in os.environ.items() if name not in _LEFT_OUT}, **(extra or {})}


def library_variables(folders: list[str]) -> dict[str, str]:
    """Return the variables that make a child search these folders for shared libraries, before those that the user has set."""
    if not folders:
        return {}
    theirs = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part and part not in folders]
    return {"LD_LIBRARY_PATH": ":".join([*folders, *theirs])}


def probe(python: Path, imports: tuple[str, ...], variables: Mapping[str, str]) -> Probe:
    """Import the framework in a separate process, where it may print, abort or crash."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    try:
        done = subprocess.run(
            [str(python), "-c", _PROBE, ",".join(imports)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_IMPORT_TIMEOUT_S, env=clean_variables(quiet), cwd="/", check=False,
        )  # fmt: skip
    except OSError as error:
        return Probe(failure=f"it does not start ({error.strerror or error})")
    except subprocess.TimeoutExpired:
        return Probe(failure=f"importing {imports[0]} took more than {_IMPORT_TIMEOUT_S:.0f} s")
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("kernelscope-probe: "):
            answer = json.loads(line.partition(": ")[2])
            if "failed" in answer:
                return Probe(failure=f"cannot import {answer['failed']} ({answer['error']})")
            return Probe(answer["version"], answer["cuda"])
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if done.returncode < 0:
        last = f"killed by {signal.Signals(-done.returncode).name}"
    return Probe(failure=f"cannot import {imports[0]} ({last})")


class Builder:
    """Builds the environment of `recipe` from `interpreter` in `folder`; its output goes to the log at `log_path`.

    `lock` is the descriptor of the caller's lock, which pip inherits: see locks.exclusive. hashed: whether every file must have
    a known digest, if the recipe has digests for this interpreter and machine.
    """

    def __init__(
        self, recipe: Recipe, interpreter: Interpreter, folder: Path, log_path: Path, lock: int, progress: BuildProgress,
        hashed: bool = True,
    ):  # fmt: skip
        self.recipe = recipe
        self.interpreter = interpreter
        self.folder = folder
        self.log_path = log_path
        self.python = folder / "bin" / "python"
        self.hashes = recipe.hashes if hashed and recipe.hashes and recipe.hashes.fits(interpreter.minor) else None
        self._lock = lock
        self._progress = progress

    def build(self) -> None:
        """Build and verify, or leave nothing behind. Raises ChildError or InputError that names the failure and the log."""
        self._check_space()
        try:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("w", encoding="utf8", errors="replace") as log:
                self._build(log)
        except OSError as error:
            remove_folder(self.folder)
            raise InputError(f"{self.folder}: {error.strerror or error}; set KERNELSCOPE_HOME to another folder") from error
        except BaseException:
            remove_folder(self.folder)
            raise

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.folder.parent).free
        if free < self.recipe.disk_bytes:
            wanted = f"the environment of {self.recipe.framework} needs about {self.recipe.disk_bytes / 1e9:.1f} GB"
            raise InputError(
                f"{self.folder.parent}: {wanted} and {free / 1e9:.1f} GB are free; "
                "free some, or set KERNELSCOPE_HOME to another folder"
            )

    def _build(self, log: IO[str]) -> None:
        self._progress.stage(f"making a virtual environment of Python {self.interpreter.version} ({self.interpreter.path})")
        self._run([str(self.interpreter.path), "-m", "venv", str(self.folder)], log)
        library_folders: list[str] = []
        if "openmpi" in self.recipe.needs:
            self._progress.stage("providing OpenMPI's libraries")
            library_folders = openmpi.provide(self.folder / "openmpi", log)
        self._install(log)
        self._progress.stage(f"importing {self.recipe.imports[0]}")
        variables = {**library_variables(library_folders), **self.recipe.variables}
        result = probe(self.python, self.recipe.imports, variables)
        log.write(f"$ import {' '.join(self.recipe.imports)}\n{result}\n")
        if result.failure is not None:
            raise ChildError(f"the new environment of {self.recipe.framework} {result.failure}; see {self.log_path}")
        self._write_marker(result, library_folders, log)

    def _install(self, log: IO[str]) -> None:
        """Install pip and packages, by their hashes if these are known."""
        pip = [str(self.python), "-m", "pip", "install", "--progress-bar", "off"]
        hashed = ["--require-hashes", "-r"]
        version = self.recipe.pip
        if version:
            self._run([*pip, *([*hashed, str(pip_hashes(version))] if self.hashes else [f"pip=={version}"])], log)
        self._progress.stage(f"installing {', '.join(self._requirements())}")
        index = self.recipe.index
        extra = ["--extra-index-url", index] if index and reachable(index) else []
        if self.hashes is None:
            self._run([*pip, *extra, "-r", str(self.recipe.path)], log)
            return
        try:
            self._run([*pip, *extra, *hashed, str(self.hashes.path)], log)
        except ChildError as error:
            raise ChildError(f"{error}; --no-hashes accepts other files of the same versions") from error

    def _requirements(self) -> list[str]:
        lines = (line.strip() for line in self.recipe.text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    def _write_marker(self, result: Probe, library_folders: list[str], log: IO[str]) -> None:
        listed = self._run([str(self.python), "-m", "pip", "list", "--format", "json"], log)
        packages = json.loads(next(line for line in listed if line.startswith("[")))
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "framework": self.recipe.framework,
            "variant": self.recipe.variant,
            "version": result.version,
            "cuda": result.cuda,
            "python": self.interpreter.version,
            "interpreter": str(self.interpreter.path),
            "requirements_sha256": self.recipe.digest,
            "hashed": self.hashes is not None,
            "packages": {package["name"]: package["version"] for package in packages},
            "library_folders": library_folders,
            "size_bytes": _size(self.folder),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        durable.write_text(self.folder / MARKER, json.dumps(content, indent=1) + "\n")

    def _run(self, command: list[str], log: IO[str]) -> list[str]:
        """Run a command, log its output and show its progress; return its lines. Raise ChildError if it fails."""
        log.write(f"$ {' '.join(command)}\n")
        lines, process = [], None
        try:
            with interrupts.deferred():
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    errors="replace", env=clean_variables(_PIP), cwd=self.folder.parent, pass_fds=(self._lock,),
                    start_new_session=True,
                )  # fmt: skip
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    log.write(line)
                    lines.append(line)
                    if line.startswith(("Collecting", "Installing collected", "Building")):
                        self._progress.detail(line.strip()[:100])
            status = process.wait()
        except BaseException:
            # Ctrl-C: pip and its children share a process group that is not the terminal's
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise
        log.flush()
        if status != 0:
            raise ChildError(f"{_what(command)} failed: {_reason(lines, status)}; see {self.log_path}")
        return lines


def _what(command: list[str]) -> str:
    return "making the virtual environment" if "venv" in command else f"pip {command[3]}"


def _reason(lines: list[str], status: int) -> str:
    """Return the line of the output that best says what went wrong."""
    errors = [line.strip() for line in lines if line.lstrip().lower().startswith("error")]
    text = (errors or [line.strip() for line in lines if line.strip()] or [""])[-1]
    return text or (f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}")


def reachable(index: str) -> bool:
    """Return whether the package index answers; pip would retry for minutes if it does not."""
    try:
        request = urllib.request.Request(index.rstrip("/") + "/", method="HEAD")  # noqa: S310 (our own https address)
        with urllib.request.urlopen(request, timeout=_INDEX_TIMEOUT_S):  # noqa: S310
            return True
    except OSError as error:
        return getattr(error, "code", None) == 405


def _size(folder: Path) -> int:
    """Return the total size in bytes of a folder's files; links are not followed."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(base, name)).st_size
    return total


def remove_folder(folder: Path) -> None:
    """Remove an environment, marker first, so that the remains after a crash are never taken for a ready one."""
    (folder / MARKER).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise InputError(f"{folder}: cannot be removed; remove it by hand")
