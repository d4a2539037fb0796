"""What a device did after each gap in its work, who launched it, and whether the launch had returned before the gap began.

If it had, the host was ahead, and the gap is the device's own: the time to begin the next kernel, or to see that the work that it
waits for is done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.device_steps import DEVICE_TABLES
from kernelscope.analysis.trace import Trace, intervals
from kernelscope.analysis.trace.stacks import Stacks

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Gaps = tuple[Int, Int]

QUEUED = "between kernels"  # the next work was launched before the gap began: what the host does then does not matter
_MOSTLY = 0.5
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class NextWork:
    """The work after each gap. work: the device's, by start; after: the position in it of the work that follows each gap.

    The position behind the last one stands for no work.
    """

    trace: Trace
    work: pd.DataFrame
    after: Int

    @classmethod
    def of(cls, trace: Trace, end: Int) -> NextWork:
        """Return the work after gaps with these ends."""
        uploads = (trace.copies["operation"] == "host to device").to_numpy(bool)
        tables = [
            getattr(trace, name)[["start_ns", "launch_thread", "launch_ns"]].assign(
                upload=uploads if name == "copies" else False, moves=name == "copies"
            )
            for name in DEVICE_TABLES
        ]
        there = [table[table["start_ns"].notna()] for table in tables if len(table)]
        work = pd.concat(there or tables[:1], ignore_index=True).sort_values("start_ns", kind="stable")
        return cls(trace, work, np.searchsorted(work["start_ns"].to_numpy(np.int64), end, side="left"))

    def only(self, gaps: Bool) -> NextWork:
        """Return the work after some of the gaps."""
        return NextWork(self.trace, self.work, self.after[gaps])

    @property
    def thread(self) -> Int:
        """The thread that launched it; -1 if unknown."""
        return np.append(self.work["launch_thread"].to_numpy(np.int64, na_value=-1), -1)[self.after]

    def launched_before(self, start: Int) -> Bool:
        """Return which gaps (their starts) are followed by work whose launch had returned before."""
        calls = self.trace.calls
        calls = calls[(calls["api"] != "os").to_numpy(bool) & calls["thread"].notna().to_numpy(bool)]
        launch = np.append(self.work["launch_ns"].to_numpy(np.int64, na_value=-1), -1)[self.after]
        thread = self.thread
        known = np.flatnonzero((thread >= 0) & (launch >= 0))
        result = np.zeros(len(start), dtype=bool)
        if len(calls) and len(known):
            call = Stacks(*intervals.spans(calls)).innermost(thread[known], launch[known])
            result[known] = (call >= 0) & (calls["end_ns"].to_numpy(np.int64)[call] < start[known])
        return result

    def by_input(self) -> Bool:
        """Return which work was launched by an input thread: one that mostly copies to the device."""
        return np.isin(self.thread, _input_threads(self.work))

    def opens_step(self, start: Int, end: Int, windows: Gaps) -> Bool:
        """Return which gaps (their starts and ends) are before a step (of windows) that begins with a copy to the device."""
        begun = np.append(self.work["start_ns"].to_numpy(np.int64), _NEVER)
        upload = np.append(self.work["upload"].to_numpy(bool), False)
        opens = np.isin(begun[self.after], windows[0]) | np.isin(end, windows[1]) | np.isin(start, windows[0])
        if _begin_with_kernels(self.trace):
            moves = np.append(self.work["moves"].to_numpy(bool), False)
            opens |= _before_batches(begun, moves, upload, self.after, windows[0])
        return np.asarray(opens & upload[self.after])


def _begin_with_kernels(trace: Trace) -> bool:
    """Return whether all steps begin where a kernel is launched, or starts: they are the period of the kernels."""
    steps, kernels = trace.steps, trace.kernels
    edges = [steps["start_ns"].isin(kernels[column].dropna()) for column in ("launch_ns", "start_ns")]
    return bool(len(steps)) and any(bool(begins.all()) for begins in edges)


def _before_batches(begun: Int, moves: Bool, upload: Bool, after: Int, opened: Int) -> Bool:
    """Return which gaps are before a step's batch, if steps begin with a kernel, whichever of those that occur once a step.

    The batch is copied to the device between two kernels, if that happens at only one place of the step. after: the piece of work
    that follows each gap. opened: when steps begin.
    """
    kernels = np.flatnonzero(~moves)  # the last one stands for the end
    place = kernels[np.searchsorted(kernels, np.arange(len(begun)))]
    window = np.searchsorted(opened, begun, side="right") - 1
    uploads = np.flatnonzero(upload)
    runs = np.unique(np.stack([window[uploads], place[uploads]]), axis=1)
    steps, number = np.unique(runs[0], return_counts=True)
    return np.asarray(upload[after] & np.isin(window[after], steps[(number == 1) & (steps >= 0)]))


def _input_threads(work: pd.DataFrame) -> Int:
    """Return the threads that mostly copy to the device, except the one that launches most other work."""
    known = work[work["launch_thread"].notna().to_numpy(bool)]
    if known.empty:
        return np.empty(0, dtype=np.int64)
    share = known.groupby(known["launch_thread"].astype("int64"))["upload"].agg(["mean", "size"])
    loop = known.loc[~known["upload"], "launch_thread"].mode()
    mine = share.index[(share["mean"] > _MOSTLY) & ~share.index.isin(loop.astype("int64"))]
    return mine.to_numpy(np.int64)
