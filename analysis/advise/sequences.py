"""Kernels in stream order: chains of small kernels, and what runs between two products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.device_account import on_device
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.frameworks import CLIPPING
from kernelscope.analysis.trace import MAIN

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

SMALL = ("elementwise", "activation", "cast", "copy")
_KEYS = ["kind", "name", "operator", "phase", "layer"]
_EXP = r"(?i)(?:^|\W)exp_?(?:_kernel_cuda)?(?:\W|$)"  # in names of operators and of PyTorch's kernels
_DIVIDE = r"(?i)(?:^|\W)(?:real)?div(?:_|_true|functor)?(?:_kernel_cuda)?(?:\W|$)"
_LOG = r"(?i)(?:^|\W)log_?(?:_kernel_cuda)?(?:\W|$)"
_ENOUGH_STEPS, _OUTLYING, _RARE = 10, 5.0, 0.1  # an outlier takes so many times the median, in at most that share of the steps
_COMPILED = r"triton_|fusion|fused_computation|^wrapped_|-(?:start|done)(?:\.\d+)?$"  # last: XLA's asynchronous copies


@dataclass(frozen=True)
class Runs:
    """Runs of consecutive kernels of a stream.

    kernels: the steps' kernels in order. number: the run that each kernel is in; -1 if none.
    """

    kernels: pd.DataFrame
    number: Int

    def table(self) -> pd.DataFrame:
        """Return a row for each run: size (kernels), total_ns, longest_ns."""
        chosen = self.number >= 0
        took = self.kernels["duration_ns"].to_numpy(np.int64)[chosen]
        grouped = pd.Series(took).groupby(self.number[chosen])
        return pd.DataFrame({"size": grouped.size(), "total_ns": grouped.sum(), "longest_ns": grouped.max()})

    def per_step(self, steps: int) -> pd.DataFrame:
        """Return the kernels that are in runs, with their time_ns and count per step."""
        inside = self.kernels[self.number >= 0]
        return inside.assign(time_ns=inside["duration_ns"] / steps, count=inside["count"] / steps)


def ordered(subject: Subject) -> pd.DataFrame:
    """Return the device's kernels of the measured steps by stream and start, without the optimizer's and those that clip
    gradients.

    On the host, durations are scaled to the rows' time, as recording makes them longer.
    """
    kernels = subject.trace.kernels
    kernels = kernels[kernels["start_ns"].notna().to_numpy(bool)]
    if not subject.on_host:
        kernels = kernels[on_device(kernels, subject.device)]
    kernels = kernels[device_steps.measured(subject.trace, kernels)]
    aside = (kernels["phase"] == "optimizer") | (kernels["layer"] == CLIPPING)
    kernels = kernels[~aside.fillna(False).to_numpy(bool)]
    kernels = kernels.sort_values(["device", "thread", "start_ns"], kind="stable").reset_index(drop=True)
    return _without_recording(subject, kernels) if subject.on_host else kernels


def _without_recording(subject: Subject, kernels: pd.DataFrame) -> pd.DataFrame:
    """Scale the kernels' durations by the ratio of time to duration in the subject's rows of such kernels."""
    rows = subject.kernels()
    sums = rows.groupby(_KEYS, dropna=False)[["time_ns", "duration_ns"]].sum()
    kept = (sums["time_ns"] / sums["duration_ns"].clip(lower=1)).rename("kept").reset_index()
    mine = kernels[_KEYS].astype("string").merge(kept, on=_KEYS, how="left")["kept"].fillna(1.0)  # keeps the order
    duration = kernels["duration_ns"].to_numpy(np.int64) * mine.to_numpy(float)
    return kernels.assign(duration_ns=np.rint(duration).astype(np.int64))


def chains(kernels: pd.DataFrame) -> Runs:
    """Return runs of at least two consecutive small kernels, which a compiler would fuse."""
    kind = kernels["kind"].astype("string")
    small = kind.isin(SMALL).fillna(False).to_numpy(bool)
    compiled = kernels["name"].astype("string").str.contains(_COMPILED).fillna(False).to_numpy(bool)
    compiled |= kernels["library"].astype("string").eq("xla").fillna(False).to_numpy(bool)  # XLA has tried to fuse these
    number = _runs(kernels, small & ~compiled)
    sizes = np.bincount(number[number >= 0], minlength=1)
    return Runs(kernels, np.where((number >= 0) & (sizes[np.maximum(number, 0)] > 1), number, -1))


def without_outliers(kernels: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Return kernels with rare long durations replaced by the median of the same kernel, if there are enough steps to tell.

    In a few steps the machine did something else meanwhile: nothing that is done about a kernel saves that.
    """
    if steps < _ENOUGH_STEPS or kernels.empty:
        return kernels
    grouped = kernels.groupby([*_KEYS, "grid", "problem"], dropna=False, observed=True)
    duration = kernels["duration_ns"]
    median = grouped["duration_ns"].transform("median")
    long = (duration > _OUTLYING * median).to_numpy(bool)
    if not long.any():
        return kernels
    number = grouped.ngroup().to_numpy(np.int64)
    found = pd.DataFrame({"number": number[long], "step": kernels["step"].to_numpy()[long]}).drop_duplicates()
    in_steps = np.bincount(found["number"], minlength=int(number.max()) + 1)[number]
    rare = long & (in_steps <= _RARE * steps)
    return kernels.assign(duration_ns=duration.mask(rare, median.round().astype("int64")))


