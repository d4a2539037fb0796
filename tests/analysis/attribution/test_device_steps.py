"""Which step device work belongs to, and from when to when a step lasts on a device that works behind the host."""

from dataclasses import replace

import numpy as np
import pytest

import kernelscope as ks
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.steps import DetectedSteps, applied
from tests.analysis.explain.device.synthetic import COPIES, LOADER, Copy, Host, Kernel, Wait, recording
from tests.places import CORPUS


def kernel_rows(table):
    return table[~table["kernel"].str.startswith("(").to_numpy(bool)]


def test_work_counts_in_the_step_that_launched_it_with_its_whole_duration():
    path = CORPUS / "broken" / "clip.json"
    if not path.is_file():
        pytest.skip("needs ../shared/corpus")
    table = ks.breakdown(ks.read(path), by="kernel").table.set_index("kernel")
    assert table.loc["k_straddles", "duration_ns"] == 50_000
    assert table.loc["k_after", "duration_ns"] == 500_000
    assert (table.loc[["k_straddles", "k_after"], "count"] == 1).all()
    assert not (table.loc[["k_straddles", "k_after"], "phase"] == "outside of steps").fillna(False).any()


# --- loops made up --------------------------------------------------------------------------------------------------------------


def assigned(trace):
    """Return a recording whose work is tied to its steps."""
    found = DetectedSteps("profiler", "made up", trace.steps, 1.0, "high")
    return applied(trace, found)


def numbers(table):
    return table["step"].to_numpy(np.int64, na_value=-1).tolist()


def launching_steps(trace, table):
    """Return for each piece of work the step in which it was launched, or -1: by a search through all steps."""
    steps = list(zip(trace.steps["step"], trace.steps["start_ns"], trace.steps["end_ns"], strict=True))
    return [
        next((int(step) for step, start, end in steps if start <= launch < end), -1)
        for launch in table["launch_ns"].to_numpy(np.int64, na_value=-1)
    ]


def test_a_device_far_behind_the_host():
    """The host has launched all eight steps before the device is through with the first."""
    trace = assigned(recording([Kernel("first", 5000), Kernel("second", 3000)]))
    assert trace.steps["end_ns"].max() < trace.kernels["end_ns"].min()
    assert numbers(trace.kernels) == launching_steps(trace, trace.kernels) == [step for step in range(8) for _ in range(2)]
    start, end = device_steps.bounds(trace.steps)
    firsts = trace.kernels.loc[trace.kernels["name"] == "first", "start_ns"].to_numpy(np.int64)
    assert start[1:].tolist() == end[:-1].tolist() == firsts[1:].tolist()
    assert (np.diff(start)[1:] == 8_000_000).all()
    assert end[-1] == trace.kernels["end_ns"].max()


def test_the_breakdown_of_a_device_far_behind_the_host():
    table = ks.breakdown(assigned(recording([Kernel("first", 5000), Kernel("second", 3000), Host(20)])), by="kernel")
    rows = kernel_rows(table.table).groupby("kernel", observed=True)[["count", "duration_ns"]].sum()
    assert rows.loc["first"].tolist() == [8, 8 * 5_000_000]
    assert rows.loc["second"].tolist() == [8, 8 * 3_000_000]
    assert table.step_ns == pytest.approx(8_000_000, rel=0.01)


def test_a_loop_that_waits_in_each_step_lasts_as_long_on_the_device_as_on_the_host():
    trace = assigned(recording([Host(500), Kernel("k", 2000), Wait(), Host(300)]))
    start, end = device_steps.bounds(trace.steps)
    assert numbers(trace.kernels) == list(range(8))
    lasted = (trace.steps["end_ns"] - trace.steps["start_ns"]).to_numpy(np.int64)
    assert (end - start).tolist() == lasted.tolist(), "the device is done with each step when the next one's mark comes"
    assert start.tolist() == trace.steps["start_ns"].tolist()


