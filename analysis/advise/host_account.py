"""The account of a step that the host's processors compute, with the same rows as a device's account.

If a run's recorded step is longer than the clean one, the cost of recording is taken out of the rows that it falls in (see
explain.instrumentation). The rows then add up to the clean step, which is the step in every command.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import idle_causes, levels
from kernelscope.analysis.accounting.breakdowns import breakdowns
from kernelscope.analysis.accounting.device_account import COMMUNICATION, COMPUTE, COPY, GRAPH, IDLE, KEYS
from kernelscope.analysis.accounting.partition import Partition, by_line, partition
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.attribution import host_lines
from kernelscope.analysis.attribution.frameworks.pytorch import PROCESSORS
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import recording_cost
from kernelscope.analysis.kernels.classify import kinds
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace, intervals

_CAUSES = {  # other causes keep their name
    **idle_causes.OF_CALLS, api.SYSTEM: idle_causes.UNSEEN,
    levels.DISPATCH: idle_causes.OPERATOR, levels.IN_LAYER: idle_causes.RANGE, levels.IN_PHASE: idle_causes.RANGE,
    levels.OUTSIDE: idle_causes.PROGRAM, levels.QUEUED: idle_causes.QUEUED,
}  # fmt: skip
_LONG = 1_000_000  # ns: lookups and allocation do not take this long, so the operator computes
_DEEPEST = 4  # levels of nested function calls that are opened
_LONGEST_LINE = 80  # characters of a statement that are shown
_PLACE = ["operator", "phase", "layer"]
_LIBRARIES = ("mkl", "onednn")  # their calls are kernels within an operator of the framework


def of_run(run: Run, trace: Trace) -> tuple[pd.DataFrame, int]:
    """Return the rows of a run's step (see device_account.KEYS; count, duration_ns and time_ns per step), and the step in ns.

    trace: from the pass that recorded the most.
    """
    found = partition(trace)
    clean_ns = run.clean_step_ns
    if clean_ns is None or not found.step_ns:
        return _rows(found, found.cells["time_ns"].to_numpy(np.int64)), found.step_ns
    # if recorded steps were quicker than clean ones, the machine was less busy: all rows are scaled up alike
    kept = (
        recording_cost.kept(run, trace, found.cells, clean_ns).factors if clean_ns < found.step_ns else np.ones(len(found.cells))
    )
    time_ns = found.cells["time_ns"].to_numpy(dtype=float)
    return _rows(found, intervals.apportion(time_ns * kept, clean_ns)), clean_ns


def of_trace(trace: Trace) -> tuple[pd.DataFrame, int]:
    """Return the rows of a capture's step, and the step in ns."""
    found = partition(trace)
    return _rows(found, found.cells["time_ns"].to_numpy(np.int64)), found.step_ns


def of_lines(trace: Trace) -> tuple[pd.DataFrame, int]:
    """Return the rows of a recording by line_profiler alone, one per line, and the time of the profiled function in ns."""
    table, step_ns = opened_lines(trace)
    text = table["text"].astype("string")
    place = (place_of_lines(table) + " " + text.fillna("").str.strip().str.slice(0, _LONGEST_LINE)).str.strip()
    rows = table.reindex(columns=list(KEYS)).assign(
        part=IDLE,
        cause=np.where(table["file"].notna(), idle_causes.LINE, idle_causes.UNSEEN),
        detail=place,
        count=table["count"].astype(float),
        duration_ns=table["duration_ns"].astype(float),
        time_ns=table["time_ns"],
    )
    return rows.astype(dict.fromkeys(KEYS, "string")), step_ns


def opened_lines(trace: Trace) -> tuple[pd.DataFrame, int]:
    """Return the lines that the rows of `of_lines` are, in the same order: file, function, line, text, count, duration_ns and
    time_ns; and the time of the profiled function in ns.
    """
    found = breakdowns(trace, ("line",))["line"]
    if isinstance(found, str):
        raise EvidenceError(found)
    return _opened(found.table, trace.lines), int(found.step_ns or 0)


def place_of_lines(table: pd.DataFrame) -> pd.Series[str]:
    """Return where each line is: train.py:31; if its file is unknown, create:587, by its function."""
    file, function = (table[name].astype("string") for name in ("file", "function"))
    owner = file.where((file != "").fillna(False), function.str.replace(r" at line \d+.*$", "", regex=True))
    number = table["line"].astype("string")
    known = (table["file"].notna() & (table["line"] > 0).fillna(False)).to_numpy(bool)
    return owner.where(~known, owner + ":" + number)


def _opened(rows: pd.DataFrame, lines: pd.DataFrame) -> pd.DataFrame:
    """Replace a line that calls a function by the function's own lines, where no other line calls it.

    A call is the function's name followed by a parenthesis. If two files have a function of that name, it is unclear which is
    called, and the line stays. Time in the line beyond the function stays with the line.
    """
    functions = {str(name): part for name, part in lines.groupby("function", sort=False) if part["file"].nunique() == 1}
    calling = {
        name: rf"^(?!\s*(?:async\s+)?def\b).*\b{re.escape(name.rpartition('.')[2])}\("
        for name in functions
        if not name.startswith("<")
    }
    alone = {
        name: int(found.argmax())
        for name, pattern in calling.items()
        if (found := lines["text"].astype("string").str.contains(pattern).fillna(False).to_numpy(bool)).sum() == 1
    }
    for _ in range(_DEEPEST):
        for name, place in alone.items():
            caller, inside = lines.iloc[place], functions[name]
            at = (rows["line"] == caller["line"]) & (rows["file"] == caller["file"]) & (rows["function"] == caller["function"])
            there = (rows["function"] == name).fillna(False).any()
            if there or at.fillna(False).sum() != 1 or inside["time_ns"].sum() > caller["time_ns"]:
                continue
            own = at.fillna(False).to_numpy(bool)
            rest = rows["time_ns"].mask(own, rows["time_ns"] - int(inside["time_ns"].sum()))
            more = inside.rename(columns={"hits": "count"}).assign(duration_ns=inside["time_ns"])
            rows = pd.concat([rows.assign(time_ns=rest), more.reindex(columns=rows.columns)], ignore_index=True)
    return rows.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


