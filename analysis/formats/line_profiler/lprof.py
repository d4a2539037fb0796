"""line_profiler's .lprof files. They are pickles, read by a reader that can build only their own data."""

from __future__ import annotations

import re
from pathlib import Path

from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.formats.line_profiler import tables as line_profiler
from kernelscope.analysis.formats.line_profiler.text import trace_of
from kernelscope.analysis.trace import Trace

# A pickle of protocol 2 or later, possibly framed, whose first object has the class LineStats
_START = re.compile(rb"\x80[\x02-\x05](?:\x95.{8})?(?:c|\x8c.|X.{4})(?:line_profiler\.)?_?line_profiler", re.DOTALL)


def matches(head: Head) -> bool:
    """Return whether a pickle starts with line_profiler's class."""
    return _START.match(head.content) is not None


def read(path: Path) -> Trace:
    """Return the Trace of one file; raise EvidenceError if it holds anything other than line_profiler's data."""
    trace = trace_of(line_profiler.parse_pickle(read_content(path), str(path)), "line-profiler-pickle", path)
    trace.info["notes"].append("the file holds no source text")
    return trace
