"""Algorithms: convolutions, products, layout conversions and other kernels that the sides compute by kernels of other names."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import CONVOLUTIONS

_CONVOLUTION = "torch.backends.cudnn.benchmark = True chooses by measuring; channels-last layouts take other kernels"
_PRODUCT = "sizes that are multiples of 8 or 16, and factors stored as they are used, take faster kernels"
_LAYOUT = "keep one memory layout throughout: model.to(memory_format=torch.channels_last), or channels first everywhere"


def convolutions(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Convolutions by other kernels."""
    yield from _replaced(case, CONVOLUTIONS, "convolution algorithm", "convolutions", _CONVOLUTION)


def products(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Matrix products by other kernels."""
    yield from _replaced(case, ["gemm"], "products by other kernels", "matrix products (GEMM)", _PRODUCT)


def layouts(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Conversions of memory layouts that one side executes more of."""
    rows = case.kernels(["layout"])
    counts = {key: float(rows[f"{key}_count"].sum()) for key in SIDES}
    if max(counts.values()) < 0.5 or min(counts.values()) > 0.9 * max(counts.values()):
        return
    title = (
        f"layout conversions: {words.count(counts['a'])} {case.per} in {case.a.name}, {words.count(counts['b'])} in"
        f" {case.b.name}, {words.of_rows(case, rows)}"
    )
    yield DeviceFinding(
        "layout conversions", title, rows["row"].tolist(), "high", words.both(case, rows), _LAYOUT, structural=True
    )


def _replaced(case: DeviceCase, kinds: Collection[str], cause: str, what: str, remedy: str) -> Iterator[DeviceFinding]:
    """Yield a finding on kernels of these kinds that only one side executes, net of those that only the other does."""
    rows = case.kernels(kinds)
    one_sided = ((rows["a_count"] < 0.5) != (rows["b_count"] < 0.5)) & (rows["a_count"] + rows["b_count"] > 0)
    shifted = (rows["a_count"] - rows["b_count"]).abs() >= 0.5
    mine = rows[(one_sided | shifted).to_numpy(bool)]
    if not ((mine["a_count"] >= 0.5).any() and (mine["b_count"] >= 0.5).any()) or not bool(one_sided.any()):
        return
    counts = {key: float(rows[f"{key}_count"].sum()) for key in SIDES}
    if min(counts.values()) < 0.8 * max(counts.values()):
        return  # other work rather than another way to do it
    title = f"{what} by other kernels: {words.of_rows(case, mine)}"
    yield DeviceFinding(cause, title, mine["row"].tolist(), "high", words.both(case, mine), remedy, structural=True)


RULES = (convolutions, products, layouts)
