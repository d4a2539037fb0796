"""Times that cannot be true: zero or below, or so far from all others that a clock must have jumped.

A gap of 45 minutes between neighbouring starts, without host activity, divides a capture into parts. The part with the most
rows is the capture's own time, if it has more than half of all rows. Rows in another part are set aside if

- the host did nothing in that part, but did in the capture's own time: no one launched that work then;
- or most of it was launched, by its correlation ids, among the work in the capture's own time;
- or it is of the host alone or of devices alone, all rows apart are at most 4% of the total, and it is a thousand times as far
  away as the capture's own time is long.

Other separate parts may be true, such as windows of one long run. They stay, with a warning that names the parts. If no part
has more than half of the rows, everything stays. The share of rows alone proves little: a seventh of all kernels may have
jumped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import Trace

_HOST, _DEVICE = ("steps", "ranges", "operators", "syncs", "calls"), ("kernels", "graphs", "copies")
_TABLES = (*_HOST, *_DEVICE)
_AS_TOTALS = ("kernels", "copies")  # their durations count without a start
_HOUR_NS = 3_600_000_000_000
# No device work lasts that long, nor does the host wait that long: NCCL's watchdog ends hanging work after 10 or 30 minutes
_LONG_NS = _HOUR_NS * 3 // 4
_SOON_NS = 1_000_000_000  # after a clock's zero, a recording may begin
_ENOUGH = 20  # least number of kernels with known launches
_EARLIER_NS, _LATE_NS = (
    1_000_000,
    1_000_000_000,
)  # the most that kernels begin before their launch; some begin sooner than this after it
_EARLY = 0.01  # share of the kernels: those that wait least
_FAR = 1000  # times the length of the capture's own time: clearly apart
_FEW = 0.04  # share of all rows
_NONE = np.iinfo(np.int64).min
_REASONS = (
    "with a time of zero", "without a usable time (below zero)", "far outside of the capture's time (a clock jumped)",
)  # fmt: skip

_Flags = npt.NDArray[np.bool_]


class _OwnTime(NamedTuple):
    """The part with the most rows. low, last: its first and last start. high: its last start or, if later, its last host end.

    far: work further away than this, in ns, may not belong. hosted: whether the host did anything in the part. most: whether
    the part has more than half of all rows.
    """

    part: int
    low: float
    last: float
    high: float
    far: float
    hosted: bool
    most: bool


def compare_with_host(trace: Trace) -> None:
    """Warn if kernels are so far from their launches that the two clocks must disagree."""
    kernels = trace.kernels
    known = (kernels["start_ns"].notna() & kernels["launch_ns"].notna()).to_numpy(bool)
    if known.sum() < _ENOUGH:
        return
    delay = (kernels["start_ns"][known] - kernels["launch_ns"][known]).to_numpy(np.int64)
    middle, early = float(np.median(delay)), float(np.quantile(delay, _EARLY))
    if middle >= -_EARLIER_NS and early <= _LATE_NS:
        return
    off = f"{-middle / 1e9:,.6g} s before" if middle < 0 else f"{early / 1e9:,.6g} s or more after"
    trace.info.setdefault("warnings", []).append(
        f"kernels begin {off} their launches: the device's clock does not agree with the host's, so idle times, steps and the "
        "host's activity meanwhile are unknown; record it again"
    )


def set_aside_impossible(trace: Trace) -> None:
    """Take rows with impossible times off the timeline, in place, and count them; warn of distant ones that may be true.

    Kernels and copies stay as totals without a start, as their durations may be true, unless these are impossible as well.
    Other rows are dropped, as they are useless without their times.
    """
    if _plausible(trace):
        return
    rows = _timed(trace)
    positive = (rows["start"] > 0).to_numpy()
    if not positive.any():
        return
    rows["part"] = -1
    rows.loc[positive, "part"] = _parts(rows[positive])
    own = _own_time(rows)
    jumped, long = _jumped(rows, own), _lasting_too_long(rows, own)
    zero, below = _without_time(rows, own)
    rows["reason"] = np.select([zero, below, jumped[rows["part"]] | long], [0, 1, 2], -1).astype(np.int8)  # of _REASONS
    rows["gone"] = long | rows["end"].between(own.low, own.high)  # from an impossible start to a true end
    wrong = (rows["reason"] >= 0).to_numpy()
    for number, name in enumerate(_TABLES):
        _set_aside(trace, name, rows[wrong & (rows["table"] == number).to_numpy()])
    if remarks := _remarks(rows[~wrong], own):
        trace.info.setdefault("warnings", []).extend(remarks)


def _plausible(trace: Trace) -> bool:
    """Return whether all times are above zero and so close together that no clock can have jumped."""
    edges = [getattr(trace, name)[edge] for name in _TABLES for edge in ("start_ns", "end_ns")]
    known = [values for values in edges if values.notna().any()]
    first = min((int(values.min()) for values in known), default=1)
    return first > 0 and max((int(values.max()) for values in known), default=1) - first <= _LONG_NS


def _timed(trace: Trace) -> pd.DataFrame:
    """Return all rows with times: table, row in it, start, end, process and correlation (_NONE: unknown)."""
    parts = []
    for number, name in enumerate(_TABLES):
        table = getattr(trace, name)
        columns = {"start": table["start_ns"], "end": table["end_ns"]}
        if name in _DEVICE:
            columns |= {key: table[key] for key in ("process", "correlation")}
        numbers = {key: values.to_numpy(np.int64, na_value=_NONE) for key, values in columns.items()}
        whole = pd.DataFrame({"process": _NONE, "correlation": _NONE, **numbers}, index=pd.RangeIndex(len(table)))
        part = whole[(whole["start"] != _NONE) & (whole["end"] != _NONE)]
        parts.append(part.assign(table=np.int8(number), row=part.index, host=name in _HOST))
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def _parts(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the part that each row is in, numbered by time."""
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    order = np.argsort(start, kind="stable")
    busy = np.maximum.accumulate(np.where(rows["host"], np.maximum(start, end), start)[order])
    # a difference of int64 can overflow
    cuts = start[order][1:].astype(np.float64) - busy[:-1].astype(np.float64) > _LONG_NS
    part = np.zeros(len(rows), np.int64)
    part[order[1:]] = np.cumsum(cuts)
    return part


