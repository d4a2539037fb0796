"""Nsight Compute's own reports (.ncu-rep): read by NVIDIA's library or by an installed ncu, as their format is not published."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.ncu import printed, rules, tables
from kernelscope.analysis.trace import Trace
from kernelscope.nsys_wrappers import find, ncu_import, ncu_library
from kernelscope.nsys_wrappers.export import ExportError
from kernelscope.tracer.inside import temporary

FORMAT = "ncu-report"
_MAGIC = b"NVR\x00"


def matches(head: Head) -> bool:
    """Return whether the file begins like a report of any version of Nsight Compute."""
    return not head.compressed and head.content.startswith(_MAGIC)


def read(path: Path) -> Trace:
    """Return the Trace of a report; if it cannot be read here, raise EvidenceError that says what is needed.

    The library comes first: it also tells what the rules say, which ncu's page with all metrics does not.
    """
    by_hand = f"print it where Nsight Compute is installed: ncu --import {path.name} --csv --page raw > {path.stem}.csv"
    try:
        with temporary.folder() as folder:
            if ncu_library.version():
                return _by_library(path, Path(folder))
            if tool := find.find("ncu"):
                return _by_tool(path, tool, Path(folder))
    except ExportError as error:
        raise EvidenceError(
            f"{path}: {error}; use a release at least as new as the one that recorded it, or {by_hand}"
        ) from error
    except OSError as error:
        raise EvidenceError(f"{path}: no room for the export ({error.strerror or error}); set TMPDIR to a larger disk") from error
    raise EvidenceError(
        f"{path}: reading a report of Nsight Compute needs NVIDIA's library or ncu, and neither is installed: "
        f"pip install {ncu_library.PACKAGE}, or name an ncu in KERNELSCOPE_NCU, or {by_hand}"
    )


def _by_library(path: Path, folder: Path) -> Trace:
    """Return the Trace of what NVIDIA's library reads."""
    launches, said = ncu_library.export_pages(path, folder)
    output = tables.parse(stream.table_lines(launches))
    if output.launches.empty:
        raise EvidenceError(f"{path}: a report of Nsight Compute without a kernel; profile one")
    rows = pd.read_csv(said, dtype="str", keep_default_na=False)
    output.rules = rules.of_rows(rows, rows["launch"].astype("int64").tolist())
    output.advice = len(output.rules)
    return printed.trace_of(path, output, FORMAT)


def _by_tool(path: Path, tool: find.Tool, folder: Path) -> Trace:
    """Return the Trace of what an installed ncu prints."""
    try:
        trace = printed.read(ncu_import.export_csv(tool, path, folder))
    except EvidenceError as error:
        raise EvidenceError(f"{path}: as printed by ncu {tool.version}: {error}") from error
    trace.info["source"] |= {"format": FORMAT, "version": tool.version}
    return trace
