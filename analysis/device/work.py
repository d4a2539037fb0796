"""Operations and bytes of every kernel, as far as its own description or the operator that launched it tells them.

Operations are those of multiplications with addition, two each, in matrix products, convolutions, recurrent cells and attention:
what PyTorch's FlopCounterMode counts (torch/utils/flop_counter.py), and of BLAS's vector functions. A direct convolution's are
counted whatever the algorithm: Winograd and FFT need fewer, so that such kernels can seem to exceed the device. Additions of a
bias, activations, pooling and the like have none: what limits them is memory.

Bytes are algorithmic: every input is read once and every output written once. Caches can make the memory's traffic smaller;
temporary results, unaligned rows and inputs that are read again make it larger. What was not recorded counts as unknown, but for
reductions, whose small outputs are left out.

| what | source | operations | bytes |
|---|---|---|---|
| matrix products | m, n, k of the line, call or operator | 2 b m n k | b (m k + k n + m n) |
| convolutions | oneDNN's problem; operator's shapes and arguments (torch.nn.Conv2d) | 2 outputs ic/g kernel | src, weights, dst |
| both gradients of a convolution | the same | as the forward pass, each | the same three tensors |
| recurrent layers | oneDNN's problem | 2 gates l t mb dhc (slc + sic); backward twice that | weights, src, dst; twice |
| attention | shapes of query, key, value | 2 b h q k (d + dv); backward 2 b h q k (3 d + 2 dv) | what is read, the output |
| axpy, scal | length of the vector | 2 n, n | 3 n, 2 n elements |
| what computes element by element | shapes of the inputs | none | the inputs, an output as large as the largest |
| copies and layout changes | shape | none | in and out |
| pooling | oneDNN's problem; both shapes of the backward pass | none | in and out |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis import intervals
from kernelscope.analysis.evidence import aten
from kernelscope.analysis.trace import Trace

Int = npt.NDArray[np.int64]
Shape = tuple[int, ...]

PRODUCTS = (
    "gemm", "convolution forward", "convolution data gradient", "convolution weight gradient", "recurrent", "attention",
)  # fmt: skip
_FORWARD, _DATA, _WEIGHTS = PRODUCTS[1:4]
_ELEMENTS = ("activation", "elementwise", "optimizer", "softmax", "normalisation")

ELEMENT_BYTES = {
    "f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 1, "f8_e5m2": 1, "f8e4m3": 1, "f8e5m2": 1, "s64": 8, "s32": 4,
    "s16": 2, "s8": 1, "u8": 1, "bool": 1,
}  # fmt: skip
_TYPES = {
    "float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "long int": 8,
    "long": 8, "int": 4, "short": 2, "short int": 2, "signed char": 1, "unsigned char": 1, "bool": 1,
}  # fmt: skip
_MOST = 1 << 62  # what is larger comes from damaged files

_SIZE = re.compile(r"(?<![a-z])([a-z]+)(\d{1,18})(?!\d)")
_TENSORS = re.compile(r"\d+(?:x\d+)*(?::\d+(?:x\d+)*)*")
_VECTOR = re.compile(r"n(\d{1,18})(?: .*)?")
_GATES = (("vanilla_rnn", 1), ("vanilla_lstm", 4), ("augru", 3), ("gru", 3))


@dataclass(frozen=True)
class Work:
    """What one kernel or call computes; None is unknown. bytes: algorithmic; source: what tells it."""

    problem: str | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    transpose: str | None = None
    flops: int | None = None
    bytes: int | None = None
    source: str | None = None


COLUMNS = tuple(Work.__dataclass_fields__)
_NUMBERS = ("m", "n", "k", "flops", "bytes")


def of_kernels(trace: Trace) -> pd.DataFrame:
    """Return COLUMNS for every kernel of a trace, aligned with it: sums over a row's `count`; null is unknown.

    m, n, k and transpose are the library's where its line or name tells them. Where the operator does, they are the operator's:
    rows and columns of row-major matrices, T for a factor that lies column by column. The work of an operator that ran several
    kernels of a kind is shared among them by duration.
    """
    kernels = trace.kernels
    own = _of_descriptions(kernels)
    told = _of_operators(trace, own["flops"].isna() & own["bytes"].isna())
    found = own.where(~told["source"].notna(), told) if told["source"].notna().any() else own
    for name in ("problem", "m", "n", "k", "transpose"):
        found[name] = found[name].where(found[name].notna(), kernels[name].astype(object))
    types: dict[str, Any] = {name: "Int64" if name in _NUMBERS else "string" for name in COLUMNS}
    typed: pd.DataFrame = found.where(found.notna(), None).astype(types)
    return typed


# --- from a kernel's own description --------------------------------------------------------------------------------------------

_KEYS = ["kind", "library", "name", "operator", "phase", "problem", "dtype", "algorithm", "m", "n", "k", "transpose"]


def _of_descriptions(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return what each kernel's own columns tell; distinct ones are looked at once."""
    number = kernels.groupby(_KEYS, dropna=False, observed=True, sort=False).ngroup().to_numpy()
    _, first = np.unique(number, return_index=True)
    distinct = kernels[_KEYS].take(first).astype(object)
    plain = distinct.where(distinct.notna(), None)
    works = [of_description(*row) for row in plain.itertuples(index=False, name=None)]
    works = _with_pooled(distinct, works)
    found = _frame(works).take(number).set_axis(kernels.index)
    several = (kernels["count"] != 1).to_numpy()
    for name in ("flops", "bytes"):
        if several.any():
            found.loc[several, name] *= kernels["count"].to_numpy()[several]
    return found


