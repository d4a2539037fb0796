"""Detected steps, and the device work in which they are searched."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

MOST_WORK = 400_000  # pieces of work that are searched: enough to see any repetition
LEAST = 2  # least number of whole steps
PROFILER = "the profiler"  # the source of marked steps if no tool is named
MOSTLY = 0.8  # if the steps hold less of the kernels' time, the sentence says so


@dataclass(frozen=True)
class DetectedSteps:
    """Steps of a capture.

    method: profiler, range, input, call, period; or inside, for ranges examined alone. source: what marks the steps, such as a
    range's name. table: trace.STEPS, whole steps only. likeness: share of the kernels that all steps have in common. covered:
    share of the device's time in the steps. warmup, cut: steps left out before and after these. confidence: high, medium, low.
    on_device: whether the times are the device's, because the capture has no launches, rather than the host's.
    interrupted: steps left out because the loop did something else in them. only: the first and last number that the user
    asks for; None for all.
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
    only: tuple[int, int] | None = None

    @property
    def certain(self) -> bool:
        """Whether these are surely steps. A period of kernels may also be the layers within one step."""
        return self.method != "period" or self.confidence == "high"

    def sentence(self) -> str:
        """Return a sentence that says what the steps are, with the confidence."""
        return self.described(f", confidence {self.confidence}")

    def described(self, sure: str = "") -> str:
        """Return a phrase that says what the steps are. sure: the text that gives the confidence."""
        if self.method == "inside":
            times = f"{len(self.table)} time{'' if len(self.table) == 1 else 's'}"
            return f"only work that ran or was launched inside range {self.source}, open {times}; times are per range"
        how = {
            "profiler": "marked by the profiler",
            "range": "from one range to the next",
            "input": "from one batch to the next",
            "call": "from one call to the next",
            "period": "the period of the kernels",
        }[self.method]
        left = [f"{self.warmup} before them {'was' if self.warmup == 1 else 'were'} warm-up"] if self.warmup else []
        left += [f"{self.interrupted} many times as long were interrupted"] if self.interrupted else []
        cut = "work after them is left out, as nothing marks its end" if self.cut == 1 else f"{self.cut} after them are cut"
        left += [cut] if self.cut else []
        left += [f"{1 - self.covered:.0%} of the kernels' time is outside them"] if self.covered < MOSTLY else []
        left += [f"only steps {self.only[0]} to {self.only[1]} are analysed"] if self.only else []
        more = "".join(f"; {one}" for one in left)
        number = f"{len(self.table)} step{'' if len(self.table) == 1 else 's'}"
        named = "" if self.source == PROFILER else f" ({self.source})"
        return f"{number}, {how}{named}{sure}{more}"


@dataclass(frozen=True)
class StreamWork:
    """The kernels and graphs of a device's busiest stream, in launch order.

    at: when launched; when started if the capture has no launches. by_launch: which of the two `at` is. name: a number for each
    distinct name; names: the names. start, end: on the device. launcher: the thread that launched it; 0 if unknown. gaps: how
    long the device was idle before it. beside: `at` and `name` (own numbers) of the other streams' work, which prefetch,
    communicate or also compute.
    """

    at: Int
    name: Int
    names: list[str]
    start: Int
    end: Int
    by_launch: bool
    launcher: Int
    gaps: Int = field(repr=False)
    beside: tuple[Int, Int] = field(repr=False)

    @property
    def thread(self) -> int:
        """The thread that launches most; 0 if unknown."""
        return commonest(self.launcher)

    def __len__(self) -> int:
        return len(self.at)


def commonest(values: Int) -> int:
    """Return the most frequent value; 0 if there is none."""
    result, counts = np.unique(values, return_counts=True)
    return int(result[counts.argmax()]) if len(result) else 0


def critical_device(trace: Trace) -> str | None:
    """Return the accelerator that computes longest; None if nothing ran on one."""
    tables = [getattr(trace, name)[["device", "start_ns", "end_ns"]] for name in ("kernels", "graphs")]
    rows = pd.concat([table.assign(device=table["device"].astype("string")) for table in tables], ignore_index=True)
    rows = rows[(rows["device"].notna() & (rows["device"] != "cpu") & rows["start_ns"].notna()).to_numpy(bool)]
    if rows.empty:
        return None
    busy = (rows["end_ns"] - rows["start_ns"]).astype("int64").groupby(rows["device"]).sum()
    return str(busy.idxmax())


def work_of(trace: Trace, device: str | None = None) -> StreamWork:
    """Return the work of a device: the named one, else the critical one, else the CPU if the capture has no accelerator.

    Raises EvidenceError if nothing ran on the named device.
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
    busiest = _busiest(rows)
    beside, rows = rows[~busiest], rows[busiest]
    by_launch = bool(len(rows)) and float(rows["launch_ns"].notna().mean()) > 0.9
    column = "launch_ns" if by_launch else "start_ns"
    rows, beside = (table[table[column].notna().to_numpy(bool)] for table in (rows, beside))
    at = rows[column].to_numpy(np.int64)
    order = np.argsort(at, kind="stable")[:MOST_WORK]
    codes, names_ = pd.factorize(rows["name"].astype("string").fillna("").to_numpy(dtype=object)[order])
    start, end = (rows[column].to_numpy(np.int64)[order] for column in ("start_ns", "end_ns"))
    launcher = rows["launch_thread"].to_numpy(np.int64, na_value=0)[order]
    texts = [str(name) for name in names_]
    others = beside[column].to_numpy(np.int64), pd.factorize(beside["name"])[0].astype(np.int64)
    return StreamWork(at[order], codes.astype(np.int64), texts, start, end, by_launch, launcher, _gaps(start, end), others)


def _busiest(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows are on the stream that computes longest; all rows if streams are unknown."""
    busy = (rows["end_ns"] - rows["start_ns"]).astype("int64").groupby(rows["thread"]).sum()
    return (rows["thread"] == busy.idxmax()).fillna(False).to_numpy(bool) if len(busy) else np.ones(len(rows), dtype=bool)


def _gaps(start: Int, end: Int) -> Int:
    """Return how long the device was idle before each piece of work, in launch order."""
    if not len(start):
        return start
    order = np.argsort(start, kind="stable")
    reached = np.maximum.accumulate(end[order])
    before = np.concatenate([[start[order[0]]], reached[:-1]])
    gaps = np.empty(len(start), dtype=np.int64)
    gaps[order] = np.maximum(start[order] - before, 0)
    return gaps
