"""One rank of a job: its step in parts, its collectives, and what it did before each of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    GRAPH,
    IDLE,
    INTERRUPTED,
    OUTSIDE,
    account,
)
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution import steps as finding_steps
from kernelscope.analysis.attribution.frameworks.pytorch import PROCESSORS
from kernelscope.analysis.attribution.messages import messages
from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.attribution.steps.model import critical_device
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.device.side import hardware_of
from kernelscope.analysis.kernels.short_names import short
from kernelscope.analysis.ranks.parts import HOST, HOSTS, IN_LAYERS, KERNELS, MESSAGE, OTHER
from kernelscope.analysis.ranks.point_to_point import between, from_operators
from kernelscope.analysis.recordings import reading
from kernelscope.analysis.trace import Trace, intervals, same_work

Int = npt.NDArray[np.int64]

PARTS = ("compute", "communication", "copy", HOST, OTHER)  # of a rank's step, before communication is split
_PART_OF = {
    COMPUTE: "compute", GRAPH: "compute", OUTSIDE: "compute", COMMUNICATION: "communication", COPY: "copy", INTERRUPTED: OTHER,
}  # fmt: skip
CAPTURE = "the capture"  # gives the rank
_HANDING = "c10d::"  # operators of PyTorch's communication library
_NUMBER = re.compile(r"(?i)rank[^0-9a-z]?(\d+)|(\d+)(?!.*\d)")  # a rank in a file's name: after "rank", else the last number
TABLES = ("collectives", "exposed", "segments", "windows", "computing")
_TELLING = 3  # kernels: with so many, two ranks do not have equal times by chance
SEGMENT = ("collective", "what", "where", "name", "ns")


@dataclass(frozen=True)
class RankRecording:
    """One rank of a job.

    rank, world: its number and the job's number of ranks, None if neither content nor name gives them. told_by: which of the two
    gives the rank. device, hardware: what computes. steps: their number; step_ns: the mean step; window_ns: the first step's
    start and the last one's end, by this rank's clock; parts: PARTS with ns per step, which add up to step_ns. hidden_ns: the
    communication that other kernels hide, per step; it is no part of the step's sum.

    collectives: in order of start, by this rank's clock: operation, start_ns, end_ns, idle_ns (device idle between the end of the
    one before, or the first step's begin, and this start), before_ns (from there to this start; -1 if none is before it), bytes
    and members (see messages), posted_ns (of messages from which the program goes on, see point_to_point.from_operators; else
    null). exposed: their pieces in steps that no other kernel and no earlier collective hides: collective (place in collectives),
    start_ns, end_ns. segments: the activity between each collective and the one before it (SEGMENT): kernels by layer and name,
    with durations as ns; and what the host did while the device was idle, by cause and function, operator or range. windows:
    start_ns and end_ns of each step. computing: start_ns and end_ns of the times in steps when a kernel runs that does not
    communicate.

    warnings: of the capture's reader. table: gives each of TABLES by name. work: equal for two recordings only if they hold the
    same work, "" if too little ran to say. framework, tool: what was recorded and by which tool, None if unknown. clock: wall, or
    a clock of its own.
    """

    path: str
    rank: int | None
    told_by: str
    world: int | None
    device: str
    hardware: str | None
    steps: int
    step_ns: int
    window_ns: tuple[int, int]
    parts: dict[str, int]
    warnings: tuple[str, ...]
    table: Callable[[str], pd.DataFrame]
    hidden_ns: int = 0
    work: str = ""
    framework: str | None = None
    tool: str | None = None
    clock: str | None = None

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """Its collectives, cached: all of the analysis uses them."""
        return self.table("collectives")

    @cached_property
    def exposed(self) -> pd.DataFrame:
        """The exposed pieces of collectives, cached, too."""
        return self.table("exposed")

    @property
    def segments(self) -> pd.DataFrame:
        """The activity before each collective; read each time."""
        return self.table("segments")

    @property
    def windows(self) -> tuple[Int, Int]:
        """Starts and ends of its steps; read each time."""
        return intervals.edges(self.table("windows"))

    @property
    def computing(self) -> tuple[Int, Int]:
        """Starts and ends of the times when it computes; read each time."""
        return intervals.edges(self.table("computing"))


def numbers(ranks: Sequence[RankRecording]) -> list[int]:
    """Return the numbers of ranks: their places if unknown."""
    return [one.rank if one.rank is not None else place for place, one in enumerate(ranks)]


def read(path: Path) -> list[RankRecording]:
    """Return the ranks of a capture: the rank that it names, or a rank for each of its devices.

    Raises EvidenceError if it cannot be read or holds no work of a rank.
    """
    trace = reading.read(path)
    rank, told_by = _rank(trace, path.name)
    request = Request()
    trace = finding_steps.windowed(trace, request)
    trace = finding_steps.applied(trace, finding_steps.find(trace, request))
    device = critical_device(trace)
    if device is None:
        return [_of_host(trace, path, rank, told_by)]
    named = trace.kernels["device"].dropna().astype(str)
    several = sorted({one for one in named.unique() if one != "cpu"}, key=lambda one: (len(one), one))
    if told_by == CAPTURE or len(several) < 2:
        return [_of_device(trace, path, device, rank, told_by)]
    return [_of_device(trace, path, one, None, "its device") for one in several]


def _of_device(trace: Trace, path: Path, device: str, rank: int | None, told_by: str) -> RankRecording:
    done = account(trace, device)
    kernels = trace.kernels[(trace.kernels["device"] == device).fillna(False).to_numpy(bool) & trace.kernels["start_ns"].notna()]
    talks = (kernels["kind"] == "communication").fillna(False).to_numpy(bool)
    windows = _windows(trace, kernels)
    collectives = _collectives(trace, kernels[talks], kernels[~talks], rank, windows)
    segments = [_kernels(collectives, kernels[~talks]), _host(trace, collectives, kernels, windows)]
    exposed = _exposed(collectives, kernels[~talks], windows)
    return RankRecording(
        path=str(path), rank=rank, told_by=told_by, world=(trace.info.get("distributed") or {}).get("world_size"), device=device,
        hardware=hardware_of(trace, device), steps=len(done.lengths), step_ns=done.step_ns,
        window_ns=_outermost(windows), parts=_parts(done.rows), warnings=_warnings(trace),
        table=_tables(collectives, exposed, segments, windows, kernels[~talks]),
        hidden_ns=_hidden_ns(collectives, exposed, windows, len(done.lengths)), work=_work(kernels), **_recorder(trace),
    )  # fmt: skip


def _of_host(trace: Trace, path: Path, rank: int | None, told_by: str) -> RankRecording:
    """Return a rank that computes on processors: its collectives are the communication library's ranges, as gloo:all_reduce."""
    # operators that hand data to the communication library compute nothing
    handing = trace.kernels["name"].astype("string").str.startswith(_HANDING).fillna(False)
    kernels = trace.kernels[trace.kernels["start_ns"].notna() & ~handing]
    name = trace.ranges["name"].astype("string")
    talking = trace.ranges[name.str.match(PROCESSORS).fillna(False).to_numpy(bool)]
    if kernels.empty or talking.empty or trace.steps.empty:
        known = (trace.info.get("unavailable") or {}).get("kernels")
        reason = f" ({known})" if known and kernels.empty else ""
        raise EvidenceError(
            f"{path}: it has no work of an accelerator{reason}, and no steps with collectives of ranks on processors"
        )
    operation = talking["name"].astype("string").str.replace(PROCESSORS, "", regex=True).str.strip("_").str.replace("_", "-")
    named = from_operators(trace, talking.assign(algorithm=operation))
    windows = _windows(trace, kernels)
    collectives = _collectives(trace, named, kernels, rank, windows)
    exposed = _exposed(collectives, kernels, windows)
    free = intervals.uncovered(*intervals.edges(kernels), *windows)
    whole, idle = (int((end - start).sum()) for start, end in (windows, free))
    hidden = int((exposed["end_ns"] - exposed["start_ns"]).sum())
    step_ns, told = round(whole / len(windows[0])), trace.info.get("distributed") or {}
    parts = intervals.apportion(np.array([whole - idle, hidden, idle - hidden], dtype=float), step_ns)
    segments = [_kernels(collectives, kernels), _ranges(trace, collectives, kernels, windows)]
    return RankRecording(
        path=str(path), rank=rank, told_by=told_by, world=told.get("world_size"), device="cpu", hardware=None,
        steps=len(windows[0]), step_ns=step_ns, window_ns=_outermost(windows),
        parts=dict.fromkeys(PARTS, 0) | dict(zip(("compute", "communication", HOST), map(int, parts), strict=True)),
        warnings=_warnings(trace),
        table=_tables(collectives, exposed, segments, windows, kernels),
        hidden_ns=_hidden_ns(collectives, exposed, windows, len(windows[0])), work=_work(kernels), **_recorder(trace),
    )  # fmt: skip


