"""Own times of tables whose columns count what is nested in an operator again.

Before PyTorch 1.7 a device has only total times. They become own times where the host's times show what contains what: the
host's time of an operator less its own is that of the operators that it calls. torch.utils.bottleneck lists single events whose
own times on the processor include what is nested in them: PyTorch's nodes of autograd around the operator that they call.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.formats.torch_table import calls as of_calls

_AUTOGRAD = re.compile(r"Backward\d*$")  # a node of autograd: MkldnnConvolutionBackward calls mkldnn_convolution_backward
_MOST = 2000  # rows of a table, each of which is compared with all others
_AROUND = 100  # an event around another one has less than one 100th of its time to itself

Flags = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]


class Totals(NamedTuple):
    """Times in ns of rows, those of the callees included, and numbers of calls. off: by how much rounding may make host's wrong.

    nested: the host's time in callees. counts: which rows may count as work.
    """

    device: Times
    host: Times
    nested: Times
    calls: Times
    off: Times
    counts: Flags


def on_device(totals: Totals) -> Times | None:
    """Return own times on the device; None unless it is clear for each row which others it contains, or if there are too many."""
    if len(totals.device) > _MOST:
        return None
    own, left = totals.device.copy(), totals.nested.copy()
    inner = [_inner(totals, place) for place in range(len(own))]
    for place, callee in enumerate(inner):
        if callee is not None:
            own[place] -= totals.device[callee]
            left[place] = 0
    timed = totals.counts & (totals.device > 0)
    if not (totals.calls[timed] > 0).all():
        return None
    for place in np.flatnonzero(timed & (left > totals.off)).tolist():
        shorter = totals.host <= (left[place] + totals.off[place]) * totals.calls  # one call of it may be inside
        shorter[place] = False
        if (shorter & timed).any():
            return None
    return own


def _inner(totals: Totals, place: int) -> int | None:
    """Return the row that takes all the time of what another one calls, as often; None if there is none, or only one of many."""
    fits = np.abs(totals.host - totals.nested[place]) <= totals.off[place] + totals.off
    fits &= (totals.calls == totals.calls[place]) & (totals.device <= totals.device[place]) & (totals.host > 0)
    fits &= (totals.host < totals.host[place]) | (np.arange(len(fits)) > place)  # no two contain each other
    fits[place] = False
    found = np.flatnonzero(fits)
    return int(found[0]) if len(found) == 1 else None


def rounding(rows: pd.DataFrame) -> Times:
    """Return by how many ns the host's total less its own time may be wrong in each row."""
    steps = of_calls.times(rows["cpu"])[1] + of_calls.times(rows["self_cpu"])[1]
    return np.ceil(np.nan_to_num(steps / 2)).astype(np.int64)


def around(names: pd.Series, own: Times) -> dict[int, int]:
    """Return which single event contains which: of a node of autograd, the operator of its name that takes nearly all its time.

    own: times in ns, of which the event's include those of nested ones. With several of a name, the nearest ones are paired.
    """
    texts = [str(name) for name in names]
    result: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for place in np.argsort(-own, kind="stable").tolist():
        says = re.sub(r"\d*$", "", texts[place].rpartition("::")[2].replace("_", "").lower())
        outer = waiting.setdefault(says, [])
        if _AUTOGRAD.search(texts[place]):
            outer.append(place)
        elif outer and (own[outer[-1]] - own[place]) * _AROUND < own[outer[-1]]:
            result[outer.pop()] = place
    return result
