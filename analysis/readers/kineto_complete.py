"""All complete events of a torch.profiler trace as one table, in the file's order."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from kernelscope.analysis.readers.kineto import scan, whole_numbers
from kernelscope.analysis.readers.kineto_groups import Group

_INTEGERS = ("sequence", "forward_thread", "external_id", "correlation", "device", "stream")
_TEXTS = ("shapes", "types", "strides", "arguments")


def read(path: Path | str) -> pd.DataFrame:
    """Return the complete events of a trace, in the file's order; raises EvidenceError as `kineto.scan` does.

    Columns besides those of every table of a scan: process and thread (Int64; null where the file has text there), track as the
    text process/thread, and the arguments sequence, forward_thread, external_id, correlation, device, stream, shapes, types,
    strides, arguments. Its `attrs` hold base_ns (int or None), distributed and device_properties (parsed JSON or None),
    schema_version, and dropped (complete events without a usable time: counted, left out).
    """
    return _complete(path, None)


def parse(content: bytes, source: str = "trace") -> pd.DataFrame:
    """Return the complete events of a trace's JSON text as `read` does; `source` names it in errors."""
    return _complete(source, content)


def _complete(path: Path | str, content: bytes | None) -> pd.DataFrame:
    everything = scan(path, {"complete": Group(None, frozenset("X"), (*_INTEGERS, *_TEXTS))}, content=content)
    table = everything.tables["complete"].drop(columns="phase")
    tracks = everything.tracks
    for name in ("process", "thread"):
        table[name] = whole_numbers(tracks[name]).take(table["track"].to_numpy()).array
    joined = (tracks["process"] + "/" + tracks["thread"]).to_numpy(dtype=object)
    table["track"] = pd.Categorical(joined[table["track"].to_numpy()], categories=pd.unique(joined))
    table.attrs.update(
        base_ns=everything.base_ns,
        schema_version=everything.fact("schemaVersion"),
        device_properties=everything.fact("deviceProperties"),
        distributed=everything.fact("distributedInfo"),
        dropped=everything.untimed["complete"],
    )
    return table
