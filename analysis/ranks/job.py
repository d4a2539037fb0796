"""A job: put its ranks in order, match their collectives, and split each rank's step into parts that add up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.messages import bandwidths
from kernelscope.analysis.ranks import over_time, point_to_point, replay, waiting
from kernelscope.analysis.ranks.captures import recordings
from kernelscope.analysis.ranks.clocks import DEPENDENT, Clocks, by_messages, clocks
from kernelscope.analysis.ranks.drift import all_steadied
from kernelscope.analysis.ranks.groups import groups
from kernelscope.analysis.ranks.matching import matched_in_groups
from kernelscope.analysis.ranks.parts import HOST, JOB_PARTS, LATE, MESSAGE, OTHER, TRANSFER, UNMATCHED, WAITING
from kernelscope.analysis.ranks.recording import CAPTURE, RankRecording, numbers
from kernelscope.analysis.trace import intervals
from kernelscope.tracer.inside import temporary

Int = npt.NDArray[np.int64]
SCHEMA = "kernelscope/ranks/1"
_APART = 0.3  # of a rank's longest time in a collective: its ends may be so far apart, as threads on processors wake up late
_OUTLYING = 10.0  # times the usual distance of ends: farther apart, it is not one collective
_LEAST_APART_NS = 100_000  # within this distance it is one in any case
_NAMED = 8  # missing ranks that are named, at most


def job(
    paths: Sequence[Path], workers: int | None = None, folder: Path | None = None, scheduler: str | None = None,
    timeline: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return what a job of several ranks does in a step, as plain data; raise EvidenceError if fewer than two can be read.

    paths: a capture of each rank. workers, scheduler: who reads them (see engines). folder: keeps summaries of the ranks for
    later runs; made if absent. timeline: whether the result has one.

    Keys: schema; ranks (rank, path, told_by, device, hardware, steps, step_ns, JOB_PARTS in ns per step, which add up to step_ns,
    hidden_ns: communication behind other kernels, which is no part of that sum; offset_ns of its clock); world (the number of
    ranks that the captures give; None if unknown); step_ns (of the slowest rank), parts (JOB_PARTS summed over ranks, ns per
    step); collectives (operation, bytes, members, count, and summed over ranks per step: wait_ns, transfer_ns, exposed_wait_ns;
    single_ns, the median transfer of one (null if none was seen), with algorithm_gb_s and bus_gb_s, see ranks.messages); groups
    (see ranks.groups); blame (rank, operation, cause, where, name, count, ns: how long others waited for it in a step; rank is
    None if the last two came within the clocks' uncertainty); missing (number of absent ranks), partial (whether more ranks are
    missing than present, so that the last one seen need not be the last); clocks (uncertainty_ns, apart_ns before correction,
    impossible, drift: the largest difference of two rates, which is corrected); what_if (see `_what_if`); caused (rank, step, ns:
    how long others waited for it in each step); matched (collectives and messages found on all their ranks), unmatched (single
    ranks' collectives without a match); messages (the number of messages in matched); notes; and if asked for, timeline (wall_ns,
    lanes: see over_time.lanes).
    """
    with temporary.folder() as parts:
        new = [one for one in (folder, folder.parent) if not one.exists()] if folder is not None else []
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        try:
            return of_ranks(*recordings(paths, folder or Path(parts), workers, scheduler), timeline)
        finally:
            with suppress(OSError):
                for made in new:
                    made.rmdir()  # they are empty if nothing could be read


