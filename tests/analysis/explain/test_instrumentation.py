"""Anchoring cells in a layers pass that left ranges out: layers that hold each other's time are one group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.explain import sides
from kernelscope.analysis.explain.instrumentation import BOUND, anchored_factors, device_factors, labels, layer_groups
from kernelscope.analysis.trace import Trace, conform


def _cells(*rows: tuple[str | None, str | None, str | None]) -> pd.DataFrame:
    cells = pd.DataFrame(rows, columns=["layer", "phase", "cause"]).astype("string")
    return cells.assign(library=pd.Series([None] * len(rows), dtype="string"), kind="pointwise")


def test_layers_with_a_common_holder_are_one_group() -> None:
    held = layer_groups({"forward": {"a.1": ["a"], "a.2": ["a"], "b.1": ["b"], "common": ["b", "c"]}, "backward": {}})
    groups = held["forward"]
    assert groups["a"] == groups["a.1"] == groups["a.2"]
    assert groups["b"] == groups["b.1"] == groups["c"] == groups["common"]
    assert groups["a"] != groups["b"]


def test_what_no_layer_holds_is_one_with_what_is_outside_of_layers() -> None:
    held = layer_groups({"forward": {"net": [None], "net.1": [None]}, "backward": {"net.1": [None]}})
    cells = _cells(("net", "forward", None), ("net.1", "forward", None), (None, "other", "in the program"),
                   (None, "forward", "in phases"), ("net.1", "backward", None),
                   ("net", "backward", None), (None, "optimizer", None))  # fmt: skip
    found = labels(cells, held).tolist()
    assert len(set(found[:4])) == 1 or found[3] != found[0]
    assert found[0] == found[1]
    assert found[4] != found[0]
    assert found[5] == ("net", "backward")
    assert found[6] == ("(optimizer)", "optimizer")


def test_a_group_takes_what_the_layers_pass_says_of_its_holder() -> None:
    """a and its part take 300 + 100 ns recorded and 200 in the layers pass; b stays as it is. The host gives first."""
    held = layer_groups({"forward": {"a.1": ["a"]}, "backward": {}})
    cells = _cells(("a", "forward", None), ("a.1", "forward", None), ("b", "forward", None))
    time_ns = np.array([300.0, 100.0, 600.0])
    told = pd.Series([200.0, 600.0], index=pd.MultiIndex.from_tuples([("a", "forward"), ("b", "forward")]))
    factors = anchored_factors(cells, time_ns, told, 800.0, held)
    assert (factors * time_ns).tolist() == pytest.approx([150.0, 50.0, 600.0])
    # as if nothing was known of what was left out: a takes all of the 200, and its part is thought to be beside it
    apart = anchored_factors(cells, time_ns, told, 800.0)
    assert (apart * time_ns)[0] > 150.0


def test_a_layers_pass_that_knows_phases_tells_of_them() -> None:
    """Loading and the optimizer may take most of a step, and layers the rest: all of it is known."""
    steps = pd.DataFrame([{"step": 0, "warmup": False, "thread": 1, "start_ns": 0, "end_ns": 100}])
    ranges = pd.DataFrame([
        {"name": "data", "category": "data", "phase": "data", "layer": None, "thread": 1, "start_ns": 0, "end_ns": 60},
        {"name": "fc", "category": "layer", "phase": "forward", "layer": "fc", "thread": 1, "start_ns": 60, "end_ns": 95},
    ])  # fmt: skip
    trace = Trace(steps=conform("steps", steps), ranges=conform("ranges", ranges))
    found = sides._layers_ns(trace, 100, {})
    assert found is not None
    assert {key[1]: time for key, time in found.to_dict().items()} == {"data": 60.0, "forward": 35.0, "other": 5.0}
    unknown = replace(trace, ranges=trace.ranges[:0])
    assert sides._layers_ns(unknown, 100, {}) is None


def test_a_device_times_its_own_work_so_that_host_time_alone_gives_back() -> None:
    host = ("a", "forward", "in operators"), (None, "other", "data")
    cells = _cells(("a", "forward", None), (None, "other", "device: copy"), *host)
    time_ns, events = np.array([3e6, 1e6, 2e6, 4e6]), pd.Series({("a", "forward"): 10.0, ("", "other"): 0.0})
    kept = time_ns * device_factors(cells, time_ns, events, 9e6)
    assert kept[:2].tolist() == [3e6, 1e6]
    # 0.1 ms is what ten events cost at most; the rest is given in proportion to what is left, 1.9 and 4 ms
    assert kept[2:] == pytest.approx([1.9e6 * (1 - 0.9 / 5.9), 4e6 * (1 - 0.9 / 5.9)])
    assert kept.sum() == pytest.approx(9e6)


@pytest.mark.parametrize(("clean_ns", "whole_ns"), [(3.6e6, 3.6e6), (1e6, 4e6 / BOUND)])
def test_a_clean_step_shorter_than_the_devices_own_work_is_of_another_process(clean_ns: float, whole_ns: float) -> None:
    cells = _cells(("a", "forward", None), (None, "other", "device: copy"), ("a", "forward", "in operators"))
    time_ns = np.array([3e6, 1e6, 2e6])
    kept = time_ns * device_factors(cells, time_ns, pd.Series({("a", "forward"): 1.0}), clean_ns)
    assert kept[2] == 0
    assert kept[0] / kept[1] == pytest.approx(3)
    assert kept.sum() == pytest.approx(whole_ns)
