"""oneDNN called directly: its lines, each between the marks of its layer's range.

There is no framework, so there are no operators: a step is primitives, and what calling them costs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, Evidence
from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.onednn import verbose_tables as onednn_verbose
from kernelscope.analysis.trace import conform, empty

STREAM_FILE = "stdout.raw"


def read(folder: Path, context: Context) -> Evidence:
    """Return the kernels of a kernels pass; raise EvidenceError if its stream cannot be read."""
    split = stream.split(folder / STREAM_FILE)
    lines = onednn_verbose.parse(split.onednn)
    diagnostics = {
        "onednn lines that could not be read": int(lines.attrs["parse_failures"]),
        "onednn lines without a time": int(lines["wall_ns"].isna().sum()),
    }
    lines = lines[lines["wall_ns"].notna()].reset_index(drop=True)
    lines["start_ns"] = context.clock.from_wall(lines["wall_ns"].to_numpy(dtype=np.int64))
    lines["layer"], opened = _open_layer(lines, split.markers, context)
    lines = lines[opened.to_numpy(dtype=bool)].reset_index(drop=True)
    diagnostics["onednn lines outside of every layer"] = int(lines["layer"].isna().sum())
    return Evidence(empty("operators"), conform("kernels", _kernels(lines, context)), diagnostics)


def _open_layer(lines: pd.DataFrame, markers: pd.DataFrame, context: Context) -> tuple[pd.Series, pd.Series]:
    """Return the layer whose range is open at each line, null for none, and whether the line is in a measured step.

    Ranges of layers do not nest, and a primitive's line is printed before its range is closed.
    """
    names = {str(layer["name"]) for layer in context.network["layers"]}
    before = np.searchsorted(markers["line_number"].to_numpy(np.int64), lines["line_number"].to_numpy(np.int64), side="left") - 1
    marked = (markers["edge"] == "B") & markers["name"].isin(names)
    layers = markers["name"].astype("string").where(marked).to_numpy(dtype=object)
    at = np.append(markers["time_ns"].to_numpy(np.int64), 0)[before]  # 0 before the first mark, which is in no step
    return pd.Series(np.array([*layers, None], dtype=object)[before], dtype="string"), pd.Series(context.in_steps(at))


def _kernels(lines: pd.DataFrame, context: Context) -> pd.DataFrame:
    thread = int(context.steps["thread"].iloc[0]) if len(context.steps) else 0
    table = lines.drop(columns=["attributes", "auxiliary", "memory"])
    return table.assign(
        end_ns=table["start_ns"] + table["duration_ns"],
        library="onednn",
        thread=thread,
        phase="forward",
        attribution=np.where(table["layer"].notna(), "launch range", "none"),
        count=1,
        device="cpu",
    )