def test_two_streams_each_behind_the_host_by_another_time():
    """Copies of the next batches run ahead of the kernels on a stream of their own: they are those of the step that made them."""
    step = [Copy(200, stream=COPIES, thread=LOADER), Kernel("gemm", 4000), Kernel("add", 1000)]
    trace = assigned(recording(step))
    assert numbers(trace.copies) == launching_steps(trace, trace.copies) == list(range(8))
    assert numbers(trace.kernels) == launching_steps(trace, trace.kernels)
    assert trace.copies["end_ns"].max() < trace.kernels["end_ns"].iloc[1]
    start, _ = device_steps.bounds(trace.steps)
    assert (np.diff(start)[1:] == 5_000_000).all()  # the loop's own thread says when a step begins, not the loader's


def test_work_that_runs_ahead_on_another_stream_begins_no_step():
    """The loop's own thread sends the batch on a stream of its own: it arrives while the device computes the step before."""
    trace = assigned(recording([Copy(200, stream=COPIES), Kernel("prepare", 30, stream=21), Kernel("gemm", 4000)]))
    start, end = device_steps.bounds(trace.steps)
    assert (np.diff(start)[1:] == 4_000_000).all()
    assert numbers(trace.copies) == launching_steps(trace, trace.copies)
    assert start[1:].tolist() == end[:-1].tolist()


def test_steps_that_were_found_are_from_one_first_work_to_the_next():
    """What marks them stands anywhere in what repeats: the wait before a step's first kernel may be the one before's."""
    trace = recording([Host(500), Kernel("k", 2000), Wait(), Host(300)])
    trace = applied(trace, DetectedSteps("range", "made up", trace.steps, 1.0, "high"))
    start, _ = device_steps.bounds(trace.steps)
    assert start[1:].tolist() == trace.kernels["start_ns"].tolist()[1:]


def test_work_launched_before_the_capture_is_of_no_step():
    before = [Kernel("earlier", 700, launched=False) for _ in range(3)]
    trace = assigned(recording([Kernel("k", 4000), Kernel("l", 1000)], before=before))
    mine = trace.kernels["name"] == "earlier"
    assert numbers(trace.kernels[mine]) == [-1, -1, -1]
    assert numbers(trace.kernels[~mine]) == launching_steps(trace, trace.kernels[~mine])
    rows = ks.breakdown(trace, by="kernel").table.set_index("kernel")
    assert rows.loc["earlier", ["count", "duration_ns", "time_ns"]].tolist() == [3, 2_100_000, 0]
    assert rows.loc["earlier", "phase"] == "outside of steps"


def test_work_of_unknown_launch_is_of_the_step_in_whose_time_it_starts():
    step = [Kernel("k", 4000), Kernel("unlaunched", 1000, launched=False), Kernel("l", 1000)]
    trace = assigned(recording(step))
    mine = trace.kernels["name"] == "unlaunched"
    assert numbers(trace.kernels[mine]) == list(range(8))


def test_work_launched_right_before_the_first_step_is_not_its_own():
    warmup = [Kernel("warm", 3000), Kernel("warm", 3000)]
    trace = assigned(recording([Kernel("k", 2000), Host(30)], before=warmup))
    assert numbers(trace.kernels) == [-1, -1, *range(8)]
    start, _ = device_steps.bounds(trace.steps)
    assert start[0] == trace.kernels.loc[trace.kernels["name"] == "k", "start_ns"].min()


def test_a_step_that_begins_and_ends_behind_the_host_lasts_as_long_as_its_mark():
    """The device is done with earlier work 300 us after the mark, and with the step's own 200 us after its end on the host."""
    trace = recording([Host(1000), Kernel("k", 200), Host(1)], 1, before=[Kernel("earlier", 300, launched=False)])
    host = int((trace.steps["end_ns"] - trace.steps["start_ns"]).iloc[0])
    start, end = device_steps.bounds(assigned(trace).steps)
    assert int(end[0] - start[0]) == pytest.approx(host, abs=15_000), "launching takes some us"
    assert start[0] > trace.steps["start_ns"].iloc[0] + 150_000


