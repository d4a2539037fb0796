"""What is drawn over time: readings of a run's turns put behind each other, and power of an energy pass; worked out by hand."""

import json

import numpy as np
import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.timeline.over_time import MOST, of_run, of_trace
from kernelscope.analysis.trace import Trace
from tests.places import CORPUS

MS = 1_000_000


def steps(folder, *rows):
    folder.mkdir(parents=True)
    table = [
        {"step": number, "window": window, "warmup": warmup, "thread": 1, "start_ns": start * MS, "end_ns": end * MS}
        for number, (window, start, end, warmup) in enumerate(rows)
    ]
    (folder / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    (folder / "child.json").write_text("{}")


def samples(folder, *rows):
    names = ("time_ns", "window", "metric", "core", "device", "value")
    table = pd.DataFrame([dict(zip(names, (time * MS, *rest), strict=True)) for time, *rest in rows])
    table.astype({"core": "Int64", "device": "string"}).to_parquet(folder / "samples.parquet")


def opened(path, **passes):
    record = {
        "schema": "kernelscope/run/1", "framework": "x", "complete": True, "unavailable": {}, "passes": passes,
        "options": {"device": "cpu", "batch": 4, "network": "lenet"},
    }  # fmt: skip
    (path / "run.json").write_text(json.dumps(record))
    return Run(path)


@pytest.fixture
def run(tmp_path):
    """Two restarts of 100 ms each, the first in two windows between which another run had its turn, after a warm-up."""
    first, second = tmp_path / "clean" / "1", tmp_path / "clean" / "2"
    steps(first, (0, 0, 50, True), (1, 100, 160, False), (2, 400, 440, False))
    samples(
        first, (10, 0, "resident_bytes", None, None, 9e9), (110, 1, "resident_bytes", None, None, 1e6),
        (120, 1, "core_busy", 0, None, 1.0), (120, 1, "core_busy", 1, None, 0.5), (430, 2, "resident_bytes", None, None, 2e6),
        (430, 2, "gpu_memory_bytes", None, "cuda:0", 7e6), (430, 2, "gpu_process_memory_bytes", None, "cuda:0", 5e6),
        (430, 2, "gpu_memory_bytes", None, "cuda:1", 8e6), (300, None, "resident_bytes", None, None, 3e9),
    )  # fmt: skip
    steps(second, (1, 1000, 1100, False))
    samples(second, (1050, 1, "resident_bytes", None, None, 4e6), (1100, 1, "gpu_power_w", None, "cuda:0", 250.0))
    sampling = {"sources": [{"source": "psutil"}, {"source": "nvml", "unavailable": "NVML: not found"}]}
    return opened(tmp_path, clean={"folders": ["clean/1", "clean/2"], "sampling": sampling})


def quantity(found, key):
    return next(quantity for quantity in found["quantities"] if quantity["key"] == key)


def lines(found, key):
    return {one["name"]: list(zip(one["time_ns"], one["value"], strict=True)) for one in quantity(found, key)["series"]}


def test_the_clock_goes_only_while_the_run_had_its_turn_and_restarts_are_apart(run):
    found = of_run(run, Trace())
    assert lines(found, "memory") == {
        "process": [(10 * MS, 1e6), (90 * MS, 2e6), (100 * MS, None), (150 * MS, 4e6)],
        "cuda:0: the process": [(90 * MS, 5e6)],
        "cuda:1: all processes": [(90 * MS, 8e6)],
    }
    assert lines(found, "utilisation") == {"processor: mean of 2 cores": [(20 * MS, 0.75)]}
    assert lines(found, "power") == {"cuda:0": [(200 * MS, 250.0)]}
    json.dumps(found, allow_nan=False)


def test_what_was_not_recorded_has_a_reason(tmp_path):
    sampling = {"sources": [{"source": "nvml", "unavailable": "NVML: not found"}]}
    run = opened(tmp_path, clean={"folders": [], "sampling": sampling})
    found = of_run(run, f"{tmp_path}: no kernels pass")
    reasons = {one["key"]: one["unavailable"] for one in found["quantities"]}
    assert reasons["power"].startswith("NVML: not found; no energy: it was not recorded")
    assert reasons["memory"] == reasons["utilisation"] == "nothing was sampled in a clean pass"
    assert reasons["allocator"].startswith("no kernels pass")
    assert not any(one["series"] for one in found["quantities"])
    assert str(tmp_path) not in json.dumps(found)


def test_power_of_a_counter_is_its_rise_between_updates(tmp_path):
    folder = tmp_path / "energy" / "1"
    steps(folder, (0, 100, 500, False))
    # read every 50 ms, updated every 100 ms: by 2 J, 3 J, none, 1 J
    joules = [5, 5, 7, 7, 10, 10, 10, 10, 11, 11]
    samples(folder, *((50 * number, 0, "cpu_energy_j", 0, None, float(value)) for number, value in enumerate(joules)))
    spans = [("idle", None, 0, 100), ("window", 0, 100, 500)]
    rows = [{"kind": kind, "window": number, "start_ns": a * MS, "end_ns": b * MS} for kind, number, a, b in spans]
    (folder / "windows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = of_run(opened(tmp_path, energy={"folders": ["energy/1"]}), Trace())
    # updates are seen between readings: at 75, 175 and 375 ms; 3 J in 100 ms, 1 J in 200 ms
    assert lines(found, "power") == {"processor 0": [(175 * MS, pytest.approx(30)), (375 * MS, pytest.approx(5))]}
    assert quantity(found, "power")["spans"] == [(100 * MS, 500 * MS)]


def test_of_many_readings_peaks_of_memory_and_means_of_power_stay(tmp_path):
    folder = tmp_path / "clean" / "1"
    steps(folder, (0, 0, 100_000, False))
    values = np.random.default_rng(0).uniform(1e6, 2e6, 20_000)
    values[12_345] = 3e6
    both = ((metric, device) for metric, device in (("resident_bytes", None), ("gpu_power_w", "cuda:0")))
    rows = [(5 * at + 1, 0, metric, None, device, value) for metric, device in both for at, value in enumerate(values)]
    samples(folder, *rows)
    found = of_run(opened(tmp_path, clean={"folders": ["clean/1"]}), Trace())
    memory, power = lines(found, "memory")["process"], lines(found, "power")["cuda:0"]
    assert len(memory) <= MOST
    assert len(power) <= MOST
    assert ((5 * 12_345 + 1) * MS, 3e6) in memory
    assert np.mean([value for _, value in power]) == pytest.approx(values.mean(), rel=1e-3)
    assert [time for time, _ in power] == sorted(time for time, _ in power)


def test_memory_that_an_allocator_handed_out_is_added_up_where_it_does_not_count_itself():
    path = CORPUS / "kineto" / "pytorch__kineto__resnet50_nw0_worker0.1623143089861.pt.trace.json.gz"
    if not path.is_file():
        pytest.skip("no captures of other people on this machine")
    trace = ks.read(path)
    found = lines(of_trace(trace), "allocator")
    for device, events in trace.memory.groupby("device", observed=True):
        held, most, when = 0, 0, 0
        for time, size in sorted(zip(events["time_ns"], events["bytes"], strict=True), key=lambda event: event[0]):
            held += size
            if held > most:
                most, when = held, time - trace.memory["time_ns"].min()
        line = found[f"{device}: since the recording began"]
        assert max(line, key=lambda point: point[1]) == (when, most)
        assert len(line) <= MOST


def test_samples_of_a_capture_count_from_the_first_one():
    path = CORPUS / "smi" / "4179e1__dcgm_test__dmon.csv"
    if not path.is_file():
        pytest.skip("no captures of other people on this machine")
    trace = ks.read(path)
    found = lines(of_trace(trace), "power")
    assert set(found) == {f"cuda:{number}" for number in range(8)}
    mine = trace.samples[(trace.samples["metric"] == "gpu_power_instant_w") & (trace.samples["device"] == "cuda:3")]
    origin = trace.samples["time_ns"].min()
    assert found["cuda:3"] == [(time - origin, value) for time, value in zip(mine["time_ns"], mine["value"], strict=True)]
