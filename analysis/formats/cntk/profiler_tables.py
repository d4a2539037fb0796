"""CNTK's own records: the timeline that cntk.debugging.start_profiler writes, and the table of print_node_timing.

The timeline (`*_detail_.json`, plain or .gz) is an array of begin and end events in microseconds since the profiler started. It
always holds the parts of a minibatch: "_Minibatch Iteration", "__Forward + Backward", "__Weight Update". With node timing on, it
also holds every node: "Convolution427Forward" or "Convolution427Backward".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.packed import read_content

US = 1000  # ns
_SECOND = 1_000_000_000
_NODE_NAME = r"^(?P<node>[^_].*)(?P<direction>Forward|Backward)$"  # parts of a minibatch start with underscores
_TIMING = re.compile(
    r"^(?P<node>\S+)\s+forward avg (?P<forward>\d{1,6}(?:\.\d{1,9})?)s, backward avg (?P<backward>\d{1,6}(?:\.\d{1,9})?)s "
    r"\(fwd# (?P<forward_count>\d{1,9})\|bwd# (?P<backward_count>\d{1,9})\)\s*$"
)


def read_timeline(path: Path | str) -> pd.DataFrame:
    """Return the events of a timeline, in order of starts, outer ones first:

        thread     int64   operating system's id of the thread
        start_ns   int64   on the profiler's clock
        end_ns     int64   likewise; both are truncated to whole microseconds
        name       string  as written
        node       string  the node's own name; null for parts of a minibatch
        phase      string  forward or backward for nodes, optimizer for the weight update, else null

    `attrs["unpaired"]` counts begins without an end and ends without a begin, which are left out.
    Raise EvidenceError if the file cannot be read or holds something else.
    """
    try:
        events = _DECODER.decode(read_content(path))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(f"{path}: not a complete timeline of CNTK's profiler ({error}); record it again") from error
    columns: dict[str, tuple[str, Any]] = {
        "thread": ("tid", "int64"),
        "name": ("name", "string"),
        "ph": ("ph", "string"),
        "ts": ("ts", "int64"),
    }
    values = {name: pd.Series(list(map(attrgetter(field), events)), dtype=kind) for name, (field, kind) in columns.items()}
    return _paired(pd.DataFrame(values))


_Number = Annotated[int, msgspec.Meta(ge=0, le=9_000_000_000_000_000)]  # more us do not fit 64 bits as ns, and are damage


class _TimelineEvent(msgspec.Struct, gc=False):
    """One line of the timeline; its pid and cat add nothing."""

    tid: _Number
    name: str
    ph: str
    ts: _Number


_DECODER = msgspec.json.Decoder(list[_TimelineEvent])


def _paired(events: pd.DataFrame) -> pd.DataFrame:
    """Join the n-th begin of a name on a thread with the n-th end: nodes do not contain themselves."""
    keys = ["thread", "name", "number"]
    events["number"] = events.groupby(["thread", "name", "ph"]).cumcount()
    begins = events[events["ph"] == "B"].rename(columns={"ts": "start_ns"})
    ends = events[events["ph"] == "E"].rename(columns={"ts": "end_ns"})
    table = begins[[*keys, "start_ns"]].merge(ends[[*keys, "end_ns"]], on=keys)
    unpaired = len(events) - 2 * len(table)
    table[["start_ns", "end_ns"]] *= US
    table = table.sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable").reset_index(drop=True)
    parts = table["name"].str.extract(_NODE_NAME)
    phase = parts["direction"].str.lower().mask(table["name"].str.lstrip("_") == "Weight Update", "optimizer")
    columns = {"node": parts["node"].astype("string"), "phase": phase.astype("string")}
    table = table[["thread", "start_ns", "end_ns", "name"]].assign(**columns)
    table.attrs["unpaired"] = unpaired
    return table


def parse_node_timing(lines: Iterable[str]) -> pd.DataFrame:
    """Return one row per node; skip other lines.

    Columns: node, forward_ns and backward_ns (mean of one execution, printed to 1000 ns), forward_count, backward_count.
    Nodes of a loop count every time step.
    """
    result = [match.groupdict() for match in map(_TIMING.match, lines) if match]
    names = ["node", "forward", "backward", "forward_count", "backward_count"]
    table = pd.DataFrame(result, columns=names).astype({"node": "string"})
    nanoseconds = (table[["forward", "backward"]].astype("float64") * _SECOND).round().astype("int64").add_suffix("_ns")
    counts = table[["forward_count", "backward_count"]].astype("int64")
    return pd.concat([table[["node"]], nanoseconds, counts], axis=1)
