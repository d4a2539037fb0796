"""Times that cannot be true are taken off the timeline and counted; what may be true stays and is told."""

import pandas as pd
import pytest

from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.clocks import compare_with_host, set_aside_impossible

HOUR = 3600 * 10**9
JUMPED = "kernels far outside of the capture's time (a clock jumped)"


def trace_of(edges, correlated=False, operators=()):
    start, end = zip(*edges, strict=True)
    table = pd.DataFrame({"start_ns": start, "end_ns": end, "name": "gemm", "count": 1})
    table["duration_ns"] = [last - first for first, last in edges]
    if correlated:
        table["process"], table["correlation"] = 7, range(len(edges))
    host = pd.DataFrame([{"start_ns": first, "end_ns": last, "name": "aten::mm"} for first, last in operators])
    return Trace(kernels=conform("kernels", table), operators=conform("operators", host))


def later(edges, chosen, by):
    return [(start + by, end + by) if chosen(place) else (start, end) for place, (start, end) in enumerate(edges)]


USUAL = [(10**12 + 100 * place, 10**12 + 100 * place + 50) for place in range(40)]


def test_what_ends_long_after_all_others_began_has_no_duration_to_count():
    trace = trace_of([*USUAL, (10**12 + 4000, 2**63 - 1)])
    set_aside_impossible(trace)
    assert len(trace.kernels) == 40
    assert trace.diagnostics == {JUMPED: 1}


def test_what_is_far_away_as_a_whole_keeps_its_duration():
    trace = trace_of([*USUAL, (10**18, 10**18 + 50)])
    set_aside_impossible(trace)
    assert trace.kernels["duration_ns"].tolist() == [50] * 41
    assert trace.kernels["start_ns"].isna().tolist() == [False] * 40 + [True]


def test_usual_times_stay():
    trace = trace_of(USUAL)
    set_aside_impossible(trace)
    assert trace.kernels["start_ns"].tolist() == [start for start, _ in USUAL]
    assert trace.diagnostics == {}


@pytest.mark.parametrize(("every", "count"), [(7, 6), (3, 14)])
@pytest.mark.parametrize("by", [24 * HOUR, -24 * HOUR])
def test_a_minority_that_was_launched_amid_the_others_and_lies_a_day_off_has_no_start(every, count, by):
    trace = trace_of(later([(10**15 + at, 10**15 + at + 50) for at in range(0, 4000, 100)], lambda n: n % every == 0, by), True)
    set_aside_impossible(trace)
    assert trace.diagnostics == {JUMPED: count}
    assert trace.kernels["start_ns"].isna().tolist() == [place % every == 0 for place in range(40)]
    assert trace.kernels["duration_ns"].sum() == 40 * 50


def test_device_work_at_a_time_when_the_host_did_nothing_has_no_start():
    trace = trace_of(later(USUAL, lambda place: place >= 25, HOUR), operators=USUAL)
    set_aside_impossible(trace)
    assert trace.diagnostics == {JUMPED: 15}
    assert len(trace.operators) == 40
    assert "warnings" not in trace.info


def test_one_kernel_an_hour_late_has_no_start():
    trace = trace_of(later(USUAL, lambda place: place == 17, HOUR), True)
    set_aside_impossible(trace)
    assert trace.diagnostics == {JUMPED: 1}


def test_a_kernel_that_lasts_an_hour_while_the_host_waits_for_nothing_does_not_count():
    trace = trace_of([*USUAL, (10**12 + 4000, 10**12 + 4000 + HOUR)], operators=USUAL)
    set_aside_impossible(trace)
    assert (len(trace.kernels), trace.diagnostics) == (40, {JUMPED: 1})


def over_seconds(edges):
    """The same, a tenth of a second apart: 3.9 s of 40."""
    return [(start + place * 10**8, end + place * 10**8) for place, (start, end) in enumerate(edges)]


HANGING = (10**12 + 4 * 10**9, 10**12 + 4 * 10**9 + HOUR)


def test_a_kernel_that_the_host_waits_for_for_an_hour_counts():
    trace = trace_of([*over_seconds(USUAL), HANGING], operators=[*over_seconds(USUAL), HANGING])
    set_aside_impossible(trace)
    assert (len(trace.kernels), trace.diagnostics, trace.info) == (41, {}, {})


def test_a_kernel_of_an_hour_in_a_capture_of_seconds_without_the_host_is_told_and_stays():
    trace = trace_of([*over_seconds(USUAL), HANGING])
    set_aside_impossible(trace)
    assert (len(trace.kernels), trace.diagnostics) == (41, {})
    assert trace.info["warnings"] == ["1 kernels or copies last longer than 45 minutes; a clock may have jumped"]


@pytest.mark.parametrize("correlated", [True, False])
def test_windows_hours_apart_stay_and_are_told(correlated):
    windows = later(USUAL, lambda place: place >= 30, 5 * HOUR)
    trace = trace_of(windows, correlated, operators=windows)
    set_aside_impossible(trace)
    assert trace.kernels["start_ns"].notna().all()
    assert trace.diagnostics == {}
    assert [line.partition(":")[0] for line in trace.info["warnings"]] == ["its times fall into 2 parts, up to 5.0 h apart"]