def _with_pooled(kernels: pd.DataFrame, works: list[Work]) -> list[Work]:
    """Fill the bytes of PyTorch's forward pooling, which tells its input only: its backward pass has both shapes."""
    outputs: dict[str, set[str]] = {}
    for kind, problem in zip(kernels["kind"], kernels["problem"], strict=True):
        if kind == "pooling" and isinstance(problem, str) and problem.count(":") == 1 and _TENSORS.fullmatch(problem):
            after, before = problem.split(":")
            outputs.setdefault(before, set()).add(after)
    found = []
    for row, work in zip(kernels.to_dict("records"), works, strict=True):
        told = outputs.get(str(row["problem"]), set()) if row["kind"] == "pooling" and row["library"] == "aten" else set()
        both = f"{row['problem']}:{next(iter(told))}" if len(told) == 1 else ""
        found.append(replace(_pooled(work, both, "aten", _element_bytes(row["dtype"])), problem=work.problem) if both else work)
    return found


def _frame(works: Sequence[Work]) -> pd.DataFrame:
    """Return works as rows; numbers that no integer of 64 bits holds are unknown."""
    rows = [[_fitting(getattr(work, name)) for name in COLUMNS] for work in works]
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def _fitting(value: Any) -> Any:
    return None if isinstance(value, int) and not 0 <= value < _MOST else value


def of_description(
    kind: str | None, library: str | None, name: str | None, operator: str | None, phase: str | None, problem: str | None,
    dtype: str | None, algorithm: str | None, m: int | None, n: int | None, k: int | None, transpose: str | None,
) -> Work:  # fmt: skip
    """Return the work of one execution of a kernel of the CPU, from its columns of the trace; nothing where they do not tell."""
    nothing = Work(problem, m, n, k, transpose)
    size = _element_bytes(dtype)
    if library is None or (problem is None and m is None):
        return nothing
    if m is not None and n is not None and k is not None:
        return _product(nothing, problem, size)
    text = str(problem)
    backward = phase == "backward" or "backward" in f"{name} {operator}".lower()
    if kind in PRODUCTS[1:4] or kind == "pooling":
        return _window(nothing, _sizes(text), size) if "_" in text else _pooled(nothing, text, library, size)
    if kind == "recurrent":
        return _recurrent(nothing, _sizes(text), str(algorithm), backward, size)
    if found := _VECTOR.fullmatch(text):
        return _of_vector(nothing, str(name), int(found[1]), size)
    if _TENSORS.fullmatch(text):
        shapes = [tuple(map(int, part.split("x"))) for part in text.split(":")]
        moved = _moved(str(kind), library, str(operator or name), shapes, backward, size)
        return replace(nothing, bytes=moved, source="shapes" if moved is not None else None)
    return nothing


def _element_bytes(dtype: str | None) -> tuple[int, int] | None:
    """Return how many bytes an element has that is read, and one that is written: f32, or f32 to bf16."""
    parts = str(dtype).split(" to ")
    sizes = [ELEMENT_BYTES.get(part) for part in (parts[0], parts[-1])]
    return (sizes[0], sizes[1]) if sizes[0] and sizes[1] else None