def of_ranks(ranks: Sequence[RankRecording], notes: Sequence[str], timeline: bool = False) -> dict[str, Any]:
    """Return the same for ranks that are already read, in their order. notes: from reading them."""
    places = matched_in_groups([one.collectives for one in ranks])
    ranks, apart = all_steadied(ranks, waiting.times(places, ranks)[1] if len(places) else places)
    sent = _messages(places, ranks)
    possible = _possible(places, ranks, sent)
    places, sent = places[possible], sent[possible]
    found = _clocks(places, ranks, sent)
    wait_ns = waiting.waits(places, ranks, found) if len(places) else np.zeros(places.shape, dtype=np.int64)
    exposed = waiting.exposed_waits(places, ranks, wait_ns)
    rows = [_of_rank(one, number, places[:, number], int(exposed[:, number].sum()), found) for number, one in enumerate(ranks)]
    steps = max(one.steps for one in ranks)
    blame = waiting.blamed(places, ranks, found, wait_ns, exposed) if len(places) else pd.DataFrame(columns=list(waiting.BLAMED))
    unmatched = sum(len(one.collectives) for one in ranks) - int((places >= 0).sum())
    named = numbers(ranks)
    over_all = {"timeline": _timeline(places, ranks, found, wait_ns, blame, exposed)} if timeline else {}
    return {
        "schema": SCHEMA,
        "ranks": rows,
        "world": max((one.world for one in ranks if one.world is not None), default=None),
        "steps": steps,
        "step_ns": max(one.step_ns for one in ranks),
        "parts": {name: sum(row[name] for row in rows) for name in JOB_PARTS},
        "collectives": _collectives(places, ranks, found, wait_ns, exposed, steps),
        "groups": groups(places, ranks, found, wait_ns, steps),
        "blame": _blame(blame, ranks, steps),
        "missing": _missing(ranks),
        "partial": _missing(ranks) > len(ranks),
        "clocks": {
            "uncertainty_ns": found.uncertainty_ns, "apart_ns": found.apart_ns, "impossible": found.impossible, "drift": apart,
        },
        "what_if": _what_if(places, ranks, found, blame, steps),
        "caused": [{**row, "rank": named[row["rank"]]} for row in over_time.caused(blame, places, ranks)],
        "matched": len(places),
        "messages": int((sent[:, 0] >= 0).sum()),
        "unmatched": int(unmatched),
        "notes": [*notes, *_notes(ranks, places, found, int(unmatched)), *_drifting(apart)],
        **over_all,
    }  # fmt: skip


# --- notes --------------------------------------------------------------------------------------------------------------------


def _world(ranks: Sequence[RankRecording]) -> int:
    """Return the job's number of ranks, as far as the captures say."""
    return max((one.world for one in ranks if one.world is not None), default=len(ranks))


def _foreign(ranks: Sequence[RankRecording]) -> list[int]:
    """Return the rank numbers from captures that a job of this size does not have."""
    world = _world(ranks)
    return [one.rank for one in ranks if one.rank is not None and one.told_by == CAPTURE and one.rank >= world]


def _missing(ranks: Sequence[RankRecording]) -> int:
    """Return how many ranks were not recorded, as far as the captures give the job's size."""
    return max(_world(ranks) - len(ranks) + len(_foreign(ranks)), 0)


def _which_are_missing(ranks: Sequence[RankRecording]) -> list[str]:
    """Return sentences on ranks that are missing, and on ranks that the job cannot have."""
    said, missing, world = [], _missing(ranks), _world(ranks)
    if missing:
        absent = sorted(set(range(world)) - set(numbers(ranks))) if missing <= _NAMED else []
        which = f" ({', '.join(map(str, absent))})" if len(absent) == missing else ""
        said.append(f"{missing} of {world} ranks are missing{which}: what they did, and whether they came last, is unknown")
    if foreign := _foreign(ranks):
        which = ", ".join(map(str, foreign))
        said.append(f"a job of {world} ranks has no rank {which}: these captures are wrong, or from another job")
    told = sorted({one.world for one in ranks if one.world is not None})
    if len(told) > 1:
        said.append(f"captures are from jobs of {' and of '.join(map(str, told))} ranks: these are different jobs")
    return said


def _notes(ranks: Sequence[RankRecording], places: Int, found: Clocks, unmatched: int) -> list[str]:
    """Return notes on ranks, matching and clocks."""
    notes = _which_are_missing(ranks)
    if found.impossible:
        notes.append(
            f"{found.impossible} of {len(places)} collectives end before all ranks have begun them: clocks drift, or they are "
            "matched wrongly"
        )
    by_name = sum(one.told_by == "its name" for one in ranks)
    if by_name:
        notes.append(f"the numbers of {by_name} ranks come from their files' names")
    unknown = sum(one.rank is None for one in ranks)
    if unknown:
        notes.append(f"{unknown} ranks are numbered in the order of files and devices: their own numbers are unknown")
    if unmatched:
        notes.append(
            f"{unmatched} collectives of single ranks have no match that ends with them on all others: waiting in them is unknown"
        )
    between = sum(_without_peers(one) for one in ranks)
    if between:
        notes.append(
            f"{between} kernels of all ranks send and receive without naming their peers, such as batches of messages "
            "(batch_isend_irecv): they count as collectives if all ranks leave them together, and are unknown otherwise"
        )
    if len({one.steps for one in ranks}) > 1:
        notes.append(f"ranks were recorded for {min(one.steps for one in ranks)} to {max(one.steps for one in ranks)} steps")
    return notes


def _drifting(apart: float) -> list[str]:
    """Return a note on clocks that run at different rates."""
    return [f"clocks drift by up to {apart * 1e6:.1f} µs a second against one another, which is corrected"] if apart else []


