"""Which executions hold others: what computes is in the inner ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import intervals


def holders(table: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each row (columns thread, start_ns, end_ns) whether another row of its thread with a length is inside of it.

    Rows without a length are held by nobody: where times are cut to whole microseconds, they stand at the edges of others.
    """
    thread, start, end = intervals.spans(table)
    long = np.flatnonzero(end > start)
    parents = intervals.parents(thread[long], start[long], end[long])
    result = np.zeros(len(table), dtype=bool)
    result[long[parents[parents >= 0]]] = True
    return result
