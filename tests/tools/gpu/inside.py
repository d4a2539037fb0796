"""Checks with frameworks' own interpreters: CUPTI's self-check and the portable agent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from outcomes import FAILED, Check, Findings, NotRun
from place import KERNELSCOPE, Done, Place, Side
from recordings import rows

from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import collectors

AGENT_S = 600.0


def checks(place: Place) -> Iterator[Check]:
    """CUPTI in every interpreter; the agent with the first framework's."""
    for side in place.sides:
        yield Check("CUPTI self-check", side.framework, partial(cupti, place=place, side=side))
    yield Check("agent run", "first framework", partial(agent_run, place=place), AGENT_S)
    yield Check("agent check", "first framework", partial(agent_check, place=place), AGENT_S)


def cupti(found: Findings, place: Place, side: Side) -> None:
    """What is launched is what the collector records."""
    place.need_gpu()
    reason = side.missing or collectors.usable("cupti", side.framework, place.device, side.environment)
    if reason is not None:
        raise NotRun(reason)
    folder = place.folder / "cupti-check" / side.framework
    done = place.inside(side, "-m", "kernelscope.tracer.inside.cupti", "--check", str(folder))
    for line in done.out.splitlines():
        program, colon, said = line.strip().partition(": ")
        if colon:
            found.measured[program] = said
    found.expect(done.status == 0, done.out.strip() or done.last)


def _packed(place: Place) -> Path:
    path = place.folder / "agent.pyz"
    done = place.command([*KERNELSCOPE, "agent", "-o", path, "--force"])
    if done.status:
        raise RuntimeError(done.last)
    return path


def _agent(place: Place, side: Side, *arguments: str) -> Done:
    """Run the packed file with a framework's interpreter, or with this one, which then must not see what is installed here."""
    packed = _packed(place)
    if side.environment is None:
        return place.command([sys.executable, "-I", "-S", packed, *arguments])
    return place.command([side.environment.python, packed, *arguments], {**side.environment.variables, "PYTHONPATH": ""})


def agent_run(found: Findings, place: Place) -> None:
    """A folder that the agent recorded is a run like any other."""
    side = place.first()
    folder = place.folder / "runs" / "agent"
    device = ["--device", place.device, "--steps", "5", "--repeats", "1", "--warmup", "2"]
    done = _agent(place, side, "run", "lenet", "-f", side.framework, "-o", str(folder), *device)
    found.expect(done.status == 0, done.last)
    run = Run(folder)
    found.measured |= {"framework": side.framework, "version": run.record["version"], "recorder": run.record.get("recorder")}
    found.expect(run.complete, f"not complete: {run.record.get('reason')}")
    if run.complete:
        rows(found, folder)


def agent_check(found: Findings, place: Place) -> None:
    """The agent's own checks end well; without a GPU each says why it is not run."""
    side = place.ready()[0] if place.ready() else place.sides[0] if place.sides else None
    if side is None:
        raise NotRun("no framework was asked for")
    folder = place.folder / "agent-check"
    done = _agent(place, side, "check", "-o", str(folder), "-f", side.framework)
    results = json.loads((folder / "check.json").read_text())["results"]
    for row in results:
        found.measured[f"{row['check']}, {row['subject']}"] = ": ".join([row["outcome"], *row["reasons"][:1]])
    found.wrong += [
        f"{row['check']}, {row['subject']}: {line}" for row in results if row["outcome"] == FAILED for line in row["reasons"]
    ]
    found.expect((done.status == 0) == (not found.wrong), f"exit status {done.status}")
