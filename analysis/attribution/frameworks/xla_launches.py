"""Find the call of a compiled function that launched an XLA operation, from the profiler's own host events.

JAX returns from a call before the work is done. Operations carry their program's name (`hlo_module`, jit_step) and the number
of its execution (`run_id`); calls are events PjitFunction(step). Executions in order of their numbers match calls in order of
time, if there are equally many and no operation begins before its call. Otherwise the launch is unknown.
"""

from __future__ import annotations

import pandas as pd

_CALL = r"^PjitFunction\((?:jit\()?([^()]*)\)?\)$"  # jit(step) if it was compiled ahead of time
_PROGRAM = r"^(?:jit|pjit)_(.*)$"


def launches(operations: pd.DataFrame, events: pd.DataFrame) -> pd.Series:
    """Return when the call that launched each operation began, in the same order; null if unknown.

    operations: start_ns, stat_hlo_module and stat_run_id. events: start_ns, end_ns, line_id and name of all host events.
    """
    function = _plain(operations["stat_hlo_module"].astype("string").str.extract(_PROGRAM)[0])
    keys = pd.DataFrame({"function": function, "run": operations["stat_run_id"].astype("Int64"), "first": operations["start_ns"]})
    executions = keys.dropna().groupby(["function", "run"]).agg(first=("first", "min")).reset_index()
    calls = _calls(events)
    matched = pd.merge(_numbered(executions), _numbered(calls), on=["function", "number", "count"])
    early = matched.loc[matched["start_ns"] > matched["first"], "function"]
    matched = matched[~matched["function"].isin(early)]
    result = keys[["function", "run"]].merge(matched[["function", "run", "start_ns"]], on=["function", "run"], how="left")
    return pd.Series(result["start_ns"].astype("Int64").array, index=operations.index)


def _plain(names: pd.Series) -> pd.Series:
    """Return names as programs spell them: <lambda> is lambda in both."""
    return names.str.replace(r"[^\w.-]", "_", regex=True).str.strip("_")


def _calls(events: pd.DataFrame) -> pd.DataFrame:
    """Return function and start_ns of the outermost calls of compiled functions, sorted by both."""
    calls = events.assign(function=_plain(events["name"].astype("string").str.extract(_CALL)[0]))
    calls = calls[calls["function"].notna()].astype({"start_ns": "int64", "end_ns": "int64"})
    calls = calls.sort_values("end_ns", ascending=False).sort_values(["function", "line_id", "start_ns"], kind="stable")
    places = [calls["function"], calls["line_id"]]
    over = calls.groupby(places)["end_ns"].cummax().groupby(places).shift()
    outermost = ~(calls["start_ns"] < over).fillna(False).to_numpy(dtype=bool)
    return calls.loc[outermost, ["function", "start_ns"]].sort_values(["function", "start_ns"])


def _numbered(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their number within their function, and the function's number of rows."""
    groups = table.groupby("function")["function"]
    return table.assign(number=groups.cumcount(), count=groups.transform("size"))