def _sizes(problem: str) -> dict[str, int]:
    """Return the named dimensions of a problem such as mb64_ic1oc6_ih28oh28kh5sh1dh0ph2."""
    return {name: int(size) for name, size in _SIZE.findall(problem)}


def _product(nothing: Work, problem: str | None, size: tuple[int, int] | None) -> Work:
    m, n, k = nothing.m or 0, nothing.n or 0, nothing.k or 0
    batch = 1
    if problem and re.fullmatch(r"\d+(?:x\d+)+:\d+(?:x\d+)+(?::\d+(?:x\d+)+)?", problem):  # oneDNN's, with the batch in front
        left, right = (tuple(map(int, part.split("x"))) for part in problem.split(":")[:2])
        batch = prod(max(pair) for pair in zip(left[:-2], right[:-2], strict=False))
    moved = size and size[0] * batch * (m * k + k * n + m * n)
    return replace(nothing, flops=2 * batch * m * n * k, bytes=moved, source="m, n, k")


def _window(nothing: Work, sizes: dict[str, int], size: tuple[int, int] | None) -> Work:
    """Return the work of a convolution or of pooling that oneDNN's problem describes."""
    if not {"mb", "ic"} <= sizes.keys():
        return nothing
    before, after, window = (prod(sizes.get(side + axis, 1) for axis in "dhw") for side in "iok")
    read, written = sizes["mb"] * sizes["ic"] * before, sizes["mb"] * sizes.get("oc", sizes["ic"]) * after
    if "oc" not in sizes:
        return replace(nothing, bytes=size and size[0] * (read + written), source="problem")
    weights = sizes["oc"] * sizes["ic"] // sizes.get("g", 1) * window
    flops = 2 * sizes["mb"] * after * weights
    return replace(nothing, flops=flops, bytes=size and size[0] * (read + weights + written), source="problem")


def _pooled(nothing: Work, text: str, library: str, size: tuple[int, int] | None) -> Work:
    """Return the bytes of pooling where the shapes of what is read and of what is written are both told."""
    if size is None or library != "aten" or text.count(":") != 1 or not _TENSORS.fullmatch(text):
        return nothing
    shapes = [tuple(map(int, part.split("x"))) for part in text.split(":")]
    return replace(nothing, bytes=size[0] * sum(map(prod, shapes)), source="shapes")


def _recurrent(nothing: Work, sizes: dict[str, int], algorithm: str, backward: bool, size: tuple[int, int] | None) -> Work:
    gates = next((count for cell, count in _GATES if cell in algorithm), None)
    if gates is None or not {"l", "t", "mb", "sic", "slc", "dhc"} <= sizes.keys():
        return nothing
    layers, cells = sizes["l"], sizes["t"] * sizes["mb"]
    weights = gates * sizes["dhc"] * (sizes["sic"] + sizes["slc"])
    passes = 2 if backward else 1
    moved = size and size[0] * passes * (layers * weights + cells * (sizes["slc"] + sizes["dhc"]))
    return replace(nothing, flops=2 * passes * layers * cells * weights, bytes=moved, source="problem")


def _of_vector(nothing: Work, name: str, length: int, size: tuple[int, int] | None) -> Work:
    """Return the work of BLAS's axpy (y += a x) and scal (x *= a)."""
    for ending, flops, elements in (("axpy", 2, 3), ("scal", 1, 2)):
        if name.lower().endswith(ending):
            return replace(nothing, flops=flops * length, bytes=size and size[0] * elements * length, source="length")
    return nothing


def _moved(
    kind: str, library: str, operator: str, shapes: list[Shape], backward: bool, size: tuple[int, int] | None
) -> int | None:
    """Return the bytes of a kernel that multiplies nothing, from the shapes of its tensors."""
    if size is None:
        return None
    read, written = size
    largest = max(map(prod, shapes))
    if operator.startswith(("aten::zero_", "aten::fill_")):
        return largest * written
    if kind in ("copy", "layout", "cast") or operator.startswith("aten::copy_"):
        return prod(shapes[0]) * (read + written) if library in ("onednn", "aten") else None
    if library == "onednn" and kind in ("activation", "softmax", "normalisation"):
        return (3 if backward else 2) * read * largest  # a gradient is made of what came in and of the gradient behind
    if library == "cntk":  # its nodes tell the shape of what they return, which tells of one that has one input
        return (3 if backward else 2) * read * largest if kind == "activation" else None
    if kind == "reduction":
        return read * sum(map(prod, shapes))
    return read * (sum(map(prod, shapes)) + largest) if kind in _ELEMENTS else None


