"""The partition of a small hand-made timeline, every expected number worked out by hand."""

import pandas as pd
import pytest

from kernelscope.analysis import EvidenceError
from kernelscope.analysis.accounting import partition as parts
from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.trace import Trace, conform

MAIN, WORKER = 1, 2


def _trace(steps=((0, 1000),)):
    """One layer whose operator runs a GEMM on the main thread while a worker computes an activation; then the optimizer."""
    step_rows = [
        {"step": i, "window": 0, "warmup": False, "thread": MAIN, "start_ns": s, "end_ns": e} for i, (s, e) in enumerate(steps)
    ]
    ranges = [
        {"thread": MAIN, "start_ns": 0, "end_ns": 1000, "category": "step", "name": "step 0", "step": 0},
        {"thread": MAIN, "start_ns": 0, "end_ns": 100, "category": "data", "name": "data", "phase": "data"},
        {"thread": MAIN, "start_ns": 100, "end_ns": 600, "category": "phase", "name": "forward", "phase": "forward"},
        {"thread": MAIN, "start_ns": 150, "end_ns": 500, "category": "layer", "name": "fc1", "layer": "fc1", "phase": "forward"},
    ]
    operators = [
        {
            "thread": MAIN, "start_ns": 200, "end_ns": 450, "name": "addmm", "layer": "fc1", "phase": "forward",
            "attribution": "launch range",
        },
        {
            "thread": MAIN, "start_ns": 700, "end_ns": 900, "name": "sgd", "phase": "optimizer", "attribution": "launch range",
        },
    ]  # fmt: skip
    kernel = {"count": 1, "device": "cpu", "layer": "fc1", "phase": "forward", "attribution": "launch range"}
    kernels = [
        {**kernel, "start_ns": 250, "end_ns": 350, "duration_ns": 100, "thread": MAIN, "name": "sgemm", "kind": "gemm"},
        {**kernel, "start_ns": 300, "end_ns": 420, "duration_ns": 120, "thread": WORKER, "name": "tanh", "kind": "activation"},
    ]
    kernels[0]["library"], kernels[1]["library"] = "mkl", "aten"
    return Trace(
        steps=conform("steps", step_rows), ranges=conform("ranges", ranges), operators=conform("operators", operators),
        kernels=conform("kernels", kernels),
    )  # fmt: skip


def _times(result, column):
    return dict(zip(result.table[column], result.table["time_ns"], strict=True))


def test_what_devices_exchange_is_a_known_part_of_the_step_and_no_layer():
    trace = _trace()
    exchange = {
        "start_ns": 600, "end_ns": 640, "duration_ns": 40, "thread": MAIN, "name": "c10d::allreduce_", "kind": "communication",
        "count": 1, "device": "cpu", "phase": "backward", "attribution": "launch range",
    }  # fmt: skip
    before = breakdown(trace, "layer")
    trace.kernels = conform("kernels", pd.concat([trace.kernels, pd.DataFrame([exchange])]))
    after = breakdown(trace, "layer")
    assert _times(after, "layer")["(communication)"] == 40
    assert after.coverage == pytest.approx(before.coverage + 0.04), "before it was the loop's own time"
    assert sum(after.table["time_ns"]) == after.step_ns


def test_overlapping_kernels_share_their_instants_and_the_host_gets_the_rest():
    kinds = breakdown(_trace(), "kind")
    assert kinds.step_ns == 1000
    assert kinds.table["time_ns"].sum() == 1000
    # gemm alone 250-300, both 300-350 (half each), activation alone 350-420
    assert _times(kinds, "kind")["gemm"] == 75
    assert _times(kinds, "kind")["activation"] == 95
    by_cause = breakdown(_trace(), "idle").table.groupby("cause")["time_ns"].sum().to_dict()
    assert by_cause == {
        "(computing)": 170,
        "in operators": 50 + 30 + 200,  # 200-250, 420-450 in addmm, and the optimizer's operator
        "in layers": 50 + 50,  # 150-200, 450-500
        "in phases": 50 + 100,  # 100-150, 500-600
        "data": 100,
        "outside of ranges": 100 + 100,  # 600-700, 900-1000
    }


def test_layers_with_coverage():
    layers = breakdown(_trace(), "layer")
    assert layers.table["time_ns"].sum() == 1000
    assert layers.table.groupby("layer")["time_ns"].sum().to_dict() == {
        "fc1": 350,
        "(between layers)": 150,  # 100-150 and 500-600: in the forward call, in no layer
        "(host: in no layer)": 200,  # the loop's
        "(optimizer)": 200,
        "(data)": 100,
    }
    assert layers.coverage == pytest.approx(0.65)


@pytest.mark.parametrize("by", ["layer", "kernel", "kind", "phase", "step", "operator", "range", "idle"])
def test_every_table_adds_up_exactly_over_uneven_steps(by):
    trace = _trace(steps=((0, 333), (333, 1000), (1003, 1010)))
    result = breakdown(trace, by)
    assert result.step_ns == round((333 + 667 + 7) / 3)
    assert result.table["time_ns"].sum() == result.step_ns
    assert (result.table["time_ns"] >= 0).all()
    assert result.as_dict()["rows"][0]["time_ns"] >= 0


def test_a_kernel_over_a_step_boundary_is_cut_there_but_counted_once():
    result = breakdown(_trace(steps=((0, 300), (300, 1000))), "kind")
    gemm = result.table[result.table["kind"] == "gemm"].iloc[0]
    assert gemm["count"] == 1
    assert gemm["duration_ns"] == 100


def test_warmup_steps_are_left_out():
    trace = _trace(steps=((0, 500), (500, 1000)))
    trace.steps["warmup"] = [True, False]
    assert breakdown(trace, "phase").step_ns == 500


def test_no_measured_step_is_an_error_and_not_an_empty_table():
    trace = _trace()
    trace.steps["warmup"] = True
    with pytest.raises(EvidenceError, match="no measured step"):
        parts.partition(trace)


def test_trace_invariants_are_checked():
    trace = _trace()
    trace.check()
    trace.kernels.loc[0, "end_ns"] = 5
    with pytest.raises(EvidenceError, match="kernels, row 0: ends before it starts"):
        trace.check()
    trace = _trace()
    trace.kernels["kind"] = ["gemm", "magic"]
    with pytest.raises(EvidenceError, match="unknown value 'magic'"):
        trace.check()
    with pytest.raises(EvidenceError, match="table steps, column start_ns"):
        conform("steps", pd.DataFrame([{"step": 0, "warmup": False, "thread": 1, "start_ns": None, "end_ns": 3}]))


def test_kernels_without_a_length_are_counted_even_at_the_very_end():
    rows = [
        {"start_ns": start, "end_ns": end, "duration_ns": end - start, "count": 1, "name": "k", "kind": "gemm"}
        for start, end in ((0, 10), (5, 5), (20, 20), (30, 30))
    ]
    table = breakdown(Trace(kernels=conform("kernels", rows)), "kind").table.set_index("kind")
    assert table.loc["gemm", ["count", "duration_ns", "time_ns"]].tolist() == [4, 10, 10]
    assert table["time_ns"].sum() == 30
