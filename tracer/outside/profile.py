"""Run somebody's own command with our code in its Python interpreters, and make a run folder of what they recorded.

Nothing of the command is changed: its arguments, terminal, working folder, signals and exit status are as without us. Its
environment has two variables more: PYTHONPATH, by which every Python in it runs
`tracer/inside/profiling/injected/sitecustomize.py` first, and KERNELSCOPE_PROFILE, the file that says what to record.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from kernelscope.tracer.inside.profiling import printed
from kernelscope.tracer.outside import conditions
from kernelscope.tracer.outside.errors import InputError, UsageError
from kernelscope.tracer.outside.run_folder import RunFolder
from kernelscope.tracer.outside.staging import package_folder, stage

PASSES = ("clean", "layers", "kernels")
VARIABLE = "KERNELSCOPE_PROFILE"
SPEC_FILE = "profile.json"
SKIPPED = 2  # first steps of a pass that do not count: wrappers and profilers have theirs to warm up
RERUN_WARMUP = 3  # first steps of a script that is run for one pass only
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGINT)
_TAKING_VALUES = ("-W", "-X", "-Q", "--check-hash-based-pycs")  # options of python that have their value behind them


@dataclass(frozen=True)
class ProfileOptions:
    """What is recorded. steps: of the clean pass; layers and kernels have half as many. window: steps A:B of the script to use
    instead, of which the clean pass has half. warmup: least number of steps before. rerun: whether each pass has a run of the
    command. seconds: after which a pass ends with what it has. mode: auto, train or infer.
    """

    steps: int = 20
    window: tuple[int, int] | None = None
    warmup: int = 10
    rerun: bool = False
    seconds: float = 60.0
    mode: str = "auto"

    def plans(self) -> list[list[dict[str, Any]]]:
        """Return the passes of each run of the command."""
        half = max(1, self.steps // 2)
        counts = {"clean": self.steps, "layers": half, "kernels": half}
        if self.window is not None and not self.rerun:
            counts = _shared(self.window[1] - self.window[0])
        skipped = 0 if self.window is not None else SKIPPED
        entries = [
            {"pass": name, "skip": 0 if name == "clean" else min(skipped, counts[name] // 2), "steps": counts[name]}
            for name in PASSES
        ]
        return [[entry] for entry in entries] if self.rerun else [entries]

    def warming(self) -> dict[str, Any]:
        """Return when warm-up ends."""
        if self.window is not None:
            return {"steps": self.window[0], "settle": False}
        return {"steps": RERUN_WARMUP if self.rerun else self.warmup, "settle": not self.rerun and self.warmup > 0}


def _shared(steps: int) -> dict[str, int]:
    """Return how a window's steps are shared out."""
    kernels = layers = max(1, steps // 4)
    return {"clean": max(1, steps - kernels - layers), "layers": layers, "kernels": kernels}


@dataclass(frozen=True)
class Outcome:
    """How it went. status: the command's exit status as a shell gives it. seen: one line on what was recorded, None for nothing.
    problems: one line for each thing that was not.
    """

    status: int
    seen: str | None
    problems: list[str]


def profile(command: Sequence[str], options: ProfileOptions, folder: Path, label: str | None, asked: list[str]) -> Outcome:
    """Run the command and write the run folder; raise UsageError where there is no such command. asked: our own command line."""
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: no such command; write the command as you would run it, behind --")
    name = script_name(command)
    run = RunFolder(folder, _record(command, name, label or PurePath(name).stem, options, asked))
    status = 0
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as temporary:
        injected = _staged(Path(temporary))
        for plan in options.plans():
            with contextlib.suppress(FileNotFoundError):
                (folder / "owner").unlink()
            spec = {"folder": str(folder.resolve()), "mode": options.mode, "plan": plan, "seconds": options.seconds}
            (folder / SPEC_FILE).write_text(json.dumps({**spec, "warmup": options.warming()}, indent=1), encoding="utf8")
            status = _run(command, folder / SPEC_FILE, injected)
            _forward_rest(folder)
            if status:
                break
    if not folder.is_dir():
        raise InputError(f"{folder}: the script removed it while it ran (its exit status: {status}); name another folder")
    return _Result(run, options, status).outcome()


def script_name(command: Sequence[str]) -> str:
    """Return what the command runs: the script or module behind a Python, else the command itself."""
    first = PurePath(command[0]).name
    if not first.startswith(("python", "pypy")):
        return first
    rest = iter(command[1:])
    for part in rest:
        if part == "-m":
            return next(rest, first)
        if part in _TAKING_VALUES:
            next(rest, None)
        elif part == "-c":
            return "-c"
        elif not part.startswith("-"):
            return PurePath(part).name
    return first


def _record(command: Sequence[str], name: str, label: str, options: ProfileOptions, asked: list[str]) -> dict[str, Any]:
    return {
        "kernelscope": importlib.metadata.version("kernelscope"),
        "recorder": "profile",
        "label": label,
        "framework": "unknown",
        "version": None,
        "python": None,
        "program": None,
        "options": {
            "network": name, "mode": options.mode, "batch": None, "device": "cpu", "threads": None, "seed": None,
            "steps": options.steps, "window": list(options.window) if options.window else None, "warmup": options.warmup,
            "repeats": 1, "steady": False, "timeout_s": None, "data": None, "collector": "framework", "rerun": options.rerun,
        },
        "conditions": "as it comes",
        "machine": conditions.machine(),
        "command": conditions.command(asked),
        "profiled": conditions.command(command),
        "variables": conditions.recorded(os.environ),
        "network": None,
        "model": None,
    }  # fmt: skip


def _staged(folder: Path) -> Path:
    """Stage what interpreters load; return the folder for their PYTHONPATH."""
    stage(folder)
    tracer = folder / "kernelscope" / "tracer"
    shutil.copy(package_folder("kernelscope.tracer") / "__init__.py", tracer / "__init__.py")
    return tracer / "inside" / "profiling" / "injected"


def _run(command: Sequence[str], spec: Path, injected: Path) -> int:
    """Run the command to its end, handing on signals; return its exit status as a shell gives it."""
    variables = dict(os.environ)
    variables[VARIABLE] = str(spec.resolve())
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(injected), variables.get("PYTHONPATH"))))
    try:
        process = subprocess.Popen(list(command), env=variables, close_fds=False)
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be run: {error.strerror or error}") from error
    with _signals_to(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand on the signals that this process gets, except those that the terminal gives to both of us."""

    def hand_on(number: int, _: Any) -> None:
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Return whether a terminal's keys are for our group of processes."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _forward_rest(folder: Path) -> None:
    """Print what the script printed and its dead process could not hand on any more."""
    for spool in folder.glob(f"*/*/{printed.SPOOL_FILE}"):
        done = spool.with_name(printed.LEFT)
        start = int(done.read_text(encoding="ascii") or 0) if done.exists() else 0
        with spool.open("rb") as file:
            file.seek(start)
            _, own, waiting = printed.parted(file.read(printed.LIMIT))
        printed.write_all(1, own + waiting)
        spool.unlink()
        done.unlink(missing_ok=True)


class _Result:
    """Makes the run folder's record of what the processes left."""

    def __init__(self, run: RunFolder, options: ProfileOptions, status: int):
        self.run = run
        self.options = options
        self.status = status
        self.notes = _json_lines(run.path / "notes.jsonl")
        self.problems: list[str] = []

    def outcome(self) -> Outcome:
        """Complete run.json and say what it holds."""
        record = self.run.record
        reports = {name: report for name in PASSES if (report := self._pass(name)) is not None}
        for report in reports.values():
            self._learn(report)
        missing = [name for name in PASSES if record["passes"].get(name, {}).get("status") != "complete"]
        if missing:
            self._explain_missing(missing)
        self.problems += [f"{what}: {why}" for what, why in record["unavailable"].items()]
        record["exit_status"] = self.status
        record["complete"] = not missing
        record["reason"] = None if not missing else self.problems[0]
        self.run.write()
        measured = [f"{name} {report['measured']}" for name, report in reports.items() if report["measured"]]
        if not measured:
            return Outcome(self.status, None, self.problems)
        kind = "training" if record["options"]["mode"] == "train" else "inference"
        seen = (
            f"{record['options']['network']}: {kind} with {record['framework']} {record['version']}; steps: {', '.join(measured)}"
        )
        return Outcome(self.status, seen, self.problems)

    def _pass(self, name: str) -> dict[str, Any] | None:
        """Enter one pass into the record; return its report, None where there is none."""
        folder = self.run.path / name / "1"
        if not (folder / "child.json").is_file():
            return None
        report: dict[str, Any] = json.loads((folder / "child.json").read_text(encoding="utf8"))
        report["measured"] = sum(not row["warmup"] for row in _json_lines(folder / "steps.jsonl"))
        usable = report["measured"] > 0 and (name != "kernels" or bool(report.get("operator_files")))
        entry: dict[str, Any] = {"status": "complete" if usable else "failed", "folders": [f"{name}/1"] if usable else []}
        if not report["complete"]:
            entry["reason"] = report["reason"]
        if name == "kernels":
            entry["collector"] = {
                "asked": "framework",
                "used": "framework",
                "reason": "the only one that a script's own process has",
            }
        self.run.record["passes"][name] = entry
        return report if usable else None

    def _learn(self, report: dict[str, Any]) -> None:
        """Enter what a pass found out into the record; later passes know more."""
        record, options = self.run.record, self.run.record["options"]
        record["framework"] = report["framework"]
        record["version"] = report["versions"].get(report["framework"])
        for key, told in (("versions", "versions"), ("settings", "settings"), ("model", "network")):
            record[key] = report.get(told) or record.get(key)
        options["mode"] = "train" if report["training"] else "infer"
        options["batch"] = report.get("batch") or options["batch"]
        options["device"] = report.get("device", "cpu")
        options["threads"] = (report.get("settings") or {}).get("threads")
        record["unavailable"].update(report.get("unavailable", {}))
        with contextlib.suppress(OSError, ValueError):
            owner = json.loads((self.run.path / "owner").read_text(encoding="utf8"))
            record["python"] = conditions.without_home(owner["python"])

    def _explain_missing(self, missing: list[str]) -> None:
        """Say why passes are missing, from what the processes wrote down."""
        kinds = {note["kind"]: note["text"] for note in self.notes}
        steps = json.loads(kinds["steps"])["steps"] if "steps" in kinds else None
        passes = ", ".join(missing)
        if "fault" in kinds:
            text = f"{passes}: a fault of kernelscope: {kinds['fault']} (see faults.log)"
        elif steps is not None:
            text = (
                f"{passes}: not all recorded, the script ended after {steps} steps; choose a window with --steps A:B, "
                "or run it once for each pass with --passes rerun"
            )
        elif "no steps" in kinds:
            text = f"{passes}: no steps were seen: {kinds['no steps']}"
        elif not (self.run.path / (SPEC_FILE + ".seen")).exists():
            text = (
                f"{passes}: no Python of the command ran our code; is it started with -I, -E or -S, or without its environment?"
            )
        elif (self.run.path / "owner").exists():
            text = f"{passes}: the process ended without notice (killed, or a crash in C code); what it wrote until then is kept"
        else:
            text = f"{passes}: no framework was imported; known are PyTorch"
        self.problems.append(text)


def _json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file that may be missing or cut off."""
    rows = []
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    return rows
