"""Phrases for findings on device work: times, counts, names of kernels, and sides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.amounts import duration as duration
from kernelscope.analysis.accounting.amounts import size as size
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.kernels.short_names import short

SEVERAL = " (several kernels)"  # ends the name of kernels that a cut name does not tell apart (see cut_names)
_TOLD_APART = re.compile(r"\.\.\.( \((?:several kernels|[\d,]+ executions?(?:, no\. \d+)?)\))$")
_SHARED = 0.5  # share of a difference that must be in kernels of both sides for it to be split
_PART = 0.02  # of the larger part of a difference: a smaller part is not mentioned


def kernel(name: object) -> str:
    """Return a kernel's short name; in backticks if it holds a colon, which ends the first part of a title.

    What stands in parentheses is no name, but says what a row is.

    What tells kernels of one cut name apart is kept.
    """
    told = _TOLD_APART.search(str(name))
    text = short(str(name)[: told.start(1)]) + told[1] if told else short(name)
    return f"`{text}`" if ": " in text and not text.startswith("(") else text


def change(case: DeviceCase, a_ns: float, b_ns: float) -> str:
    """Return both sides' times: 44.3 ms in A, 12.5 ms in B; none in B."""
    times = [duration(ns) if ns else "none" for ns in (a_ns, b_ns)]
    return f"{times[0]} in {case.a.name}, {times[1]} in {case.b.name}"


def of_rows(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return both sides' times in these rows."""
    return change(case, float(rows["a_ns"].sum()), float(rows["b_ns"].sum()))


def count(value: float) -> str:
    """Return a count per step."""
    return f"{value:,.0f}" if value >= 10 or abs(value - round(value)) < 0.05 else f"{value:.1f}"


def executions(rows: pd.DataFrame, side: str, most: int = 3) -> str:
    """List the kernels that a side executes per step, longest first: 24 x fmha_cutlassF (3.1 ms)."""
    mine = rows[rows[f"{side}_count"] >= 0.5]
    if mine.empty:
        return "none"
    named = mine.assign(short=[kernel(name) for name in mine["name"]])
    sums = named.groupby("short")[[f"{side}_count", f"{side}_ns"]].sum().sort_values(f"{side}_ns", ascending=False, kind="stable")
    parts = [
        f"{count(one[f'{side}_count'])} x {name} ({duration(one[f'{side}_ns'])})" for name, one in sums.head(most).iterrows()
    ]
    rest = sums.iloc[most:]
    number = count(rest[f"{side}_count"].sum())
    more = f" and {number} other{'' if number == '1' else 's'} ({duration(rest[f'{side}_ns'].sum())})" if len(rest) else ""
    return ", ".join(parts) + more


def both(case: DeviceCase, rows: pd.DataFrame, most: int = 3) -> list[str]:
    """Return a sentence per side that lists its kernels in these rows."""
    named = {key: executions(rows, key, most) for key in SIDES}
    nothing = {key: "none among the rows that it prints" if case.is_cut(key) else "none" for key in SIDES}
    return [f"{case.side(key).name}: {nothing[key] if text == 'none' else text}." for key, text in named.items()]


def changes(case: DeviceCase, rows: pd.DataFrame, most: int = 3) -> list[str]:
    """Return a sentence on the kernels that both sides execute, largest difference first: times, and counts if they differ."""
    sums = of_both(rows)
    sums = sums.loc[sums["delta_ns"].abs().sort_values(ascending=False, kind="stable").index[:most]]
    texts = [f"{name} {_times(case, one)}" for name, one in sums.iterrows()]
    return [f"The largest differences: {'; '.join(texts)}."] if texts else []


def _times(case: DeviceCase, one: pd.Series[float]) -> str:
    """Return a kernel's times and counts on both sides: 1.24 s in A, 2.98 s in B (1 execution each)."""
    number = f" ({_executions(one['a_count'], one['b_count'])})" if case.counts else ""
    return f"{change(case, one['a_ns'], one['b_ns'])}{number}"


def executions_of(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return both sides' numbers of executions in these rows: 6,000 executions each, 530 and 2,060 executions a step."""
    if not case.counts:
        return "numbers of executions unknown"
    number = _executions(float(rows["a_count"].sum()), float(rows["b_count"].sum()))
    return f"{number} {case.per}" if case.per == "a step" else number


def _executions(a: float, b: float) -> str:
    one, other = count(a), count(b)
    return f"{one} execution{'' if one == '1' else 's'} each" if one == other else f"{one} and {other} executions"


def by_name(rows: pd.DataFrame) -> pd.DataFrame:
    """Return counts and times by short name: a kernel's template arguments may change with its program."""
    return rows.groupby(rows["name"].map(kernel))[["a_count", "b_count", "a_ns", "b_ns", "delta_ns"]].sum()


def longest(rows: pd.DataFrame, key: str) -> str:
    """Return the kernel that takes a side longest in these rows."""
    return str(by_name(rows)[f"{key}_ns"].idxmax())


def one_each(rows: pd.DataFrame, slow: str, fast: str) -> tuple[str, str] | None:
    """Return the kernels of both sides if each has one, and another one than the other side; None if not."""
    names = [set(rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), "name"].dropna().map(kernel)) for key in (slow, fast)]
    if [len(one) for one in names] != [1, 1] or names[0] == names[1] or not (rows[f"{fast}_ns"].sum() > 0):
        return None
    return names[0].pop(), names[1].pop()


