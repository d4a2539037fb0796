"""Which report of `nsys stats` a table is, by its columns and what its rows name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kernelscope.analysis.formats.nsys import stats_tables
from kernelscope.analysis.formats.nsys.stats_tables import StatsTable

# Columns by which a report is recognised if the file does not name it; the first match counts.
_COLUMNS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (report, frozenset(columns.split("|")))
    for report, columns in (
        ("cuda_gpu_trace", "Start|Duration|CorrId|Name"),
        ("cuda_api_trace", "Start|Duration|Name|CorrID|Pid|Tid"),
        ("cuda_kern_exec_trace", "API Start|API Dur|API Function|Kernel Start|Kernel Dur|Kernel Name|PID|TID|DevId"),
        ("nvtx_gpu_proj_trace", "Name|Projected Start|Orig Start|Orig Duration|PID|TID"),
        ("nvtx_pushpop_trace", "Start|End|Name|PID|TID|Lvl"),
        ("nvtx_startend_trace", "Start|End|Name|PID|TID"),
        ("nvtx_gpu_proj_sum", "Range|Total Range Time|Range Instances"),
        ("nvtx_kern_sum", "NVTX Range|Kernel Name|Total Time"),
        ("cuda_kern_exec_sum", "TAvg|KAvg|Kernel Name"),
        ("cuda_api_gpu_sum", "Total Time|Instances|Category|Operation"),
        ("cuda_gpu_sum", "Total Time|Instances|Category|Operation"),
        ("nvtx_sum", "Total Time|Instances|Style|Range"),
        ("nvtx_pushpop_sum", "Total Time|Instances|Range"),
        ("nvtx_startend_sum", "Total Time|Instances|Range"),
        ("cuda_gpu_mem_time_sum", "Total Time|Count|Operation"),
        ("cuda_gpu_mem_time_sum", "Total Time|Operations|Operation"),
        ("cuda_gpu_mem_time_sum", "Total Time|Operations|Name"),
        ("cuda_gpu_mem_size_sum", "Total|Count|Operation"),
        ("cuda_gpu_mem_size_sum", "Total|Operations|Operation"),
        ("cuda_gpu_mem_size_sum", "Total|Operations|Name"),
        ("cuda_gpu_kern_gb_sum", "Total Time|Instances|GridXYZ|Name"),
        ("cuda_gpu_kern_sum", "Total Time|Instances|Name"),
        ("cuda_api_sum", "Total Time|Num Calls|Name"),
        ("cuda_api_sum", "Total Time|Calls|Name"),
        ("osrt_sum", "Total Time|Num Calls|Name"),
        ("osrt_sum", "Total Time|Calls|Name"),
        # of which people cut columns: one that only GPU work has is left
        ("cuda_gpu_trace", "Start|Duration|GrdX|Name"),
        ("cuda_gpu_trace", "Start|Duration|GridXYZ|Name"),
        ("cuda_gpu_trace", "Start|Duration|SrcMemKd|Name"),
        ("cuda_gpu_trace", "Start|Duration|Strm|Name"),
        ("cuda_gpu_trace", "Start|Duration|Reg/Trd|Name"),
    )
)
# Reports of which people left columns out, by the columns with what was measured and with its name
_FEWER_COLUMNS = (
    ("cuda_gpu_mem_time_sum", "Total Time", "Operation"),
    ("cuda_gpu_mem_size_sum", "Total", "Operation"),
    ("nvtx_pushpop_sum", "Total Time", "Range"),
    ("cuda_gpu_kern_sum", "Total Time", "Name"),
)
_BESIDE = frozenset(["Time", "Instances", "Num Calls", "Calls", "Count", "Operations", "Avg", "Med", "Min", "Max", "StdDev"])
# The report that such a table with a column Name may be instead, if all of its names match; the first match counts
_BY_NAMES = (
    ("cuda_api_sum", r"(?:cuda|cu)[A-Z]\w*"),
    ("cuda_gpu_mem_time_sum", r"\[(?:CUDA|Unified Memory) .*"),
    (
        "osrt_sum",
        r"(?:epoll|pthread|sem|sched)_\w+|f?(?:read|write|close)|(?:nano|u)?sleep|(?:f?open|mmap)(?:64|at)?"
        r"|poll|select|ioctl|futex|fgets|mprotect|munmap|waitpid",
    ),
)


def titles_of(line: str) -> list[str]:
    """Return the titles in a line of a table, without units; empty if the line holds none."""
    return [re.sub(r"\s*\([^()]*\)$", "", title) for title in stats_tables.header_of(line[:2000])]


def is_printed(heading: list[tuple[str, str | None]]) -> bool:
    """Return whether these are the titles of a report in columns, with their units.

    Other programs also print tables of total times, calls and names.
    """
    titles = [title for title, _ in heading]
    if "Total Time" in titles and _shortened(dict(heading)):
        return True
    summed = "Total Time" in titles
    ours = titles[0] in ("Time", "NVTX Range") and {"Avg", "Min", "Max"} <= set(titles)
    return by_columns(None, titles) is not None and (ours or not summed)


def by_columns(name: str | None, columns: list[str]) -> str | None:
    """Return the report of a table, None if it is not read."""
    fitting = [report for report, needed in _COLUMNS if needed <= set(columns)]
    if name in fitting:
        return name
    if name == "cuda_gpu_kern_sum" and "cuda_gpu_kern_gb_sum" in fitting:
        return name
    return fitting[0] if fitting and name is None else None


def _shortened(units: Mapping[str, str | None]) -> str | None:
    """Return the summary of which people left columns out; units: by title, in order.

    Others print such tables, too: so times must be in ns, as nsys prints them, first but for percentages, and names last.
    """
    titles = list(units)
    for report, measure, name in _FEWER_COLUMNS:
        others = set(titles) - {measure, name}
        first = measure in titles[: 1 + (titles[0] == "Time")]
        if first and titles[-1] == name and others <= _BESIDE and (units[measure] == "ns" or measure == "Total"):
            return report
    return None


def report_of(table: StatsTable) -> str | None:
    """Return the report of a table with all of its columns or some, None if it is not read."""
    columns = list(table.rows.columns)
    report = by_columns(table.report, columns)
    if report is not None or not columns:
        return report
    report = _shortened({title: table.units.get(title) for title in columns})
    names = table.rows["Name"] if report == "cuda_gpu_kern_sum" else None
    alike = [] if names is None else [one for one, pattern in _BY_NAMES if names.str.fullmatch(pattern).fillna(False).all()]
    if table.report is not None:
        return table.report if table.report in (report, *alike) else None
    return alike[0] if alike and len(table.rows) else report