def _own_time(rows: pd.DataFrame) -> _OwnTime:
    part_of = rows["part"].to_numpy()
    counts = np.bincount(part_of[part_of >= 0])
    part = int(counts.argmax())
    own = rows[rows["part"] == part]
    low, last = float(own["start"].min()), float(own["start"].max())
    far = max(float(_LONG_NS), _FAR * (last - low))
    ends = own.loc[own["host"] & (own["end"] <= last + far), "end"]
    high = max(last, float(ends.max())) if len(ends) else last
    return _OwnTime(part, low, last, high, far, bool(own["host"].any()), bool(2 * counts[part] > counts.sum()))


def _without_time(rows: pd.DataFrame, own: _OwnTime) -> tuple[_Flags, _Flags]:
    """Return which rows have a start of zero that is not a time, and which have one below zero that is not a time.

    Zero is a time if it is where a recording begins and other times follow soon. CUPTI writes it for an unknown time.
    """
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    # the clock began long before the recording, so nothing can be at its zero
    long_since = own.low > max(own.last - own.low, _SOON_NS)
    few = np.mean(start <= 0) <= _FEW
    nothing = (start == 0) & (end == 0) & ~rows["host"].to_numpy()
    wrong = (start <= 0) & (long_since | (few & (end <= 0)) | nothing)
    return wrong & (start == 0), wrong & (start < 0)


def _jumped(rows: pd.DataFrame, own: _OwnTime) -> _Flags:
    """Return which parts are where they are because a clock jumped; the last entry, False, is for rows in no part."""
    within = rows[rows["part"] >= 0]
    part = within["part"].to_numpy()
    count = int(part.max()) + 1
    if count == 1 or not own.most:
        return np.zeros(count + 1, np.bool_)
    by_part = within.groupby("part")
    off = np.maximum(by_part["start"].min() - own.high, own.low - by_part["start"].max())
    few = (np.mean(part != own.part) <= _FEW) & (by_part["host"].nunique() == 1)
    jumped = (own.hosted & ~by_part["host"].any()) | _launched_amid(within, own) | (few & (off > own.far))
    return np.append(jumped.to_numpy(np.bool_) & (np.arange(count) != own.part), False)


