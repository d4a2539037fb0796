"""Describe a kernel by the operator that ran it and by its name: kind, library, algorithm, type, transposition, tensor cores.

The operator decides the kind first, because a name may not: the same sgemm multiplies for a dense layer and for a convolution.
The name decides if there is no operator, or one that the rules of `analysis.kernels.classify` do not know, and where it says
more:

- Kernels that only move data keep their kind inside any other operator: a layout change, copy, cast or communication within a
  convolution is no convolution. (A copy within an operator that casts or changes layouts takes that operator's kind.)
- If an operator stands for both gradients of a convolution, or for all three directions, the name decides the direction. A
  forward kernel within a backward operator computes the data gradient, as a convolution with rotated weights.
- Softmax and random numbers within attention keep their kind.
- A kernel that is named like an operator of PyTorch, as in a table of operators, is that operator's.
- torch.compile names the operator after the kernel: such an operator says nothing.
- A compiler names the operator after the last instruction that it fused: products and reductions that end in a move or a cast
  keep their kind, and so does XLA's arithmetic that ends in a cast.

Parts of a computation have the kind of the whole: summing the parts of a split-k product is "gemm", the transforms of a
Winograd convolution are convolutions.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.kernels.classify import UNKNOWN, operator_kind, simplify
from kernelscope.analysis.kernels.lookup import look
from kernelscope.analysis.kernels.rules import Rule
from kernelscope.analysis.trace import CONVOLUTIONS
from kernelscope.analysis.trace.categories import filled

COLUMNS = ("kind", "library", "algorithm", "dtype", "transpose", "tensor_core")

# names of PyTorch's operators, which tables of its profiler list as work; no kernel is named so
_OPERATOR = re.compile(r"(?:aten|quantized|prepacked|mkldnn|onednn)::\w{1,100}")
_COMPILED_OPERATOR = "triton_"
_SCATTER = "gather or scatter"  # how a look-up of an operator may work
_MOVES = ("layout", "copy", "cast", "communication")


class Description(NamedTuple):
    """What is known about a kernel; None is unknown.

    kind: one of analysis.trace.KINDS. decided_by: "operator", "name" or "nothing". operator_kind: the kind of the operator on
    its own. rule, position: the rule that matches the name, and its position in RULES, if any. tile: the part of a product's
    result that a block computes.
    """

    kind: str
    library: str | None
    algorithm: str | None
    dtype: str | None
    transpose: str | None
    tensor_core: bool | None
    tile: str | None
    rule: Rule | None
    position: int | None
    decided_by: str
    operator_kind: str


def describe(name: str, operator: str | None = None, phase: str | None = None) -> Description:
    """Describe a kernel of this name. operator: type of the operator that ran it; phase: one of analysis.trace.PHASES."""
    parts = look(name)
    rule = parts.rule
    operator = name if operator is None and _OPERATOR.fullmatch(name) else operator
    kind, decided_by = _decide(rule, operator, phase)
    return Description(
        kind=kind,
        library=parts.library,
        algorithm=rule.algorithm if rule else None,
        dtype=parts.dtype,
        transpose=parts.transpose,
        tensor_core=parts.tensor_core,
        tile=parts.tile,
        rule=rule,
        position=parts.position,
        decided_by=decided_by,
        operator_kind=_operator_kind(operator, phase),
    )


def describe_all(names: pd.Series, operators: pd.Series | None = None, phases: pd.Series | None = None) -> pd.DataFrame:
    """Return COLUMNS for many kernels, aligned with `names`; each distinct (name, operator, phase) is described once.

    Text columns are categories, tensor_core is boolean. For a kernel without a name, the operator may give the kind.
    """
    coded = [_codes(column, len(names)) for column in (names, operators, phases)]
    key = np.zeros(len(names), dtype=np.int64)
    for codes, texts in coded:
        key = key * (len(texts) + 1) + (codes + 1)
    inverse, distinct = pd.factorize(key)
    rows = []
    for number in distinct.tolist():
        texts_of: list[str | None] = []
        for _, texts in reversed(coded):
            number, code = divmod(number, len(texts) + 1)
            texts_of.insert(0, texts[code - 1] if code else None)
        rows.append(_row(*texts_of))
    result = pd.DataFrame(rows, columns=list(COLUMNS), dtype="object")
    columns: dict[str, Any] = {name: result[name].astype("string").astype("category").array for name in COLUMNS[:-1]}
    columns["tensor_core"] = result["tensor_core"].astype("boolean").array
    return pd.DataFrame({name: values.take(inverse) for name, values in columns.items()}, index=names.index, copy=False)


def fill(kernels: pd.DataFrame) -> None:
    """Fill the columns that the source leaves null, for each of a Trace's kernels, from its operator and its name, in place."""
    if kernels.empty:
        return
    described = describe_all(kernels["name"], kernels["operator"], kernels["phase"])
    for name in ("kind", "library", "algorithm", "dtype", "transpose"):
        kernels[name] = filled(kernels[name], described[name])
    kernels["tensor_core"] = kernels["tensor_core"].fillna(described["tensor_core"])


