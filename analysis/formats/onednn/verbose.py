"""Verbose lines of oneDNN (also DNNL, MKL-DNN) and MKL, in a captured stream among any other output.

With *_VERBOSE_TIMESTAMP set, a oneDNN line says when its primitive began, and becomes a kernel on the timeline. MKL's lines and
other lines of oneDNN have only durations: lines with the same description become one row with their count and sum. Lines on the
creation of primitives are not executions and go into the totals; so do partitions of oneDNN Graph, whose primitives have their
own lines.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.mkl import verbose_tables as mkl_verbose
from kernelscope.analysis.formats.onednn import broken_lines, decimal_commas, first_executions
from kernelscope.analysis.formats.onednn import verbose_tables as onednn_verbose
from kernelscope.analysis.trace import Trace, conform

_TOKEN = re.compile(
    r"(?:onednn|dnnl|mkldnn)_verbose,(?:v\d+,)?(?:\d+(?:[.,]\d+)?,)?(?:\w+,)?"
    r"(?:(?:info|error|warn\w*),\w|(?:exec|create)[\w:]*,\w+[\w:]*,[^,\n]*,)"
    r"|MKL_VERBOSE (?:Intel\(R\)|oneMKL|\w+\()"
)
_CREATED = (
    r"^(?:onednn|dnnl|mkldnn)_verbose,(?:v\d+,)?(?:\d+(?:\.\d+)?,)?(?:primitive,)?(?P<event>create[\w:]*),"
    r"(?:(?:cpu|gpu)[:\d]*,)?(?P<primitive>\w+),.*,(?P<duration_ms>\d{1,9}(?:\.\d*)?(?:e[-+]?\d{1,2})?)$"
)
_PARTITION = (
    r"^(?:onednn|dnnl|mkldnn)_verbose,(?:v\d+,)?(?:\d+(?:\.\d+)?,)?graph,exec,(?P<engine>[^,]*),\d+,(?P<partition>[^,]*),"
    r"(?P<operators>[^,]*),.*,(?P<duration_ms>\d{1,9}(?:\.\d*)?(?:e[-+]?\d{1,2})?)$"
)
_ONEDNN_COLUMNS = ("name", "kind", "dtype", "layout", "algorithm", "problem", "m", "n", "k", "transpose")
_ONEDNN_KEYS = (
    "engine", "primitive", "implementation", "propagation", "memory", "attributes", "auxiliary", "problem",
)  # fmt: skip
_MKL_COLUMNS = ("kind", "dtype", "problem", "m", "n", "k", "transpose")
_POST_OPS = r"(?:attr-)?post[-_]ops:('[^']*'|\S*)"
_POST_OP = r"(?:^|[+;'])(eltwise_\w+|binary_\w+|relu|sum|prelu|dw|depthwise\w*)"
_EXECUTED = r"_verbose,.*\bexec,|^MKL_VERBOSE [^I\W]\w*\("
_FEWEST_COMMAS = 7  # of a line of an execution, from "exec" on
_SHOWN = 40  # characters of a line in a message
_PHASES = {"forward": "forward", "backward": "backward"}


def matches(head: Head) -> bool:
    """Return whether the beginning has a verbose line; output of the application may precede it."""
    return head.is_text and _TOKEN.search(head.text) is not None


def read(path: Path) -> Trace:
    """Read a stream; raise EvidenceError if it cannot be read or has no line of these libraries."""
    lines, joined = broken_lines.verbose_lines(path)
    result = stream.split(lines)
    result = replace(result, onednn=decimal_commas.with_points(result.onednn))
    if result.onednn.empty and result.mkl.empty:
        raise EvidenceError(f"{path}: no verbose line of oneDNN or MKL; set ONEDNN_VERBOSE=1 or MKL_VERBOSE=1 and record again")
    onednn = onednn_verbose.parse(result.onednn)
    mkl = mkl_verbose.parse(result.mkl)
    timed = onednn[onednn["wall_ns"].notna()]
    untimed = onednn[onednn["wall_ns"].isna()]
    kernels = pd.concat([_timed(timed), _summed_onednn(untimed), _summed_mkl(mkl)], ignore_index=True)
    strings = stream.strings_of(result.onednn["text"])
    totals = pd.concat([conform("totals", _created(strings)), conform("totals", _partitions(strings))], ignore_index=True)
    if kernels.empty and totals.empty:
        _refuse_unread(path, result)
    if onednn.attrs["parse_failures"]:
        _refuse_two_locales(path, strings, len(onednn))
    diagnostics = {
        "oneDNN lines that end before the duration": int(onednn.attrs["without_time"]),
        "unreadable oneDNN lines": onednn.attrs["parse_failures"],
        "unreadable MKL lines": mkl.attrs["parse_failures"],
    }
    info = _info(result, timed, len(untimed) + len(mkl), kernels["device"], onednn["attributes"])
    slow = first_executions.found(first_executions.of_onednn(onednn, list(_ONEDNN_KEYS)))
    if slow := slow + first_executions.found(first_executions.of_mkl(mkl)):
        info["first_executions"] = slow
    if joined:
        info["notes"].append(f"lines of executions that were broken into several, and are read as one each: {joined:,}")
    return Trace(
        kernels=conform("kernels", kernels),
        totals=totals,
        info=info,
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _refuse_unread(path: Path, result: stream.Stream) -> None:
    """Raise EvidenceError if there are lines of executions, none of which can be read."""
    lines = pd.concat([result.onednn, result.mkl]).sort_values("line_number", kind="stable")
    executed = lines[lines["text"].str.contains(_EXECUTED, regex=True).to_numpy(dtype=bool)]
    if len(executed):
        text = str(executed["text"].iloc[0]).removesuffix("\ufffd")
        place = next((number for number, line in enumerate(stream.lines(path), start=1) if text in line), 1)  # of all lines
        raise EvidenceError(
            f"{path}, line {place}: none of {len(executed):,} lines of executions has the library's format with a time; "
            f"the first ends in {text[-_SHOWN:]!r}; {_remedy(text)}"
        )


def _remedy(text: str) -> str:
    """Return what to do about a line of an execution that cannot be read."""
    if re.search(r",\d+,\d[\de+-]*\s*$", text):
        return "if its time has a decimal comma, record again with LC_ALL=C"
    if text[max(text.find("exec,"), 0) :].count(",") < _FEWEST_COMMAS and "_verbose," in text:
        return "the lines were cut or wrapped: let the program write to a file, rather than copy from a terminal"
    return "record again"


def _refuse_two_locales(path: Path, strings: Any, read: int) -> None:
    """Raise EvidenceError if more lines have times with decimal commas, which are not read beside points, than were read."""
    commas = int(decimal_commas.with_comma(strings).sum())
    if commas > read:
        raise EvidenceError(
            f"{path}: the times of {commas:,} lines of executions have decimal commas, of others points; record with LC_ALL=C"
        )


def _timed(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines with a timestamp as kernels."""
    start = lines["wall_ns"].astype("int64")
    return _onednn_columns(lines).assign(
        start_ns=start, end_ns=start + lines["duration_ns"], duration_ns=lines["duration_ns"], count=1
    )


