"""Join metrics that a profiler took by replaying kernels to the kernels of another capture that has their times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from kernelscope.analysis.trace import Trace, empty

_BASE = re.compile(r"^(?:void )?(?P<base>[\w:~]+)(?=[<(]|$)")


def onto_timeline(traces: Sequence[Trace], timed: Sequence[Trace]) -> list[Trace]:
    """Return the traces; if exactly one has a timeline, metrics of captures without one are joined to its kernels.

    A launch is matched with the kernel of the same name, grid and block, by its position among such kernels. Kernels that ran
    only for their metrics are then left out, as they would count twice. The diagnostics count launches without a matching
    kernel.
    """
    counted = [trace for trace in traces if len(trace.metrics) and trace.info.get("clock") == "none"]
    if len(timed) != 1 or not counted:
        return list(traces)
    made = []
    for trace in traces:
        if not any(trace is other for other in counted):
            made.append(trace)
            continue
        place = _places(trace.kernels, timed[0].kernels)
        metrics = trace.metrics.assign(kernel=place.reindex(trace.metrics["kernel"]).to_numpy())
        lost = int(place.isna().sum())
        diagnostics = trace.diagnostics | ({"launches with metrics and without a kernel on the timeline": lost} if lost else {})
        kept = metrics.dropna(subset=["kernel"]).astype({"kernel": "int64"}).reset_index(drop=True)
        made.append(replace(trace, kernels=empty("kernels"), metrics=kept, diagnostics=diagnostics))
    return made


def _places(counted: pd.DataFrame, timed: pd.DataFrame) -> pd.Series:
    """Return, for each launch with metrics, the row of its kernel on the timeline, by full name, else base name; else null."""
    timed = timed[timed["start_ns"].notna().to_numpy(dtype=bool)].sort_values("start_ns", kind="stable")
    result = pd.Series(pd.NA, index=counted.index, dtype="Int64")
    for name in (_full, _base):
        left = counted[result.isna().to_numpy(dtype=bool)]
        keys = ["name", "grid", "block", "turn"]
        mine, theirs = (_turned(table.assign(name=name(table["name"]))) for table in (left, timed))
        pairs = mine.reset_index().merge(theirs.reset_index(), on=keys, suffixes=("", "_timed")).set_index("index")
        result.loc[pairs.index] = pairs["index_timed"].astype("Int64")
    return result


def _turned(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return name, grid and block as text, and each kernel's position among those that are alike."""
    keys = kernels[["name", "grid", "block"]].astype("object")
    known = keys.dropna()
    return known.assign(turn=known.groupby(["name", "grid", "block"]).cumcount())


def _full(names: pd.Series) -> pd.Series:
    return names.astype("object")


def _base(names: pd.Series) -> pd.Series:
    """Return names without template arguments and parameters, as ncu prints them with --print-kernel-base function."""
    bases = {name: match["base"].rpartition("::")[2] for name in names.dropna().unique() if (match := _BASE.match(str(name)))}
    return names.astype("object").map(bases)
