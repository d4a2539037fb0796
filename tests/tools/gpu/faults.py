"""Faults on purpose: each must end with one line that helps, and leave a run folder that can be read."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
from outcomes import Check, Findings, NotRun
from place import KERNELSCOPE, Done, Place, end

from kernelscope.analysis.recordings.run import Run
from kernelscope.nsys_wrappers import find
from kernelscope.tracer.outside import collectors
from kernelscope.tracer.outside.errors import KernelscopeError

FAULT_S = 300.0
LEFT_BYTES = 2 << 30  # of the GPU: CUDA and a framework start in it, a training step of BIG samples does not fit
BIG = "65536"
STEPS = "60"  # long enough for a profiler to be killed meanwhile
_POLL_S = 0.05


def checks(place: Place) -> Iterator[Check]:
    """All faults."""
    faults = {
        "out of device memory": out_of_memory,
        "no visible device": no_visible_device,
        "CUPTI is taken": cupti_taken,
        "nsys killed half-way": nsys_killed,
    }
    for name, function in faults.items():
        yield Check(f"fault: {name}", "first framework", partial(function, place=place), FAULT_S)


def readable(found: Findings, folder: Path, done: Done, complete: bool = False) -> None:
    """One line instead of a traceback, and a folder that says how far it came."""
    found.measured |= {"exit status": done.status, "message": done.last}
    found.expect("Traceback" not in done.err, "a traceback instead of a message")
    try:
        run = Run(folder)
    except KernelscopeError as error:
        found.wrong.append(f"the run folder cannot be read: {error}")
        return
    found.measured["reason"] = run.record.get("reason")
    found.expect(run.complete == complete, f"run.json says complete: {run.complete}")


def out_of_memory(found: Findings, place: Place) -> None:
    """Another process holds nearly all of the GPU's memory; the batch is large."""
    place.need_gpu()
    folder = place.folder / "runs" / "out-of-memory"
    with _hog() as taken:
        found.measured["other process"] = taken
        done = place.run(place.first(), folder, "--batch", BIG)
    readable(found, folder, done)
    found.expect(done.status != 0, "it did not run out of memory")
    found.expect(re.search("memory|OOM|RESOURCE_EXHAUSTED", done.last, re.IGNORECASE) is not None, "memory is not named")


@contextmanager
def _hog() -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("hog.py")), str(LEFT_BYTES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            said = process.stdout.readline().strip()
            if not said.startswith("taken"):
                raise NotRun(f"the GPU's memory cannot be taken: {said}")
            yield said
        finally:
            process.stdin.close()


def no_visible_device(found: Findings, place: Place) -> None:
    """CUDA_VISIBLE_DEVICES=-1 and --device cuda."""
    place.need_gpu()
    folder = place.folder / "runs" / "no-visible-device"
    done = place.run(place.first(), folder, variables={"CUDA_VISIBLE_DEVICES": "-1"})
    found.expect(done.status != 0, "it ran, on what it cannot see")
    if folder.is_dir():
        readable(found, folder, done)
    found.measured |= {"exit status": done.status, "message": done.last}


def cupti_taken(found: Findings, place: Place) -> None:
    """--collector cupti in a process that nsys records already."""
    place.need_gpu()
    tool = find.find("nsys")
    if tool is None:
        raise NotRun("no nsys here that could take CUPTI first")
    side = place.first()
    reason = collectors.usable("cupti", side.framework, "cuda", side.environment)
    if reason is not None:
        raise NotRun(f"{side.framework}: {reason}")
    folder = place.folder / "runs" / "cupti-taken"
    usual = ["--device", "cuda", "--steps", "5", "--repeats", "1", "--collector", "cupti", "-o", str(folder)]
    prefix = [tool.path, "profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none", "--output", place.folder / "outer"]
    done = place.command([*map(str, prefix), *KERNELSCOPE, "run", "lenet", "-f", side.framework, *side.options, *usual])
    lines = [line for line in done.err.splitlines() + done.out.splitlines() if line.startswith("kernelscope: error:")]
    found.measured |= {"exit status": done.status, "message": lines[-1] if lines else done.last}
    found.expect(bool(lines) and "CUPTI" in lines[-1], "CUPTI is not named")
    found.expect("Traceback" not in done.err, "a traceback instead of a message")


def nsys_killed(found: Findings, place: Place) -> None:
    """The nsys that was started is killed while steps are recorded, on the CPU too."""
    side = place.first()
    reason = collectors.usable("nsys", side.framework, place.device, side.environment)
    if reason is not None:
        raise NotRun(reason)
    folder = place.folder / "runs" / "nsys-killed"
    usual = [
        "--device",
        place.device,
        "--steps",
        STEPS,
        "--repeats",
        "1",
        "--warmup",
        "2",
        "--collector",
        "nsys",
        "--timeout",
        "60",
    ]
    command = [*KERNELSCOPE, "run", "lenet", "-f", side.framework, *side.options, "-o", str(folder), *usual]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place.folder,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            killed = _kill_nsys(process, folder / "kernels" / "1" / "steps.jsonl")
            out, err = process.communicate()
        finally:
            end(process)
    found.expect(bool(killed) or process.returncode == 0, Done(process.returncode, out, err).last)
    if not killed and process.returncode == 0:
        raise NotRun("the recording ended before nsys could be killed")
    found.measured["killed"] = killed
    warnings = [line for line in err.splitlines() if "nsys" in line and "kernelscope:" in line]
    found.measured["said of nsys"] = warnings
    readable(found, folder, Done(process.returncode, out, err), complete=process.returncode == 0)
    found.expect(bool(warnings), "nothing is said of nsys")


def _kill_nsys(process: subprocess.Popen[str], recorded: Path) -> int:
    """Wait until steps are recorded, and kill the nsys below a process; return how many processes that were."""
    while process.poll() is None and not recorded.is_file():
        time.sleep(_POLL_S)
    killed = 0
    try:
        for child in psutil.Process(process.pid).children(recursive=True):
            if child.name() == "nsys":
                child.kill()
                killed += 1
    except psutil.Error:
        return killed
    return killed
