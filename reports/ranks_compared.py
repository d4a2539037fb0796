"""Render the comparison of two jobs of several ranks: the difference of a step, its parts, and whom ranks wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.ranks.parts import HOSTS, WAITING
from kernelscope.reports import answered, units
from kernelscope.reports.ranks import HEADS, NAMES, head
from kernelscope.reports.table import Table, of_rows
from kernelscope.reports.trimmed import Trimmed

Result = Mapping[str, Any]
_LEAST = 0.02  # of the longer step: smaller differences are not mentioned
_NAMED = 3  # parts in the answer
_NO_RANK = "undecided"


def answer(result: Result) -> str:
    """Return how much longer a step of B takes, in which parts, and which rank the others wait more for."""
    a, b = result["a"], result["b"]
    sides = f"{units.duration(a['step_ns'])} on {a['ranks']} ranks → {units.duration(b['step_ns'])} on {b['ranks']}"
    least = _LEAST * max(a["step_ns"], b["step_ns"], 1)
    if abs(result["delta_ns"]) < least:
        head = f"A step takes the mean rank equally long in both jobs: {sides}."
    else:
        more = "more" if result["delta_ns"] > 0 else "less"
        head = f"A step takes the mean rank {units.duration(abs(result['delta_ns']))} {more} in B: {sides}."
    parts = [row for row in result["parts"] if abs(row["delta_ns"]) >= least][:_NAMED]
    if parts:
        said = ", ".join(f"{NAMES.get(row['part'], row['part'])} {units.signed(row['delta_ns'])}" for row in parts)
        head += f" {said[:1].upper()}{said[1:]}."
    return f"{head} {_waiting(result, least)}".rstrip()


def _waiting(result: Result, least: float) -> str:
    """Return which rank the others wait more for in one of the jobs; "" if that is little or unknown."""
    named = [row for row in result["blame"] if row["rank"] is not None]
    change = next((row["delta_ns"] for row in result["parts"] if row["part"] == WAITING), 0)
    if not named or abs(change) < least or any(result[side]["partial"] for side in ("a", "b")):
        return ""
    more = "B" if change > 0 else "A"
    sums: dict[int, int] = {}
    for row in named:
        sums[row["rank"]] = sums.get(row["rank"], 0) + row["delta_ns"] * (1 if change > 0 else -1)
    rank = max(sums, key=lambda one: sums[one])
    largest = max((row for row in named if row["rank"] == rank), key=lambda row: abs(row["delta_ns"]))
    where, name = largest["where"], largest["name"]
    if largest["cause"] == HOSTS:
        what = f"its host, {' '.join(filter(None, (where, name and f'({name})')))}" if where or name else "its host"
    else:
        what = f"kernels, {' in '.join(filter(None, (name, where)))}" if where or name else "kernels"
    return f"In {more} ranks wait {units.duration(sums[rank])} more for rank {rank}, added up over ranks: {what}."


def tables(result: Result) -> list[Table]:
    """Return the parts of the mean rank's step, and whom ranks wait for, times in ms."""
    parts = [{"part": HEADS.get(row["part"], row["part"]), **_times(row)} for row in result["parts"]]
    whole = {"a_ns": result["a"]["step_ns"], "b_ns": result["b"]["step_ns"], "delta_ns": result["delta_ns"]}
    parts.append({"part": "step", **_times(whole)})
    blame = [
        {**_times(row), "rank": _NO_RANK if row["rank"] is None else row["rank"], "by": row["cause"], "what": row["name"],
         "where": row["where"], "before": row["operation"]}
        for row in result["blame"]
    ]  # fmt: skip
    made = [of_rows("parts", parts, title="A step of the mean rank, in ms")]
    return [*made, *([of_rows("blame", blame, title="Whom ranks wait for: ms per step, added up over ranks")] if blame else [])]


def _times(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "B - A": f"{row['delta_ns'] / 1e6:+,.3f}", "A": f"{row['a_ns'] / 1e6:,.3f}", "B": f"{row['b_ns'] / 1e6:,.3f}",
    }  # fmt: skip


def shown(result: Result) -> Trimmed:
    """Return it for a terminal."""
    return answered.shown(answer(result), map(head, tables(result)), result["notes"])


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    return answered.markdown(answer(result), tables(result), result["notes"])