def test_a_small_window_with_all_that_a_window_has_stays_too():
    windows = later(USUAL, lambda place: place > 0, 2 * HOUR)
    trace = trace_of(windows, operators=windows)
    set_aside_impossible(trace)
    assert (trace.kernels["start_ns"].notna().all(), len(trace.operators), trace.diagnostics) == (True, 40, {})
    assert "2 parts, up to 2.0 h apart" in trace.info["warnings"][0]


def test_halves_are_told_and_none_is_chosen():
    trace = trace_of(later(USUAL, lambda place: place % 2 == 0, 24 * HOUR), True)
    set_aside_impossible(trace)
    assert trace.kernels["start_ns"].notna().all()
    assert "2 parts, up to 24.0 h apart" in trace.info["warnings"][0]


def test_another_process_whose_correlations_begin_anew_is_no_clock_that_jumped():
    trace = trace_of(later(USUAL, lambda place: place >= 30, 24 * HOUR), True)
    trace.kernels["correlation"] = trace.kernels["correlation"] % 30
    set_aside_impossible(trace)
    assert trace.diagnostics == {}
    assert len(trace.info["warnings"]) == 1


def test_windows_minutes_apart_are_nothing_to_tell():
    trace = trace_of([(start + place * 60 * 10**9, end + place * 60 * 10**9) for place, (start, end) in enumerate(USUAL)])
    set_aside_impossible(trace)
    assert (trace.diagnostics, trace.info) == ({}, {})


def test_an_operator_of_hours_leaves_no_gap():
    trace = trace_of(later(USUAL, lambda place: place >= 30, 5 * HOUR), operators=[(10**12, 10**12 + 6 * HOUR)])
    set_aside_impossible(trace)
    assert (trace.kernels["start_ns"].notna().all(), trace.diagnostics, trace.info) == (True, {}, {})


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [(0, 0, "with a time of zero"), (0, 50, "with a time of zero"), (-5000, -4950, "without a usable time (below zero)")],
)
def test_a_quarter_without_a_time_has_no_start(start, end, reason):
    trace = trace_of([(start, end) if place % 4 == 0 else edges for place, edges in enumerate(USUAL)])
    set_aside_impossible(trace)
    assert trace.diagnostics == {f"kernels {reason}": 10}
    assert trace.kernels["start_ns"].isna().sum() == 10
    assert trace.kernels["duration_ns"].sum() == 30 * 50 + 10 * (end - start)


def test_an_end_whose_start_is_zero_gives_no_duration():
    trace = trace_of([*USUAL, (0, 10**12 + 350)])
    set_aside_impossible(trace)
    assert (len(trace.kernels), trace.diagnostics) == (40, {"kernels with a time of zero": 1})


@pytest.mark.parametrize("first", [0, -1500])
def test_a_clock_that_begins_with_the_recording_may_show_zero_and_less(first):
    trace = trace_of([(first + at, first + at + 50) for at in range(0, 4000, 100)])
    set_aside_impossible(trace)
    assert (trace.kernels["start_ns"].notna().all(), trace.diagnostics) == (True, {})


@pytest.mark.parametrize("by", [9 * HOUR, 10 * HOUR, 2 * 10**18])
def test_a_kernel_that_began_an_hour_before_the_host_did_anything_does_not_count(by):
    usual = later(over_seconds(USUAL), lambda place: True, 10 * HOUR)
    trace = trace_of([*usual, (usual[0][0] - by, usual[0][1])], operators=usual)
    set_aside_impossible(trace)
    assert len(trace.diagnostics) == 1
    assert trace.kernels["duration_ns"].sum() == 40 * 50


@pytest.mark.parametrize("by", [(-HOUR, 0), (0, HOUR)])
def test_an_operator_of_an_hour_in_a_capture_of_seconds_is_told(by):
    usual = later(over_seconds(USUAL), lambda place: True, 10 * HOUR)
    trace = trace_of(usual, operators=[*usual, (usual[7][0] + by[0], usual[7][1] + by[1])])
    set_aside_impossible(trace)
    assert len(trace.operators) == 41
    assert trace.info["warnings"] == [
        "1 of its ranges, operators and calls lasts longer than 45 minutes, while all else spans 3.9 s; a clock may have jumped"
    ]


@pytest.mark.parametrize(
    ("off", "said"),
    [
        (0, None),
        (400_000, None),  # a queue
        (-400_000, None),  # clocks agree to a few microseconds, mostly
        (-2_000_000, "kernels begin 0.002 s before their launches"),
        (-24 * HOUR, "kernels begin 86,400 s before their launches"),
        (5 * 10**9, "kernels begin 5 s or more after their launches"),
    ],
)
def test_a_device_s_clock_that_is_not_the_host_s_is_told(off, said):
    trace = trace_of(later(USUAL, lambda place: True, off))
    trace.kernels["launch_ns"] = pd.array([start for start, _ in USUAL], dtype="Int64")
    compare_with_host(trace)
    warnings = trace.info.get("warnings", [])
    assert [line[: len(said)] for line in warnings] == [said] if said else warnings == []
