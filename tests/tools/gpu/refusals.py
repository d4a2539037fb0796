"""What a machine without a GPU answers to requests for one: one line each, with the reason, kept word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from outcomes import Check, Findings, NotRun
from place import KERNELSCOPE, Place, Side

from kernelscope.tracer.outside import energy
from kernelscope.tracer.outside.samplers.nvml import NvmlSource

_REFUSED = (2, 3, 4)  # wrong use, input, the framework's process


def checks(place: Place) -> Iterator[Check]:
    """Every request for a GPU; on a machine that has one these are not run."""
    yield Check("reason: no GPU", "NVML", partial(reasons, place=place))
    if place.device == "cuda" or not place.ready():
        reason = "this machine has a GPU" if place.device == "cuda" else "no framework is set up here"
        yield Check("refused: GPU", "all requests", partial(_not_run, reason=reason))
        return
    for side in place.ready():
        yield _refused(place, "--device cuda", side.framework, _run(place, side, "--device", "cuda"))
    first = place.first()
    for collector in ("cupti", "nvprof"):
        command = _run(place, first, "--device", "cpu", "--collector", collector)
        yield _refused(place, f"--collector {collector}", first.framework, command)
    yield _refused(place, "--nsys", first.framework, _run(place, first, "--device", "cpu", "--nsys", "/nowhere/nsys"))
    for folder in list(place.runs.values())[:1]:
        yield _refused(place, "energy", first.framework, [*KERNELSCOPE, "energy", str(folder)])
    for side in place.ready():
        yield Check("refused: CUPTI self-check", side.framework, partial(self_check, place=place, side=side))


def _run(place: Place, side: Side, *options: str) -> list[str | Path]:
    return [*KERNELSCOPE, "run", "lenet", "-f", side.framework, *side.options, "-o", place.folder / "refused", *options]


def _refused(place: Place, what: str, subject: str, command: Sequence[str | Path]) -> Check:
    return Check(f"refused: {what}", subject, partial(refused, place=place, command=command), 120.0)


def _not_run(_: Findings, reason: str) -> None:
    raise NotRun(reason)


def reasons(found: Findings, place: Place) -> None:
    """NVML and the energy counters say why they tell nothing."""
    if place.device == "cuda":
        raise NotRun("this machine has a GPU")
    found.measured |= {"GPUs": place.reason, "sampler": NvmlSource().unavailable}
    found.measured |= {f"energy of {device}": energy.sources(device)[1] or "can be read" for device in ("cuda", "cpu")}
    found.expect(all(found.measured.values()), "a reason is missing")


def refused(found: Findings, place: Place, command: Sequence[str | Path]) -> None:
    """The command ends with one line, and nothing else."""
    done = place.command(command)
    errors = [line for line in done.err.splitlines() if line.startswith("kernelscope: error:")]
    found.measured |= {"exit status": done.status, "message": done.last.removeprefix("kernelscope: error: ")}
    found.expect(done.status in _REFUSED, f"exit status {done.status}")
    found.expect(len(errors) == 1 and done.last == errors[0], "not one line")
    found.expect("Traceback" not in done.err, "a traceback")


def self_check(found: Findings, place: Place, side: Side) -> None:
    """The CUPTI self-check says in one line what it lacks."""
    done = place.inside(
        side, "-m", "kernelscope.tracer.inside.cupti", "--check", str(place.folder / "cupti-check" / side.framework)
    )
    found.measured |= {"exit status": done.status, "message": re.sub(r"^driver: failed: ", "", done.out.strip() or done.last)}
    found.expect(done.status != 0, "it ended well without a GPU")
    found.expect("Traceback" not in done.err + done.out, "a traceback")
