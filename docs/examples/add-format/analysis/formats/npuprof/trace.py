"""Logs of npu-prof: calls of the host, and the kernels that they launched.

The first line names the version and the device. Each other line is `what,id,start_ns,end_ns,lane,name`: what is call or kernel,
lane is the host's thread or the device's queue, and a kernel has the id of the call that launched it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.trace import Trace, conform

_FIRST_LINE = re.compile(r"# npu-prof (?P<version>[\d.]+) device=(?P<device>\w+)\r?\n")
_COLUMNS = {"what": "string", "id": "Int64", "start_ns": "int64", "end_ns": "int64", "lane": "Int64", "name": "string"}
_PROCESS = 0  # a log is of one process, and does not name it


def matches(head: Head) -> bool:
    """Return whether the file begins with npu-prof's own line."""
    return _FIRST_LINE.match(head.text) is not None


def read(path: Path) -> Trace:
    """Return calls and kernels; raise EvidenceError where a line is damaged."""
    with path.open(encoding="utf8", errors="replace") as file:
        first = _FIRST_LINE.match(file.readline())
        if first is None:
            raise EvidenceError(f"{path}: the first line is not npu-prof's; record again")
        try:
            rows = pd.read_csv(file, names=list(_COLUMNS), dtype=_COLUMNS, keep_default_na=False)  # a kernel may be called "nan"
        except (ValueError, TypeError, OverflowError) as error:
            raise EvidenceError(f"{path}: a line is damaged ({error}); record again") from error
    rows[["start_ns", "end_ns"]] += 1  # a log counts from 0, which in a Trace is no time
    calls, kernels = rows[rows["what"] == "call"], rows[rows["what"] == "kernel"]
    others = len(rows) - len(calls) - len(kernels)
    return Trace(
        calls=conform("calls", _as_calls(calls)),
        kernels=conform("kernels", _as_kernels(kernels, first["device"])),
        info={"source": {"format": "npuprof", "tool": "npu-prof", "version": first["version"], "schema": None}},
        diagnostics={"lines of an unknown sort": others} if others else {},
    )


def _as_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the calls with the columns of the Trace."""
    renamed = rows.rename(columns={"id": "correlation", "lane": "thread"})
    return renamed.assign(process=_PROCESS, api="npu")


def _as_kernels(rows: pd.DataFrame, device: str) -> pd.DataFrame:
    """Return the kernels with the columns of the Trace."""
    renamed = rows.rename(columns={"id": "correlation", "lane": "thread"})
    duration = rows["end_ns"] - rows["start_ns"]
    return renamed.assign(process=_PROCESS, device=device, duration_ns=duration, count=1)
