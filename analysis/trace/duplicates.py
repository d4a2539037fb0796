"""Device work that a capture holds twice, as where recordings were put together: it counts once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.trace import Trace

# What no two kernels or copies have in common: the second of them on a stream begins when the first has ended
_ALIKE = {
    "kernels": ["start_ns", "end_ns", "device", "thread", "process", "correlation", "name"],
    "copies": ["start_ns", "end_ns", "device", "thread", "process", "correlation", "operation", "bytes"],
}


def drop(trace: Trace) -> None:
    """Take rows out of a Trace that stand there before with all they say, in place, and count them.

    Where a tool writes no correlations, two short kernels can look alike: those stay.
    """
    for name, columns in _ALIKE.items():
        table = getattr(trace, name)
        near = _with_another(table["start_ns"].to_numpy(np.int64, na_value=-1))
        near &= (table["start_ns"].notna() & table["correlation"].notna()).to_numpy(np.bool_)
        if not near.any():
            continue
        again = np.zeros(len(table), np.bool_)
        again[near] = table.loc[near, columns].duplicated()
        if again.any():
            trace.diagnostics[f"{name} written twice"] = int(again.sum())
            setattr(trace, name, table[~again].reset_index(drop=True))


def _with_another(start: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which numbers occur more than once."""
    order = np.argsort(start, kind="stable")
    same = np.diff(start[order]) == 0
    result = np.zeros(len(start), np.bool_)
    result[order[1:]] |= same
    result[order[:-1]] |= same
    return result
