"""Whether captures may become one Trace: what is of two machines, of two times or there twice would be added up as one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, same_work
from kernelscope.analysis.trace.same_work import Named

_APART_NS = 600_000_000_000  # at most, between what one process recorded, as where each step has a file of its own
_VENDORS = frozenset({"nvidia", "amd", "intel", "huawei", "tesla", "geforce", "quadro", "instinct", "graphics", "gpu"})
_WORD = re.compile(r"[a-z0-9]+")
_ARCHITECTURE = re.compile(r"(?:gfx|sm_?)?\d+[a-z]*")  # what some tools say in place of a model
_REMEDY = "import each into its own folder"
_COMPARED = f"{_REMEDY}; `kernelscope explain A B` compares two, `kernelscope ranks` takes ranks of a job"


def check(captures: Sequence[Named]) -> list[str]:
    """Return warnings of captures, each with its name, that may be one Trace; raise EvidenceError where they may not.

    Several may have a timeline where all are on the wall clock, on one machine, and at one time, as ranks of one host are, or of
    one process. Totals of kernels are not added to a timeline that has kernels.
    """
    timed = [(trace, name) for trace, name in captures if trace.has_timeline()]
    if len(timed) > 1 and any(trace.info.get("clock") != "wall" for trace, _ in timed):
        raise EvidenceError(f"{timed[1][1]}: its clock has nothing in common with that of {timed[0][1]}; {_REMEDY}")
    same_work.refuse_totals(captures, timed)
    for one, other in itertools.combinations(captures, 2):
        _refuse_hardware(one, other)
    for one, other in itertools.combinations(timed, 2):
        same_work.refuse_same_times(one, other)
        _refuse_one_device(one, other)
        same_work.refuse_one_stream(one, other)
        same_work.refuse_shared(one, other)
    warnings = _gaps(timed)
    for one, other in itertools.combinations(timed, 2):
        if not _two_ranks(one, other):  # which are two, however alike
            same_work.refuse_moved(one, other)
    return warnings


def _refuse_hardware(one: Named, other: Named) -> None:
    """Refuse two captures in which a device of one name is other hardware."""
    mine, theirs = (_hardware(trace) for trace, _ in (one, other))
    for device in sorted(mine.keys() & theirs.keys()):
        if not _alike(mine[device], theirs[device]):
            where = f"{device} is {theirs[device]}, and {mine[device]} in {one[1]}"
            raise EvidenceError(f"{other[1]}: of another machine ({where}); {_COMPARED}")


def _hardware(trace: Trace) -> dict[str, str]:
    """Return the model of each device that is none of a processor, where the capture names it."""
    listed = [entry for entry in trace.info.get("devices", []) if isinstance(entry, dict)]
    named = {str(entry["device"]): str(entry["name"]) for entry in listed if entry.get("device") and entry.get("name")}
    return {device: name for device, name in named.items() if device != "cpu" and not _ARCHITECTURE.fullmatch(name.lower())}


def _alike(one: str, other: str) -> bool:
    """Return whether two names may be one model's: tools leave out the vendor, join words in other ways and cut names short."""
    few, many = sorted((set(_WORD.findall(name.lower())) - _VENDORS for name in (one, other)), key=len)
    return all(any(word.startswith(part) or part.startswith(word) for word in many) for part in few)


def _refuse_one_device(one: Named, other: Named) -> None:
    """Refuse two ranks that call their devices by one name, as where each sees its own only, or on two hosts."""
    if not _two_ranks(one, other):
        return
    shared = _used(one[0]) & _used(other[0])
    if shared:
        what = f"rank {_rank(other[0])} calls its device {min(shared)}, as rank {_rank(one[0])} in {one[1]} does"
        raise EvidenceError(f"{other[1]}: {what}; `kernelscope ranks` keeps ranks apart")


def _two_ranks(one: Named, other: Named) -> bool:
    """Return whether both tell which rank of a job they are, and not the same."""
    mine, theirs = (_rank(trace) for trace, _ in (one, other))
    return mine is not None and theirs is not None and mine != theirs


def _rank(trace: Trace) -> int | None:
    rank = (trace.info.get("distributed") or {}).get("rank")
    return rank if isinstance(rank, int) else None


def _used(trace: Trace) -> set[str]:
    columns: Iterable[pd.Series] = (trace.kernels["device"], trace.copies["device"])
    return {str(device) for column in columns for device in column.dropna().unique()} - {"cpu"}


def _gaps(timed: Sequence[Named]) -> list[str]:
    """Return warnings of times between captures; raise EvidenceError where one process did not record both, or it is too long."""
    found: list[str] = []
    spans = [(extent, _processes(trace), name) for trace, name in timed if (extent := trace.extent()) is not None]
    spans.sort(key=lambda span: span[0])
    for number, ((start, _), processes, name) in enumerate(spans[1:], start=1):
        (_, end), before, last = max(spans[:number], key=lambda span: span[0][1])
        if start <= end:
            continue
        said = f"{name}: begins {_lasting(start - end)} after {last} ends"
        if not processes & before or start - end > _APART_NS:
            raise EvidenceError(f"{said}{_unlike(processes, before)}; {_COMPARED}")
        found.append(f"{said}; nothing is known of the time between")
    return found


def _unlike(processes: set[int], others: set[int]) -> str:
    """Return why two captures are not taken for windows of one process; "" where they are."""
    if not processes or not others:
        return ", and nothing says that one process recorded both"
    return "" if processes & others else " and is of another process"


def _processes(trace: Trace) -> set[int]:
    return {
        int(number)
        for table in (trace.kernels, trace.copies, trace.calls)
        for number in table["process"].dropna().unique()
        if number > 0
    }


def _lasting(time_ns: int) -> str:
    for unit, size in (("days", 86_400_000_000_000), ("hours", 3_600_000_000_000), ("minutes", 60_000_000_000)):
        if time_ns >= 2 * size:
            return f"{time_ns // size:,} {unit}"
    return f"{time_ns / 1e9:.3g} s"