def _launched_amid(rows: pd.DataFrame, own: _OwnTime) -> pd.Series:
    """Return for which parts at least half was launched among the rows of the capture's own time, by correlation ids.

    Correlation ids that also occur there belong to another process and prove nothing, nor do the first and the last hundredth.
    """
    launched = rows[rows["correlation"] != _NONE]
    its_own = (launched["part"] == own.part).to_numpy()
    mine, others = launched[its_own], launched[~its_own]
    bounds = mine.groupby("process")["correlation"].quantile(np.array([0.01, 0.99])).unstack().reindex(others["process"])
    known = bounds.to_numpy() if len(mine) else np.full((len(others), 2), np.nan)
    number = others["correlation"].to_numpy()
    amid = (number > known[:, 0]) & (number < known[:, 1])
    keys = [pd.util.hash_pandas_object(table[["process", "correlation"]], index=False) for table in (mine, others)]
    share = pd.Series(amid & ~keys[1].isin(keys[0]).to_numpy()).groupby(others["part"].to_numpy()).mean()
    return share.reindex(range(int(rows["part"].max()) + 1), fill_value=0.0) >= 0.5


def _lasting_too_long(rows: pd.DataFrame, own: _OwnTime) -> pd.Series:
    """Return which rows have an end that cannot be true if their start is, or the other way around.

    On the device: work that lasts until 45 minutes after all host activity, or since as long before it; without known host
    activity, work that lasts a thousand times as long as all the rest. On the host: what ends that long after all else began.
    """
    start, end = rows["start"].astype("float64"), rows["end"].astype("float64")
    unseen = (end - start > _LONG_NS) & ((end > own.high + _LONG_NS) | (start < own.low - _LONG_NS))
    device = unseen if own.hosted else end - start > own.far
    return device.where(~rows["host"], (rows["part"] == own.part) & (end > own.last + own.far))


def _set_aside(trace: Trace, name: str, found: pd.DataFrame) -> None:
    """Take rows off a table's timeline, and count them."""
    if found.empty:
        return
    trace.diagnostics |= {
        f"{name} {_REASONS[one]}": int(count) for one, count in enumerate(np.bincount(found["reason"])) if count
    }
    table = getattr(trace, name)
    wrong, gone = np.zeros((2, len(table)), np.bool_)
    wrong[found["row"]] = True
    gone[found.loc[found["gone"] | (name not in _AS_TOTALS), "row"]] = True
    if name in _AS_TOTALS:
        table.loc[wrong, ["start_ns", "end_ns"]] = pd.NA
    if gone.any():
        setattr(trace, name, table[~gone].reset_index(drop=True))


def _remarks(rows: pd.DataFrame, own: _OwnTime) -> list[str]:
    """Return remarks on rows that are hours apart, or last for hours, and may be true."""
    remarks = []
    parts = rows[rows["part"] >= 0].groupby("part").agg({"start": "min", "end": "max"}).astype("float64").to_numpy()
    if len(parts) > 1:
        apart = (parts[1:, 0] - parts[:-1, 1]).max() / _HOUR_NS
        remarks.append(
            f"its times fall into {len(parts)} parts, up to {apart:,.1f} h apart: either it was recorded in parts, or a clock"
            " jumped; do not rely on steps and shares that span them"
        )
    start, end = rows["start"].astype("float64"), rows["end"].astype("float64")
    lasting = end - start > _LONG_NS
    beyond = lasting & ~rows["host"] & (end > own.last + _LONG_NS) & (not own.hosted)
    if beyond.any():
        remarks.append(f"{int(beyond.sum()):,} kernels or copies last longer than 45 minutes; a clock may have jumped")
    span = end[~lasting].max() - start[~lasting].min()
    alone = int((lasting & rows["host"]).sum())
    if alone and span < _LONG_NS and not (lasting & ~rows["host"]).any():  # else the host may have waited for the device
        lasts = f"{alone:,} of its ranges, operators and calls {'lasts' if alone == 1 else 'last'} longer than 45 minutes"
        remarks.append(f"{lasts}, while all else spans {span / 1e9:,.3g} s; a clock may have jumped")
    return remarks
