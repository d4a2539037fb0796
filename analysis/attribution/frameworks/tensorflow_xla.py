"""Programs that XLA compiled for TensorFlow (`jit_compile`): operations have the names of the graph's operators they come from.

A fusion of several operators has the name of the one that computes its result, so all that was fused into it counts for that
one.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, jax
from kernelscope.analysis.attribution.frameworks.tensorflow_names import RecordedNames
from kernelscope.analysis.formats.xplane import tables as xplane

_NUMBER = re.compile(r"(_\d+)?(\.\d+)*$")
_CAUSED = re.compile(r"^(XLA_Args|XLA_Retvals|)$")  # names of operations that XLA adds


def operations(
    path: Path, context: Context, names: RecordedNames, calls: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], pd.Series]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the operations of compiled functions as jax.operations does, with layers from the graph's names.

    calls: when functions ran (start and end in ns), and their names.
    """
    if not xplane.read_programs(path):
        return pd.DataFrame(), {}
    table, diagnostics = jax.operations(path, context)
    function = _running(table["start_ns"].to_numpy(np.int64), *calls)
    keys = pd.MultiIndex.from_arrays([table["scope"].astype("string").fillna(""), function])
    codes, distinct = pd.factorize(keys)
    result = []
    for scope, of in distinct:
        name = "" if _CAUSED.match(scope) else scope
        result.append(names.resolve(name, _NUMBER.sub("", name.rpartition("/")[2]), str(of) if isinstance(of, str) else None))
    for column in ("layer", "phase", "attribution"):
        values = pd.array([getattr(one, column) for one in result], dtype="string")
        table[column] = values.take(codes) if len(codes) else values
    table["kind"] = table["kind"].mask(table["phase"] == "optimizer", "optimizer")
    return table, diagnostics


def _running(at: npt.NDArray[np.int64], start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], name: pd.Series) -> pd.Series:
    """Return the function that ran at each time; null if none did. Calls do not overlap."""
    order = np.argsort(start, kind="stable")
    row = np.searchsorted(start[order], at, side="right") - 1
    if not len(order):
        return pd.Series(pd.array([None] * len(at), dtype="string"))
    place = order[np.maximum(row, 0)]
    result = name.astype("string").reset_index(drop=True).take(place).reset_index(drop=True)
    return result.where((row >= 0) & (at < end[place]))
