"""Clocks: every kernel takes longer by the same factor, on one model of device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.explain.device import amounts, words
from kernelscope.analysis.explain.device.case import DeviceCase, DeviceFinding

_LEAST = 0.04  # slow-down
_SPREAD = 0.4  # half the distance of the 10th and 90th percentile of the factors by time, as a share of the slow-down
_SHARE = 0.7  # of each side's kernel time, in kernels that both execute equally often
_FAR = 2.0  # times as long: more than clocks differ by
_DISTINCT = {False: 5, True: 3}  # different kernels that must agree, by whether the factor is that large
_AGREE = 0.5  # of the kernels other than the longest, by number
_ON_CPU = "compare the number of threads, the processors' models and clocks, and what else runs on them"
_OTHER_DEVICE = "find out on which devices they were recorded, and compare on one of them"
_SAME_SIZE = "compare the same sizes of data on both sides: with more data, this is other work, not another speed"
_REMEDY = "lock the clocks (nvidia-smi --lock-gpu-clocks), watch power and temperature, and leave the device to one process"


def uniform(case: DeviceCase) -> Iterator[DeviceFinding]:
    """All kernels take longer by about the same factor."""
    rows = case.kernels()
    same = rows[_as_often(rows)]
    whole = [float(rows[f"{key}_ns"].sum()) for key in ("a", "b")]
    if len(same) < min(_DISTINCT.values()) or not case.same_device or min(whole) <= 0:
        return
    if min(float(same[f"{key}_ns"].sum()) / all_ for key, all_ in zip(("a", "b"), whole, strict=True)) < _SHARE:
        return
    factor, lasted = (
        np.log((same["b_duration_ns"] / same["a_duration_ns"]).to_numpy(float)),
        same["a_duration_ns"].to_numpy(float),
    )
    low, middle, high = _quantiles(factor, lasted, (0.1, 0.5, 0.9))
    if abs(middle) < np.log1p(_LEAST) or high - low > _SPREAD * 2 * abs(middle) or not _others_agree(factor, lasted, middle):
        return
    slow, slower, fast, _ = words.slower(case, same)
    ratio = float(np.exp(abs(middle)))
    if len(same) < _DISTINCT[ratio > _FAR]:
        return
    reason, remedy = _reason(case, ratio)
    title = f"all {case.what} take {ratio:.2f} times as long in {slower}, of every kind: {reason}"
    sentences = [
        f"{len(same)} {case.what} that both sides execute equally often: {words.of_rows(case, same)}; "
        f"for 80% of that time, B's duration is {np.exp(low):.2f} to {np.exp(high):.2f} times A's."
    ]
    clocks = {key: _clock_mhz(case, key) for key in ("a", "b")}
    seen = None not in clocks.values() and float(clocks[slow] or 0) < (1 - _LEAST) * float(clocks[fast] or 0)
    if seen:
        sentences.append(
            f"Mean clock of the device: {clocks['a']:.0f} MHz in {case.a.name}, {clocks['b']:.0f} MHz in {case.b.name}."
        )
    yield DeviceFinding("clocks", title, same["row"].tolist(), "high" if seen else "medium", sentences, remedy)


def _reason(case: DeviceCase, ratio: float) -> tuple[str, str]:
    """Return what can slow everything alike, and what to do."""
    if amounts.larger_problem(case):
        return "as with a larger problem, as copies take longer, too", _SAME_SIZE
    other = ratio > _FAR and (case.a.hardware is None or case.b.hardware is None)
    if case.on_cpus:
        return "fewer threads, other load, lower clocks, or another processor", _ON_CPU
    return (
        ("another device, or a shared one", _OTHER_DEVICE) if other else ("lower clocks, throttling, or a shared device", _REMEDY)
    )


def _others_agree(factor: npt.NDArray[np.float64], lasted: npt.NDArray[np.float64], middle: float) -> bool:
    """Return whether the kernels other than the longest also take longer by about this factor: one alone proves nothing."""
    others = np.delete(factor, int(lasted.argmax()))
    return bool(np.mean(np.abs(others - middle) <= _SPREAD * abs(middle)) > _AGREE)


def _clock_mhz(case: DeviceCase, key: str) -> float | None:
    """Return the mean of a side's samples of the device's clock; None if there are none."""
    samples = case.side(key).trace.samples
    values = samples.loc[(samples["metric"] == "gpu_sm_clock_hz").to_numpy(bool), "value"]
    return float(values.mean()) / 1e6 if len(values) else None


def _as_often(rows: pd.DataFrame) -> pd.Series[bool]:
    a, b = rows["a_count"], rows["b_count"]
    lasted = (rows["a_duration_ns"] > 0) & (rows["b_duration_ns"] > 0)
    grids = rows["a_grid"].isna() | rows["b_grid"].isna() | (rows["a_grid"] == rows["b_grid"])
    return ((a - b).abs() <= 0.02 * a) & (a >= 0.5) & lasted & grids.fillna(True)


def _quantiles(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], at: tuple[float, ...]) -> list[float]:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return [float(values[order][min(int(np.searchsorted(reached, one)), len(values) - 1)]) for one in at]


RULES = (uniform,)
