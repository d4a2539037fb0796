"""Layers that ran alone, at planted powers: joules net of idle within their interval, and a note where samples disagree."""

import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest

from kernelscope.analysis import energy
from kernelscope.analysis.energy.replay import Replay, beside
from kernelscope.analysis.recordings.run import Run

found = importlib.util.spec_from_file_location("planted_energy", Path(__file__).parent / "planted.py")
planted = importlib.util.module_from_spec(found)
found.loader.exec_module(planted)
# 60 calls of 100 ms at 300 W, idle at 70 W: 23 J a call more than idle
ALONE = (("conv1", 60, 100.0, 300.0), ("conv2", 7, 150.0, 200.0), ("fc1", 0, 0.0, 0.0), ("pool1", 2, 100.0, 100.0))


@pytest.mark.parametrize("seed", range(5))
def test_joules_of_a_call_are_within_the_counter_s_bounds(tmp_path, seed):
    planted.folder(tmp_path, planted.Loop(replays=ALONE), planted.Instrument(), seed)
    conv1, conv2, fc1, pool1 = energy.replays(Run(tmp_path))
    assert conv1.energy_uj == pytest.approx(23e6, rel=0.01)
    assert conv1.low_uj <= 23_000_000 <= conv1.high_uj
    assert conv1.high_uj - conv1.low_uj < 0.1 * conv1.energy_uj
    assert (conv1.calls, conv1.call_ns, conv1.reason) == (60, 100_000_000, None)
    assert conv2.low_uj <= 0.150 * 130e6 <= conv2.high_uj
    assert fc1 == Replay("fc1", reason="not replayed: it is not called in a step")
    assert pool1.energy_uj is None
    assert "changed" in pool1.reason
    assert pool1.reason.endswith("5 are needed; record longer windows")


def test_without_an_idle_baseline_nothing_is_net_of_it(tmp_path):
    planted.folder(tmp_path, planted.Loop(replays=ALONE[:1], idle_ms=100), planted.Instrument(), 0)
    (conv1,) = energy.replays(Run(tmp_path))
    assert conv1.energy_uj is None
    assert conv1.reason == "the idle power is unknown"


def test_recordings_from_before_have_none(tmp_path):
    planted.folder(tmp_path, planted.Loop(), planted.Instrument(), 0)
    assert energy.replays(Run(tmp_path)) == []


def test_damaged_rows_are_not_replays(tmp_path):
    planted.folder(tmp_path, planted.Loop(), planted.Instrument(), 0)
    with (tmp_path / "energy" / "1" / "windows.jsonl").open("a") as out:
        out.write(json.dumps({"kind": "replay", "start_ns": 5, "end_ns": 4, "steps": -1}) + "\n")
        out.write(json.dumps({"kind": "replay", "start_ns": 5, "end_ns": 4, "steps": 3, "layer": "a"}) + "\n")
    first, second = energy.replays(Run(tmp_path))
    assert (first.energy_uj, first.reason) == (None, "not replayed")
    assert (second.energy_uj, second.layer) == (None, "a")


def _row(layer, *values):
    return dict(zip(("layer", "energy_uj", "low_uj", "high_uj", "idle_uj"), (layer, *values), strict=True))


def test_disagreement_beyond_both_intervals_is_noted():
    """Less idle, samples say 700 (600 to 800) of each."""
    names = ("same", "touches", "more", "less", "open", "none")
    rows = pd.DataFrame([_row(name, 1000, 900, 1100, 300) for name in names] + [_row("refused", None, None, 1100, 300)])
    alone = [
        Replay("same", 710, 650, 760), Replay("touches", 850, 800, 900), Replay("more", 850, 801, 900),
        Replay("less", 500, 400, 599), Replay("open", 500, 400, None), Replay("refused", 5000, 4000, 6000),
    ]  # fmt: skip
    told = beside(rows, alone).set_index("layer")
    notes = {name: note for name, note in told["replay_note"].items() if not pd.isna(note)}
    assert notes == {
        "more": "disagree: alone it takes more, beyond both intervals",
        "less": "disagree: alone it takes less, beyond both intervals",
    }
    assert told.loc["more", ["replay_uj", "replay_low_uj", "replay_high_uj"]].tolist() == [850, 801, 900]
    assert told.loc["none", ["replay_uj", "replay_low_uj", "replay_high_uj"]].isna().all()
    assert told["energy_uj"].tolist()[:6] == [1000] * 6, "what samples say stays as it is"
