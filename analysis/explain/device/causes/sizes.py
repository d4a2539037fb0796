"""Sizes: the same kernels, equally often, on larger grids, as with a larger batch, longer sequences or larger images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import DeviceCase, DeviceFinding

_MORE = 1.05  # times the blocks
_LARGEST = 0.5  # share of the common kernels' time that must be on larger grids
_ALIKE = 0.6  # of the growth in blocks, by which the growth of a kernel's time may differ from it
_FOLLOWS = 0.15  # of the growth in blocks, as logarithms, that the time must follow
_WHOLE = 10  # times: from here on without decimals
_REMEDY = "compare the same batch, sequence length and image size: this is other work, not another speed"


def larger_problems(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side launches most of the kernels that both execute equally often on larger grids."""
    rows = case.kernels()
    same = rows[((rows["a_count"] - rows["b_count"]).abs() <= 0.02 * rows["a_count"]) & (rows["a_count"] >= 0.5)]
    blocks = {key: _blocks(same[f"{key}_grid"]) for key in ("a", "b")}
    ratio = blocks["b"] / blocks["a"]
    for slow, times in (("b", ratio), ("a", 1 / ratio)):
        grown = same[times >= _MORE]
        whole = float(same[f"{slow}_ns"].sum())
        fast = "a" if slow == "b" else "b"
        if not whole or float(grown[f"{slow}_ns"].sum()) < _LARGEST * whole:
            continue
        if float(grown[f"{slow}_ns"].sum()) <= float(grown[f"{fast}_ns"].sum()):
            continue  # the work was divided into more blocks, and did not grow
        usual = float(np.median(times[times >= _MORE]))
        if np.log(float(grown[f"{slow}_ns"].sum()) / float(grown[f"{fast}_ns"].sum())) < _FOLLOWS * np.log(usual):
            continue  # the same work in far more blocks, as where a loop over elements within the kernel is gone
        grown = same[(times >= _MORE) | _grown_alike(same, slow, usual)]
        title = (
            f"larger problems: {case.side(slow).name} launches the same kernels on {_times(usual)} times as many blocks (batch,"
            f" sequence or image size), {words.of_rows(case, grown)}"
        )
        yield DeviceFinding(
            "larger problems", title, grown["row"].tolist(), "high", words.both(case, grown), _REMEDY, structural=True
        )
        return


def _grown_alike(same: pd.DataFrame, slow: str, usual: float) -> npt.NDArray[np.bool_]:
    """Return which kernels take longer by about as much: persistent kernels have as many blocks at any size."""
    fast = "a" if slow == "b" else "b"
    ratio = (same[f"{slow}_ns"] / same[f"{fast}_ns"].where(same[f"{fast}_ns"] > 0)).to_numpy(float)
    return (ratio >= 1 + (1 - _ALIKE) * (usual - 1)) & (ratio <= 1 + (1 + _ALIKE) * (usual - 1))


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= _WHOLE else f"{ratio:.2g}"


def _blocks(grids: pd.Series) -> npt.NDArray[np.float64]:
    """Return the number of blocks of each launch; NaN if unknown."""
    sizes = grids.astype("string").str.split(",", expand=True).apply(pd.to_numeric, errors="coerce")
    return (
        np.asarray(sizes.prod(axis=1, min_count=1), dtype=float) if len(grids) and sizes.shape[1] else np.full(len(grids), np.nan)
    )


RULES = (larger_problems,)
