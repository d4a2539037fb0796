"""Kernels in the order in which a stream runs them: chains of small ones, and what stands between two products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.explain.device.case import MAIN

SMALL = ("elementwise", "activation", "cast", "copy")
_COMPILED = r"triton_|fusion|fused_computation|^wrapped_|-(?:start|done)(?:\.\d+)?$"  # the last: XLA's asynchronous copies


@dataclass(frozen=True)
class Runs:
    """Runs of consecutive kernels of a stream.

    kernels: the steps' kernels in order. number: the run of each kernel; -1 in none.
    """

    kernels: pd.DataFrame
    number: npt.NDArray[np.int64]

    def table(self) -> pd.DataFrame:
        """Return a row per run: size (kernels), total_ns, longest_ns."""
        chosen = self.number >= 0
        took = self.kernels["duration_ns"].to_numpy(np.int64)[chosen]
        grouped = pd.Series(took).groupby(self.number[chosen])
        return pd.DataFrame({"size": grouped.size(), "total_ns": grouped.sum(), "longest_ns": grouped.max()})

    def per_step(self, steps: int) -> pd.DataFrame:
        """Return the kernels in runs, with their time_ns and count of a step."""
        inside = self.kernels[self.number >= 0]
        return inside.assign(time_ns=inside["duration_ns"] / steps, count=inside["count"] / steps)


def ordered(subject: Subject) -> pd.DataFrame:
    """Return the device's kernels of the measured steps, outside of the optimizer, by stream and start."""
    kernels = subject.trace.kernels
    kernels = kernels[kernels["start_ns"].notna().to_numpy(bool)]
    if not subject.on_host:
        kernels = kernels[(kernels["device"].isna() | (kernels["device"] == subject.device)).to_numpy(bool)]
    kernels = kernels[device_steps.measured(subject.trace, kernels)]
    kernels = kernels[(kernels["phase"].astype("string") != "optimizer").fillna(True).to_numpy(bool)]
    return kernels.sort_values(["device", "thread", "start_ns"], kind="stable").reset_index(drop=True)


def chains(kernels: pd.DataFrame) -> Runs:
    """Return the runs of two or more consecutive small kernels that a compiler would fuse."""
    kind = kernels["kind"].astype("string")
    small = kind.isin(SMALL).fillna(False).to_numpy(bool)
    compiled = kernels["name"].astype("string").str.contains(_COMPILED).fillna(False).to_numpy(bool)
    compiled |= kernels["library"].astype("string").eq("xla").fillna(False).to_numpy(bool)  # which it has tried to fuse
    number = _runs(kernels, small & ~compiled)
    sizes = np.bincount(number[number >= 0], minlength=1)
    return Runs(kernels, np.where((number >= 0) & (sizes[np.maximum(number, 0)] > 1), number, -1))


def between_products(kernels: pd.DataFrame) -> Runs:
    """Return the runs between two products that hold exactly one softmax: attention computed piece by piece."""
    kind = kernels["kind"].astype("string")
    main = kind.isin(MAIN).fillna(False).to_numpy(bool)
    number = _runs(kernels, ~main)
    if not (number >= 0).any():
        return Runs(kernels, number)
    softmax = (kind == "softmax").fillna(False).to_numpy(bool)
    count = np.bincount(number[number >= 0], weights=softmax[number >= 0])
    rows = np.flatnonzero(number >= 0)
    first, last = _edges(number, rows, len(count))
    products = _is_batched(kernels) & (kind == "gemm").fillna(False).to_numpy(bool)
    framed = products[np.maximum(first - 1, 0)] & products[np.minimum(last + 1, len(kernels) - 1)] & (first > 0)
    attends = framed & (count == 1) & (last + 1 < len(kernels))
    return Runs(kernels, np.where((number >= 0) & attends[np.maximum(number, 0)], number, -1))


def _is_batched(kernels: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return whether each kernel may be a batched product: its operator is one, or is not known."""
    operator = kernels["operator"].astype("string")
    plain = operator.str.contains(r"addmm|linear|::mm$|dense", case=False).fillna(False)
    return ~plain.to_numpy(bool)


def _runs(kernels: pd.DataFrame, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the number of the run of consecutive chosen kernels of one stream that each is in; -1 for others."""
    stream = kernels.groupby(["device", "thread"], dropna=False, observed=True).ngroup().to_numpy()
    begins = np.append(True, (stream[1:] != stream[:-1]) | ~chosen[:-1]) if len(kernels) else np.zeros(0, dtype=bool)
    number = np.cumsum(chosen & begins) - 1
    return np.where(chosen, number, -1).astype(np.int64)


def _edges(
    number: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first and last row of each run."""
    first, last = np.full(count, len(number), dtype=np.int64), np.zeros(count, dtype=np.int64)
    np.minimum.at(first, number[rows], rows)
    np.maximum.at(last, number[rows], rows)
    return first, last