def _ranges(trace: Trace, collectives: pd.DataFrame, kernels: pd.DataFrame, windows: tuple[Int, Int]) -> pd.DataFrame:
    """Return the innermost ranges of the loop's thread before each collective, while nothing computed."""
    own = trace.ranges[~trace.ranges["name"].astype("string").str.match(PROCESSORS).fillna(False).to_numpy(bool)]
    thread = trace.steps["thread"].iloc[0]
    if not (own["thread"] == thread).fillna(False).any():  # steps that do not come from ranges have no thread
        thread = own["thread"].mode().get(0)
    mine = own[(own["thread"] == thread).fillna(False).to_numpy(bool)]
    row, start, end = intervals.leaves(*intervals.spans(mine))
    order = np.argsort(start, kind="stable")
    free = intervals.uncovered(*intervals.edges(kernels), *windows)
    index, _, first, last = intervals.split_at(start[order], end[order], *free)
    layer = (mine["layer"].astype("string") + " " + mine["phase"].astype("string").fillna("")).str.strip()
    named = layer.fillna(mine["name"].astype("string")).fillna("").to_numpy(dtype=object)
    where = np.where(layer.notna(), IN_LAYERS, idle_causes.RANGE)
    table = pd.DataFrame({"where": where[row[order][index]], "name": named[row[order][index]], "ns": last - first})
    kept = ~table["name"].str.startswith("ProfilerStep").to_numpy(bool)
    return _by_collective(collectives, first[kept], table[kept], HOSTS)