def are_several(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows are several kernels that a cut name does not tell apart: an execution of these has no mean time."""
    return np.asarray(rows["name"].astype("string").str.endswith(f"...{SEVERAL}").fillna(False), dtype=bool)


def of_both(rows: pd.DataFrame) -> pd.DataFrame:
    """Return counts and times by short name of the kernels that both sides execute.

    Without those that a cut name does not tell apart: which of them a side executes is unknown.
    """
    sums = by_name(rows)
    sums = sums[~sums.index.str.contains(SEVERAL, regex=False).astype(bool)]
    return sums[((sums["a_count"] > 0) & (sums["b_count"] > 0)).to_numpy(bool)]


def more_often(rows: pd.DataFrame) -> pd.Series[float]:
    """Return the part of each row's difference due to more executions, at the mean time of one on the side with fewer, ns.

    NaN for rows that only one side executes.
    """
    mean = {key: rows[f"{key}_ns"] / rows[f"{key}_count"].where(rows[f"{key}_count"] > 0) for key in SIDES}
    more = rows["b_count"] - rows["a_count"]
    return more * mean["a"].where(more > 0, mean["b"])


def longer_each(rows: pd.DataFrame) -> pd.Series[float]:
    """Return the rest of each row's difference, due to longer executions, ns. NaN for rows that only one side executes."""
    return rows["delta_ns"] - more_often(rows)


def by_number(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence that splits a difference into more and longer executions, if both contribute."""
    sums = of_both(rows)
    more, longer = float(more_often(sums).sum()), float(longer_each(sums).sum())
    some = abs(more + longer) >= _SHARED * abs(float(rows["delta_ns"].sum()))
    if not some or min(abs(more), abs(longer)) <= _PART * max(abs(more), abs(longer)):
        return []
    if more * longer < 0 and min(abs(more), abs(longer)) > abs(more + longer):
        return []  # the same in fewer, longer executions
    which, each = ("it", "an execution takes") if len(sums) == 1 else ("them", "executions take")
    often, lasts = "more" if more > 0 else "less", "longer" if longer > 0 else "shorter"
    return [f"{case.b.name} runs {which} {often} often ({signed(more)}), and {each} {lasts} there ({signed(longer)})."]


def signed(ns: float) -> str:
    """Return a difference of times with its sign: +1.74 s."""
    return f"{'-' if ns < 0 else '+'}{duration(abs(ns))}"


def slower(case: DeviceCase, rows: pd.DataFrame) -> tuple[str, str, str, str]:
    """Return (key and name of the side on which the rows take longer, key and name of the other)."""
    slow, fast = ("b", "a") if float(rows["delta_ns"].sum()) > 0 else ("a", "b")
    return slow, case.side(slow).name, fast, case.side(fast).name


def percent(ratio: float) -> str:
    """Return a ratio of times as a change: -41%."""
    return f"{(ratio - 1) * 100:+.0f}%"


def listed(texts: Iterable[str], most: int = 3) -> str:
    """Join the first few distinct texts: a, b, c and 4 more."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) <= most + 1:
        return " and ".join([*([", ".join(distinct[:-1])] if len(distinct) > 1 else []), *distinct[-1:]])
    return f"{', '.join(distinct[:most])} and {len(distinct) - most} more"


def remedy(case: DeviceCase, texts: Mapping[str, str], key: str) -> str:
    """Return the remedy for a side's framework; the one for "" if it has none of its own."""
    return texts.get(str(case.side(key).facts.get("framework")), texts[""])
