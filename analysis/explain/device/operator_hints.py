"""What tables of operators tell of work that one side alone prints, or that takes longer there: conversions, wrappers, types."""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.trace import CONVOLUTIONS

# operators that leave work of a kind to others
_WRAPPERS = {"convolution": r"^aten::_?conv(?:olution|[123]d)$", "gemm": r"^aten::(?:matmul|linear)$"}
_HELD = 0.01  # of a side's time
_TO_COPY = "aten::_to_copy"
CONVERTED = "aten::to calls it, by aten::_to_copy, as often: these copies convert tensors to another type, or another layout."
CONVERT_ONCE = (
    "convert the data once, before the loop, or create it in the type that is computed with (aten::to is .to(), .float() and the "
    "like, also where types are mixed)"
)
ALL_ROWS = "print all rows of both, key_averages().table(row_limit=-1): both do such work, and only one table shows all of it"
PRODUCTS_ALONE = (
    "the other operators take about as long on both sides ({0}), so it is hardly the processor or its load: compare sizes, and "
    "the types that products compute in, which the environment may set (on Arm, DNNL_DEFAULT_FPMATH_MODE=BF16 lets oneDNN "
    "multiply float32 in bfloat16)"
)
_OTHERS = 0.02  # of the time, in other operators that take as long
_SAME = 0.1  # of their time, by which other operators may differ


def others_as_long(case: DeviceCase, rows: pd.DataFrame) -> str | None:
    """Return how long the other operators take, executed as often, if only products of a processor take longer; else None."""
    if not case.by_operators or not (rows["kind"] == "gemm").fillna(False).all() or (rows["a_count"] != rows["b_count"]).any():
        return None
    others = case.all_kernels()
    others = others[((others["kind"] != "gemm") & (others["a_count"] == others["b_count"])).fillna(True).to_numpy(bool)]
    times = [float(others[f"{key}_ns"].sum()) for key in SIDES]
    if min(times) < _OTHERS * case.step_ns or max(times) > (1 + _SAME) * min(times):
        return None
    return words.of_rows(case, others)


def converts(case: DeviceCase, mine: pd.DataFrame, slow: str, fast: str) -> bool:
    """Return whether copies on a processor that one side alone makes are called by conversions, as often."""
    names = set(mine.loc[(mine[f"{slow}_count"] > 0).to_numpy(bool), "name"].astype(str))
    if not case.on_cpus or not case.by_operators or names != {"aten::copy_"} or mine[f"{fast}_count"].any():
        return False
    totals = {key: case.side(key).trace.totals for key in SIDES}
    calls = {
        key: int(one.loc[(one["name"] == _TO_COPY).fillna(False).to_numpy(bool), "count"].sum()) for key, one in totals.items()
    }
    return not calls[fast] and 0 < calls[slow] == float(mine[f"{slow}_count"].sum())


def held(case: DeviceCase, fast: str, kind: str) -> str | None:
    """Return that an operator of the faster side holds work of this kind, whose own rows its table does not print; else None."""
    pattern = next((names for start, names in _WRAPPERS.items() if kind.startswith(start)), None)
    if pattern is None or not case.by_operators or not case.is_cut(fast):
        return None
    within: dict[str, int] = case.side(fast).facts.get("device_within") or {}
    totals = {name: ns for name, ns in within.items() if re.search(pattern, name)}
    printed = case.all_kernels(CONVOLUTIONS if kind.startswith("convolution") else [kind])
    name = max(totals, key=lambda one: totals[one], default="")
    left = totals.get(name, 0) - int(printed[f"{fast}_ns"].sum())
    if left < _HELD * case.side(fast).account.step_ns:
        return None
    side = case.side(fast).name
    return f"{side} does some, too: {words.duration(left)} within {name}, in rows that it does not print"
