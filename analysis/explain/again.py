"""How to record two sides again so that smaller differences show, in the options of the command that recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.trace import PROFILE

if TYPE_CHECKING:
    from kernelscope.analysis.explain.model import Side

# Besides PROFILE: a workload of ours, another tool's file
RUN, CAPTURE = "run", "capture"
OF_CAPTURES = (
    "record more steps with the same tool, on a quiet machine; for a Python script of your own, make several recordings: "
    "`kernelscope profile --repeats 3 -o A SCRIPT` (docs/gate.md)"
)


def recorded_by(facts: Mapping[str, Any]) -> str:
    """Return what recorded a run, given its run.json, or a side, given its facts."""
    if facts.get("recorder") == PROFILE:
        return PROFILE
    return RUN if facts.get("options") else CAPTURE


def advice(kinds: set[str], restarts: int, steady: bool) -> str:
    """Return what to do. kinds: what recorded the sides. restarts: how many each side has. steady: whether they had --steady."""
    if CAPTURE in kinds:
        return OF_CAPTURES
    if PROFILE in kinds:
        if restarts > 1:
            more = f"`kernelscope profile --repeats {2 * restarts} -o A SCRIPT`"
            return (
                f"record each side {2 * restarts} times on a quiet machine, {more} and the same with -o B; "
                "`kernelscope explain A.py B.py` records two scripts in turns, so that drift affects both"
            )
        return (
            "record each side three times, `kernelscope profile --repeats 3 -o A SCRIPT` and the same with -o B, and name the "
            "folders A and B; `kernelscope explain A.py B.py` does this for two scripts, in turns"
        )
    repeats = "more --repeats" if restarts > 1 else "--repeats 3 or more"
    return f"record again on a quiet machine, with {repeats if steady else f'--steady and {repeats}'}"


def of_sides(a: Side, b: Side, restarts: int) -> str:
    """Return `advice` for two sides with so many restarts each."""
    steady = all((side.facts.get("options") or {}).get("steady") for side in (a, b))
    return advice({recorded_by(side.facts) for side in (a, b)}, restarts, steady)


def in_turns(a: Side, b: Side) -> str:
    """Say how to let both sides take turns, so that the machine's drift and load affect both alike."""
    ours = all(recorded_by(side.facts) == RUN for side in (a, b))
    return "in turns, as `kernelscope compare` does" if ours else "in turns"
