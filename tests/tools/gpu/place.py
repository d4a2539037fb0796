"""Where checks run: the machine's GPUs, the frameworks with their interpreters, the folder for recordings, and commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outcomes import NotRun

from kernelscope.tracer.outside import environments, gpu, recipes
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import KernelscopeError
from kernelscope.tracer.outside.staging import stage

KERNELSCOPE = (sys.executable, "-m", "kernelscope.cli.main")
INFERENCE_ONLY = ("cudnn", "onednn")  # libraries: lenet is written out on them, forward only
_GRACE_S = 20.0  # for a command that is told to stop: it ends its children and profilers itself


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line that it said."""
        lines = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing"


@dataclass(frozen=True)
class Side:
    """A framework and where it runs; `missing` says why it cannot. given: the interpreter was named by the user."""

    framework: str
    environment: Environment | None
    missing: str | None = None
    given: bool = False

    @property
    def options(self) -> list[str]:
        """What `run` has to be told of it."""
        mode = ["--mode", "infer"] if self.framework in INFERENCE_ONLY else []
        return [*mode, "--python", str(self.environment.python)] if self.given and self.environment else mode


@dataclass
class Place:
    """device: cuda, or cpu where there is no GPU, and `reason` why. runs: complete recordings by framework and collector."""

    folder: Path
    device: str
    gpus: tuple[gpu.Gpu, ...]
    reason: str | None
    sides: list[Side]
    steps: int = 20
    runs: dict[tuple[str, str], Path] = field(default_factory=dict)

    def need_gpu(self) -> None:
        """Raise NotRun where there is none."""
        if self.device != "cuda":
            raise NotRun(f"no GPU ({self.reason})")

    def ready(self) -> list[Side]:
        """Return the frameworks that can run here."""
        return [side for side in self.sides if side.environment is not None]

    def first(self) -> Side:
        """Return the framework for checks that need one only; raise NotRun without any."""
        if not self.ready():
            raise NotRun("no framework is set up here")
        return self.ready()[0]

    def run(self, side: Side, folder: Path, *options: str, variables: Mapping[str, str] | None = None) -> Done:
        """Record lenet with a framework into a folder; later options go before the usual ones."""
        usual = ["--device", self.device, "--steps", str(self.steps), "--repeats", "1", "--warmup", "5"]
        command = [*KERNELSCOPE, "run", "lenet", "-f", side.framework, *side.options, "-o", str(folder), *usual, *options]
        return self.command(command, variables)

    def command(self, command: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> Done:
        """Run a command to its end. When the check's time is over, or on Ctrl-C, it and all that it started are ended."""
        environment = {**os.environ, **(variables or {})}
        with subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment, cwd=self.folder, start_new_session=True, errors="replace",
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate()
            finally:
                end(process)
        return Done(process.returncode, out, err)

    def inside(self, side: Side, *arguments: str, variables: Mapping[str, str] | None = None) -> Done:
        """Run a framework's interpreter with the code for children in its path."""
        if side.environment is None:
            raise NotRun(side.missing or f"{side.framework} is not set up")
        staged = self.folder / "staged"
        if not staged.is_dir():
            stage(staged)
        known = {**side.environment.variables, "PYTHONPATH": str(staged), "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})}
        return self.command([side.environment.python, *arguments], known)


def end(process: subprocess.Popen[str]) -> None:
    """End a process that still runs: Ctrl-C first, on which kernelscope ends its children, then for good."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def look(folder: Path, pythons: Mapping[str, str], only: Sequence[str], steps: int) -> Place:
    """Return what is here. pythons: interpreters by framework; where some are given, other frameworks are not looked for."""
    found = gpu.find()
    device = "cuda" if found.devices else "cpu"
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in recipes.FRAMEWORKS if not only or name in only]
    sides = [_side(name, pythons, device) for name in names]
    return Place(folder, device, found.devices, found.reason, sides, steps)


def _side(name: str, pythons: Mapping[str, str], device: str) -> Side:
    if name in pythons:
        try:
            return Side(name, environments.resolve(name, pythons[name]), given=True)
        except KernelscopeError as error:
            return Side(name, None, str(error))
    if pythons:
        return Side(name, None, "no interpreter of it was given with --python")
    if device == "cuda" and "cuda" not in recipes.variants(name):
        return Side(name, None, "there is no CUDA build of it for today's GPUs and Pythons")
    ready = environments.find(name, "cuda" if device == "cuda" else None)
    missing = f"not set up: run `kernelscope env create {name}`" + (" on this machine with a GPU" if device == "cuda" else "")
    return Side(name, ready, None if ready else missing)