def test_what_comes_after_the_loop_is_of_no_step():
    after = [Kernel("evaluate", 900), Kernel("evaluate", 900)]
    trace = assigned(recording([Kernel("k", 2000), Host(30)], after=after))
    assert numbers(trace.kernels) == [*range(8), -1, -1]
    _, end = device_steps.bounds(trace.steps)
    assert end[-1] == trace.kernels.loc[trace.kernels["name"] == "evaluate", "start_ns"].min()


def test_steps_apart_end_on_their_own():
    """Between the fourth step and the fifth the loop evaluates, in no step: neither of them lasts through that."""
    usual = [Kernel("k", 2000), Wait(), Host(100)]
    trace = recording(lambda number: [Host(50_000), *usual] if number == 4 else usual)
    steps = trace.steps.copy()
    steps.loc[4, "start_ns"] += 50_000_000
    trace = assigned(replace(trace, steps=steps))
    start, end = device_steps.bounds(trace.steps)
    assert end[3] <= steps["end_ns"][3]
    assert start[4] >= steps["start_ns"][4]
    assert (end - start).max() < 2 * 2_200_000


def test_work_of_processors_is_of_the_step_that_it_runs_in():
    trace = assigned(recording([Kernel("conv", 2000, device="cpu"), Wait(), Host(10)]))
    assert numbers(trace.kernels) == list(range(8))
    assert trace.steps["device_start_ns"].isna().all()
    start, end = device_steps.bounds(trace.steps)
    assert start.tolist() == trace.steps["start_ns"].tolist()
    assert end.tolist() == trace.steps["end_ns"].tolist()


@pytest.mark.parametrize("seed", range(6))
def test_random_loops(seed):
    """Every piece of work is of the step that launched it; steps on the device follow each other and hold all of its work."""
    random = np.random.default_rng(seed)

    def step(_number):
        items = [Kernel(f"k{random.integers(5)}", float(random.integers(10, 900)), stream=int(random.choice([7, 20])))]
        for _ in range(random.integers(3, 12)):
            us = float(random.integers(10, 900))
            kernel, other = Kernel(f"k{random.integers(5)}", us), Kernel("side", us, stream=21)
            items.append(random.choice([kernel, other, Copy(us / 4, stream=COPIES), Host(us), Wait()]))
        return items

    trace = assigned(recording(step, 12))
    for table in (trace.kernels, trace.copies):
        assert numbers(table) == launching_steps(trace, table)
    start, end = device_steps.bounds(trace.steps)
    assert (end >= start).all()
    assert (start[1:] >= end[:-1]).all()
    assert start[0] <= trace.kernels["start_ns"].min()
    rows = kernel_rows(ks.breakdown(trace, by="kernel").table)
    assert int(rows["count"].sum()) == len(trace.kernels)
    assert int(rows["duration_ns"].sum()) == int(trace.kernels["duration_ns"].sum())


# --- the profiler's stop --------------------------------------------------------------------------------------------------------


def tail(items):
    trace = recording(lambda number: [Kernel("k", 2000), Wait(), Host(100)] if number < 4 else items, 5)
    device_steps.assign(trace)
    device_steps.drop_empty_tail(trace)
    return trace


def test_a_short_last_step_without_device_work_is_the_profilers_stop():
    trace = tail([Host(18)])
    assert trace.steps["step"].tolist() == [0, 1, 2, 3]
    assert sum(trace.diagnostics.values()) == 1


@pytest.mark.parametrize("items", [[Kernel("k", 20), Wait()], [Host(2000)]])
def test_a_last_step_with_device_work_or_as_long_as_others_stays(items):
    trace = tail(items)
    assert len(trace.steps) == 5
    assert not trace.diagnostics


def test_steps_without_device_work_at_all_stay():
    trace = recording([Host(100)])
    device_steps.assign(trace)
    device_steps.drop_empty_tail(trace)
    assert len(trace.steps) == 8
