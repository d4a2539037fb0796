"""Energy of layers that ran alone: a check of the energy by power samples within whole steps.

One call stands for all of the layer's calls in one step, forward and backward. Its energy is the counter's for a window of such
calls, less the idle power over their time. Its interval does not assume steady power: it comes from the counter's bounds for the
window (see counter) and the interval of the idle power.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from kernelscope.analysis.energy.counter import Counter
from kernelscope.analysis.energy.recording import Consumer, EnergyRepeat
from kernelscope.analysis.energy.summary import Summary, micro
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import plain

COLUMNS = {"replay_uj": "energy_uj", "replay_low_uj": "low_uj", "replay_high_uj": "high_uj"}  # of rows: of a Replay
NOTE = "replay_note"


@dataclass(frozen=True)
class Replay:
    """One layer alone: microjoules of one call net of idle, with their interval; None, and the reason, if unknown."""

    layer: str
    energy_uj: int | None = None
    low_uj: int | None = None
    high_uj: int | None = None
    call_ns: int | None = None
    calls: int | None = None
    reason: str | None = None


def replays(recording: EnergyRepeat, source: Consumer, summary: Summary) -> list[Replay]:
    """Return each layer that the pass tried to run alone. summary: of the same source, with its idle power."""
    rows = recording.windows[recording.windows["kind"] == "replay"]
    return [_replay(row, source.counter, summary) for row in plain.rows(rows)]


def _replay(row: dict[str, Any], counter: Counter, summary: Summary) -> Replay:
    layer = str(row.get("layer"))
    steps = row.get("steps")
    if pd.isna(steps) or int(steps) < 1:
        reason = row.get("reason")
        return Replay(layer, reason="not replayed" if pd.isna(reason) else f"not replayed: {reason}")
    calls, start, end = int(steps), int(row["start_ns"]), int(row["end_ns"])
    call_ns = round((end - start) / calls)
    try:
        energy = counter.between(start, end)
    except EvidenceError as error:
        return Replay(layer, call_ns=call_ns, calls=calls, reason=str(error))
    if summary.idle_w is None:
        return Replay(layer, call_ns=call_ns, calls=calls, reason="the idle power is unknown")
    call_s = (end - start) / 1e9 / calls
    low = high = None
    if summary.idle_low_w is not None and summary.idle_high_w is not None:
        low = micro(energy.low_j / calls - summary.idle_high_w * call_s)
        high = None if energy.high_j is None else micro(energy.high_j / calls - summary.idle_low_w * call_s)
    return Replay(layer, micro(energy.joules / calls - summary.idle_w * call_s), low, high, call_ns, calls)


def beside(rows: pd.DataFrame, result: list[Replay]) -> pd.DataFrame:
    """Return the rows by layer with COLUMNS and NOTE: why there is no replay, or that the two disagree beyond both intervals."""
    by_layer = {replay.layer: replay for replay in result}
    mine = [by_layer.get(layer) for layer in rows["layer"]]
    joined = rows.copy()
    after = list(joined).index("idle_uj") + 1
    for place, (column, field) in enumerate(COLUMNS.items(), after):
        values = [getattr(replay, field, None) for replay in mine]
        joined.insert(place, column, pd.Series(values, index=joined.index, dtype="Int64"))
    joined[NOTE] = pd.array([_note(row, replay) for row, replay in zip(plain.rows(rows), mine, strict=True)], dtype="string")
    return joined


def _note(row: dict[str, Any], replay: Replay | None) -> str | None:
    if replay is None:
        return None
    if replay.reason is not None:
        return replay.reason
    if row["energy_uj"] is None or row["idle_uj"] is None:
        return None
    low, high = row["low_uj"] - row["idle_uj"], row["high_uj"] - row["idle_uj"]
    if replay.low_uj is not None and replay.low_uj > high:
        return "disagree: alone it takes more, beyond both intervals"
    if replay.high_uj is not None and replay.high_uj < low:
        return "disagree: alone it takes less, beyond both intervals"
    return None
