"""Summaries that rocprofv3 prints (--summary, --summary-per-domain, --summary-groups), alone or among other output.

    ROCPROFV3 KERNEL_DISPATCH SUMMARY:

    | NAME | DOMAIN          | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) | MAX (nsec) | STDDEV |
    |------|-----------------|-------|-----------------|----------------|---------------|------------|------------|--------|
    | k    | KERNEL_DISPATCH |     2 |              30 |      1.500e+01 |    100.000000 |         10 |         20 |  7.071 |

One run may print several: of each domain, of groups of domains, and of all. A row that is in several counts once. The summary of
all domains has only one row for a name that two domains share, so the first table that has a row counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.rocm import work
from kernelscope.analysis.formats.rocm.work import RowsRead
from kernelscope.analysis.trace import Trace

_UNITS = {"nsec": "ns", "usec": "us", "msec": "ms", "sec": "s"}
_HEADER = re.compile(r"[^|\n]*\| +NAME +\| +DOMAIN +\| +CALLS +\| +DURATION \((?P<unit>\w+)\) +\|[^\n]*")
_LABEL = re.compile(r"\bROCPROFV3 (?P<label>[\w +]*\bSUMMARY):\s*$")
_LABEL_ABOVE = 3  # lines above a header that may say what the table sums up
# A name may hold bars: it is what the other cells leave
_ROW = r"^[^|]*\| (?P<name>.*?) *" + "".join(
    rf"\| *(?P<{cell}>[^| ]*) *"
    for cell in ("domain", "count", "duration", "average", "percentage", "shortest", "longest", "deviation")
) + r"\|\s*$"  # fmt: skip
_MOST_TABLES = 300  # a run prints one for each domain, group of domains, and all of them
_KEY = ["domain", "name"]
_NUMBERS = ("count", "duration_ns")


def matches(head: Head) -> bool:
    """Return whether the text has the titles of a summary."""
    return head.is_text and any(map(_HEADER.fullmatch, head.tables_text.splitlines()))


def read(path: Path) -> Trace:
    """Return the Trace of the summaries; raise EvidenceError if they have no usable row, or are of several runs."""
    lines = stream.table_lines(path)
    found = [
        (number, match["unit"]) for number, line in enumerate(lines) if "NAME" in line and (match := _HEADER.fullmatch(line))
    ]
    if not found:
        raise EvidenceError(f"{path}: no summary of rocprofv3; print one with rocprofv3 --summary")
    if len(found) > _MOST_TABLES:
        raise EvidenceError(f"{path}: {len(found):,} summaries of rocprofv3, of many runs; split the file")
    findings = RowsRead()
    tables = [_table(path, lines, number, unit, findings) for number, unit in found]
    frame = _each_once(path, pd.concat(tables, ignore_index=True), findings)
    usable = (frame["duration_ns"] >= 0).fillna(False) & (frame["count"] > 0).fillna(False) & (frame["name"] != "")
    findings.diagnostics["rows without a name, number or time"] += int((~usable).sum())
    rows = frame[usable].reset_index(drop=True)
    if rows.empty:
        raise EvidenceError(f"{path}: no row with a name, calls and a time; record again while something runs on the GPU")
    kinds = rows["domain"].map(work.DOMAINS).fillna("calls")
    work.add_totals(findings, rows[["name", "count", "duration_ns", "min_ns", "max_ns"]], kinds)
    if len(tables) == 1 and usable.all() and kinds.isin(["kernels", "copies"]).all():
        lacking = unlisted.of(rows["duration_ns"], rows["percentage"], int(rows["step"].max()))
        findings.add("kernels", lacking.kernels)
        findings.notes += [lacking.note] if lacking.note else []
    trace = findings.trace({"format": "rocprof-summary", "tool": "rocprofv3", "version": None, "schema": None}, [])
    trace.info["unavailable"]["times"] = "totals only; record with --kernel-trace to see when kernels ran"
    return trace


def _table(path: Path, lines: Sequence[str], header: int, title: str, findings: RowsRead) -> pd.DataFrame:
    """Return the rows of the table whose titles are in this line, in the order printed."""
    unit = _UNITS.get(title)
    if unit is None:
        raise EvidenceError(f"{path}, line {header + 1}: times in {title!r}; print them with --summary-units nsec")
    last = next((number for number in range(header + 1, len(lines)) if "|" not in lines[number]), len(lines))
    inside = [line for line in lines[header + 1 : last] if re.fullmatch(r"[\s|:-]*", line) is None]
    cells = stream.extract(stream.strings_of(inside), _ROW)
    shaped = cells["name"].notna()
    findings.diagnostics["lines that are no rows"] += int((~shaped).sum())
    cells = cells[shaped].reset_index(drop=True)
    rows = cells[["domain", "name", "percentage"]].assign(
        count=text_tables.counts(cells["count"]),
        duration_ns=text_tables.nanoseconds(cells["duration"], unit),
        min_ns=text_tables.nanoseconds(cells["shortest"], unit),
        max_ns=text_tables.nanoseconds(cells["longest"], unit),
    )
    rows["step"] = text_tables.resolution(cells["duration"], unit) if len(cells) else 1
    labels = (_LABEL.search(line) for line in lines[max(header - _LABEL_ABOVE, 0) : header])
    return rows.assign(label=next((match["label"] for match in labels if match), ""), line=header + 1)


def _each_once(path: Path, rows: pd.DataFrame, findings: RowsRead) -> pd.DataFrame:
    """Return each domain's row of a name once; refuse tables that sum up the same and differ."""
    printed = rows.drop_duplicates(["label", *_KEY, *_NUMBERS])
    other = printed.duplicated(["label", *_KEY])
    if other.any():
        line = int(printed.loc[other, "line"].iloc[0])
        raise EvidenceError(f"{path}, line {line}: the summary of another run or process starts here; split the file")
    again = rows.duplicated(_KEY).to_numpy(bool)
    if again.any():
        findings.notes.append(f"{np.count_nonzero(again):,} rows are in several of the summaries, and counted once")
    return rows[~again].reset_index(drop=True)
