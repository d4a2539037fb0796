"""Operations and bytes of every kernel, as far as its own description or the operator that launched it gives them.

Operations count each multiplication with its addition as two, in matrix products, convolutions, recurrent cells and attention,
as PyTorch's FlopCounterMode does (torch/utils/flop_counter.py), and in BLAS's vector functions. A convolution counts as a
direct one whatever the algorithm: Winograd and FFT need fewer operations, so such kernels can seem to exceed the device's peak.
Bias additions, activations, pooling and the like count none, as memory limits them.

Bytes are algorithmic: every input is read once and every output written once. Caches can reduce the memory traffic; temporary
results, unaligned rows and inputs that are read again increase it. What was not recorded is unknown, except that reductions
leave out their small outputs.

| what | source | operations | bytes |
|---|---|---|---|
| matrix products | m, n, k of the line, call or operator | 2 b m n k | b (m k + k n + m n) |
| convolutions | oneDNN's problem; operator's shapes and arguments (torch.nn.Conv2d) | 2 outputs ic/g kernel | src, weights, dst |
| both gradients of a convolution | the same | as the forward pass, each | the same three tensors |
| recurrent layers | oneDNN's problem | 2 gates l t mb dhc (slc + sic); backward twice that | weights, src, dst; twice |
| attention | shapes of query, key, value | 2 b h q k (d + dv); backward 2 b h q k (3 d + 2 dv) | what is read, the output |
| axpy, scal | length of the vector | 2 n, n | 3 n, 2 n elements |
| elementwise work | shapes of the inputs | none | the inputs, an output as large as the largest |
| copies and layout changes | shape | none | in and out |
| pooling | oneDNN's problem; both shapes of the backward pass | none | in and out |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.kernels.work.amounts import COLUMNS, NUMBERS, frame_of
from kernelscope.analysis.kernels.work.convolutions import known_convolutions
from kernelscope.analysis.kernels.work.descriptions import KernelColumns, of_description, with_pooled
from kernelscope.analysis.kernels.work.operators import of_operator
from kernelscope.analysis.trace import MAIN, Trace, intervals
from kernelscope.analysis.trace.categories import filled

Int = npt.NDArray[np.int64]


def of_kernels(trace: Trace) -> pd.DataFrame:
    """Return COLUMNS for every kernel of a trace, aligned with it: sums over a row's `count`; null is unknown.

    m, n, k and transpose are the library's if its line or name gives them. If they come from the operator, they are rows and
    columns of row-major matrices, and T is for a factor in column-major order. The work of an operator that ran several kernels
    of a kind is shared among them by duration.
    """
    kernels = trace.kernels
    own = _of_descriptions(kernels)
    operators = _of_operators(trace, own["flops"].isna() & own["bytes"].isna())
    result = own.where(~operators["source"].notna(), operators) if operators["source"].notna().any() else own
    for name in ("problem", "m", "n", "k", "transpose"):
        result[name] = result[name].where(result[name].notna(), kernels[name].astype(object))
    types: dict[str, Any] = {name: "Int64" if name in NUMBERS else "string" for name in COLUMNS}
    typed: pd.DataFrame = result.where(result.notna(), None).astype(types)
    return typed


def name_problems(trace: Trace) -> None:
    """Give kernels whose work depends on their problem the shapes of their operator's tensors, in place, if they have none."""
    kernels = trace.kernels
    wanted = kernels["kind"].isin(MAIN) & kernels["problem"].isna()
    problems = _of_operators(trace, wanted)["problem"] if wanted.any() else pd.Series(dtype=object)
    if problems.notna().any():
        kernels["problem"] = filled(kernels["problem"], problems.astype("string").astype("category"))


def _of_descriptions(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the work that follows from each kernel's own columns; distinct ones are computed once."""
    names = list(KernelColumns._fields)
    number = kernels.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
    _, first = np.unique(number, return_index=True)
    distinct = kernels[names].take(first).astype(object)
    plain = distinct.where(distinct.notna(), None)
    described = [KernelColumns(*row) for row in plain.itertuples(index=False, name=None)]
    result = frame_of(with_pooled(described, [of_description(each) for each in described])).take(number).set_axis(kernels.index)
    several = (kernels["count"] != 1).to_numpy()
    for name in ("flops", "bytes"):
        if several.any():
            result.loc[several, name] *= kernels["count"].to_numpy()[several]
    return result


def _of_operators(trace: Trace, wanted: pd.Series) -> pd.DataFrame:
    """Return the work of the innermost operator around each kernel's launch, shared among its kernels of one kind."""
    kernels, operators = trace.kernels, trace.operators
    nothing = pd.DataFrame(None, index=kernels.index, columns=list(COLUMNS), dtype=object)
    chosen = np.flatnonzero((wanted & kernels["launch_ns"].notna()).to_numpy(dtype=bool))
    if not len(chosen) or operators["shapes"].isna().all():
        return nothing
    mine = kernels.iloc[chosen]
    at = intervals.innermost(*intervals.spans(operators), *map(intervals.whole, (mine["launch_thread"], mine["launch_ns"])))
    chosen, at, mine = chosen[at >= 0], at[at >= 0], mine[at >= 0]
    if not len(chosen):
        return nothing
    kind = mine["kind"].astype("string").fillna("unknown")
    group, _ = pd.factorize(pd.MultiIndex.from_arrays([at, kind]))
    row, place = _distinct_operators(operators, at, kind, mine["dtype"])
    seen = known_convolutions(operators)
    works = frame_of([of_operator(*key, seen) for key in row]).take(place).set_axis(mine.index)
    for name in ("flops", "bytes"):
        works[name] = _shared(works[name], group, mine["duration_ns"].to_numpy(np.int64))
    nothing.iloc[chosen] = works.to_numpy()
    return nothing


_Key = tuple[str, str, str, str, str, str, str]  # name, kind, shapes, types, strides, arguments, dtype


def _distinct_operators(operators: pd.DataFrame, at: Int, kind: pd.Series, dtype: pd.Series) -> tuple[list[_Key], Int]:
    """Return the distinct (operator, kind of kernel, recorded inputs), and each kernel's position among them."""
    picked = operators.take(at).set_axis(kind.index)
    names = ("shapes", "types", "strides", "arguments")
    columns = [picked["name"].astype("string"), kind, *(picked[name].astype("string") for name in names), dtype.astype("string")]
    place, distinct = pd.factorize(pd.MultiIndex.from_arrays([column.fillna("") for column in columns]))
    return [tuple(map(str, key)) for key in distinct], np.asarray(place, dtype=np.int64)  # type: ignore[misc]


def _shared(amount: pd.Series, group: Int, duration: Int) -> pd.Series:
    """Return each kernel's share of its operator's amount by duration; the remainder goes to the first kernel of the group."""
    known = amount.notna().to_numpy()
    whole = np.where(known, amount.fillna(0), 0).astype(np.int64)
    total = np.bincount(group, weights=duration.astype(float))[group]
    alone = np.bincount(group)[group]
    part = np.where(total > 0, duration / np.maximum(total, 1), 1 / alone)
    share = np.where(alone == 1, whole, np.floor(whole * part)).astype(np.int64)
    _, first = np.unique(group, return_index=True)
    given = np.zeros(len(first), dtype=np.int64)
    np.add.at(given, group, share)
    share[first] += whole[first] - given
    return pd.Series(share, index=amount.index, dtype=object).where(known, None)