# --- from the operator that launched a kernel -----------------------------------------------------------------------------------


def _of_operators(trace: Trace, wanted: pd.Series) -> pd.DataFrame:
    """Return what the innermost operator around each kernel's launch tells, shared among its kernels of one kind."""
    kernels, operators = trace.kernels, trace.operators
    nothing = pd.DataFrame(None, index=kernels.index, columns=list(COLUMNS), dtype=object)
    chosen = np.flatnonzero((wanted & kernels["launch_ns"].notna()).to_numpy(dtype=bool))
    if not len(chosen) or operators["shapes"].isna().all():
        return nothing
    columns = [operators[name].to_numpy(np.int64, na_value=-1) for name in ("thread", "start_ns", "end_ns")]
    mine = kernels.iloc[chosen]
    at = intervals.innermost(*columns, *(mine[name].to_numpy(np.int64, na_value=-1) for name in ("launch_thread", "launch_ns")))
    chosen, at, mine = chosen[at >= 0], at[at >= 0], mine[at >= 0]
    if not len(chosen):
        return nothing
    kind = mine["kind"].astype("string").fillna("unknown")
    group, _ = pd.factorize(pd.MultiIndex.from_arrays([at, kind]))
    row, place = _distinct_operators(operators, at, kind, mine["dtype"])
    seen = _convolutions(operators)
    works = _frame([of_operator(*key, seen) for key in row]).take(place).set_axis(mine.index)
    for name in ("flops", "bytes"):
        works[name] = _shared(works[name], group, mine["duration_ns"].to_numpy(np.int64))
    nothing.iloc[chosen] = works.to_numpy()
    return nothing


_Key = tuple[str, str, str, str, str, str, str]  # name, kind, shapes, types, strides, arguments, dtype


def _distinct_operators(operators: pd.DataFrame, at: Int, kind: pd.Series, dtype: pd.Series) -> tuple[list[_Key], Int]:
    """Return the distinct (operator, kind of kernel, what is recorded of the inputs), and the place of each kernel's in them."""
    picked = operators.take(at).set_axis(kind.index)
    names = ("shapes", "types", "strides", "arguments")
    columns = [picked["name"].astype("string"), kind, *(picked[name].astype("string") for name in names), dtype.astype("string")]
    place, distinct = pd.factorize(pd.MultiIndex.from_arrays([column.fillna("") for column in columns]))
    return [tuple(map(str, key)) for key in distinct], np.asarray(place, dtype=np.int64)  # type: ignore[misc]


def _shared(amount: pd.Series, group: Int, duration: Int) -> pd.Series:
    """Return each kernel's share of its operator's amount by duration; the last digits go to the first kernel of the group."""
    known = amount.notna().to_numpy()
    whole = np.where(known, amount.fillna(0), 0).astype(np.int64)
    together = np.bincount(group, weights=duration.astype(float))[group]
    alone = np.bincount(group)[group]
    part = np.where(together > 0, duration / np.maximum(together, 1), 1 / alone)
    share = np.where(alone == 1, whole, np.floor(whole * part)).astype(np.int64)
    _, first = np.unique(group, return_index=True)
    given = np.zeros(len(first), dtype=np.int64)
    np.add.at(given, group, share)
    share[first] += whole[first] - given
    return pd.Series(share, index=amount.index, dtype=object).where(known, None)


_Triple = tuple[Shape, Shape, Shape]  # input, weights and output of a convolution, channels first
_BACKWARD = ("convolution_backward", "cudnn_convolution_backward", "miopen_convolution_backward")


def _convolutions(operators: pd.DataFrame) -> list[_Triple]:
    """Return the convolutions whose three shapes are told, by the operators that compute both of their gradients."""
    names = [name for name in operators["name"].cat.categories if _short(str(name)) in _BACKWARD]
    pairs = operators.loc[operators["name"].isin(names), ["name", "shapes"]].dropna().drop_duplicates()
    found = []
    for name, text in pairs.itertuples(index=False, name=None):
        tensors = [shape for shape in _shapes(str(text)) if len(shape) > 2]
        if len(tensors) == 3:
            found.append(_roles(_short(str(name)), tensors))
    return found


