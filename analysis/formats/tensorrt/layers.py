"""A Trace of the layers of one engine: the mean iteration, of which each layer is one kernel.

TensorRT times layers between events on the GPU's stream and adds the times of all iterations up. trtexec repeats for seconds, so
the sums of two runs are about the same whatever the engine. What a layer takes in an iteration, its sum divided by their number,
is what counts here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.formats import printed, unlisted
from kernelscope.analysis.formats.tensorrt import kinds
from kernelscope.analysis.trace import Trace, conform, intervals

Floats = npt.NDArray[np.float64]
COLUMNS = ("name", "total", "average", "median", "share")
DEVICE = "cuda:0"
_MOST = 2.0**53  # ns
_UNEVEN, _STEPS = 3.0, 10  # times the median, and steps of its last digit: a mean above both is uneven
_NOT_TIMED = "rows without usable time"


@dataclass
class Profile:
    """Layers as a file has them.

    cells: COLUMNS as text, times in ms, null where they are not given. iterations: how many the totals are of; None if that is
    unknown or there are no totals. whole: the total below the table, ms; None without one. calls: executions of each layer where
    they differ, so that there is no iteration. excerpts: the tables that it was put together from. place: of the table, for
    messages. left_out: what was, for diagnostics.
    """

    cells: pd.DataFrame
    iterations: int | None = None
    whole: str | None = None
    calls: pd.Series | None = None
    excerpts: int = 1
    place: str = ""
    left_out: dict[str, int] = field(default_factory=dict)


def trace_of(path: Path, form: str, profile: Profile, facts: dict[str, Any]) -> Trace:
    """Return the Trace of a profile; raise EvidenceError if no layer has a usable time.

    form: the format's name. facts: what else the file states: the "tool", its version as "tensorrt", "notes", and entries of
    Trace.info.
    """
    result = Trace(
        info={
            "source": {"format": form, "tool": facts.get("tool", "trtexec"), "version": facts.get("tensorrt"), "schema": None},
            "clock": "none",
            "framework": "tensorrt",
            "devices": facts.get("devices", []),
            "unavailable": {"times": "sums of layers only; nsys profile trtexec ... records the timeline and the kernels"},
            "notes": [],
        }
    )
    if "settings" in facts:
        result.info["settings"] = facts["settings"]
    remarks = printed.Remarks(result)
    for what, lines in profile.left_out.items():
        remarks.count(what, lines)
    rows = _usable(path, profile, remarks)
    taken, number = _per_iteration(profile, rows, result.info)
    whole = round(float(taken.sum()))
    times = intervals.apportion(taken, whole)
    count = pd.Series(1, index=rows.index) if profile.calls is None else profile.calls.loc[rows.index]
    table = rows[["name", "median_ns"]].assign(duration_ns=times, count=count, layer=rows["name"], kind=kinds.of(rows["name"]))
    rest = _rest(profile, rows, taken, number, remarks)
    result.kernels = conform(
        "kernels", pd.concat([table.assign(attribution="operator name"), rest], ignore_index=True).assign(device=DEVICE)
    )
    if found := kinds.dla(rows["name"]):
        result.info["dla"] = found
        remarks.note("the DLA's work counts as the time in which the GPU's stream waited for it, also in the layers after it")
    if uneven := _uneven(rows, table["duration_ns"]):
        remarks.note(uneven)
    if hidden := kinds.compiled(rows["name"], taken):
        remarks.note(hidden)
    if profile.excerpts > 1:
        remarks.note(f"{profile.excerpts} excerpts without a total, with the same number of iterations, count as one profile")
    for note in facts.get("notes", []):
        remarks.note(note)
    return result


def _usable(path: Path, profile: Profile, remarks: printed.Remarks) -> pd.DataFrame:
    """Return the rows with a name and a time, and their times in ns; raise EvidenceError if there are none."""
    rows = profile.cells.reindex(columns=list(COLUMNS)).astype("string")
    for column in ("total", "average", "median"):
        rows[f"{column}_ns"] = text_tables.nanoseconds(rows[column], "ms")
    times = rows[["total_ns", "average_ns"]]
    usable = rows["name"].notna() & rows["name"].ne("") & times.notna().any(axis=1) & (times.max(axis=1) < _MOST)
    good = usable.fillna(False).to_numpy(bool)
    if not good.any():
        rows_said = "the first: " + ", ".join(rows.iloc[0][list(COLUMNS)].dropna())[:160] if len(rows) else "there are none"
        raise EvidenceError(f"{path}{profile.place}: no layer has a usable time ({rows_said}); profile again")
    remarks.count(_NOT_TIMED, int((~good).sum()))
    return rows[good]


def _per_iteration(profile: Profile, rows: pd.DataFrame, info: dict[str, Any]) -> tuple[Floats, float]:
    """Return what each layer takes in an iteration, in ns, and how many iterations the totals are of (1 if unknown).

    info: gets an entry that says which iterations times are means of, if they are.
    """
    total, average = (rows[name].to_numpy(dtype=float, na_value=np.nan) for name in ("total_ns", "average_ns"))
    if profile.calls is not None:
        info["notes"].append("the layers ran different numbers of times: times are sums, not those of an iteration")
        return total, 1.0
    if np.isnan(total).any():
        info["iteration"] = "the mean of an unknown number"
        return np.where(np.isnan(average), total, average), 1.0
    number = float(profile.iterations or 0)
    about = ""
    if not number:
        number = _derived(rows, total, average)
        about = "" if number.is_integer() else "about "
    if not number:
        info["notes"].append("of how many iterations is unknown: times are sums, and a layer counts as one execution")
        return total, 1.0
    info["iteration"] = "the only one measured" if number == 1 else f"the mean of {about}{number:,.0f}"
    return total / number, number


def _uneven(rows: pd.DataFrame, means: pd.Series) -> str | None:
    """Return a sentence on layers of which few executions take far longer than the others; None if there are none."""
    medians, taken = (column.to_numpy(float, na_value=np.nan) for column in (rows["median_ns"], means))
    step = text_tables.resolution(rows["median"], "ms")
    apart = np.where((taken > _UNEVEN * medians) & (taken - medians > _STEPS * step), taken - medians, 0.0)
    if not apart.any():
        return None
    place, others = int(apart.argmax()), int((apart > 0).sum()) - 1
    more = f", as {'is' if others == 1 else 'are'} {others} other layer{'' if others == 1 else 's'}" if others else ""
    times = f"{taken[place] / 1e6:,.4f} ms on average, {medians[place] / 1e6:,.4f} ms in the median"
    return f"{rows['name'].iloc[place]} is uneven ({times}){more}: few iterations take far longer, such as the first ones"


def of_one_run(cells: pd.DataFrame) -> bool:
    """Return whether totals, averages and shares of all rows allow one number of iterations and one sum of all layers."""
    rows = cells.reindex(columns=list(COLUMNS)).astype("string")
    total, *others = (pd.to_numeric(rows[name], errors="coerce").to_numpy(float, na_value=0) for name in COLUMNS[1:])
    coarse, *fine = (text_tables.resolution(rows[name], "ms") / 2e6 for name in COLUMNS[1:])
    found = [_ratio(total, coarse, other, off) for other, off in ((others[0], fine[0]), (others[-1], fine[-1]))]
    return all(0 < least <= most < np.inf for least, most in found)


def _ratio(total: Floats, coarse: float, part: Floats, fine: float) -> tuple[float, float]:
    """Return the least and the largest ratio of totals and parts that all rows allow. coarse, fine: how far they may be off."""
    large = part > fine
    least = float(((total - coarse) / (part + fine)).max(initial=0))
    return least, float(((total + coarse)[large] / (part - fine)[large]).min(initial=np.inf))


def _derived(rows: pd.DataFrame, total: Floats, average: Floats) -> float:
    """Return the number of iterations by which totals and averages differ: whole if they leave only one; 0 if unknown."""
    timed = (average > 0) & (total > 0)
    if not timed.any():
        return 0.0
    coarse, fine = (text_tables.resolution(rows[name], "ms") / 2 for name in ("total", "average"))
    total, average = total[timed], average[timed]
    least, most = _ratio(total, coarse, average, fine)
    if 1 <= ceil(least) <= most < ceil(least) + 1:
        return float(ceil(least))
    largest = int(total.argmax())
    return max(float(total[largest] / average[largest]), 1.0)


def _rest(profile: Profile, rows: pd.DataFrame, taken: Floats, number: float, remarks: printed.Remarks) -> pd.DataFrame:
    """Return a row for what the table lacks of the total: by the line below it, else by percentages; empty if nothing."""
    whole = None if profile.whole is None else text_tables.nanoseconds(pd.Series([profile.whole]), "ms").iloc[0]
    step = text_tables.resolution(rows["total" if rows["total"].notna().all() else "average"], "ms") / number
    if whole is None or pd.isna(whole):
        if rows["share"].isna().any():
            return pd.DataFrame()
        durations = pd.Series(np.rint(taken).astype(np.int64), dtype="Int64")
        found = unlisted.of(durations, rows["share"], max(ceil(step), 1))
        if found.note:
            remarks.note(found.note)
        return found.kernels
    beyond = float(whole) / number - float(taken.sum())
    if abs(beyond) <= step * (len(rows) + 1) / 2 + 1:
        return pd.DataFrame()
    if beyond < 0:
        remarks.count("time of layers beyond the sum below the table, ns", round(-beyond))
        return pd.DataFrame()
    share = beyond * number / float(whole)
    remarks.note(f"rows that were not printed took {beyond / 1e6:,.4f} ms ({share:.1%}) of the total below the table")
    return unlisted.row(round(beyond))
