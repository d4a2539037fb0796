"""Correct the clocks of ranks by the ends of collectives, which all ranks leave together.

The offset of a rank is the median, over collectives, of its end minus the mean end of all (as nsys-jax does). If each rank
depends on all others, none ends before all have begun: clocks that say so beyond their uncertainty are wrong, or the matching is.

Ranks without a common collective may send each other messages. A message arrives after it was sent, so the quickest message in
each direction bounds the offset from one side, and the offset is the middle, as in NTP (Mills, RFC 5905, section 8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Int = npt.NDArray[np.int64]
_median: Callable[..., Any] = np.ma.median  # has no types
DEPENDENT = ("all-reduce", "all-gather", "all-to-all")


@dataclass(frozen=True)
class Clocks:
    """offsets_ns: each rank's local minus corrected time. uncertainty_ns: half of the median spread of corrected ends.

    apart_ns: median spread of the ends before correction. impossible: number of DEPENDENT collectives that a rank ends before
    another begins, by more than the uncertainty.
    """

    offsets_ns: Int
    uncertainty_ns: int
    apart_ns: int
    impossible: int


def clocks(start_ns: Any, end_ns: Any, dependent: npt.NDArray[np.bool_]) -> Clocks:
    """Return the clocks of ranks. start_ns, end_ns: [collectives, ranks], local, masked where a rank is not in a collective.

    dependent: which collectives are in DEPENDENT. Groups of ranks are related by the ranks that they share.
    """
    base = int(end_ns.min())  # times since an epoch are too large for exact means
    ends = np.ma.masked_array(end_ns - base, dtype=float)
    offsets = _by_shared_ranks(ends) if np.ma.is_masked(ends) else np.zeros(ends.shape[1])
    corrected = ends - offsets
    apart = np.ma.masked_array(corrected - corrected.mean(axis=1, keepdims=True))
    offsets = offsets + np.ma.filled(_median(apart, axis=0), 0.0)  # a rank without collectives keeps its clock
    whole = np.rint(offsets).astype(np.int64)
    local = np.ma.masked_array(end_ns - base)
    corrected = local - whole
    uncertainty = int(np.ceil(np.median(_spread(corrected)) / 2))
    last_start = (start_ns - base - whole).max(axis=1)
    impossible = int((np.ma.filled(corrected.min(axis=1) + 2 * uncertainty < last_start, False) & dependent).sum())
    return Clocks(whole, uncertainty, int(np.median(_spread(local))), impossible)


def by_messages(found: Clocks, alone: Int, sender: Int, receiver: Int, sent_ns: Int, received_ns: Int) -> Clocks:
    """Return the clocks, corrected by messages between ranks without a common collective.

    alone: for each rank the number of the group whose clocks were corrected together. sender, receiver: each message's, as places
    of ranks. sent_ns, received_ns: when the send begins and when the message is received, local.
    """
    table = pd.DataFrame({"a": sender, "b": receiver, "ns": received_ns - sent_ns})
    quickest = table[alone[sender] != alone[receiver]].groupby(["a", "b"])["ns"].min()
    back = quickest.rename_axis(["b", "a"]).reorder_levels(["a", "b"])
    both = pd.DataFrame({"there": quickest, "back": back}).dropna().astype("int64").reset_index()
    both = both[both["a"] < both["b"]]
    if both.empty:
        return found
    first, second = (both[name].to_numpy(np.int64) for name in ("a", "b"))
    apart = (both["there"] - both["back"]).to_numpy(float) / 2 - (found.offsets_ns[second] - found.offsets_ns[first])
    equations = np.zeros((len(both), int(alone.max()) + 1))
    rows = np.arange(len(both))
    equations[rows, alone[second]], equations[rows, alone[first]] = 1.0, -1.0
    shifts = np.linalg.lstsq(equations, apart, rcond=1e-9)[0]
    reach = int(np.ceil(float((both["there"] + both["back"]).median()) / 2))
    return replace(
        found,
        offsets_ns=found.offsets_ns + np.rint(shifts[alone]).astype(np.int64),
        uncertainty_ns=max(found.uncertainty_ns, reach),
        impossible=found.impossible + int((both["there"] + both["back"] < 0).sum()),
    )


def _by_shared_ranks(ends: Any) -> npt.NDArray[np.float64]:
    """Return the offsets that bring the ends of every collective closest together, by least squares.

    The mean end of each collective is eliminated, which leaves an equation for each rank. Groups that share no rank have no
    common clock: the offsets of each have the mean 0.
    """
    taking = (~np.ma.getmaskarray(ends)).astype(float)
    members = taking.sum(axis=1, keepdims=True)
    apart = (ends - ends.mean(axis=1, keepdims=True)).filled(0.0)
    equations = np.diag(taking.sum(axis=0)) - (taking / members).T @ taking
    return np.asarray(np.linalg.lstsq(equations, apart.sum(axis=0), rcond=1e-9)[0])


def _spread(times: Any) -> Int:
    """Return the distance between the first and the last time of each collective; every one has ranks."""
    return np.asarray((times.max(axis=1) - times.min(axis=1)).filled(0))