def _warnings(trace: Trace) -> tuple[str, ...]:
    return tuple(str(one) for one in trace.info.get("warnings") or ())


def _work(kernels: pd.DataFrame) -> str:
    """Return a digest of the kernels' starts, from the first one on, and durations: the clock's origin does not matter."""
    if len(kernels) < _TELLING:
        return ""
    return hashlib.sha256(np.concatenate(same_work.course(kernels)).tobytes()).hexdigest()


def _recorder(trace: Trace) -> dict[str, Any]:
    told = {"framework": trace.info.get("framework"), "tool": (trace.info.get("source") or {}).get("tool")}
    return {name: str(value) if value else None for name, value in told.items()} | {"clock": trace.info.get("clock")}


def _rank(trace: Trace, name: str) -> tuple[int | None, str]:
    told = (trace.info.get("distributed") or {}).get("rank")
    if told is not None:
        return int(told), CAPTURE
    number = rank_in(name)
    return (None, "nothing") if number is None else (number, "its name")


def rank_in(name: str) -> int | None:
    """Return the rank in a file's name: the number after "rank", else the last number; None if there is none."""
    found = _NUMBER.search(name)
    return int(next(filter(None, found.groups()))) if found else None


def _parts(rows: pd.DataFrame) -> dict[str, int]:
    """Return the step by PARTS. Idle time is HOST's if the host's calls or operators were recorded, else OTHER."""
    unseen = (rows["part"] == IDLE) & (rows["cause"] == idle_causes.UNSEEN)
    part = rows["part"].map(_PART_OF).where(rows["part"] != IDLE, HOST).mask(unseen, OTHER)
    talks = (rows["part"] == OUTSIDE) & (rows["kind"] == "communication")  # counts in the step that it runs in
    part = part.mask(talks.fillna(False), "communication")
    sums = rows.groupby(part)["time_ns"].sum()
    return {name: int(sums.get(name, 0)) for name in PARTS}


def _windows(trace: Trace, kernels: pd.DataFrame) -> tuple[Int, Int]:
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    if len(steps):
        return device_steps.bounds(steps)
    start, end = intervals.edges(kernels)
    return np.array([start.min()]), np.array([end.max()])


def _tables(
    collectives: pd.DataFrame, exposed: pd.DataFrame, segments: list[pd.DataFrame], windows: tuple[Int, Int],
    kernels: pd.DataFrame,
) -> Callable[[str], pd.DataFrame]:  # fmt: skip
    """Return a function that gives each of TABLES by name. kernels: those that compute."""
    # outside the gaps of a window it computes
    computing = intervals.uncovered(*intervals.uncovered(*intervals.edges(kernels), *windows), *windows)
    times = [pd.DataFrame({"start_ns": start, "end_ns": end}) for start, end in (windows, computing)]
    return dict(zip(TABLES, (collectives, exposed, pd.concat(segments, ignore_index=True), *times), strict=True)).__getitem__


def _outermost(windows: tuple[Int, Int]) -> tuple[int, int]:
    return int(windows[0].min()), int(windows[1].max())


