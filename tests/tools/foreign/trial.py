"""One foreign program, run as it is and under `kernelscope profile`: whether its outputs are the same, and what was seen."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import fetching
import turns
from catalogue import Program

LIMIT_S = 600
# One thread: on a machine that others use too, threads that wait for each other measure the others
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
# What is printed about time: durations with their unit, rates, dates, and bars that are redrawn as time goes by
_TIMES = [
    re.compile(pattern)
    for pattern in (
        r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\d]*", r"\b\d+:\d\d:\d\d\b", r"\b\d\d:\d\d\b",
        r"\d+(?:\.\d+)?(?:e[+-]\d+)?\s?(?:it|batch(?:es)?|samples?|tokens?|triples?|epochs?)/s(?:ec)?",
        r"[\d.]+\s?s/(?:it|batch|epoch|triple)\b", r"\d+(?:\.\d+)?(?:e[+-]\d+)?\s?(?:s|ms|us|µs|seconds|secs?)(?:/\w+)?\b",
        r"[=>.━╸╺─█▏▎▍▌▋▊▉]{3,}", r"\| *(?:fps|time_elapsed) *\|.*",
    )
]  # fmt: skip


@dataclass
class Outcome:
    """What a run left: exit status, printed text without times, digests of the files in its folder, seconds."""

    status: int
    printed: str
    errors: str
    files: dict[str, str]
    seconds: float


@dataclass
class Trial:
    """A program's row. coverage and clean are shares, None where they could not be measured; problems: what is wrong."""

    program: Program
    framework: str = ""
    steps: str = ""
    step_ms: float | None = None
    coverage: float | None = None
    clean: float | None = None
    layers: turns.Cost | None = None
    same: str = ""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def attempt(program: Program, folder: Path, *, fetch: bool = True, twice: bool = True, in_turns: int = 1) -> Trial:
    """Run a program plainly and profiled; raise fetching.Missing where it cannot be had.

    twice: run it plainly once more where outputs differ, to tell what is random by itself. in_turns: run it up to
    so many times more for what the layers pass costs.
    """
    python, variables = fetching.python(program.environment, fetch)
    source = fetching.source(program.source, fetch) if program.source else None
    trial = Trial(program)
    calls = folder.absolute() / "costs.json"
    own = {
        "PYTHONPATH": str(Path(__file__).with_name("seeded")),
        "FOREIGN_SEED": program.seed or "",
        "FOREIGN_COST": str(calls),
    }
    environment = {**os.environ, **THREADS, **variables, **own, **program.variables}
    calls.unlink(missing_ok=True)

    def once(name: str, before: list[str], parts: tuple[str, ...] = program.command) -> Outcome:
        command = [part.replace("{python}", str(python)).replace("{bin}", str(python.parent)) for part in parts]
        outcome = _run([*before, *command], _prepared(program, source, folder), environment)
        (folder / f"{name}.txt").write_text(f"{outcome.printed}\n{outcome.errors}\n{json.dumps(outcome.files, indent=1)}\n")
        return outcome

    plain = once("plain", [])
    trial.seconds = plain.seconds
    if plain.status:
        trial.problems.append(f"the program itself ends with status {plain.status}: {_last(plain.errors)}")
        return trial
    run = folder / "run"
    ours = [sys.executable, "-m", "kernelscope.cli.main", "profile", "--quiet", "--force", "-o", str(run), *program.options, "--"]
    profiled = once("profiled", ours)
    trial.same = _differences(program, plain, profiled)
    if trial.same and twice and _differences(program, plain, once("again", [])):
        trial.same = "random by itself"
    if profiled.status:
        trial.problems.append(f"profiled, it ends with status {profiled.status}: {_last(profiled.errors)}")
    _read(run, calls, trial)
    if in_turns and not profiled.status:
        folders: list[Path] = []
        taken = _nothing_taken()
        while len(folders) < (program.runs or in_turns) and (trial.layers is None or trial.layers.turns < turns.ENOUGH):
            layers_first = program.runs > 0 and len(folders) % 2 == 1
            folders.append(folder / f"turns{len(folders)}")
            once(folders[-1].name, turns.command(folders[-1], layers_first), program.longer_command())
            for what, seconds in _taken(calls).items():
                taken[what] += seconds
            trial.layers = None if program.runs else turns.cost(folders)
        if program.runs:
            trial.layers = turns.cost_by_step(folders)
        clean = [row for each in folders for row in turns.clean_steps(each)]
        if trial.layers is not None:  # more steps say more
            trial.clean = _clean_cost(taken, clean)
            trial.step_ms = _median_ns(clean) / 1e6
    return trial


