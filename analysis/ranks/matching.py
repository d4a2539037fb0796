"""Match the collectives of several ranks: the n-th of the same operation, after recordings with other beginnings are aligned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

Int = npt.NDArray[np.int64]
_ALL = ""  # the group of collectives without one: all ranks take part
_SHIFTS = 64  # collectives by which one recording may begin later than another


def matched(tables: Sequence[pd.DataFrame]) -> Int:
    """Return [collectives, ranks]: the place of each collective in each rank's table, without those that some rank lacks.

    tables: operation, start_ns and end_ns, in order of start. Recordings with other sequences of collectives are shifted against
    the first so that most operations agree, and among such shifts so that the distances of their ends vary least: ranks leave a
    collective together, whatever their clocks say.
    """
    if not tables or any(table.empty for table in tables):
        return np.empty((0, len(tables)), dtype=np.int64)
    own = [table["operation"].to_numpy(dtype=object) for table in tables]
    shifts = [0 if np.array_equal(own[0], one) else _shift(tables[0], table) for one, table in zip(own, tables, strict=True)]
    low = max(0, *(-shift for shift in shifts)) if len(shifts) > 1 else 0
    high = min(len(table) - shift for table, shift in zip(tables, shifts, strict=True))
    places = np.array([np.arange(low, max(high, low)) + shift for shift in shifts], dtype=np.int64).T
    operations = np.array([one[places[:, rank]] for rank, one in enumerate(own)], dtype=object)
    return places[(operations == operations[0]).all(axis=0)] if len(places) else places


def matched_in_groups(tables: Sequence[pd.DataFrame]) -> Int:
    """Return the same for collectives of groups of ranks, with -1 for ranks outside a collective's group.

    tables: with group, which ranks take part; if no table has one, all ranks do (see `matched`). Each group is matched by itself,
    among the ranks that have collectives of it.
    """
    groups = sorted({str(one) for table in tables if table["group"].notna().any() for one in table["group"].dropna().unique()})
    if not groups:
        return matched(tables)
    return np.concatenate([_matched_in(tables, group) for group in [*groups, _ALL]])


def _matched_in(tables: Sequence[pd.DataFrame], group: str) -> Int:
    """Return the matched collectives of one group, or of those without a group."""
    rows = [_handed_over(table, np.flatnonzero((table["group"].fillna(_ALL) == group).to_numpy(bool))) for table in tables]
    members = [rank for rank, mine in enumerate(rows) if len(mine)]
    among = matched([tables[rank].iloc[rows[rank]].reset_index(drop=True) for rank in members])
    places = np.full((len(among), len(tables)), -1, dtype=np.int64)
    for column, rank in enumerate(members):
        places[:, rank] = rows[rank][among[:, column]]
    return places if len(members) > 1 else places[:0]


def _handed_over(table: pd.DataFrame, rows: Int) -> Int:
    """Return rows in the order in which the program posted them: it may wait for them in another order."""
    if "posted_ns" not in table or table["posted_ns"].isna().all():
        return rows
    handed = table["posted_ns"].fillna(table["start_ns"]).to_numpy(np.int64)
    return rows[np.argsort(handed[rows], kind="stable")]


def _shift(base: pd.DataFrame, other: pd.DataFrame) -> int:
    """Return by how many collectives the other recording begins earlier: its row k + shift is row k of the base."""
    most = min(_SHIFTS, max(len(base), len(other)) - 1)
    return max(range(-most, most + 1), key=lambda shift: (*_agreement(base, other, shift), -abs(shift)))


def _agreement(base: pd.DataFrame, other: pd.DataFrame, shift: int) -> tuple[int, float]:
    """Return how many operations agree under a shift, and how alike the distances of their ends are (larger is better)."""
    low, high = max(0, -shift), min(len(base), len(other) - shift)
    if high <= low:
        return 0, -np.inf
    mine, theirs = base.iloc[low:high], other.iloc[low + shift : high + shift]
    same = mine["operation"].to_numpy() == theirs["operation"].to_numpy()
    if not same.any():
        return 0, -np.inf
    apart = theirs["end_ns"].to_numpy(np.int64)[same] - mine["end_ns"].to_numpy(np.int64)[same]
    return int(same.sum()), -float(np.median(np.abs(apart - np.median(apart))))
