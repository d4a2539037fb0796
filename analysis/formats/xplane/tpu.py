"""Planes of TPUs' cores: operations, transfers, waits for transfers, and operations that contain others."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.formats.holders import holders
from kernelscope.analysis.formats.xplane import columns
from kernelscope.analysis.formats.xplane import steps as xplane_steps

_WORK = ("XLA Ops", "Sparse Core Ops")
_ASYNCHRONOUS = "Async XLA Ops"
_MODULES = ("XLA Modules", "Sparse Core Modules")
_OF_TRANSFERS = "copy-(?:start|done)$"  # categories of operations that start asynchronous copies and wait for them
_HOLDERS = r"^(while|conditional|call|async-start)"  # categories of operations that contain others
_KINDS = (
    (r"^(all-|reduce-scatter|collective|send|recv)", "communication"),
    (r"^(copy|async-copy)", "copy"),
    (r"^data formatting", "layout"),
)
_HOST_MEMORY = "S(5)"  # marks host memory in XLA's shapes


def take_apart(events: pd.DataFrame, tables: columns.Tables, diagnostics: dict[str, int]) -> None:
    """Sort the events of TPU cores' planes into tables."""
    is_work = events["line"].isin(_WORK).to_numpy(dtype=bool)
    is_module = events["line"].isin(_MODULES).to_numpy(dtype=bool)
    asynchronous = (events["line"] == _ASYNCHRONOUS).to_numpy(dtype=bool)
    is_copy = asynchronous & columns.matching(events["stat_hlo_category"], "copy|async-copy")
    holds = is_work.copy()
    holds[is_work] = _holders(events[is_work])
    waits = is_work & columns.matching(events["stat_hlo_category"], _OF_TRANSFERS)
    seen = events["device"].isin(events.loc[is_copy, "device"].unique()).to_numpy(bool)
    stands = waits & ~seen & columns.matching(events["stat_hlo_category"], "copy-done")
    tables["kernels"].append(_kernels(events[is_work & ~holds & ~waits]))
    tables["syncs"].append(_waits(events[waits & ~stands]))
    tables["copies"].append(_copies(events[is_copy | stands]))
    for chosen, nested in ((holds, True), ((asynchronous & ~is_copy) | is_module, False)):
        rows = events[chosen]
        domain = (rows["device"].astype("string") + " " + rows["line"].astype("string")).astype("category")
        end = rows["start_ns"] + rows["duration_ns"]
        tables["ranges"].append(
            rows[["start_ns", "name"]].assign(
                end_ns=end, thread=rows["lane"], domain=domain, nested=nested, category=columns.constant(rows.index, "user")
            )
        )
    steps = (events["line"] == xplane_steps.LINE).to_numpy(dtype=bool)
    columns.count(diagnostics, "derived events not read", int((~(is_work | is_module | asynchronous | steps)).sum()))


def _holders(work: pd.DataFrame) -> columns.Flags:
    """Return which operations only contain others: loops, branches and calls with operations inside."""
    spans = pd.DataFrame({"thread": work["lane"], "start_ns": work["start_ns"], "end_ns": work["start_ns"] + work["duration_ns"]})
    return holders(spans) & columns.matching(work["stat_hlo_category"], _HOLDERS)


def _kernels(events: pd.DataFrame) -> pd.DataFrame:
    """Return operations as kernels under their short names; XLA's category gives the kind of those that only move data."""
    kind = np.full(len(events), None, dtype=object)
    for pattern, name in _KINDS:
        kind[columns.matching(events["stat_hlo_category"], pattern)] = name
    short = events["display_name"].astype("string").fillna(events["name"].astype("string"))
    return columns.work(events).assign(name=short.astype("category"), kind=kind, **columns.described(events))


def _waits(events: pd.DataFrame) -> pd.DataFrame:
    """Return operations that start a transfer or wait for one; the transfer itself is a copy."""
    spans = events[["start_ns", "device", "process"]].assign(end_ns=events["start_ns"] + events["duration_ns"])
    return spans.assign(thread=events["line_id"], kind=events["stat_hlo_category"])


def _copies(events: pd.DataFrame) -> pd.DataFrame:
    """Return transfers, or waits that stand for them; marks of host memory in the shapes give the direction.

    A transfer's text has the shape at its target, then that at its source: "= (TARGET, SOURCE, ", "copy-done((TARGET, SOURCE, ".
    """
    target, source = (
        columns.extracted(events["name"], rf".*?(?:= |copy-done\()\({shape}")
        .astype("string")
        .str.contains(_HOST_MEMORY, regex=False)
        for shape in (r"(?P<shape>\S+), ", r"\S+, (?P<shape>\S+?),? ")
    )
    operation = np.select(
        [(target & source).fillna(False), target.fillna(False), source.fillna(False), target.notna()],
        ["host to host", "device to host", "host to device", "device to device"],
        default="other",
    )
    size = events["stat_bytes_accessed"].where(events["line"] == _ASYNCHRONOUS)  # a wait does not last as long as its transfer
    return columns.work(events).assign(operation=operation, bytes=size)