def _without_peers(one: RankRecording) -> int:
    """Return how many of a rank's collectives send and receive between unknown ranks.

    A batch is one kernel, launched after the ranges that describe its messages have ended (pytorch/pytorch issue 194693).
    """
    sends = one.collectives["operation"].to_numpy(dtype=object) == MESSAGE
    return int((sends & one.collectives["group"].isna().to_numpy(bool)).sum()) if sends.any() else 0


# --- parts ----------------------------------------------------------------------------------------------------------------------


def _messages(places: Int, ranks: Sequence[RankRecording]) -> Int:
    """Return [matched, 2]: the places of the ranks that send and receive; -1 and -1 for collectives."""
    if not len(places):
        return np.zeros((0, 2), dtype=np.int64)
    return np.column_stack(point_to_point.ends(waiting.of_first(places, ranks, ["group"])["group"], numbers(ranks)))


def _clocks(places: Int, ranks: Sequence[RankRecording], sent: Int) -> Clocks:
    """Return the clocks: by collectives, and by messages between ranks without a common collective. sent: see _messages."""
    message = sent[:, 0] >= 0
    found = _by_collectives(places[~message], ranks)
    if not message.any():
        return found
    start, end = waiting.times(places[message], ranks)
    sender, receiver = sent[message].T
    rows = np.arange(len(sender))
    times = start.data[rows, sender], end.data[rows, receiver]
    return by_messages(found, _groups(places[~message], len(ranks)), sender, receiver, *times)


def _by_collectives(places: Int, ranks: Sequence[RankRecording]) -> Clocks:
    if not len(places):
        return Clocks(np.zeros(len(ranks), dtype=np.int64), 0, 0, 0)
    start, end = waiting.times(places, ranks)
    operations = waiting.of_first(places, ranks, ["operation"])["operation"]
    return clocks(start, end, operations.isin(DEPENDENT).to_numpy(bool))


def _groups(places: Int, ranks: int) -> Int:
    """Return for each rank the number of its component: ranks that collectives connect."""
    from scipy.sparse import csgraph  # slow to import, and only needed here

    members = (places >= 0).astype(np.int64)
    return np.asarray(csgraph.connected_components(members.T @ members if len(places) else np.eye(ranks), directed=False)[1])


def _possible(places: Int, ranks: Sequence[RankRecording], sent: Int) -> npt.NDArray[np.bool_]:
    """Return which matches are right: messages, and collectives that the ranks leave together once clocks are corrected.

    No collective is if their ends are apart by a large part of their duration: then the matches mix collectives or groups.
    """
    result: npt.NDArray[np.bool_] = sent[:, 0] >= 0
    together = np.flatnonzero(~result)
    if not len(together):
        return result
    start, end = waiting.times(places[together], ranks)
    corrected = end - _by_collectives(places[together], ranks).offsets_ns
    apart = (corrected.max(axis=1) - corrected.min(axis=1)).filled(0)
    lasted = (end - start).max(axis=1).filled(0)
    usual = float(np.median(apart))
    if usual <= _APART * float(np.median(lasted)):
        result[together] = (apart <= max(_OUTLYING * usual, _LEAST_APART_NS)) | (apart <= _APART * lasted)
    return result


def _of_rank(one: RankRecording, number: int, places: Int, waited_ns: int, found: Clocks) -> dict[str, Any]:
    """Return a rank's step in JOB_PARTS. places: its matched collectives; waited_ns: exposed waiting in all its steps."""
    parts, (start, end) = one.parts, intervals.edges(one.exposed)
    matched = waiting.matched_as(places, one)[one.exposed["collective"].to_numpy(np.int64)] >= 0
    whole, known = int((end - start).sum()), int((end - start)[matched].sum())
    pieces = np.array([known - waited_ns, waited_ns, whole - known], dtype=float)
    split = intervals.apportion(pieces, parts["communication"])
    about = {name: getattr(one, name) for name in ("path", "told_by", "device", "hardware", "steps", "step_ns")}
    talking = dict(zip((TRANSFER, WAITING, UNMATCHED), map(int, split), strict=True))
    rest = {name: parts[name] for name in ("compute", "copy", HOST, OTHER)}
    rank = one.rank if one.rank is not None else number
    return {"rank": rank, **about, **talking, **rest, "hidden_ns": one.hidden_ns, "offset_ns": int(found.offsets_ns[number])}