def _roles(short: str, tensors: list[Shape]) -> _Triple:
    """Return input, weights and output of a backward convolution: ATen's has the gradient first, older ones the input."""
    first, second, weights = tensors
    return (second, weights, first) if short == "convolution_backward" else (first, weights, second)


def _fitting_ones(seen: Sequence[_Triple], **known: Shape) -> list[_Triple]:
    """Return the distinct convolutions that have these shapes (x, weights, y)."""
    places = {"x": 0, "weights": 1, "y": 2}
    return sorted({triple for triple in seen if all(triple[places[name]] == shape for name, shape in known.items())})


def _short(name: str) -> str:
    return name.rpartition("::")[2].lstrip("_")


@lru_cache(maxsize=65536)
def _shapes(text: str) -> tuple[Shape, ...]:
    """Return a shape for each input; empty for what is no tensor."""
    return tuple(
        tuple(entry) if isinstance(entry, list) and all(type(size) is int for size in entry) else () for entry in _list(text)
    )


def _list(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def of_operator(
    name: str, kind: str, shapes: str, types: str, strides: str, arguments: str, dtype: str, seen: Sequence[_Triple] = ()
) -> Work:
    """Return the work of the kernels of one kind of an operator of PyTorch, from what Kineto recorded of its inputs.

    shapes, types, strides, arguments: JSON text as in the trace's operators, empty where not recorded. dtype: of the kernel,
    for where the types are not. seen: convolutions of which all shapes are known, for where the arguments are not.
    """
    tensors = _shapes(shapes)
    size = _sizes_of(types, tensors, dtype)
    if not any(tensors):
        return Work()
    if kind == "gemm":
        return _of_product(name, shapes, tensors, strides, size)
    if kind in PRODUCTS[1:4]:
        element = next((found for found in size if found), None)
        return _of_convolution(name, tensors, arguments, element, seen)
    if kind == "attention":
        return _of_attention(name, tensors, size)
    return _of_elements(name, kind, tensors, size)


def _sizes_of(types: str, tensors: tuple[Shape, ...], dtype: str) -> list[int | None]:
    """Return how many bytes an element of each input has."""
    told = _list(types)
    known = ELEMENT_BYTES.get(dtype)
    return [_TYPES.get(str(told[place])) if place < len(told) else known for place in range(len(tensors))]


def _bytes(tensors: Iterable[tuple[Shape, int | None]]) -> int | None:
    """Return the bytes of tensors with their element sizes; None when one is not known."""
    pairs = list(tensors)
    return None if any(size is None for _, size in pairs) else sum(prod(shape) * (size or 0) for shape, size in pairs)


def _written(tensors: Sequence[Shape]) -> str:
    return ":".join("x".join(map(str, shape)) for shape in tensors if shape)


def _of_product(name: str, text: str, tensors: tuple[Shape, ...], strides: str, size: list[int | None]) -> Work:
    sizes = aten.dimensions(name, text)
    if sizes is None:
        return Work()
    m, n, k = sizes
    first, second = aten.PRODUCTS[name]
    batch = prod(tensors[first][:-2])
    moved = _bytes([(tensors[first], size[first]), (tensors[second], size[second]), ((batch, m, n), size[first])])
    lies = _list(strides)
    flags = [_flag(lies[place]) if place < len(lies) else None for place in (first, second)]
    transpose = "".join(flag for flag in flags if flag) if all(flags) else None
    problem = _written([tensors[first], tensors[second]])
    return Work(problem, m, n, k, transpose, 2 * batch * m * n * k, moved, f"shapes of {name}")


def _flag(strides: Any) -> str | None:
    """Return N for a matrix that lies row by row, T for column by column, None for others."""
    if not isinstance(strides, list) or len(strides) < 2:
        return None
    return "N" if strides[-1] == 1 else "T" if strides[-2] == 1 else None


def _of_convolution(name: str, tensors: Sequence[Shape], arguments: str, size: int | None, seen: Sequence[_Triple]) -> Work:
    """Return the work of a convolution; where several could be meant, what is the same in all of them."""
    found = _candidates(_short(name), [shape for shape in tensors if len(shape) > 2], arguments, seen)
    if not found or any(len({len(shape) for shape in triple}) != 1 for triple in found):
        return Work()
    problems = {_written([x, weights]) for x, weights, _ in found}
    flops = {2 * prod(y) * prod(weights[1:]) for _, weights, y in found}
    elements = {sum(map(prod, triple)) for triple in found}
    moved = size * elements.pop() if size and len(elements) == 1 else None
    told = flops.pop() if len(flops) == 1 else None
    source = f"shapes of {name}" if told is not None else None
    return Work(problems.pop() if len(problems) == 1 else None, flops=told, bytes=moved, source=source)


def _candidates(short: str, known: list[Shape], arguments: str, seen: Sequence[_Triple]) -> list[_Triple]:
    """Return input, weights and output of the convolutions that an operator may stand for."""
    if ("convolution" not in short and short not in _PLACES) or "transpose" in short:
        return []
    if short in _BACKWARD:
        return [_roles(short, known)] if len(known) == 3 else []
    if len(known) != 2:
        return []
    first, second = known
    if short.endswith("backward_input"):
        return _fitting_ones(seen, y=first, weights=second)
    if short.endswith("backward_weight"):
        return _fitting_ones(seen, y=first, x=second)
    y = _convolved(short, first, second, arguments)
    return [(first, second, y)] if y else _fitting_ones(seen, x=first, weights=second)


# Where the operators have stride, padding and dilation among their inputs
_PLACES = {
    "convolution": (3, 4, 5), "cudnn_convolution": (3, 2, 4), "miopen_convolution": (4, 3, 5), "mkldnn_convolution": (4, 3, 5),
    "convolution_overrideable": (3, 4, 5), "conv1d": (3, 4, 5), "conv2d": (3, 4, 5), "conv3d": (3, 4, 5),
}  # fmt: skip


def _convolved(short: str, x: Shape, weights: Shape, arguments: str) -> Shape | None:
    """Return the shape of a convolution's output: floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1 an axis."""
    places, values = _PLACES.get(short), _list(arguments)
    if places is None or len(values) <= max(places):
        return None
    stride, padding, dilation = (_list(values[place]) if isinstance(values[place], str) else [] for place in places)
    axes = len(x) - 2
    told = [[*found] * axes if len(found) == 1 else found for found in (stride, padding, dilation)]
    if any(len(found) != axes or any(type(n) is not int for n in found) for found in told) or 0 in told[0]:
        return None
    space = [
        (size + 2 * pad - spread * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, spread in zip(x[2:], weights[2:], *told, strict=True)
    ]
    return (x[0], weights[0], *space) if all(size > 0 for size in space) else None


def _of_attention(name: str, tensors: tuple[Shape, ...], size: list[int | None]) -> Work:
    """Return the work of attention over query, key and value, each of four dimensions; a causal mask is not told and not counted.

    scaled_dot_product_* have (batch, heads, length, size), the functions that these call (batch, length, heads, size).
    """
    known = [(shape, element) for shape, element in zip(tensors, size, strict=True) if len(shape) == 4]
    short = _short(name)
    backward = "backward" in short
    inputs = known[1:4] if backward else known[:3]  # the gradient comes first
    if "attention" not in short or len(inputs) < 3:
        return Work()
    shapes = [shape for shape, _ in inputs]
    heads, length = (1, 2) if short.startswith("scaled_dot_product") else (2, 1)
    query, key, value = shapes
    factor = 3 * query[3] + 2 * value[3] if backward else query[3] + value[3]
    output = ((*query[:3], value[3]), inputs[0][1])
    moved = _bytes([*inputs, *inputs, output, output] if backward else [*inputs, output])
    flops = 2 * query[0] * query[heads] * query[length] * key[length] * factor
    return Work(_written(shapes), flops=flops, bytes=moved, source=f"shapes of {name}")


def _of_elements(name: str, kind: str, tensors: tuple[Shape, ...], size: list[int | None]) -> Work:
    known = [(shape, element) for shape, element in zip(tensors, size, strict=True) if shape]
    if not known or "::" not in name:
        return Work()
    largest = max(known, key=lambda pair: prod(pair[0]))
    if name in aten.FILLS:
        moved = _bytes([largest])
    elif name == "aten::copy_":
        moved = _bytes(known[:2]) if len(known) > 1 else None
    elif kind == "reduction":
        moved = _bytes(known)
    elif kind in _ELEMENTS or (kind in ("cast", "copy") and len(known) == 1):
        moved = _bytes([*known, largest])
    else:
        moved = None
    if moved is None:
        return Work(_written(tensors))
    return Work(_written(tensors), bytes=moved, source=f"shapes of {name}")
