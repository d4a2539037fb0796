"""Caffe2: its operators, each run and timed on its own, and the lines that MKL printed for the work inside them.

MKL's lines have no time of day. A line stands between the marks of the range around its operator. The first line of an operator
is taken to start with the operator, and each further line to follow the one before.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, Evidence, timed
from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.mkl import verbose_tables as mkl_verbose

STREAM_FILE = "stdout.raw"
_CLOSE_NS = 1_000_000  # an operator begins right after its range was opened
_KINDS = {
    "Conv": "convolution forward",
    "ConvGradient": "convolution weight gradient",  # and the data gradient, in one operator
    "FC": "gemm",
    "FCGradient": "gemm",
    "SoftmaxWithLoss": "softmax",
    "SoftmaxWithLossGradient": "softmax",
    "Flatten": "copy",
    "ResizeLike": "copy",
    "ConstantFill": "elementwise",
    "StopGradient": "copy",
    "Dropout": "random",
    "DropoutGrad": "elementwise",
}


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if one of its files cannot be read."""
    fit = partial(_placed, folder / STREAM_FILE)
    return timed.read(folder, "caffe2", _KINDS.get, "operator name", context, fit, blas="mkl")


def _placed(path: Path, calls: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    """Return MKL's calls, placed in the operators in whose ranges they were printed. calls: the empty table of calls."""
    split = stream.split(path)
    lines = mkl_verbose.parse(split.mkl)
    if lines.empty or operators.empty or split.markers.empty:
        return calls
    before = np.searchsorted(split.markers["line_number"].to_numpy(np.int64), lines["line_number"].to_numpy(np.int64)) - 1
    opened = (split.markers["edge"] == "B").to_numpy(dtype=bool)[before] & (before >= 0)
    at = split.markers["time_ns"].to_numpy(np.int64)[before]
    begins = operators["start_ns"].to_numpy(np.int64)
    owner = np.minimum(np.searchsorted(begins, at), len(begins) - 1)
    inside = opened & (begins[owner] >= at) & (begins[owner] - at < _CLOSE_NS)
    lines, owner = lines[inside].reset_index(drop=True), owner[inside]
    lasted = lines["duration_ns"].to_numpy(np.int64)
    earlier = pd.Series(lasted).groupby(owner).cumsum().to_numpy(np.int64) - lasted
    own = operators.iloc[owner].reset_index(drop=True)
    end = own["end_ns"].to_numpy(np.int64)
    start = np.minimum(own["start_ns"].to_numpy(np.int64) + earlier, end)
    lines = lines.assign(
        name=lines["function"].str.lower(), thread=own["thread"], start_ns=start, end_ns=np.minimum(start + lasted, end)
    )
    return pd.DataFrame(lines, columns=calls.columns)