def _prepared(program: Program, source: Path | None, folder: Path) -> Path:
    """Return the folder that the program runs in, always of the same path and content."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    if source is None:
        work.mkdir(parents=True)
        start = work
    else:
        # with what lies beside it: examples read ../dataset
        shutil.copytree(source / Path(program.folder).parent, work, ignore=shutil.ignore_patterns("__pycache__"))
        start = work / Path(program.folder).name if Path(program.folder).parent != Path() else work / program.folder
    if program.data is not None:
        program.data(start)
    return start


def _run(command: list[str], start: Path, environment: dict[str, str]) -> Outcome:
    begun = time.monotonic()
    before = _digests(start)
    try:
        done = subprocess.run(
            command, cwd=start, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(124, "", f"not done after {LIMIT_S} s", {}, LIMIT_S)
    files = {name: digest for name, digest in _digests(start).items() if before.get(name) != digest}
    printed, errors = (content.decode(errors="replace") for content in (done.stdout, done.stderr))
    return Outcome(done.returncode, without_times(printed), errors, files, time.monotonic() - begun)


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def without_times(text: str) -> str:
    """Return printed text without what tells times, and of lines that are redrawn only how they look in the end."""
    lines = [re.split(r"\r|\x08+", line.rstrip("\r\x08"))[-1] for line in text.split("\n")]
    for pattern in _TIMES:
        lines = [pattern.sub("#", line) for line in lines]
    return "\n".join(re.sub(r"[ #]+", " ", line).strip() for line in lines)


def _differences(program: Program, one: Outcome, other: Outcome) -> str:
    """Return what differs between two runs, "" for nothing."""
    found = []
    if one.status != other.status:
        found.append(f"status {one.status} and {other.status}")
    if one.printed != other.printed:
        pairs = zip(one.printed.splitlines(), other.printed.splitlines(), strict=False)
        first = next(((a, b) for a, b in pairs if a != b), ("", "more lines"))
        found.append(f"stdout: {first[0][:60]!r} and {first[1][:60]!r}")
    for name in sorted(one.files.keys() | other.files.keys()):
        if any(fnmatch.fnmatch(name, pattern) for pattern in program.changing):
            continue
        if one.files.get(name) != other.files.get(name):
            found.append(f"file {name}")
    return "; ".join(found[:3])


def _last(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing said"


def _read(run: Path, costs: Path, trial: Trial) -> None:
    """Fill the row in from the run folder and from what our calls took."""
    record = json.loads((run / "run.json").read_text()) if (run / "run.json").is_file() else {}
    trial.framework = f"{record.get('framework')} {record.get('version')}"
    if not record.get("complete"):
        trial.problems.append(str(record.get("reason")))
    trial.problems += [f"{what}: {why}" for what, why in (record.get("unavailable") or {}).items()]
    clean = _steps(run, "clean")
    if clean:
        trial.step_ms = _median_ns(clean) / 1e6
        trial.steps = f"{len(clean)} of {(record.get('options') or {}).get('mode')}"
        trial.clean = _clean_cost(_taken(costs), clean)
    trial.coverage = _coverage(run, trial)


def _taken(costs: Path) -> dict[str, list[float]]:
    """Return what a run's calls took, in s, as seeded/sitecustomize wrote it, and remove the file."""
    found: dict[str, list[float]] = json.loads(costs.read_text()) if costs.is_file() else _nothing_taken()
    costs.unlink(missing_ok=True)
    return found


def _nothing_taken() -> dict[str, list[float]]:
    return {"calls": [], "between": [], "timing": []}


def _clean_cost(taken: dict[str, list[float]], steps: list[dict[str, int]]) -> float | None:
    """Return what our calls at the ends of clean steps took, without those that did what is done between steps, as a share of
    the median step; steps: all that were clean.
    """
    if not taken["calls"] or not taken["timing"] or not steps:
        return None
    call_ns = (statistics.median(taken["calls"]) - statistics.median(taken["timing"])) * 1e9
    calls = sum(len(times) for times in taken.values()) / len(steps)
    return call_ns * calls / _median_ns(steps)


def _median_ns(steps: list[dict[str, int]]) -> float:
    return statistics.median(row["end_ns"] - row["start_ns"] for row in steps)


def _steps(run: Path, name: str) -> list[dict[str, int]]:
    path = run / name / "1" / "steps.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [row for row in rows if not row["warmup"]]


def _coverage(run: Path, trial: Trial) -> float | None:
    command = [sys.executable, "-m", "kernelscope.cli.main", "breakdown", str(run), "--by", "layer", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        trial.problems.append(_last(done.stderr))
        return None
    return float(json.loads(done.stdout)["coverage"])
