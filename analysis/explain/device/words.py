"""Words for findings on device work: times, counts, kernels' names, and which side is which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from kernelscope.analysis.accounting.amounts import duration as duration
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.kernels.short_names import short

kernel = short  # a kernel's short name


def change(case: DeviceCase, a_ns: float, b_ns: float) -> str:
    """Return both sides' times: 44.3 ms in A, 12.5 ms in B."""
    return f"{duration(a_ns)} in {case.a.name}, {duration(b_ns)} in {case.b.name}"


def of_rows(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return both sides' times of rows."""
    return change(case, float(rows["a_ns"].sum()), float(rows["b_ns"].sum()))


def count(value: float) -> str:
    """Return a count per step."""
    return f"{value:,.0f}" if value >= 10 or abs(value - round(value)) < 0.05 else f"{value:.1f}"


def executions(rows: pd.DataFrame, side: str, most: int = 3) -> str:
    """Return what a side executes per step of these rows, what takes longest first: 24 x fmha_cutlassF (3.1 ms)."""
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
    """Return a sentence a side on what it executes of these rows."""
    return [f"{case.side(key).name}: {executions(rows, key, most)}." for key in SIDES]


def slower(case: DeviceCase, rows: pd.DataFrame) -> tuple[str, str, str, str]:
    """Return (key and name of the side on which the rows take longer, key and name of the other)."""
    slow, fast = ("b", "a") if float(rows["delta_ns"].sum()) > 0 else ("a", "b")
    return slow, case.side(slow).name, fast, case.side(fast).name


def percent(ratio: float) -> str:
    """Return a ratio of times as a change: -41%."""
    return f"{(ratio - 1) * 100:+.0f}%"


def listed(texts: Iterable[str], most: int = 3) -> str:
    """Return distinct texts in their order, the first few of them: a, b, c and 4 more."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) <= most + 1:
        return " and ".join([*([", ".join(distinct[:-1])] if len(distinct) > 1 else []), *distinct[-1:]])
    return f"{', '.join(distinct[:most])} and {len(distinct) - most} more"


def remedy(case: DeviceCase, texts: Mapping[str, str], key: str) -> str:
    """Return what to do on a side, in the words of its framework; those for "" where there are none."""
    return texts.get(str(case.side(key).facts.get("framework")), texts[""])
