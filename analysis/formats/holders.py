"""Executions that contain others: the computing happens in the inner ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import intervals


def holders(table: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each row (columns thread, start_ns, end_ns) whether it contains another row of its thread that has a length.

    Rows of zero length count as inside no other row: where times are cut to whole microseconds, they lie at the edges of others.
    """
    thread, start, end = intervals.spans(table)
    long = np.flatnonzero(end > start)
    parents = intervals.parents(thread[long], start[long], end[long])
    result = np.zeros(len(table), dtype=bool)
    result[long[parents[parents >= 0]]] = True
    return result
