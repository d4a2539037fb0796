"""Memory over time by kind and by layer: by hand, and adding up to the allocator's count in a real capture."""

import numpy as np
import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis.timeline import memory
from kernelscope.analysis.timeline.memory import memory_over_time
from kernelscope.analysis.trace import Trace, conform
from tests.places import ROOT


def made(events, counted=None):
    """One step: forward 0-100 and backward 100-200 in layer conv, optimizer 200-300; events: time, bytes, address."""
    operators = pd.DataFrame({
        "thread": 1, "start_ns": [0, 100, 200], "end_ns": [90, 190, 290], "name": ["aten::mm", "aten::mm", "aten::add"],
        "phase": ["forward", "backward", "optimizer"], "layer": ["conv", "conv", None],
    })  # fmt: skip
    rows = pd.DataFrame(events, columns=["time_ns", "bytes", "address"]).assign(device="cuda:0", thread=1)
    if counted is not None:
        rows = rows.assign(allocated_bytes=counted + rows["bytes"].cumsum())
    steps = pd.DataFrame({"step": [0, 1], "warmup": [True, False], "thread": 1, "start_ns": [0, 5], "end_ns": [5, 300]})
    tables = {"operators": operators, "memory": rows, "steps": steps}
    return Trace(**{name: conform(name, table) for name, table in tables.items()})


def test_kinds_and_layers_at_each_event():
    # 1 workspace; 2 an activation until 150; 3 a gradient; 4 too, back after the backward; 5 the optimizer's; 7 of no operator
    events = [(5, 64, 1), (10, 1000, 2), (20, -64, 1), (110, 300, 3), (120, 50, 4), (150, -1000, 2), (195, -50, 4), (210, 700, 5),
              (400, 9, 7)]  # fmt: skip
    (use,) = memory_over_time(made(events, counted=5000))["devices"]
    assert (use["device"], use["time_ns"], use["spans"]) == ("cuda:0", [0, 5, 15, 105, 115, 145, 190, 205, 395], [(0, 295)])
    assert use["kinds"] == {
        "before the recording": [5000] * 9, "activations": [0, 1000, 1000, 1000, 1000, 0, 0, 0, 0],
        "optimizer state": [0, 0, 0, 0, 0, 0, 0, 700, 700], "gradients": [0, 0, 0, 300, 350, 350, 300, 300, 300],
        "workspace": [64, 64, 0, 0, 0, 0, 0, 0, 0], "unattributed": [0, 0, 0, 0, 0, 0, 0, 0, 9],
    }  # fmt: skip
    assert use["layers"] == {
        "before the recording": [5000] * 9, "conv": [64, 1064, 1000, 1300, 1350, 350, 300, 300, 300],
        "(in no layer)": [0, 0, 0, 0, 0, 0, 0, 700, 709],
    }  # fmt: skip


def test_what_is_given_back_without_having_been_taken_was_there_before():
    (use,) = memory_over_time(made([(5, 64, 1), (10, -500, 9), (20, -64, 1)]))["devices"]
    assert use["kinds"]["before the recording"] == [500, 0, 0]
    (use,) = memory_over_time(made([(5, 64, 1)]))["devices"]
    assert "before the recording" not in use["kinds"]


def test_nothing_is_said_without_addresses():
    assert memory_over_time(made([(5, 64, None)]))["devices"] == []


def test_of_many_layers_the_rest_is_one_row(monkeypatch):
    monkeypatch.setattr(memory, "LAYERS", 1)
    (use,) = memory_over_time(made([(5, 64, 1), (210, 700, 5)], counted=0))["devices"]
    assert use["layers"] == {"(in no layer)": [0, 700], "(other layers)": [64, 64]}


@pytest.mark.parametrize("name", ["h100_Qwen1.5-0.5B", "h100_timesformer"])
def test_both_add_up_to_what_the_allocator_handed_out(name):
    path = ROOT.parent / "shared" / "corpus" / "kineto" / f"AMD-AGI__TraceLens__{name}.json.gz"
    if not path.is_file():
        pytest.skip("no captures of other people on this machine")
    trace = ks.read(path)
    devices = memory_over_time(trace)["devices"]
    assert [use["device"] for use in devices] == ["cpu", "cuda:0"]
    for use in devices:
        events = trace.memory[trace.memory["device"] == use["device"]].sort_values("time_ns", kind="stable")
        counted = events["allocated_bytes"].fillna(events["bytes"].cumsum()).astype(int)
        at_each = dict(zip(events["time_ns"] - events["time_ns"].min(), counted, strict=True))  # of events at one time the last
        kinds, layers = (np.array(list(use[key].values())).sum(axis=0) for key in ("kinds", "layers"))
        assert (kinds == layers).all()
        last = [place for place, time in enumerate(use["time_ns"]) if use["time_ns"][place + 1 : place + 2] != [time]]
        apart = {int(kinds[place]) - at_each[use["time_ns"][place]] for place in last}
        assert len(apart) == 1, "where the source does not count what was there before, all are apart by that"
        assert kinds.max() - counted.max() in apart, "the peak is among the times"