def _row(name: str | None, operator: str | None, phase: str | None) -> tuple[Any, ...]:
    if name is None:
        kind, _ = _decide(None, operator, phase)
        return kind, None, None, None, None, None
    result = describe(name, operator, phase)
    return tuple(getattr(result, column) for column in COLUMNS)


def _codes(column: pd.Series | None, count: int) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return a column's codes (-1 for null) and distinct texts."""
    if column is None:
        return np.full(count, -1, dtype=np.int64), []
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.cat.codes, dtype=np.int64), [str(text) for text in column.cat.categories]
    codes, texts = pd.factorize(column)
    return np.asarray(codes, dtype=np.int64), [str(text) for text in texts]


def _decide(rule: Rule | None, operator: str | None, phase: str | None) -> tuple[str, str]:
    """Return a kernel's kind and what decided it, by the rules in the module's docstring."""
    by_name = rule.kind if rule is not None and rule.kind else UNKNOWN
    by_operator = _operator_kind(operator, phase)
    if by_operator == UNKNOWN:
        if by_name == UNKNOWN:
            return UNKNOWN, "nothing"
        return _in_phase(by_name, phase), "name"
    if _says_more(by_name, by_operator, rule.algorithm if rule else None) or (
        by_operator == "cast" and _computes_and_rounds(rule)
    ):
        return by_name, "name"
    if by_operator in CONVOLUTIONS and by_name in CONVOLUTIONS and operator is not None:
        return _direction(by_name, by_operator, operator)
    return by_operator, "operator"


def _operator_kind(operator: str | None, phase: str | None) -> str:
    """Return the kind of an operator.

    PyTorch has an operator for each direction. A forward one in the backward phase is a recomputation (checkpointing), so the
    phase is ignored there.
    """
    if operator is None or operator.startswith(_COMPILED_OPERATOR):
        return UNKNOWN
    return operator_kind(operator, None if "::" in operator and phase == "backward" else phase)


def _says_more(by_name: str, by_operator: str, algorithm: str | None) -> bool:
    if by_name == by_operator:
        return False
    if by_name == "copy":
        return by_operator not in ("cast", "layout") and (by_operator != "embedding" or algorithm != _SCATTER)
    if by_name in ("gemm", "reduction") and by_operator in _MOVES:
        return True  # a compiler names a fusion after its last operator
    return by_name in _MOVES or (by_operator == "attention" and by_name in ("softmax", "random"))


def _computes_and_rounds(rule: Rule | None) -> bool:
    """Return whether XLA may have fused several instructions into this kernel; its operator is the last one's, often a cast."""
    return rule is not None and (rule.library, rule.kind) == ("xla", "elementwise")


def _direction(by_name: str, by_operator: str, operator: str) -> tuple[str, str]:
    """Return the direction of a convolution if both operator and name indicate one."""
    forward, data, _ = CONVOLUTIONS
    words = simplify(operator)
    certain = by_operator == data or re.search(r"\b(filter|weights?)\b|transpose", words)
    if certain or by_name == by_operator:
        return by_operator, "operator"
    if by_name == forward:  # the operator computes both gradients
        return data, "name"
    # a framework with one operator name for all directions says forward; PyTorch's forward operators really are forward
    return (by_operator, "operator") if by_operator == forward and "::" in operator else (by_name, "name")


def _in_phase(kind: str, phase: str | None) -> str:
    if phase == "backward" and kind == CONVOLUTIONS[0]:
        return CONVOLUTIONS[1]
    return "optimizer" if phase == "optimizer" and kind in ("elementwise", "reduction") else kind