def _summed_onednn(lines: pd.DataFrame) -> pd.DataFrame:
    """Return one kernel row for each distinct description of lines without a timestamp, in order of first lines."""
    group = lines.groupby(list(_ONEDNN_KEYS), dropna=False, sort=False).ngroup().to_numpy()
    return _summed(_onednn_columns(lines), lines, group)


def _summed_mkl(calls: pd.DataFrame) -> pd.DataFrame:
    """Return one kernel row for each distinct call, ignoring addresses."""
    arguments = calls["arguments"].str.replace(r"0x[0-9a-fA-F]+", "*", regex=True)
    group = pd.factorize(calls["function"] + "(" + arguments)[0]
    columns = calls[list(_MKL_COLUMNS)].assign(name=calls["function"], library="mkl", device="cpu")
    return _summed(columns, calls, group)


def _onednn_columns(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of kernels that a description gives."""
    phase = lines["propagation"].str.extract(r"^(forward|backward)", expand=False).map(_PHASES)
    return lines[list(_ONEDNN_COLUMNS)].assign(library="onednn", device=lines["engine"].fillna("cpu"), phase=phase)


def _summed(columns: pd.DataFrame, lines: pd.DataFrame, group: Any) -> pd.DataFrame:
    """Return the first row of each group with the group's count and summed duration."""
    first = ~pd.Series(group).duplicated().to_numpy()
    sums = lines["duration_ns"].groupby(group, sort=True).agg(["size", "sum"])
    return columns[first].assign(
        count=sums["size"].to_numpy(np.int64),
        duration_ns=sums["sum"].to_numpy(np.int64),
        start_ns=pd.array([pd.NA] * len(sums), dtype="Int64"),
        end_ns=pd.array([pd.NA] * len(sums), dtype="Int64"),
    )


def _created(strings: Any) -> pd.DataFrame:
    """Return the totals of creating primitives, by event (create:cache_miss) and primitive."""
    result = stream.extract(strings, _CREATED).dropna()
    return _totals("calls", result["event"] + " " + result["primitive"], result["duration_ms"])


def _partitions(strings: Any) -> pd.DataFrame:
    """Return the totals of executing graph partitions, by their kind and operators."""
    result = stream.extract(strings.filter(pc.match_substring(strings, "graph,exec,")), _PARTITION).dropna()
    return _totals("operators", result["partition"] + " " + result["operators"], result["duration_ms"])


def _totals(table: str, names: pd.Series, durations: pd.Series) -> pd.DataFrame:
    """Return the totals of lines with these names and durations in ms."""
    milliseconds = durations.astype("float64").to_numpy()
    names = names[milliseconds < 1e11]
    duration = pd.Series(np.rint(np.round(milliseconds[milliseconds < 1e11] * 1e6, 4)).astype(np.int64), index=names.index)
    sums = duration.groupby(names, sort=False).agg(["size", "sum", "min", "max"])
    return pd.DataFrame(
        {
            "table": table,
            "name": sums.index.astype("string"),
            "count": sums["size"].to_numpy(np.int64),
            "duration_ns": sums["sum"].to_numpy(np.int64),
            "min_ns": sums["min"].to_numpy(np.int64),
            "max_ns": sums["max"].to_numpy(np.int64),
        }
    )


def _devices(lines: pd.Series, used: pd.Series, isa: str | None) -> list[dict[str, Any]]:
    """Return the devices that were used, or the CPU if none is named, with the names that the library prints."""
    gpus = onednn_verbose.gpus_of(lines)
    devices = []
    for device in sorted(used.dropna().unique()) or ["cpu"]:
        number = int(re.sub(r"\D", "", device)[:4] or 0)
        devices.append({"device": device, "name": gpus.get(number) if device.startswith("gpu") else isa})
    return devices


def _post_ops(attributes: pd.Series) -> dict[str, int]:
    """Return what primitives did besides, on their results (eltwise_relu, sum, ...), and how often."""
    lists = attributes.astype("str").str.extract(_POST_OPS, expand=False).dropna()
    return {str(name): int(count) for name, count in lists.str.findall(_POST_OP).explode().value_counts().items()}


def _info(result: stream.Stream, timed: pd.DataFrame, untimed: int, used: pd.Series, attributes: pd.Series) -> dict[str, Any]:
    library = onednn_verbose.header_of(result.onednn["text"])
    mkl = mkl_verbose.header_of(result.mkl["text"])
    versions = {name: value for name, value in (("onednn", library.get("version")), ("mkl", mkl)) if value}
    tools = [name for name, lines in (("oneDNN", result.onednn), ("MKL", result.mkl)) if not lines.empty]
    info: dict[str, Any] = {
        "source": {
            "format": "verbose", "tool": " and ".join(tools), "version": ", ".join(versions.values()) or None, "schema": None,
        },
        "clock": "wall" if len(timed) else "none",
        "versions": versions,
        "devices": _devices(result.onednn["text"], used, library.get("isa")),
        "unavailable": {
            "layers": "verbose lines name primitives, not operators or layers",
            "threads": "verbose lines do not say which thread ran the primitive",
        },
        "notes": ["durations have the precision that the library prints: oneDNN six digits, MKL three or four"],
    }  # fmt: skip
    if instructions := mkl_verbose.instructions_of(result.mkl["text"]):
        info["mkl_instructions"] = instructions
    if post_ops := _post_ops(attributes):
        info["post_ops"] = post_ops
    if untimed:
        info["unavailable"]["timeline"] = (
            f"{untimed} of {untimed + len(timed)} lines have no timestamp (oneDNN: set ONEDNN_VERBOSE_TIMESTAMP=1; MKL has none)"
        )
    return info
