"""Recomputation: the backward pass repeats the forward pass, as with gradient checkpointing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain.device import host_pace, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import CONVOLUTIONS

_REMEDY = "checkpoint fewer layers where memory allows, or none (torch.utils.checkpoint)"
_MORE = (1.2, 2.2)  # times as many executions of a forward kernel
_FORWARD = re.compile(r"(?i)fwd|forward|fprop")
_BACKWARD = re.compile(r"(?i)bwd|backward|dgrad|wgrad|GammaBeta")


def forward_again(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side executes the same forward kernels more often, and gradient kernels equally often."""
    rows = case.kernels()
    both = rows[((rows["a_count"] >= 0.5) & (rows["b_count"] >= 0.5)).to_numpy(bool)]
    for many, few in (("b", "a"), ("a", "b")):
        ratio = both[f"{many}_count"] / both[f"{few}_count"]
        again = both[((ratio >= _MORE[0]) & (ratio <= _MORE[1])).to_numpy(bool)]
        gradients = both[(both["kind"].isin(CONVOLUTIONS[1:]) | _named(both, _BACKWARD)).to_numpy(bool)]
        forward = again[((again["kind"] == CONVOLUTIONS[0]) | _named(again, _FORWARD)).to_numpy(bool)]
        if forward.empty or gradients.empty:
            continue
        same = (gradients["a_count"] - gradients["b_count"]).abs().sum() <= 0.02 * gradients["a_count"].sum()
        if not same:
            continue
        counts = {key: words.count(float(forward[f"{key}_count"].sum())) for key in SIDES}
        title = (
            f"recomputation: {case.side(many).name} executes its forward kernels again ({counts['a']} of them {case.per}"
            f" in {case.a.name}, {counts['b']} in {case.b.name}; as many gradient kernels)"
        )
        idle = host_pace.of_launches(case, again)
        taken = [*again["row"], *idle["row"]]
        sentences = [*host_pace.waits(case, idle), *words.both(case, again)]
        yield DeviceFinding("recomputation", title, taken, "high", sentences, _REMEDY, structural=True)
        return


def _named(rows: pd.DataFrame, pattern: re.Pattern[str]) -> pd.Series[bool]:
    return pd.Series([bool(pattern.search(str(name)[:300])) for name in rows["name"]], index=rows.index, dtype=bool)


RULES = (forward_again,)
