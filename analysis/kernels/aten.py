"""Facts about PyTorch's operators by name: which compute nothing, which only call others, which multiply matrices."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.files import json_text

# Views, allocation and bookkeeping: they return memory without values, or another view of it. Their time is the host's. A few
# of them (to, contiguous, reshape, dropout) may compute through operators that they call.
_VIEWS = """
    _cudnn_rnn_flatten_weight _has_compatible_shallow_copy_type _local_scalar_dense _nested_tensor_size _reshape_alias
    _unsafe_view alias alpha_dropout as_strided as_strided_ broadcast_tensors broadcast_to chunk contiguous
    cudnn_is_acceptable data detach detach_ diagonal dropout empty empty_like empty_strided expand expand_as
    feature_dropout flatten is_nonzero item lift lift_fresh mH mT matrix_H moveaxis movedim narrow new_empty
    new_empty_strided numel numpy_T permute pin_memory ravel real record_stream requires_grad_ reshape reshape_as resize_
    resize_as_ resolve_conj resolve_neg result_type rnn_flatten_weight select set_ set_data size slice split
    split_with_sizes squeeze squeeze_ stride swapaxes swapdims sym_size t t_ to transpose transpose_ type_as unbind
    unflatten unfold unsafe_chunk unsafe_split unsqueeze unsqueeze_ view view_as view_as_complex view_as_real
"""
COMPUTE_NOTHING = frozenset("aten::" + name for name in _VIEWS.split()) | {"detach", "detach_", "[memory]"}

# They fill memory for their caller: part of a caller that computes, and kernels of their own otherwise.
FILLS = frozenset(["aten::fill_", "aten::zero_"])

# They allocate and fill: the kernel is the filling operator that they call.
_MAKERS = "full full_like new_full new_ones new_zeros ones ones_like scalar_tensor zeros zeros_like"
ALLOCATE_AND_FILL = frozenset("aten::" + name for name in _MAKERS.split())

# Matrix products, and the positions of the two factors among their inputs
PRODUCTS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::addmm_": (1, 2),
    "aten::baddbmm": (1, 2),
    "aten::baddbmm_": (1, 2),
    "aten::addbmm": (1, 2),
    "aten::_addmm_activation": (1, 2),
    "aten::mv": (0, 1),
    "aten::addmv": (1, 2),
    "aten::addmv_": (1, 2),
}

_DTYPES = {
    "float": "f32",
    "double": "f64",
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "long int": "s64",
    "long": "s64",
    "int": "s32",
    "signed char": "s8",
    "unsigned char": "u8",
    "bool": "bool",
}


def may_compute(name: str) -> bool:
    """Return whether an operator of this name computes itself, rather than being a view, a wrapper or the engine's."""
    if name in COMPUTE_NOTHING or name in ALLOCATE_AND_FILL:
        return False
    return "::" in name and not name.startswith(("autograd::", "torch::autograd::"))


def dimensions(name: str, shapes: str) -> tuple[int, int, int] | None:
    """Return rows, columns and inner dimension of the product that an operator computes; None if it computes none.

    shapes: the operator's input shapes as JSON text, as in the trace.
    """
    if name not in PRODUCTS:
        return None
    inputs = _tensor_shapes(shapes)
    first, second = PRODUCTS[name]
    if len(inputs) <= second or not inputs[first] or not inputs[second]:
        return None
    left, right = inputs[first], inputs[second]
    if len(left) < 2:
        return None
    columns = right[-1] if len(right) > 1 else 1
    return left[-2], columns, left[-1]


def problem(shapes: str) -> str | None:
    """Return the shapes of an operator's tensors, such as 64x6x28x28:6x1x5x5:6; None if it has none."""
    return ":".join("x".join(map(str, shape)) for shape in _tensor_shapes(shapes) if shape) or None


def dtype(types: str) -> str | None:
    """Return the element type of an operator's first tensor of a known type, such as f32; None if there is none."""
    return next((_DTYPES[name] for name in json_text.listed(types) if isinstance(name, str) and name in _DTYPES), None)


def converts(types: str) -> bool:
    """Return whether an operator's first two tensors have different types, so that a copy between them converts."""
    known = [_DTYPES[name] for name in json_text.listed(types) if isinstance(name, str) and name in _DTYPES]
    return len(known) > 1 and known[0] != known[1]


def changes_layout(shapes: str, strides: str) -> bool:
    """Return whether an operator's first two tensors, of one shape, differ in the memory order of their dimensions."""
    sizes = _tensor_shapes(shapes)[:2]
    steps = _tensor_shapes(strides)[:2]
    if len(sizes) < 2 or sizes[0] != sizes[1] or any(len(one) != len(sizes[0]) for one in steps) or len(steps) < 2:
        return False
    places = [place for place, size in enumerate(sizes[0]) if size > 1]
    order = [sorted(places, key=lambda place, one=one: -one[place]) for one in steps]  # type: ignore[misc]
    return len(places) > 1 and all(0 not in [one[place] for place in places] for one in steps) and order[0] != order[1]


def _tensor_shapes(text: str) -> list[list[int]]:
    """Return a list of sizes for each input; empty for inputs that are not tensors (scalars, lists of tensors)."""
    result = []
    for value in json_text.listed(text):
        sizes = value if isinstance(value, list) else []
        result.append([size for size in sizes if isinstance(size, int)] if _all_integers(sizes) else [])
    return result


def _all_integers(values: list[object]) -> bool:
    return all(isinstance(value, int) for value in values)


def products(names: pd.Series, shapes: pd.Series) -> pd.DataFrame:
    """Return columns m, n, k of each operator's matrix product (null for other operators), for aligned names and shapes."""
    pairs = pd.MultiIndex.from_arrays([names.astype(str), shapes.astype("object").fillna("")])
    codes, distinct = pd.factorize(pairs)
    rows = [dimensions(name, text) or (None, None, None) for name, text in distinct]
    table = pd.DataFrame(rows, columns=["m", "n", "k"]).astype("Int64")
    return table.take(codes).set_index(names.index)
