"""Operators that hooks timed one by one, and numpy's timed OpenBLAS calls inside them, all on our own clock.

One thread runs them, so they nest, and each instant belongs to the innermost. An operator that computes is a kernel while
nothing that it calls runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.json

from kernelscope.analysis.attribution.frameworks import Context, Evidence
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.kernels import classify
from kernelscope.analysis.trace import intervals

KindOf = Callable[[str], str | None]
Fit = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]

OPERATORS_FILE, CALLS_FILE = "operators.jsonl", "calls.blas.jsonl"
_OPERATORS: dict[str, pa.DataType] = {
    "start_ns": pa.int64(), "end_ns": pa.int64(), "thread": pa.int64(), "computes": pa.bool_(),
    **dict.fromkeys(("name", "layer", "phase", "shapes"), pa.string()),
}  # fmt: skip
_CALLS: dict[str, pa.DataType] = {
    **dict.fromkeys(("thread", "start_ns", "end_ns", "m", "n", "k"), pa.int64()),
    **dict.fromkeys(("function", "kind", "dtype", "problem", "layout", "transpose", "algorithm"), pa.string()),
}


def read(
    folder: Path,
    library: str,
    kind_of: KindOf,
    attribution: str,
    context: Context,
    fit: Fit | None = None,
    blas: str = "openblas",
) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if one of its files cannot be read.

    library: whose code computes where no BLAS call runs. kind_of: an operator's kind by its name; None leaves it to classify.
    attribution: how operators got their layers. fit: from calls and operators, the calls inside operators, if their times are
    not exact or they are reported elsewhere. blas: the library that the calls belong to.
    """
    written = context.report.get("operator_files", [])
    if OPERATORS_FILE not in written or not (folder / OPERATORS_FILE).is_file():
        raise EvidenceError(f"{folder / OPERATORS_FILE}: missing; the pass ended before it was written, run it again")
    operators = _table(folder / OPERATORS_FILE, _OPERATORS)
    operators["phase"] = operators["phase"].fillna("other")
    operators["attribution"] = np.where(operators["layer"].notna(), attribution, "none")
    calls = _table(folder / CALLS_FILE, _CALLS).rename(columns={"function": "name"})
    if fit is not None:
        calls = fit(calls, operators)
    owner = _innermost(operators, calls)
    diagnostics = {
        "operators without a layer": int((operators["layer"].isna() & operators["phase"].isin(["forward", "backward"])).sum()),
        "blas calls outside of operators": int((owner < 0).sum()),
    }
    calls = _owned(calls, operators, owner).assign(library=blas)
    kernels = pd.concat([calls, _own_time(operators, calls, library, kind_of)], ignore_index=True)
    kernels["duration_ns"] = kernels["end_ns"] - kernels["start_ns"]
    unavailable = (
        {} if CALLS_FILE in written or blas != "openblas" else {"calls of BLAS": "numpy's calls could not be redirected here"}
    )
    return Evidence(operators.drop(columns="computes"), kernels.assign(device="cpu"), diagnostics, unavailable=unavailable)


def _table(path: Path, types: Mapping[str, pa.DataType]) -> pd.DataFrame:
    """Read JSON Lines with these columns; a missing or empty file gives an empty table."""
    schema = pa.schema(list(types.items()))
    if not path.is_file() or path.stat().st_size == 0:
        return schema.empty_table().to_pandas()
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        return pyarrow.json.read_json(path, parse_options=options).to_pandas().sort_values("start_ns", ignore_index=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise EvidenceError(f"{path}: incomplete list ({str(error).splitlines()[0]}); record the run again") from error


def _innermost(operators: pd.DataFrame, calls: pd.DataFrame) -> np.ndarray:
    """Return the row of the innermost operator that runs each call, or -1."""
    return intervals.innermost(*intervals.spans(operators), *intervals.spans(calls)[:2])


def _owned(calls: pd.DataFrame, operators: pd.DataFrame, owner: np.ndarray) -> pd.DataFrame:
    """Give each BLAS call the layer, phase and name of its operator."""
    own = operators[["layer", "phase", "name", "attribution"]].reindex(owner).reset_index(drop=True)
    calls = calls.assign(layer=own["layer"], phase=own["phase"], operator=own["name"], count=1)
    return calls.assign(attribution=own["attribution"].fillna("none"))


def _own_time(operators: pd.DataFrame, calls: pd.DataFrame, library: str, kind_of: KindOf) -> pd.DataFrame:
    """Return the time of computing operators in which nothing that they call runs, as kernels.

    An execution may be in several pieces; the first one counts it.
    """
    all_spans = [np.concatenate(pair) for pair in zip(intervals.spans(operators), intervals.spans(calls), strict=True)]
    row, start, end = intervals.leaves(*all_spans)
    computes = np.append(operators["computes"].fillna(False).to_numpy(bool), np.zeros(len(calls), dtype=bool))
    chosen = computes[row]
    row, start, end = row[chosen], start[chosen], end[chosen]
    pieces = operators.iloc[row][["thread", "name", "layer", "phase", "attribution", "shapes"]].reset_index(drop=True)
    first = ~pd.Series(row).duplicated()
    kind = (
        pieces["name"]
        .map({name: kind_of(name) for name in pieces["name"].unique()})
        .fillna(classify.kinds(pieces["name"], pieces["phase"]).astype(object))
    )
    table: pd.DataFrame = pieces.drop(columns="shapes").assign(
        start_ns=start, end_ns=end, count=first.astype(int), library=library, operator=pieces["name"],
        kind=kind.mask(pieces["phase"] == "optimizer", "optimizer"), problem=pieces["shapes"],
    )  # fmt: skip
    return table