def _rows(found: Partition, time_ns: npt.NDArray[np.int64]) -> pd.DataFrame:
    cells = found.cells.reset_index(drop=True)
    cause = cells["cause"].astype("string")
    on_device = cause.str.startswith(levels.DEVICE).fillna(False).to_numpy(bool) & ~cause.isin([levels.QUEUED]).to_numpy(bool)
    computes = cause.isna().to_numpy(bool)
    part = np.where(
        computes, np.where((cells["kind"] == "communication").fillna(False).to_numpy(bool), COMMUNICATION, COMPUTE), IDLE
    )
    part = np.where(on_device, np.where((cause == levels.OPAQUE_GRAPH).fillna(False).to_numpy(bool), GRAPH, COPY), part)
    steps = max(len(found.steps), 1)
    table = cells.reindex(columns=list(KEYS)).assign(
        part=part,
        name=cells["kernel"],
        cause=[None if text is None or pd.isna(text) else _CAUSES.get(str(text), str(text)) for text in cause],
        detail=cells["operator"].astype("string").fillna(cells["range"].astype("string")),
        count=cells["count"] / steps,
        duration_ns=cells["duration_ns"] / steps,
        time_ns=time_ns,
    )
    table = _communicating(table.astype(dict.fromkeys(KEYS, "string")))
    return _computing(table[_mine(cells)].reset_index(drop=True))


def _mine(cells: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which cells are in measured steps, and so have a row."""
    return (cells["phase"].astype("string") != levels.OUTSIDE_OF_STEPS).fillna(True).to_numpy(bool)


def lines(trace: Trace, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the lines that the host was in during each row of `of_run`: row, file, function, line, text and time_ns per step.

    The row's time is divided in the proportions that were recorded; the part that was in no line goes to no line. Empty if the
    timeline has no lines, or if the framework computes while the host is elsewhere.
    """
    if trace.host_lines.empty or host_lines.computes_behind(trace):
        return pd.DataFrame(columns=["row", *host_lines.KEYS, "time_ns"])
    found, (known, crossed) = partition(trace), by_line(trace)
    mine = _mine(found.cells)
    recorded_ns = found.cells.loc[mine, "time_ns"].to_numpy(float) * max(len(found.steps), 1)
    kept = rows["time_ns"].to_numpy(float) / np.maximum(recorded_ns, 1.0)
    row_of_cell = np.where(mine, np.cumsum(mine) - 1, -1)  # rows are in the order of the cells that have one
    place = row_of_cell[crossed["cell"].to_numpy()]
    table: pd.DataFrame = crossed.assign(row=place)[place >= 0]
    sums: pd.DataFrame = table.groupby(["row", "code"])[["time_ns"]].sum().reset_index()
    sums["time_ns"] *= kept[sums["row"].to_numpy()]
    return pd.concat([sums, known.iloc[sums["code"].to_numpy()].reset_index(drop=True)], axis=1).drop(columns="code")


def _communicating(table: pd.DataFrame) -> pd.DataFrame:
    """Turn ranges in which ranks on processors communicate into communication."""
    talks = ((table["cause"] == idle_causes.RANGE) & table["detail"].str.match(PROCESSORS)).fillna(False).to_numpy(bool)
    table.loc[talks, "part"], table.loc[talks, "kind"] = COMMUNICATION, "communication"
    table.loc[talks, "name"] = table.loc[talks, "detail"]
    table.loc[talks, "duration_ns"] = table.loc[talks, "time_ns"]
    table.loc[talks, ["cause", "detail"]] = pd.NA
    return table


def _computing(table: pd.DataFrame) -> pd.DataFrame:
    """Turn long operators around a library's calls into kernels of their own.

    Convolutions by matrix products, for example, copy images into matrices and back between two products. No library records
    that, and dispatch does not last that long. The type is that of the library's calls, if they all have the same.
    """
    calls = table[((table["part"] == COMPUTE) & table["library"].isin(_LIBRARIES) & table["operator"].notna()).to_numpy(bool)]
    types = calls.groupby(_PLACE, dropna=False)["dtype"].agg(["first", "nunique"]).reset_index()
    found = table[[*_PLACE, "part"]].merge(types, on=_PLACE, how="left")  # a left merge keeps the order of the rows
    long = (table["cause"] == idle_causes.OPERATOR) & (table["time_ns"] > _LONG * table["count"])
    own = (long.fillna(False) & found["nunique"].notna()).to_numpy(bool)
    result = table.copy()
    result.loc[own, "part"], result.loc[own, "library"] = COMPUTE, "aten"
    result.loc[own, "name"] = table.loc[own, "operator"]
    result.loc[own, "kind"] = kinds(table.loc[own, "operator"], table.loc[own, "phase"])
    result.loc[own, "dtype"] = found["first"].where(found["nunique"] == 1)[own]
    result.loc[own, ["cause", "detail"]] = pd.NA
    return result
