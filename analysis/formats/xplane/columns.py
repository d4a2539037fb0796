"""Shared by all readers of XSpace files: operations on text columns, and the columns that all device work has."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.formats import scopes
from kernelscope.analysis.formats.xplane import kernel_operators
from kernelscope.analysis.trace.categories import joined as joined_categories

INTEGERS = (
    "correlation_id", "device_id", "step_num", "cuda_graph_exec_id", "cuda_graph_id", "bytes_accessed", "allocation_bytes",
    "bytes_allocated", "bytes_reserved", *kernel_operators.INTEGERS,
)  # fmt: skip
TEXTS = (
    "kernel_details", "memcpy_details", "Memset_details", "memalloc_details", "MemFree_details", "MemoryResidency_details",
    "tf_op", "name", "hlo_op", "hlo_category", "allocator_name", *kernel_operators.TEXTS,
)  # fmt: skip

Flags = npt.NDArray[np.bool_]
Tables = dict[str, list[pd.DataFrame]]


def count(diagnostics: dict[str, int], name: str, number: int) -> None:
    """Add a number of oddities to a trace's diagnostics, unless it is 0."""
    if number:
        diagnostics[name] = diagnostics.get(name, 0) + int(number)


def joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables; the categories of a column are those of all parts."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame()
    categorical = {
        column: joined_categories([part[column] for part in parts])
        for column in parts[0].columns
        if all(column in part and isinstance(part[column].dtype, pd.CategoricalDtype) for part in parts)
    }
    rest = pd.concat([part.drop(columns=list(categorical)) for part in parts], ignore_index=True)
    return rest.assign(**categorical)


def matching(column: pd.Series, pattern: str) -> Flags:
    """Return which rows of a categorical column have a text whose start matches the pattern."""
    fits = column.cat.categories.astype("str").str.match(pattern).astype(bool)
    return np.append(np.asarray(fits, dtype=bool), False)[column.cat.codes.to_numpy()]


def extracted(column: pd.Series, pattern: str) -> pd.Series:
    """Return the pattern's group from a categorical column as a categorical one, null if it does not match."""
    result = column.cat.categories.astype("str").str.extract(pattern, expand=False)
    codes, texts = pd.factorize(pd.Series(result, dtype="object"))
    values = pd.Categorical.from_codes(np.append(codes, -1)[column.cat.codes.to_numpy()], categories=pd.Index(texts, dtype="str"))
    return pd.Series(values, index=column.index)


def number(column: pd.Series, pattern: str) -> pd.Series:
    """Return the pattern's group from a categorical column as Int64."""
    texts = extracted(column, pattern)
    values = np.array([int(text) for text in texts.cat.categories], dtype=np.int64)
    codes = texts.cat.codes.to_numpy()
    return pd.Series(pd.arrays.IntegerArray(np.append(values, 0)[codes], codes < 0), index=column.index)


def constant(index: pd.Index, text: str) -> pd.Series:
    """Return a column with the same text in all rows."""
    values = pd.Categorical.from_codes(np.zeros(len(index), dtype=np.int8), categories=pd.Index([text], dtype="str"))
    return pd.Series(values, index=index)


def work(events: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that all tables of device work share; events that stand for several executions have no start."""
    timed = (events["count"] == 1).to_numpy(dtype=bool)
    start = events["start_ns"].astype("Int64").where(timed)
    return pd.DataFrame(
        {
            "start_ns": start,
            "end_ns": start + events["duration_ns"],
            "duration_ns": events["duration_ns"],
            "count": events["count"],
            "device": events["device"],
            "thread": events["line_id"],
            "process": events["process"],
            "correlation": events["stat_correlation_id"],
        },
        index=events.index,
    )


def described(events: pd.DataFrame) -> dict[str, pd.Series]:
    """Return operator, layer, phase and attribution of device work, from the statistics that name its operator."""
    keys = pd.MultiIndex.from_arrays([events[f"stat_{name}"].cat.codes for name in ("name", "tf_op", "hlo_op")])
    codes, distinct = pd.factorize(keys)
    texts = [events[f"stat_{name}"].cat.categories for name in ("name", "tf_op", "hlo_op")]
    named = [
        _operator_of(*[str(text[code]) if code >= 0 else "" for text, code in zip(texts, row, strict=True)]) for row in distinct
    ]
    columns = {"operator": pd.Series([kind or None for _, kind in named], dtype="string"), **scopes.described(named)}
    return {name: values.take(codes).set_axis(events.index).astype("category") for name, values in columns.items()}


def _operator_of(name: str, tf_op: str, hlo_op: str) -> tuple[str, str]:
    """Return an operator's full name and type: from JAX's op_name, TensorFlow's name:Type, or else XLA's operation."""
    tf_name, _, tf_type = tf_op.rpartition(":") if ":" in tf_op else (tf_op, "", "")
    if tf_name in ("XlaModule", "Thunk"):
        tf_name, tf_type = "", ""
    scope = name or tf_name
    if scope:
        return scope, (tf_type if not name else "") or re.sub(r"\[.*$", "", scope.rsplit("/", 1)[-1], flags=re.DOTALL)
    return "", re.sub(r"[.\d]+$", "", hlo_op)
