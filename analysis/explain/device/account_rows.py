"""The rows of an account as plain data. Kernels that replaced each other are one row, with the net difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting.device_account import COMMUNICATION, COMPUTE, COPY, GRAPH, IDLE, INTERRUPTED, OUTSIDE
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import UNLISTED

PARTS = 8
_UNKNOWN = "unknown"  # the kind of kernels whose names say nothing
_LARGE = 0.2  # of the difference of kernels of unknown kind
_WAITS = "waiting for the DLA"
_WHOLE = "all work"
ONE_SIDED = "(in rows that one side did not print)"  # they are too short for its list
_MANY = 3  # kernels named in one row


def label(row: Any) -> str:
    """Return a row's label: its kind of kernel, or in parentheses what else the device did or why it was idle."""
    if row.part == IDLE:
        return f"(idle: {row.cause})"
    if row.part == OUTSIDE:
        return f"({OUTSIDE})"
    if row.part == COPY:
        return f"(copy {row.kind})" if row.kind != "set" else "(memory set)"
    if row.part == COMMUNICATION:
        return "(exposed communication)"
    if row.part == INTERRUPTED:
        return "(another process has the device)"
    if row.name == UNLISTED:
        return UNLISTED
    return "(CUDA graph)" if row.part == GRAPH else str(row.kind) if isinstance(row.kind, str) else _UNKNOWN


def labels(case: DeviceCase) -> pd.Series:
    """Return each row's label; kernels of unknown kind that make much of their difference stand under their own names."""
    result = pd.Series(list(map(label, case.rows.itertuples())), index=case.rows.index, dtype="string")
    unknown = (result == _UNKNOWN).to_numpy(bool)
    slower = _of_slower(case)
    names = case.rows["name"].map(lambda name: words.kernel(slower.get(name, name)), na_action="ignore").astype("string")
    sums = case.rows["delta_ns"][unknown].groupby(names[unknown]).sum().abs()
    large = names.isin(sums.index[sums >= _LARGE * max(float(sums.sum()), 1.0)]).to_numpy(bool)
    waits = case.rows["name"].isin(case.waits).to_numpy(bool)
    below = case.below_cut() & ~case.rows["row"].isin(case.taken).to_numpy(bool)
    result = result.mask(below, ONE_SIDED)
    unknown &= ~below
    return result.mask(unknown, f"other {case.what}").mask(unknown & large, names).mask(waits, _WAITS)


def _of_slower(case: DeviceCase) -> dict[str, str]:
    """Return for each kernel that another one replaces, or joins with others, one name for all of them: they are one part.

    It is the name on the slower side, or that of the kernel which joins others.
    """
    result: dict[str, str] = {}
    for one in case.replaced:
        if len(one.a) == len(one.b) == 1:
            (a,), (b,) = one.a, one.b
            result |= dict.fromkeys((a, b), b if one.b_ns > one.a_ns else a)
        elif case.totals and 1 in (len(one.a), len(one.b)):  # several that one joins
            result |= dict.fromkeys(one.a | one.b, next(iter(one.a if len(one.a) == 1 else one.b)))
    return result


def parts(case: DeviceCase) -> list[dict[str, Any]]:
    """Return the rows added up by label, largest first; the small ones are one part."""
    if not case.comparable:
        return [{"part": _WHOLE, "delta_ns": int(case.rows["delta_ns"].sum())}]
    sums = case.rows["delta_ns"].groupby(labels(case)).sum()
    sums = sums.reindex(sums.abs().sort_values(ascending=False, kind="stable").index)
    result = [{"part": str(part), "delta_ns": int(ns)} for part, ns in sums.iloc[:PARTS].items()]
    rest = sums.iloc[PARTS:]
    return [*result, {"part": f"({len(rest)} more)", "delta_ns": int(rest.sum())}] if len(rest) else result


def rows(case: DeviceCase, findings: Sequence[DeviceFinding]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows, largest difference first, and for each of the case's rows the row it is merged into.

    Kernels that only one side has are merged with those that replaced them, if one finding has them all, or none has any.
    """
    if not case.comparable:
        whole = {**_plain("r1", list(case.rows.itertuples())), "layer": _WHOLE, "cell": _WHOLE}
        return [whole], dict.fromkeys(case.rows["row"].astype(str), "r1")
    owner = _owners(case, findings)
    grouped: dict[str, list[Any]] = {}
    for row in case.rows.itertuples():
        grouped.setdefault(owner[str(row.row)], []).append(row)
    plain = [_plain(name, members) for name, members in grouped.items()]
    return sorted(plain, key=lambda row: -abs(row["delta_ns"])), owner


def _owners(case: DeviceCase, findings: Sequence[DeviceFinding]) -> dict[str, str]:
    """Map each row to the one that stands for it: the first of the rows that replaced each other."""
    finding_of = {row: number for number, finding in enumerate(findings) for row in finding.rows}
    one_sided = case.rows[
        ((case.rows["part"] == COMPUTE) & ((case.rows["a_count"] <= 0) != (case.rows["b_count"] <= 0))).to_numpy(bool)
    ]
    row_of = {str(name): str(row) for name, row in zip(one_sided["name"], one_sided["row"], strict=True) if isinstance(name, str)}
    owner = {str(row): str(row) for row in case.rows["row"]}
    for one in case.replaced:
        mine = [row_of[name] for name in sorted(one.a | one.b) if name in row_of]
        both = all(any(name in row_of for name in names) for names in (one.a, one.b))
        if not both or len({finding_of.get(row) for row in mine}) > 1:
            continue
        first = min((owner[row] for row in mine), key=_number)
        merged = {owner[row] for row in mine}
        owner = {row: first if own in merged else own for row, own in owner.items()}
    return owner


def _number(row: str) -> int:
    return int(row[1:])


def _plain(name: str, members: list[Any]) -> dict[str, Any]:
    """Merge these rows into one plain row."""
    sums = {key: sum(int(getattr(row, key)) for row in members) for key in ("a_ns", "b_ns", "delta_ns")}
    counts = {f"{key}_count": round(sum(float(getattr(row, f"{key}_count")) for row in members), 3) for key in SIDES}
    there = [key for key in SIDES if sums[f"{key}_ns"] or counts[f"{key}_count"]]
    first = max(members, key=lambda row: abs(row.delta_ns))
    return {
        "row": name, "layer": _name(members), "layer_a": None, "layer_b": None, "phase": None, "cell": label(first), **sums,
        "ci_low_ns": None, "ci_high_ns": None, "significant": None, "only": there[0] if len(there) == 1 else None, **counts,
        "name": first.name if len(members) == 1 and isinstance(first.name, str) else None,
    }  # fmt: skip


def _name(members: list[Any]) -> str:
    """Return a row's name: its kernel, or the kernels of A and those of B that replaced them."""
    if len(members) == 1:
        row = members[0]
        named = words.kernel(row.name) if row.part in (COMPUTE, COMMUNICATION) and isinstance(row.name, str) else row.detail
        return named if isinstance(named, str) else label(row)
    sides = [
        words.listed((words.kernel(row.name) for row in members if getattr(row, f"{key}_count") > 0), _MANY) for key in SIDES
    ]
    return " became ".join(side or "nothing" for side in sides)
