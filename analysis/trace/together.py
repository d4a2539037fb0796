"""Whether captures may become one Trace: those of two machines, of distant times or of the same work may not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, same_work
from kernelscope.analysis.trace.same_work import Named

_APART_NS = 600_000_000_000  # most between recordings of one process, such as one file per step
_VENDORS = frozenset({"nvidia", "amd", "intel", "huawei", "tesla", "geforce", "quadro", "instinct", "graphics", "gpu"})
_WORD = re.compile(r"[a-z0-9]+")
_ARCHITECTURE = re.compile(r"(?:gfx|sm_?)?\d+[a-z]*")  # some tools give this in place of a model
_REMEDY = "import each into its own folder"
_COMPARED = f"{_REMEDY}; `kernelscope explain A B` compares two, `kernelscope ranks` analyses the ranks of a job"


def check(captures: Sequence[Named]) -> list[str]:
    """Return warnings about named captures that may be one Trace; raise EvidenceError if they may not.

    Several may have a timeline if all are on the wall clock, from one machine, and either at the same time, as ranks of one
    host are, or from one process. Totals of kernels are not added to a timeline that has kernels.
    """
    timed = [(trace, name) for trace, name in captures if trace.has_timeline()]
    if len(timed) > 1 and any(trace.info.get("clock") != "wall" for trace, _ in timed):
        raise EvidenceError(f"{timed[1][1]}: its clock cannot be related to that of {timed[0][1]}; {_REMEDY}")
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
        if not _two_ranks(one, other):  # two ranks may be alike
            same_work.refuse_moved(one, other)
    return warnings


def _refuse_hardware(one: Named, other: Named) -> None:
    """Refuse two captures in which one device name means different hardware."""
    mine, theirs = (_hardware(trace) for trace, _ in (one, other))
    for device in sorted(mine.keys() & theirs.keys()):
        if not _alike(mine[device], theirs[device]):
            where = f"{device} is {theirs[device]}, but {mine[device]} in {one[1]}"
            raise EvidenceError(f"{other[1]}: from another machine ({where}); {_COMPARED}")


def _hardware(trace: Trace) -> dict[str, str]:
    """Return the model of each device except CPUs, if the capture names it."""
    listed = [entry for entry in trace.info.get("devices", []) if isinstance(entry, dict)]
    named = {str(entry["device"]): str(entry["name"]) for entry in listed if entry.get("device") and entry.get("name")}
    return {device: name for device, name in named.items() if device != "cpu" and not _ARCHITECTURE.fullmatch(name.lower())}


def _alike(one: str, other: str) -> bool:
    """Return whether two names may mean one model: tools omit the vendor, join words differently and cut names short."""
    few, many = sorted((set(_WORD.findall(name.lower())) - _VENDORS for name in (one, other)), key=len)
    return all(any(word.startswith(part) or part.startswith(word) for word in many) for part in few)


def _refuse_one_device(one: Named, other: Named) -> None:
    """Refuse two ranks that give their devices the same name, because each sees only its own or they are on two hosts."""
    if not _two_ranks(one, other):
        return
    shared = _used(one[0]) & _used(other[0])
    if shared:
        what = f"rank {_rank(other[0])} names its device {min(shared)}, and so does rank {_rank(one[0])} in {one[1]}"
        raise EvidenceError(f"{other[1]}: {what}; `kernelscope ranks` keeps ranks apart")


def _two_ranks(one: Named, other: Named) -> bool:
    """Return whether both captures name their rank in a job, and the ranks differ."""
    mine, theirs = (_rank(trace) for trace, _ in (one, other))
    return mine is not None and theirs is not None and mine != theirs


def _rank(trace: Trace) -> int | None:
    rank = (trace.info.get("distributed") or {}).get("rank")
    return rank if isinstance(rank, int) else None


def _used(trace: Trace) -> set[str]:
    columns: Iterable[pd.Series] = (trace.kernels["device"], trace.copies["device"])
    return {str(device) for column in columns for device in column.dropna().unique()} - {"cpu"}


def _gaps(timed: Sequence[Named]) -> list[str]:
    """Return warnings about gaps between captures; raise EvidenceError if one is too long, or not within one process."""
    warnings: list[str] = []
    spans = [(extent, _processes(trace), name) for trace, name in timed if (extent := trace.extent()) is not None]
    spans.sort(key=lambda span: span[0])
    for number, ((start, _), processes, name) in enumerate(spans[1:], start=1):
        (_, end), before, last = max(spans[:number], key=lambda span: span[0][1])
        if start <= end:
            continue
        gap = f"{name}: begins {_lasting(start - end)} after {last} ends"
        if not processes & before or start - end > _APART_NS:
            raise EvidenceError(f"{gap}{_unlike(processes, before)}; {_COMPARED}")
        warnings.append(f"{gap}; nothing is known about the time between")
    return warnings


def _unlike(processes: set[int], others: set[int]) -> str:
    """Return why two captures are not taken for windows of one process; "" if they are."""
    if not processes or not others:
        return ", and it is unknown whether one process recorded both"
    return "" if processes & others else " and is from another process"


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
