"""Inclusive breakdowns: by hand, and on a real capture against one range at a time."""

import pytest

import kernelscope as ks
from kernelscope.analysis import EvidenceError
from kernelscope.analysis.accounting.inclusive import inclusive
from kernelscope.analysis.trace import Trace, conform
from tests.places import corpus


def nested():
    """Ranges a (0 to 100), in it b (10 to 60) and in that another b (20 to 30); then b alone (200 to 250)."""
    spans = [("a", 0, 100), ("b", 10, 60), ("b", 20, 30), ("b", 200, 250)]
    ranges = [{"thread": 1, "start_ns": s, "end_ns": e, "name": name, "category": "user", "nested": True} for name, s, e in spans]
    return Trace(ranges=conform("ranges", ranges))


def test_ranges_hold_what_they_enclose_and_none_twice():
    result = inclusive(nested(), "range")
    rows = {row["range"]: (row["time_ns"], row["own_ns"]) for row in result["rows"]}
    assert rows == {"a": (100, 50), "b": (50 + 50, 50 + 50)}
    assert result["step_ns"] == 250
    assert result["inclusive"] is True


def test_layers_hold_their_parts():
    kernel = {"count": 1, "device": "cuda:0", "name": "k", "phase": "forward"}
    spans = [
        ("encoder.0.conv", 0, 10),
        ("encoder.0.norm", 10, 15),
        ("encoder.1.conv", 15, 45),
        ("head", 45, 50),
        ("encoder.0", 50, 52),
    ]
    kernels = [{**kernel, "start_ns": s, "end_ns": e, "duration_ns": e - s, "layer": layer} for layer, s, e in spans]
    result = inclusive(Trace(kernels=conform("kernels", kernels)), "layer")
    rows = {row["layer"]: (row["time_ns"], row["own_ns"], row["count"]) for row in result["rows"]}
    assert rows == {
        "encoder": (47, 0, 4), "encoder.1": (30, 0, 1), "encoder.1.conv": (30, 30, 1), "encoder.0": (17, 2, 3),
        "encoder.0.conv": (10, 10, 1), "encoder.0.norm": (5, 5, 1), "head": (5, 5, 1),
    }  # fmt: skip


def test_what_holds_nothing_is_refused():
    with pytest.raises(EvidenceError, match="use --by layer or --by range"):
        inclusive(nested(), "kernel")


@pytest.mark.parametrize("name", ["nsys/zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite"])
def test_an_outer_range_is_as_long_as_its_kernels_say(name):
    """No row is longer than the step, none shorter than its own time, and what encloses all holds all."""
    trace = ks.read(corpus(name))
    result, exclusive = inclusive(trace, "range"), ks.breakdown(trace, "range")
    own = exclusive.table.groupby("range")["time_ns"].sum()
    assert result["rows"]
    for row in result["rows"]:
        assert row["own_ns"] <= row["time_ns"] <= result["step_ns"]
        assert row["own_ns"] == own.get(row["range"], 0)