def between_products(kernels: pd.DataFrame, framework: str = "") -> Runs:
    """Return runs between two products that hold exactly one softmax, or its parts: attention computed piece by piece."""
    kind = kernels["kind"].astype("string")
    main = kind.isin(MAIN).fillna(False).to_numpy(bool)
    number = _runs(kernels, ~main)
    if not (number >= 0).any():
        return Runs(kernels, number)
    size = int(number.max()) + 1
    count = _held(number, (kind == "softmax").fillna(False).to_numpy(bool), size)
    rows = np.flatnonzero(number >= 0)
    first, last = _edges(number, rows, size)
    products = _is_batched(kernels, framework) & (kind == "gemm").fillna(False).to_numpy(bool)
    framed = products[np.maximum(first - 1, 0)] & products[np.minimum(last + 1, len(kernels) - 1)] & (first > 0)
    framed &= last + 1 < len(kernels)
    attends = framed & ((count == 1) | _by_hand(kernels, number, framed & (count == 0)))
    return Runs(kernels, np.where((number >= 0) & attends[np.maximum(number, 0)], number, -1))


def _by_hand(kernels: pd.DataFrame, number: Int, possible: Bool) -> Bool:
    """Return which of the possible runs hold the parts of a softmax, or the gradient of one.

    The parts are one exponential, then a sum, then a division; with a logarithm it is a loss. The gradient also has a sum, but
    no exponential: only its layer shows that it is one.
    """
    reduces = (kernels["kind"] == "reduction").fillna(False).to_numpy(bool)
    exp, divide, log = (_named(kernels, pattern) for pattern in (_EXP, _DIVIDE, _LOG))
    last_exp, last_sum, last_division = (_last(number, chosen, len(possible)) for chosen in (exp, reduces, divide))
    forward = possible & (_held(number, exp, len(possible)) == 1) & (last_exp < last_sum) & (last_sum < last_division)
    forward &= _held(number, log, len(possible)) == 0
    layers, phases = (kernels[name].astype("string") for name in ("layer", "phase"))
    written_out = layers[(number >= 0) & forward[np.maximum(number, 0)]].dropna().unique()
    elsewhere = ~(layers.isin(written_out) & (phases == "backward").fillna(False)).to_numpy(bool)
    gradient = possible & (last_exp < 0) & (last_sum >= 0) & (_held(number, elsewhere, len(possible)) == 0)
    result: Bool = forward | gradient
    return result


def _last(number: Int, chosen: Bool, count: int) -> Int:
    """Return the row of the last chosen kernel in each run; -1 if none."""
    rows = np.flatnonzero(chosen & (number >= 0))
    last = np.full(count, -1, dtype=np.int64)
    np.maximum.at(last, number[rows], rows)
    return last


def _held(number: Int, chosen: Bool, count: int) -> Int:
    """Return how many chosen kernels each run holds."""
    return np.bincount(number[chosen & (number >= 0)], minlength=count).astype(np.int64)


def _named(kernels: pd.DataFrame, pattern: str) -> Bool:
    """Return which kernels have a matching name, or a matching operator."""
    result = np.zeros(len(kernels), dtype=bool)
    for column in ("name", "operator"):
        texts = kernels[column].astype("category")
        matching = np.asarray(texts.cat.categories.astype("string").str.contains(pattern), dtype=bool)
        result |= np.append(matching, False)[texts.cat.codes]
    return result


def _is_batched(kernels: pd.DataFrame, framework: str) -> Bool:
    """Return which kernels may be products of two batches, neither of which is a matrix of weights.

    Their operator is such a product, or is unknown. Shapes decide where they are known, as "first:second:result". ONNX Runtime
    gives them all, except those of constants: without a batched second factor, the product is with weights.
    """
    operator = kernels["operator"].astype("string")
    plain = operator.str.contains(r"addmm|linear|::mm$|dense", case=False).fillna(False)
    factors = kernels["problem"].astype("string").str.extract(r"^(\d+(?:x\d+)*):(\d+(?:x\d+)*):\d+(?:x\d+)*")
    first, second = (factors[side].str.count("x") for side in (0, 1))
    if framework == "onnxruntime":
        plain |= ~((first > 1) & (second > 1)).fillna(False)
    else:
        plain |= ((first > 1) & (second <= 1)).fillna(False)
    return ~plain.to_numpy(bool)


def _runs(kernels: pd.DataFrame, chosen: Bool) -> Int:
    """Number the runs of consecutive chosen kernels of one stream and step; -1 for kernels in none."""
    stream = kernels.groupby(["device", "thread", "step"], dropna=False, observed=True).ngroup().to_numpy()
    begins = np.append(True, (stream[1:] != stream[:-1]) | ~chosen[:-1]) if len(kernels) else np.zeros(0, dtype=bool)
    number = np.cumsum(chosen & begins) - 1
    return np.where(chosen, number, -1).astype(np.int64)


def _edges(number: Int, rows: Int, count: int) -> tuple[Int, Int]:
    """Return the first and last row of each run."""
    first, last = np.full(count, len(number), dtype=np.int64), np.zeros(count, dtype=np.int64)
    np.minimum.at(first, number[rows], rows)
    np.maximum.at(last, number[rows], rows)
    return first, last