def _collectives(
    trace: Trace, talking: pd.DataFrame, others: pd.DataFrame, rank: int | None, windows: tuple[Int, Int]
) -> pd.DataFrame:
    """Return the collectives in order of start (see RankRecording). rank: whose they are. windows: its steps."""
    table = talking.sort_values("start_ns", kind="stable").reset_index(drop=True)
    operation = table["algorithm"].astype("string").fillna(table["name"].astype("string").map(short))
    start, end = intervals.edges(table)
    begun = int(windows[0].min())
    over = np.concatenate([[begun if begun < start[0] else -1], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    before = np.where(over >= 0, start - over, -1)
    gaps = np.flatnonzero(before > 0)
    idle = np.zeros(len(start), dtype=np.int64)
    if len(gaps):
        free = intervals.uncovered(*intervals.edges(others), over[gaps], start[gaps])
        at = gaps[np.clip(np.searchsorted(over[gaps], free[0], side="right") - 1, 0, len(gaps) - 1)]
        np.add.at(idle, at, free[1] - free[0])
    sizes = messages(trace, table, operation)
    message = between(trace, table, rank)
    told = message["group"].notna()
    operation = operation.mask(told.to_numpy(bool), MESSAGE)
    sizes = sizes.assign(
        bytes=sizes["bytes"].mask(told, message["bytes"]), members=sizes["members"].mask(told, 2),
        group=sizes["group"].astype("string").mask(told, message["group"]),
    )  # fmt: skip
    posted = table["posted_ns"] if "posted_ns" in table else pd.array([pd.NA] * len(table), dtype="Int64")
    return pd.DataFrame(
        {"operation": operation, "start_ns": start, "end_ns": end, "before_ns": before, "idle_ns": idle, **dict(sizes.items()),
         "posted_ns": posted}
    )  # fmt: skip


def _exposed(collectives: pd.DataFrame, others: pd.DataFrame, windows: tuple[Int, Int]) -> pd.DataFrame:
    """Return the exposed pieces of collectives; of several at once, the earliest owns an instant."""
    start, end = intervals.edges(collectives)
    reached = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    begun = np.maximum(start, reached)
    mine = np.flatnonzero(end > begun)
    # no computing: gaps between the other kernels in the steps, cut by the collectives
    free = intervals.uncovered(*intervals.edges(others), *windows)
    index, _, first, last = intervals.split_at(begun[mine], end[mine], *free)
    return pd.DataFrame({"collective": mine[index], "start_ns": first, "end_ns": last})


def _hidden_ns(collectives: pd.DataFrame, exposed: pd.DataFrame, windows: tuple[Int, Int], steps: int) -> int:
    """Return the time per step in which a collective and another kernel run: what is not exposed."""
    free = intervals.uncovered(*intervals.edges(collectives), *windows)
    lengths = [int((last - first).sum()) for first, last in (windows, free, intervals.edges(exposed))]
    return round((lengths[0] - lengths[1] - lengths[2]) / max(steps, 1))


def _kernels(collectives: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels between each collective and the one before it, by layer and kernel."""
    table = pd.DataFrame(
        {"where": others["layer"].astype("string").fillna("").to_numpy(),
         "name": others["name"].astype("string").map(short).to_numpy(),
         "ns": (others["end_ns"] - others["start_ns"]).to_numpy(np.int64)}
    )  # fmt: skip
    return _by_collective(collectives, others["start_ns"].to_numpy(np.int64), table, KERNELS)


def _host(trace: Trace, collectives: pd.DataFrame, kernels: pd.DataFrame, windows: tuple[Int, Int]) -> pd.DataFrame:
    """Return what the host did before each collective while the device was idle, by cause and detail."""
    free = intervals.uncovered(*intervals.edges(kernels), *windows)
    pieces = idle_causes.pieces(trace, free, windows)
    table = pd.DataFrame(
        {"where": pieces["cause"].astype("string").fillna("").to_numpy(),
         "name": pieces["detail"].astype("string").fillna("").to_numpy(), "ns": pieces["time_ns"].to_numpy(np.int64)}
    )  # fmt: skip
    return _by_collective(collectives, pieces["start_ns"].to_numpy(np.int64), table, HOSTS)


def _by_collective(collectives: pd.DataFrame, start: Int, table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return rows that begin at these times, added up by the collective that follows; rows that none follows are left out."""
    place = np.searchsorted(collectives["start_ns"].to_numpy(np.int64), start, side="right")
    table = table.assign(collective=place, what=what)
    table = table[table["collective"] < len(collectives)]
    return table.groupby(["collective", "what", "where", "name"], sort=True)["ns"].sum().reset_index()[list(SEGMENT)]
