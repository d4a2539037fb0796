"""Render why a job hangs: which rank is waited for, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.reports import answered
from kernelscope.reports.table import Table, of_rows
from kernelscope.reports.trimmed import Trimmed

Result = Mapping[str, Any]
_MOST = 12  # ranks that a sentence names


def answer(result: Result) -> str:
    """Return in one sentence where the hang begins."""
    count = f"{len(result['ranks'])} ranks"
    if result["circular"]:
        everyone = _listed(sorted({wait["rank"] for wait in result["waits"]}))
        return f"Ranks wait for one another in a circle ({everyone} of {count}): they begin collectives in different orders."
    if not result["roots"]:
        return f"No rank of {count} waits in a collective for one that has not begun it."
    known = [rank for rank in result["roots"] if rank not in result["missing"]]
    if not known:
        waits, gone = len(result["waits"]), _listed(result["roots"])
        return f"The rank at fault is unknown: {waits} ranks wait for ranks without a dump ({gone})."
    mine = [wait for wait in result["waits"] if set(wait["for"]) & set(known)]
    who, verb = (f"Rank {known[0]} has", "waits") if len(known) == 1 else (f"Ranks {_listed(known)} have", "wait")
    where = f"{mine[0]['operation']} #{mine[0]['sequence']} of {mine[0]['group']}"
    waiting = "1 rank waits" if len(mine) == 1 else f"{len(mine)} ranks wait"
    return f"{who} not begun what {waiting} for, such as {where}, and {verb} for no other rank."


def _listed(ranks: Sequence[int]) -> str:
    """Return ranks in words: 1, 2 and 5; 1, 2 and 30 more."""
    shown, more = [str(rank) for rank in ranks[:_MOST]], len(ranks) - _MOST
    last = f"{more} more" if more > 0 else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last


def table(result: Result) -> Table:
    """Return who waits for whom."""
    rows = [
        {"rank": wait["rank"], "waits for": _listed(wait["for"]), "in": f"{wait['operation']} #{wait['sequence']}",
         "group": wait["group"], "of ranks": wait["members"]}
        for wait in result["waits"]
    ]  # fmt: skip
    return of_rows("waits", rows, ("rank", "waits for", "in", "group", "of ranks"), "Who waits for whom")


def _tables(result: Result) -> list[Table]:
    return [table(result)] if result["waits"] else []


def shown(result: Result) -> Trimmed:
    """Return it for a terminal."""
    return answered.shown(answer(result), _tables(result), notes(result))


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    return answered.markdown(answer(result), _tables(result), notes(result))


def notes(result: Result) -> list[str]:
    """Return the notes below the table."""
    missing = result["missing"]
    said = [f"no dump of {'rank' if len(missing) == 1 else 'ranks'} {_listed(missing)}"] if missing else []
    return [*said, *result["notes"], "sends and receives are not analysed"]
