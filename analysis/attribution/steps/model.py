"""Steps as they were found, and how well what repeats repeats: by the kernels that each step launches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, conform

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

MOST_WORK = 400_000  # pieces of work that are looked at: what repeats has repeated by then
LEAST = 2  # whole steps
# Of all kernels, the share that must be in what all steps have in common
_COMMON = 0.7
# Steps at the ends whose kernels are less alike than this to the usual step's are warm-up, or cut
_ALIKE = 0.75
# A first step this many times as long as the longest other one did something else, too
_LONGER = 3.0
_INTERRUPTED, _RARE = 5.0, 0.1  # times the usual step, and share of the steps
_COVERED = 0.3  # share of the device's time that must be between the first step and the last


@dataclass(frozen=True)
class Found:
    """Steps of a capture.

    method: profiler, range, input, call, period. source: what marks them, such as a range's name. table: trace.STEPS, whole
    steps only. likeness: share of the kernels that all steps have in common. covered: share of the device's time that is in the
    steps. warmup, cut: steps before and after these that are none of them. confidence: high, medium, low. on_device: whether
    their times are the device's, where launches are not in the capture, and not the host's. interrupted: steps left out because
    the loop stopped in them for something else.
    """

    method: str
    source: str
    table: pd.DataFrame
    likeness: float
    confidence: str
    warmup: int = 0
    cut: int = 0
    covered: float = 1.0
    on_device: bool = False
    interrupted: int = 0

    def sentence(self) -> str:
        """Return in words what the steps are."""
        how = {
            "profiler": "marked by the profiler",
            "range": "from one range to the next",
            "input": "from one batch to the next",
            "call": "from one call to the next",
            "period": "the period of the kernels",
        }[self.method]
        left = [f"{self.warmup} before them were warm-up"] if self.warmup else []
        left += [f"{self.interrupted} many times as long were interrupted"] if self.interrupted else []
        left += [f"{self.cut} after them are not whole"] if self.cut else []
        more = f"; {' and '.join(left)}" if left else ""
        number = f"{len(self.table)} step{'' if len(self.table) == 1 else 's'}"
        return f"{number}, {how} ({self.source}), confidence {self.confidence}{more}"


@dataclass(frozen=True)
class Work:
    """The kernels and graphs of a device's busiest stream in the order of their launches.

    Other streams hold what prefetches or communicates beside the steps. at: when launched, or started where launches are not in
    the capture. name: a number for each distinct name; names: these. start, end: on the device. by_launch: which of both `at` is.
    launcher: thread that launched it; 0 where not known. gaps: how long the device had nothing to do before.
    """

    at: Int
    name: Int
    names: list[str]
    start: Int
    end: Int
    by_launch: bool
    launcher: Int
    gaps: Int = field(repr=False)

    @property
    def thread(self) -> int:
        """The thread that launches most; 0 where not known."""
        return commonest(self.launcher)

    def __len__(self) -> int:
        return len(self.at)


def commonest(values: Int) -> int:
    """Return the value that occurs most; 0 where there is none."""
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts.argmax()]) if len(found) else 0


def critical_device(trace: Trace) -> str | None:
    """Return the accelerator that computes longest; None where nothing ran on one."""
    tables = [getattr(trace, name)[["device", "start_ns", "end_ns"]] for name in ("kernels", "graphs")]
    rows = pd.concat([table.assign(device=table["device"].astype("string")) for table in tables], ignore_index=True)
    rows = rows[(rows["device"].notna() & (rows["device"] != "cpu") & rows["start_ns"].notna()).to_numpy(bool)]
    if rows.empty:
        return None
    busy = (rows["end_ns"] - rows["start_ns"]).astype("int64").groupby(rows["device"]).sum()
    return str(busy.idxmax())


def work_of(trace: Trace, device: str | None = None) -> Work:
    """Return the work of a device, of the critical one where none is named; of the host's processors where there is no other.

    Raises EvidenceError where nothing ran on the device that is named.
    """
    chosen = device or critical_device(trace)
    tables = []
    for name in ("kernels", "graphs"):
        table = getattr(trace, name)
        rows = table[table["start_ns"].notna().to_numpy(bool)]
        if chosen is not None:
            rows = rows[(rows["device"] == chosen).to_numpy(bool)]
        names = rows["name"].astype("object") if name == "kernels" else "graph " + rows["graph"].astype("string")
        tables.append(rows[["start_ns", "end_ns", "launch_ns", "launch_thread", "thread"]].assign(name=names))
    rows = pd.concat(tables, ignore_index=True)
    if device is not None and rows.empty:
        known = sorted({str(one) for one in trace.kernels["device"].dropna().unique()})
        raise EvidenceError(f"--device {device}: no kernels ran on it; the capture has {', '.join(known) or 'none'}")
    rows = _busiest(rows)
    by_launch = bool(len(rows)) and float(rows["launch_ns"].notna().mean()) > 0.9
    rows = rows[rows["launch_ns"].notna()] if by_launch else rows
    at = rows["launch_ns" if by_launch else "start_ns"].to_numpy(np.int64)
    order = np.argsort(at, kind="stable")[:MOST_WORK]
    codes, names_ = pd.factorize(rows["name"].astype("string").fillna("").to_numpy(dtype=object)[order])
    start, end = (rows[column].to_numpy(np.int64)[order] for column in ("start_ns", "end_ns"))
    launcher = rows["launch_thread"].to_numpy(np.int64, na_value=0)[order]
    texts = [str(name) for name in names_]
    return Work(at[order], codes.astype(np.int64), texts, start, end, by_launch, launcher, _gaps(start, end))


def _busiest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the stream that computes longest; all where streams are not known."""
    busy = (rows["end_ns"] - rows["start_ns"]).astype("int64").groupby(rows["thread"]).sum()
    return rows[(rows["thread"] == busy.idxmax()).fillna(False).to_numpy(bool)] if len(busy) else rows


