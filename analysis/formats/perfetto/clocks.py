"""Times of several clocks, converted to one: packets name their clock, and snapshots read several clocks at one moment.

Numbers below 64 are clocks of the system (6, the time since boot, is the usual one). Those up to 127 are a sequence's own clocks,
which may count from the previous packet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BOOT = 6
_OWN, _GLOBAL = 64, 128  # a sequence's own clocks are the numbers between
_LAST = 1 << 62


def aligned(time: Integers, clock: Integers, sequence: Integers, snapshots: list[tuple[int, Any]]) -> tuple[Integers, Flags]:
    """Return packets' times in ns on the boot clock, and which of them have no relation to it and stay unchanged.

    clock: 0 is the trace's own. snapshots: with the rows of their packets.
    """
    clock_pairs = _table(snapshots, sequence)
    boot = next((int(one.primary) for _, one in snapshots if one.primary), _BOOT)
    clock = np.where(clock == 0, boot, clock)
    result, known = time.copy(), clock == boot
    own = (clock >= _OWN) & (clock < _GLOBAL)
    for number in np.unique(clock[~known & ~own]).tolist():
        offset = _offset(clock_pairs[clock_pairs["sequence_of"] < 0], number, boot)
        if offset is not None:
            rows = clock == number
            result[rows], known[rows] = time[rows] + offset, True
    pairs = np.unique(np.stack([sequence[own], clock[own]], axis=1), axis=0).tolist() if own.any() else []
    for one, number in pairs:
        rows = np.flatnonzero(own & (sequence == one) & (clock == number))
        known[rows] = _of_sequence(result, rows, clock_pairs[(clock_pairs["sequence"] == one).to_numpy()], number, boot)
    return np.clip(result, -_LAST, _LAST), ~known & (time != 0)


def _table(snapshots: list[tuple[int, Any]], sequence: Integers) -> pd.DataFrame:
    """Return a row for each clock of each snapshot. sequence_of: the clock's sequence, -1 for clocks of the system."""
    rows = [
        {
            "snapshot": number, "row": row, "sequence": int(sequence[row]), "clock": int(one.id),
            "sequence_of": int(sequence[row]) if _OWN <= one.id < _GLOBAL else -1,
            "at": min(int(one.timestamp), _LAST), "unit": min(int(one.unit) or 1, 1 << 30), "incremental": bool(one.incremental),
        }
        for number, (row, clocks) in enumerate(snapshots)
        for one in clocks.clocks
    ]  # fmt: skip
    columns = ["snapshot", "row", "sequence", "clock", "sequence_of", "at", "unit", "incremental"]
    return pd.DataFrame(rows, columns=columns)


def _offset(pairs: pd.DataFrame, number: int, boot: int) -> int | None:
    """Return the offset of the boot clock from a clock, from the first snapshot of both; None if there is none."""
    both = pairs[pairs["clock"] == number].merge(pairs[pairs["clock"] == boot], on="snapshot")
    return int(both["at_y"].iloc[0] - both["at_x"].iloc[0]) if len(both) else None


def _of_sequence(result: Integers, rows: Integers, pairs: pd.DataFrame, number: int, boot: int) -> bool:
    """Convert the times of a sequence's own clock to the boot clock, in place; return whether a snapshot relates them."""
    own = pairs[pairs["clock"] == number].merge(
        pairs[pairs["clock"] == boot][["snapshot", "at"]], on="snapshot", suffixes=("", "_boot")
    )
    if own.empty:
        return False
    place = np.searchsorted(own["row"].to_numpy(), rows, side="right") - 1
    place = np.maximum(place, 0)
    unit = own["unit"].to_numpy()[place]
    value = np.clip(result[rows], 0, _LAST // np.maximum(unit, 1)) * unit
    at, at_boot = own["at"].to_numpy()[place], own["at_boot"].to_numpy()[place]
    if bool(own["incremental"].iloc[0]):
        result[rows] = at_boot + pd.Series(value).groupby(place).cumsum().to_numpy()
    else:
        result[rows] = at_boot + value - at * unit
    return True