def _collectives(
    places: Int, ranks: Sequence[RankRecording], found: Clocks, wait_ns: Int,
    exposed: Int, steps: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return a row for each operation and size, most waiting first."""
    if not len(places):
        return []
    start, end = waiting.times(places, ranks)
    table = waiting.of_first(places, ranks, ["operation", "bytes", "members"]).reset_index(drop=True)
    table["members"] = table["members"].fillna(pd.Series((places >= 0).sum(axis=1)))  # the ranks that take part
    table = table.assign(
        wait_ns=wait_ns.sum(axis=1), transfer_ns=(end - start - wait_ns).sum(axis=1).filled(0),
        exposed_wait_ns=exposed.sum(axis=1), single_ns=waiting.singles(places, ranks, found), count=1,
    )  # fmt: skip
    groups = table.groupby(["operation", "bytes", "members"], dropna=False, sort=True)
    sums = groups[["wait_ns", "transfer_ns", "exposed_wait_ns", "count"]].sum().reset_index()
    one = groups["single_ns"].median().to_numpy(float)
    sums = sums.assign(**bandwidths(sums.assign(transfer_ns=one)), single_ns=one)
    sums = sums.sort_values("wait_ns", ascending=False, kind="stable")
    times = ("wait_ns", "transfer_ns", "exposed_wait_ns")
    return [
        {"operation": str(row["operation"]), "count": int(row["count"]), **{key: round(int(row[key]) / steps) for key in times},
         **{key: None if pd.isna(row[key]) else round(row[key]) for key in ("single_ns", "bytes")},
         "members": int(row["members"]),
         **{key: None if pd.isna(row[key]) else round(float(row[key]), 3) for key in ("algorithm_gb_s", "bus_gb_s")}}
        for row in sums.to_dict("records")
    ]  # fmt: skip


def _what_if(
    places: Int, ranks: Sequence[RankRecording], found: Clocks, blame: pd.DataFrame, steps: int
) -> dict[str, Any] | None:
    """Return what other work or another network would change (see ranks.replay); None if the job cannot be replayed.

    Keys: error (of the unchanged replay, as a share of the measured time; if it exceeds replay.MOST_ERROR there are no changes),
    measured_ns (a step, from the first rank's begin to the last one's end), late_ranks (ranks that cause more than LATE of all
    waiting), changes: name, step_ns, saved_ns.
    """
    if not len(places) or _missing(ranks):
        return None
    waited = blame[blame["rank"] >= 0].groupby("rank")["others_ns"].sum().sort_values(ascending=False)
    late = [int(rank) for rank in waited.index[waited > LATE * blame["others_ns"].sum()]]
    played, measured_ns = replay.played(places, ranks, found, blame)
    error, times = replay.what_if(played, measured_ns, late)
    changes = [
        {"name": name, "step_ns": round(ns / steps), "saved_ns": round((measured_ns - ns) / steps)} for name, ns in times.items()
    ]
    named = numbers(ranks)
    late_ranks = [named[place] for place in late]
    return {"error": round(error, 6), "measured_ns": round(measured_ns / steps), "late_ranks": late_ranks, "changes": changes}


def _timeline(
    places: Int, ranks: Sequence[RankRecording], found: Clocks, wait_ns: Int,
    blame: pd.DataFrame, exposed: Int,
) -> dict[str, Any]:  # fmt: skip
    wall_ns, lanes = over_time.lanes(over_time.chosen(ranks, blame, exposed), ranks, places, found, wait_ns)
    named = numbers(ranks)
    return {"wall_ns": wall_ns, "lanes": [{**lane, "rank": named[lane["rank"]]} for lane in lanes]}


def _blame(table: pd.DataFrame, ranks: Sequence[RankRecording], steps: int) -> list[dict[str, Any]]:
    """Return who made others wait, and by what, most waiting first."""
    if table.empty:
        return []
    keys = ["rank", "operation", "cause", "where", "name"]
    mine = table.assign(**{name: table[name].mask(table["rank"] < 0) for name in ("cause", "where", "name")})
    sums = mine.groupby(keys, dropna=False, sort=True)["others_ns"].agg(["size", "sum"]).reset_index()
    sums = sums.sort_values("sum", ascending=False, kind="stable")
    named = numbers(ranks)
    return [
        {"rank": named[int(row["rank"])] if row["rank"] >= 0 else None, "operation": str(row["operation"]),
         **{name: None if pd.isna(row[name]) else str(row[name]) for name in ("cause", "where", "name")},
         "count": int(row["size"]), "ns": round(int(row["sum"]) / steps)}
        for row in sums.to_dict("records") if row["sum"] > 0
    ]  # fmt: skip
