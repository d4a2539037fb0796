"""CNTK's training logs: throughput and loss as logged, epochs, and the table of print_node_timing.

BrainScript's logs have lines "Epoch[ 1 of 3]-Minibatch[ 1- 10, 3.12%]: ce = 6.9 * 1600; time = 6.2s; samplesPerSecond = 256.7"
(before mid-2016 "SamplesSeen = 100; TrainLossPerSample = 2.3; TotalTime = 0.19s; SamplesPerSecond = 525.1", still earlier
"TotalTime=0.09; TotalTimePerSample=0.0003, SamplesPerSecond=2688"), behind a timestamp of whole seconds and, in a run of
several processes, "MPI Rank 0: ". Python's logs have " Minibatch[ 1- 100]: loss = 2.3 * 6400" without times, and
"Finished Epoch[1 of 10]: [Training] loss = 0.3 * 60000, metric = 5% * 60000 23.1s (2590.6 samples/s);".
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import scopes
from kernelscope.analysis.formats.cntk import profiler_tables as cntk_profiler
from kernelscope.analysis.formats.cntk.profiler import NO_KERNELS
from kernelscope.analysis.trace import Trace, conform

_SIGNS = re.compile(
    r"\bEpoch\[ *\d+(?: of \d+)?\](?:-Minibatch\[|: \[)"
    r"|(?:^|: ) ?Minibatch\[ *\d+- *\d+(?:, [\d.]+%)?\]: \w+ = "
    r"|forward avg \d[\d.]*s, backward avg \d[\d.]*s \(fwd#"
    r"|\bWith 1bit-SGD: "
    r"|\bSelected [CG]PU.{0,200} as the process wide default device",
    re.MULTILINE,
)
_WANTED = r"Epoch\[|Minibatch\[|forward avg|as the process wide default device"
_FLOAT = r"-?\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?"
_PREFIX = r"^[ \t]*(?:.*?MPI Rank (?P<rank>\d{1,9}): *)?(?:\d\d/\d\d/\d{4} \d\d:\d\d:\d\d: *)?"
_MINIBATCH = _PREFIX + r"Epoch\[ *(?P<epoch>\d{1,9})(?: of -?\d+)?\]-Minibatch\[[^\]]*\]: *(?P<rest>.*)$"
_EPOCH = _PREFIX + r"Finished Epoch\[ *(?P<epoch>\d{1,9})(?: of -?\d+)?\]: *(?P<rest>.*)$"
_SPEED = rf"(?i)samplesPerSecond *= *(?P<value>{_FLOAT})"
_TIME = rf"(?i)(?:^|[;,] *)(?:total)?time *= *(?P<value>{_FLOAT})s?(?:[;,]|$)"
_EPOCH_TIME = rf"(?i)epochTime *= *(?P<value>{_FLOAT})"
_PYTHON_TIME = rf" (?P<value>{_FLOAT})s \( *{_FLOAT} samples"
_PYTHON_SPEED = rf"s \( *(?P<value>{_FLOAT}) samples"
_LOSS = rf"^(?:\[[^\]]*\] *)?(?:SamplesSeen *= *\d+; *)?[^=;]*?= *(?P<value>{_FLOAT})(?P<percent>%?)"
_DEVICE = r"Selected (?P<kind>CPU|GPU)(?:\[(?P<number>\d{1,4})\] (?P<name>.*?))? as the process wide default device"
_LONGEST_NS = 10**17  # three years: longer durations are damage


def matches(head: Head) -> bool:
    """Return whether a line at the beginning is one that only CNTK writes: its device, progress or node times."""
    return head.is_text and _SIGNS.search(head.text) is not None


def read(path: Path) -> Trace:
    """Read a log; raise EvidenceError if it cannot be read or has no line of CNTK's."""
    lines = pc.ascii_rtrim(stream.strings_of(stream.lines(path)), characters="\r ")
    if not any(_SIGNS.search(text) for text in _parts(lines)):
        raise EvidenceError(f"{path}: no line of a CNTK log; name its own format")
    wanted = lines.filter(pc.match_substring_regex(lines, pattern=_WANTED))
    progress = _progress(wanted)
    node_lines = _texts(wanted.filter(pc.match_substring(wanted, "forward avg")))
    timing = cntk_profiler.parse_node_timing(node_lines)
    device = _device(wanted)
    kernels, others = _node_times(timing, device["device"])
    diagnostics = {
        "unreadable node times": len(node_lines) - len(timing),
        "progress lines without a readable time": int((progress["minibatch"] & (progress["time_ns"] < 0)).sum()),
    }
    return Trace(
        kernels=conform("kernels", kernels),
        totals=pd.concat([conform("totals", _epochs(progress)), conform("totals", others)], ignore_index=True),
        samples=conform("samples", _samples(progress)),
        info=_info(lines, progress, device, len(timing)),
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _parts(lines: pa.Array[Any]) -> list[str]:
    """Return the lines that may be signs of CNTK, to check each against the exact pattern."""
    likely = pc.match_substring_regex(lines, pattern=_WANTED + "|1bit-SGD")
    return _texts(lines.filter(likely).slice(0, 100_000))


def _texts(lines: pa.Array[Any]) -> list[str]:
    return [str(text) for text in lines.to_pylist()]


def _progress(lines: pa.Array[Any]) -> pd.DataFrame:
    """Return the lines on minibatches and finished epochs, in the log's order.

    Columns: rank (Int64), epoch, minibatch (whether the line is on minibatches, else on a finished epoch), time_ns (the time that
    the line covers; -1 if it does not say), at_ns (training time from the start until the line was written), speed, loss.
    """
    result = stream.extract(lines, _MINIBATCH)
    finished = stream.extract(lines, _EPOCH)
    minibatch = result["rest"].notna().to_numpy(dtype=bool)
    table = result.where(pd.Series(minibatch), finished)
    chosen = table["rest"].notna().to_numpy(dtype=bool)
    table, minibatch = table[chosen].reset_index(drop=True), minibatch[chosen]
    rest = stream.strings_of(table["rest"])
    table["minibatch"] = minibatch
    table["rank"] = table["rank"].replace("", pd.NA).astype("Int64")
    table["epoch"] = table["epoch"].astype("int64")
    epoch_time = _value(rest, _EPOCH_TIME).fillna(_value(rest, _PYTHON_TIME))
    table["time_ns"] = _nanoseconds(_value(rest, _TIME).where(pd.Series(minibatch), epoch_time))
    table["speed"] = _value(rest, _SPEED).fillna(_value(rest, _PYTHON_SPEED)).astype("float64")
    table["loss"] = _loss(rest)
    table["at_ns"] = _elapsed(table)
    return table


def _value(strings: pa.Array[Any], pattern: str) -> pd.Series:
    """Return the first number that the pattern finds in each string, as text; null if there is none."""
    return stream.extract(strings, pattern)["value"]


def _loss(rest: pa.Array[Any]) -> pd.Series:
    """Return the first criterion of each line, the training criterion; null if it is a percentage."""
    result = stream.extract(rest, _LOSS)
    return result["value"].where(result["percent"] == "").astype("float64")


def _nanoseconds(seconds: pd.Series) -> pd.Series:
    """Return texts of seconds as exact integer ns, -1 if missing or not a possible duration."""
    codes, distinct = pd.factorize(seconds)
    values = [int((Decimal(str(text)) * 10**9).to_integral_value()) for text in distinct]
    fitting = np.array([value if 0 <= value < _LONGEST_NS else -1 for value in values] + [-1], dtype=np.int64)
    return pd.Series(fitting[codes], index=seconds.index)


def _elapsed(table: pd.DataFrame) -> pd.Series:
    """Return each process's training time until a line was written: earlier epochs, and this epoch's lines so far.

    Lines on minibatches do not cover the end of an epoch, but the line on the finished epoch has its whole time.
    """
    known = table["time_ns"].clip(lower=0)
    rank = table["rank"].fillna(-1).to_numpy(np.int64)
    finished = (~table["minibatch"]).astype("int64")
    number = finished.groupby(rank).cumsum() - finished  # finished epochs before the line
    keys = [rank, number.to_numpy(np.int64)]
    within = known.where(table["minibatch"], 0).groupby(keys).cumsum()
    whole = known.where(~table["minibatch"], 0).groupby(keys).transform("sum")
    in_lines = within.groupby(keys).transform("max")
    spent = in_lines.where(in_lines > whole, whole)
    # for every epoch, the time of all earlier ones in the same process
    first = ~pd.DataFrame(keys).T.duplicated().to_numpy()
    before = spent.where(first, 0).groupby(rank).cumsum() - spent
    return before + within.where(table["minibatch"], spent)


def _samples(progress: pd.DataFrame) -> pd.DataFrame:
    """Return throughput and loss of each line with a time; the metric's name gives the rank, if the line does."""
    timed = progress[progress["time_ns"] >= 0]
    suffix = ", rank " + timed["rank"].astype("string")
    rows = []
    for metric, column in (("samples_per_second", "speed"), ("loss", "loss")):
        name = (metric + suffix).fillna(metric)
        rows.append(pd.DataFrame({"time_ns": timed["at_ns"], "metric": name, "value": timed[column]}).dropna())
    return pd.concat(rows).sort_index(kind="stable")


def _epochs(progress: pd.DataFrame) -> pd.DataFrame:
    """Return the finished epochs with their time as totals, by number: consecutive trainings share the numbers."""
    ended = progress[~progress["minibatch"] & (progress["time_ns"] >= 0)]
    name = "epoch " + ended["epoch"].astype("string") + (", rank " + ended["rank"].astype("string")).fillna("")
    sums = ended["time_ns"].groupby(name.to_numpy(dtype=object), sort=False).agg(["size", "sum", "min", "max"])
    return pd.DataFrame(
        {
            "table": "ranges", "name": sums.index.astype("string"), "count": sums["size"].to_numpy(),
            "duration_ns": sums["sum"].to_numpy(np.int64), "min_ns": sums["min"].to_numpy(), "max_ns": sums["max"].to_numpy(),
        }
    )  # fmt: skip


def _node_times(timing: pd.DataFrame, device: str | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return nodes that compute as kernels, one row per node and direction, and the others as totals."""
    rows = [
        timing[["node"]].assign(phase=phase, mean=timing[f"{phase}_ns"], count=timing[f"{phase}_count"])
        for phase in ("forward", "backward")
    ]
    table = pd.concat(rows, ignore_index=True)
    table = table[(table["count"] > 0) & (table["mean"].astype("float64") * table["count"] < _LONGEST_NS)]
    table["duration_ns"] = table["mean"] * table["count"]
    table["operator"] = table["node"].str.replace(r"\d+$", "", regex=True)
    computes = ~table["operator"].isin(NO_KERNELS).to_numpy(dtype=bool)
    table["name"] = table["node"] + " " + table["phase"]
    others = table.loc[~computes, ["name", "count", "duration_ns"]].assign(table="operators")
    kernels = table[computes].drop(columns="name").rename(columns={"node": "name"})
    kind = scopes.kinds(kernels["operator"], kernels["phase"])
    return kernels.assign(device=device, library="cntk", attribution="none", kind=kind), others


def _device(lines: pa.Array[Any]) -> dict[str, Any]:
    """Return the device that CNTK says it selected; null if it does not say."""
    result = stream.extract(lines, _DEVICE).dropna(subset=["kind"])
    if result.empty:
        return {"device": None}
    first = result.iloc[0]
    if first["kind"] == "CPU":
        return {"device": "cpu"}
    return {"device": f"cuda:{int(first['number'] or 0)}", "name": str(first["name"]) or None}


def _info(lines: pa.Array[Any], progress: pd.DataFrame, device: dict[str, Any], nodes: int) -> dict[str, Any]:
    evaluated = int(stream.starts_with(lines, _PREFIX.removeprefix("^") + r"Minibatch\[").sum())
    notes = []
    if evaluated:
        notes.append(f"{evaluated} lines on minibatches have only criteria and no duration: no throughput is read from them")
    losses = int((progress["loss"].notna() & (progress["time_ns"] < 0)).sum())
    if losses:
        notes.append(f"{losses} losses are in lines without a time, and do not become samples")
    if nodes:
        notes.append("node times are means printed to 1 us, multiplied by their count")
    if len(progress):
        notes.append("times count training only: the log's durations summed, per process")
    unavailable = {"timeline": "a log has durations, not when each kernel ran"}
    if not nodes:
        unavailable["kernels"] = "the log holds no node times; use set_node_timing(True) and print_node_timing(), or the profiler"
    if progress.empty:
        unavailable["throughput"] = "the log holds no line with training time"
    return {
        "source": {"format": "cntk-log", "tool": "CNTK", "version": None, "schema": None},
        "clock": "relative" if len(progress) else "none",
        "framework": "cntk",
        "devices": [device] if device["device"] else [],
        "unavailable": unavailable,
        "notes": notes,
    }
