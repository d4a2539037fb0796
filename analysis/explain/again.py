"""How to record two sides again so that smaller differences show, in the options of the command that recorded them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.trace import PROFILE

if TYPE_CHECKING:
    from kernelscope.analysis.explain.model import Side

# Besides PROFILE: a workload of ours, another tool's file
RUN, CAPTURE = "run", "capture"
_HIDDEN = "(not recorded)"  # in a command's secret parts (see tracer.inside.disclosure)
UNKNOWN = "SCRIPT"  # stands for a program whose command is not known
OF_CAPTURES = (
    "record each side three times with the same tool, on a quiet machine, put the captures of each side into its own folder, "
    "and compare the folders: `kernelscope gate A B`"
)


def recorded_by(facts: Mapping[str, Any]) -> str:
    """Return what recorded a run, given its run.json, or a side, given its facts."""
    if facts.get("recorder") == PROFILE:
        return PROFILE
    return RUN if facts.get("options") else CAPTURE


def advice(kinds: set[str], restarts: int, steady: bool, programs: Sequence[str] = (UNKNOWN,)) -> str:
    """Return what to do.

    kinds: what recorded the sides. restarts: how many each side has. steady: whether they had --steady. programs: of each side,
    as in `program`; one if both run the same.
    """
    if CAPTURE in kinds:
        return OF_CAPTURES
    if PROFILE in kinds:
        return _profiled_again(restarts, programs)
    repeats = "more --repeats" if restarts > 1 else "--repeats 3 or more"
    return f"record again on a quiet machine, with {repeats if steady else f'--steady and {repeats}'}"


def _profiled_again(restarts: int, programs: Sequence[str]) -> str:
    times = 2 * restarts if restarts > 1 else 3
    commands = [f"`kernelscope profile --repeats {times} -o {name} {one}`" for name, one in zip("AB", programs, strict=False)]
    both = f"{commands[0]} and {commands[1] if len(set(programs)) > 1 else 'the same with -o B'}"
    if restarts > 1:
        turns = "`kernelscope explain A.py B.py` records two scripts in turns, so that drift affects both"
        return f"record each side {times} times on a quiet machine, {both}; {turns}"
    return (
        f"record each side three times, {both}, and name the folders A and B; `kernelscope explain A.py B.py` does this for two "
        "scripts, in turns"
    )


def program(facts: Mapping[str, Any]) -> str:
    """Return how `profile` names a recorded program, after its own options; UNKNOWN if parts of its command are secret."""
    parts = [str(part) for part in facts.get("profiled") or []]
    if not parts or any(_HIDDEN in part for part in parts):
        return UNKNOWN
    return "-- " + " ".join("~/" + shlex.quote(part[2:]) if part.startswith("~/") else shlex.quote(part) for part in parts)


def of_sides(a: Side, b: Side, restarts: int) -> str:
    """Return `advice` for two sides with so many restarts each."""
    steady = all((side.facts.get("options") or {}).get("steady") for side in (a, b))
    programs = [program(side.facts) for side in (a, b)]
    return advice({recorded_by(side.facts) for side in (a, b)}, restarts, steady, programs)


def in_turns(a: Side, b: Side) -> str:
    """Say how to let both sides take turns, so that the machine's drift and load affect both alike."""
    ours = all(recorded_by(side.facts) == RUN for side in (a, b))
    return "in turns, as `kernelscope compare` does" if ours else "in turns"
