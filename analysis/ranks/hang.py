"""Why a job hangs: who waits for whom, from dumps of PyTorch's Flight Recorder, and who waits for nobody.

A rank waits for another if it has begun a collective of a group that both are in, and the other has not. The hang begins at ranks
that others wait for and that wait for nobody; a rank that waits for a waiting rank is a consequence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks.distinct import Distinct
from kernelscope.analysis.ranks.flight_recorder import Group, Outstanding, RankDump, read

SCHEMA = "kernelscope/hang/1"


def hang(paths: Sequence[Path]) -> dict[str, Any]:
    """Return who waits for whom, as plain data; raise EvidenceError if no dump can be read.

    Keys: schema; ranks (those with a dump); missing (those in groups without a dump); roots (ranks that others wait for and that
    wait for nobody; a rank without a dump may be one); circular (whether all ranks that are waited for wait as well); waits
    (rank, group, members, sequence, operation, of the first collective in which it waits, and for: the ranks); notes.
    """
    dumps, notes = _read(paths)
    waits = [_wait(one, dumps) for one in dumps.values()]
    found = [wait for wait in waits if wait is not None]
    waiting = {wait["rank"] for wait in found}
    wanted = {rank for wait in found for rank in wait["for"]}
    roots = sorted(wanted - waiting)
    missing = sorted({rank for one in dumps.values() for group in one.groups for rank in group.ranks} - dumps.keys())
    return {
        "schema": SCHEMA, "ranks": sorted(dumps), "missing": missing, "roots": roots, "circular": bool(wanted) and not roots,
        "waits": sorted(found, key=lambda wait: wait["rank"]), "notes": notes,
    }  # fmt: skip


def _read(paths: Sequence[Path]) -> tuple[dict[int, RankDump], list[str]]:
    distinct: Distinct[RankDump] = Distinct()
    for path in sorted(paths):
        try:
            one = read(path)
        except EvidenceError as error:
            distinct.notes.append(f"left out: {error}")
            continue
        if distinct.is_new(path.name, hashlib.sha256(path.read_bytes()).hexdigest()):
            distinct.add(one.rank, one)
    if not distinct.of_rank:
        raise EvidenceError(distinct.notes[0].removeprefix("left out: ") if distinct.notes else "no dump is named")
    return distinct.of_rank, distinct.notes


def _wait(one: RankDump, dumps: dict[int, RankDump]) -> dict[str, Any] | None:
    """Return for whom a rank waits, in the first collective it began that others have not; None if it waits for nobody."""
    numbers = {name: number for dump in dumps.values() for number, name in dump.named.items()}
    for outstanding in one.outstanding:
        behind = [rank for rank in outstanding.group.ranks if rank != one.rank and _behind(outstanding, rank, dumps, numbers)]
        if behind:
            return {
                "rank": one.rank, "group": outstanding.group.name, "members": len(outstanding.group.ranks),
                "sequence": outstanding.sequence, "operation": outstanding.operation, "for": behind,
            }  # fmt: skip
    return None


def _behind(wanted: Outstanding, rank: int, dumps: dict[int, RankDump], numbers: dict[str, str]) -> bool:
    """Return whether a rank has not begun a collective of a group; a rank without a dump may not have."""
    if rank not in dumps:
        return True
    last = _last(dumps[rank], wanted.group, numbers)
    return last is not None and last < wanted.sequence


def _last(dump: RankDump, group: Group, numbers: dict[str, str]) -> int | None:
    """Return the last collective of a group that a rank has begun; None if its dump does not say.

    A group's entries may have been overwritten. Its status has only a number, whose name other ranks know.
    """
    if group in dump.begun:
        return dump.begun[group]
    number = numbers.get(group.name)
    return dump.numbers.get(number) if number is not None else None