def _gaps(start: Int, end: Int) -> Int:
    """Return how long the device had nothing to do before each piece of work, in the order of the launches."""
    if not len(start):
        return start
    order = np.argsort(start, kind="stable")
    reached = np.maximum.accumulate(end[order])
    before = np.concatenate([[start[order[0]]], reached[:-1]])
    gaps = np.empty(len(start), dtype=np.int64)
    gaps[order] = np.maximum(start[order] - before, 0)
    return gaps


def judged(work: Work, method: str, source: str, begins: Int, ends: Int | None = None, thread: int | None = None) -> Found | None:
    """Return the steps that begin at these times, one ending where the next begins; None where they do not repeat.

    begins: sorted. ends: when what marks them ends: where that is right before the next begins, the last one is whole, too.
    """
    if len(begins) < LEAST or not len(work):
        return None
    edges = begins
    if ends is not None and len(begins) > 1:
        period = float(np.median(np.diff(begins)))
        if float(np.median(begins[1:] - ends[:-1])) < 0.05 * period and float(ends[-1] - begins[-1]) > 0.5 * period:
            edges = np.append(begins, ends[-1])
    position = np.searchsorted(edges, work.at, side="right") - 1
    inside = (position >= 0) & (position < len(edges) - 1)
    counts = np.zeros((len(edges) - 1, len(work.names)), dtype=np.float64)
    np.add.at(counts, (position[inside], work.name[inside]), 1.0)
    first, last = _steady(counts, np.diff(edges))
    if last - first < LEAST:
        return None
    kept = counts[first:last]
    lasted = work.end - work.start
    mine = inside & (position >= first) & (position < last)
    covered = float(lasted[mine].sum() / max(lasted.sum(), 1))
    if covered < _COVERED:
        return None
    common = _common(kept)
    if common < _COMMON:
        return None
    table = pd.DataFrame({"start_ns": edges[first:last], "end_ns": edges[first + 1 : last + 1]})
    table = table.assign(step=np.arange(first, last), warmup=False, thread=work.thread if thread is None else thread)
    usual = _uninterrupted(np.diff(edges)[first:last])
    table, kept = table[usual].reset_index(drop=True), kept[usual]
    alike = float(np.median(_likeness(kept)))
    sure = "high" if common >= 0.97 and len(kept) >= 3 else "medium" if common >= 0.9 and alike >= 0.9 else "low"
    cut = len(counts) - last + _unfinished(work, edges)
    left_out = {"warmup": first, "cut": cut, "interrupted": int((~usual).sum())}
    steps, by_device = conform("steps", table), not work.by_launch
    return Found(method, source, steps, round(common, 4), sure, covered=round(covered, 4), on_device=by_device, **left_out)


def _uninterrupted(lengths: Int) -> npt.NDArray[np.bool_]:
    """Return which steps are no rare ones many times as long as the usual one: there the loop stopped for something else."""
    usual = lengths <= _INTERRUPTED * float(np.median(lengths))
    return usual if (~usual).sum() <= _RARE * len(lengths) else np.ones(len(lengths), dtype=bool)


def _unfinished(work: Work, edges: Int) -> int:
    """Return 1 where work after the last step begins another one."""
    return int(bool((work.at >= edges[-1]).any()))


def _common(counts: Float) -> float:
    """Return the share of all kernels that are what the usual step launches, as often."""
    usual = np.median(counts, axis=0)
    return float(np.minimum(counts, usual).sum() / max(counts.sum(), 1.0, usual.sum() * len(counts)))


def _likeness(counts: Float) -> Float:
    """Return for each step how alike its kernels are to the usual step's, 0 to 1 (Jaccard's index of multisets)."""
    usual = np.median(counts, axis=0)
    both, either = np.minimum(counts, usual).sum(axis=1), np.maximum(counts, usual).sum(axis=1)
    return np.asarray(np.divide(both, either, out=np.zeros_like(both), where=either > 0))


def _steady(counts: Float, lengths: Int) -> tuple[int, int]:
    """Return the range of steps without those at the ends that are unlike the others."""
    alike = _likeness(counts[len(counts) // 3 :] if len(counts) > 3 else counts)
    usual = np.median(counts[len(counts) // 3 :] if len(counts) > 3 else counts, axis=0)
    both, either = np.minimum(counts, usual).sum(axis=1), np.maximum(counts, usual).sum(axis=1)
    like = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    bar = min(_ALIKE, 0.9 * float(np.median(alike)) if len(alike) else _ALIKE)
    first, last = 0, len(counts)
    while first < last - LEAST and (like[first] < bar or lengths[first] > _LONGER * lengths[first + 1 :].max()):
        first += 1
    while last > first + LEAST and like[last - 1] < bar:
        last -= 1
    return first, last
