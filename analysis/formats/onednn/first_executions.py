"""First executions that take far longer than later ones of the same primitive or call: they hold initialisation.

A library starts its threads, generates code and touches memory for the first time when something is first executed. Only clear
cases count; the summed rows of a log cannot show them any more.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

_LATER = 2  # executions after the first one, at least: one may be as unusual as the first
_TIMES = 3.0  # times as long as the longest later one
_PART = 0.05  # of all executions' time: less is no matter
_LONG_NS = 1_000_000  # a single execution that is shorter may well be that slow
_SMALL = 10e6  # operations or bytes of a single execution
_SLOW_CODE = r"(?:^|[ :_])ref\b"  # reference implementations are slow at any time
_SLOWEST = 0.25  # operations, or bytes, per ns: one core of any processor is faster, without its vector instructions
_SHAPE = re.compile(r"\d{1,18}(?:x\d{1,18}){0,11}$")  # of a reorder
_BYTES = 8  # that a reorder reads and writes for each element of 4 bytes
_LISTED = 20


class Executed(NamedTuple):
    """Executions in the stream's order: number of the description, duration, operations or bytes (NaN: unknown)."""

    code: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]
    size: npt.NDArray[np.float64]
    names: pd.Series
    problems: pd.Series


def of_onednn(lines: pd.DataFrame, keys: list[str]) -> Executed:
    """Return the executions of oneDNN's lines; keys: the columns that make a description."""
    code = lines.groupby(keys, dropna=False, sort=False).ngroup().to_numpy().astype(np.int64)
    moved = _elements(lines["problem"].where(lines["primitive"] == "reorder")) * _BYTES
    size = lines["flops"].to_numpy(float, na_value=np.nan)
    return Executed(
        code, lines["duration_ns"].to_numpy(np.int64), np.where(np.isnan(size), moved, size), lines["name"], lines["problem"]
    )


def of_mkl(calls: pd.DataFrame) -> Executed:
    """Return MKL's calls. Two with the same problem and flags are the same, wherever their data lies."""
    code = calls.groupby(["function", "problem", "transpose"], dropna=False, sort=False).ngroup().to_numpy().astype(np.int64)
    size = calls["flops"].to_numpy(float, na_value=np.nan)
    return Executed(code, calls["duration_ns"].to_numpy(np.int64), size, calls["function"], calls["problem"])


def found(executed: Executed) -> list[dict[str, Any]]:
    """Return name, problem, ns (of the first), later (executions) and later_ns of each slow first execution, longest first.

    later is 0 where a library's very first execution, and the only one of its kind, takes impossibly long for its size.
    """
    if not len(executed.code):
        return []
    table = pd.DataFrame({"code": executed.code, "ns": executed.duration_ns})
    again = table["code"].duplicated()
    first = table[~again].set_index("code")["ns"]
    rest = table[again].groupby("code")["ns"].agg(["size", "sum", "max"]).reindex(first.index).fillna(0)
    excess = first - rest["sum"] / rest["size"].clip(lower=1)
    matters = excess >= _PART * table["ns"].sum()
    slow = (rest["size"] >= _LATER) & (first >= _TIMES * rest["max"])
    alone = rest["size"].iloc[0] == 0 and _is_impossible(executed)
    chosen = (slow | ((first.index == first.index[0]) & alone)) & matters
    place = np.flatnonzero(~again.to_numpy())[chosen.to_numpy()]
    names, problems = executed.names.iloc[place], executed.problems.iloc[place]
    rows = pd.DataFrame({"name": names.to_numpy(object), "problem": problems.fillna("").to_numpy(object)})
    rows["ns"], rows["later"] = first[chosen].to_numpy(np.int64), rest["size"][chosen].to_numpy(np.int64)
    rows["later_ns"] = rest["sum"][chosen].to_numpy(np.int64)
    longest = rows.sort_values("ns", ascending=False, kind="stable")[:_LISTED]
    return [{str(name): value for name, value in row.items()} for row in longest.to_dict("records")]


def _is_impossible(executed: Executed) -> bool:
    """Return whether the very first execution takes longer than any processor needs for its size; False if that is unknown."""
    ns, size = int(executed.duration_ns[0]), float(executed.size[0])
    return size <= _SMALL and ns >= max(_LONG_NS, size / _SLOWEST) and not re.search(_SLOW_CODE, str(executed.names.iloc[0]))


def _elements(shapes: pd.Series) -> npt.NDArray[np.float64]:
    """Return how many elements shapes such as 64x3x7x7 have; NaN where there is none."""
    distinct = (str(one) for one in shapes.dropna().unique())
    sizes = {one: math.prod(float(side) for side in one.split("x")) for one in distinct if _SHAPE.match(one)}
    return np.asarray(shapes.map(sizes).to_numpy(float, na_value=np.nan), dtype=np.float64)
