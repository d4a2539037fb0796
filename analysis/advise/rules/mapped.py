"""Kernels that read the host's memory as they compute (zero-copy), beside a like kernel that reads the device's: notes."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import LEAST_ON_DEVICE, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.kernels.short_names import short

_MAPPED = re.compile(r"(?i)_?(?:zero_?copy|mapped|managed|unified|_um(?=_|$))")  # in names
_TIMES = 3.0  # times the like kernel's time: other code does not take so much longer


def notes(subject: Subject) -> list[str]:
    """Say that a kernel takes far longer than one of a like name with the same grid and blocks, if its name tells why."""
    kernels = subject.trace.kernels
    timed = kernels["name"].notna() & kernels["grid"].notna() & kernels["block"].notna() & (kernels["duration_ns"] > 0)
    kernels = kernels[timed.fillna(False).to_numpy(bool)]
    if subject.on_host or kernels.empty or not kernels["name"].astype("string").str.contains(_MAPPED.pattern).any():
        return []
    means = kernels.groupby(["name", "grid", "block"], observed=True)["duration_ns"].agg(["sum", "mean"]).reset_index()
    rows = [{**row, "short": short(row["name"])} for row in means.to_dict("records")]
    found = [(row, other) for row in rows for other in rows if _is_slow_twin(row, other)]
    return [_said(row, other) for row, other in found if row["sum"] > LEAST_ON_DEVICE * subject.step_ns]


def _is_slow_twin(row: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Return whether a row's name is that of the other with a word for the host's memory, and it takes much longer."""
    name = _MAPPED.sub("", row["short"])
    alike = name != row["short"] and name.lower() == str(other["short"]).lower()
    same = alike and all(row[key] == other[key] for key in ("grid", "block"))
    return same and not pd.isna(row["mean"]) and row["mean"] > _TIMES * other["mean"]


def _said(row: dict[Any, Any], other: dict[Any, Any]) -> str:
    took, like = words.duration(float(row["mean"])), words.duration(float(other["mean"]))
    times = f"{row['mean'] / other['mean']:.2g} times"
    return (
        f"{row['short']} takes {took}, {times} as long as {other['short']} ({like}) with "
        "the same grid and blocks: by its name, it reads or moves the host's memory over the link as it computes, which pays "
        "only for data that is used once; copy data that is used again to the device first"
    )


RULES: tuple[Rule, ...] = ()
