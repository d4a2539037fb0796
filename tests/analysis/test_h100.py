"""Scripts that `profile` recorded on a real NVIDIA H100 (tests/data/gpu/h100), beside plain recounts of the profiler's file.

The programs are tests/tools/gpu/programs/words.py and vision.py; their kernels passes are cut to the first three measured steps.
Steps without a profiler took 101 and 82.8 ms. Trials of bfloat16 made words.py 64.6 ms (63.9 to 65.3) faster.
"""

from __future__ import annotations

import bisect
import gzip
import json
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import kernelscope
import kernelscope as ks
from kernelscope.analysis.recordings.run import Run

DATA = Path(__file__).parents[1] / "data" / "gpu" / "h100"
KEPT, WARMUP = 3, 2
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a function that gives the folder of a copy, which keeps its cache."""
    place = tmp_path_factory.mktemp("h100")
    return cache(lambda name: Path(shutil.copytree(DATA / name, place / name)))


@cache
def by_hand(name):
    """Return per step, in order, (kernels, their ns) by where they were launched between the optimizer's steps: plain json."""
    with gzip.open(DATA / name / "kernels" / "1" / "operators.pt.trace.json.gz") as file:
        events = json.load(file)["traceEvents"]
    ends = sorted(float(e["ts"]) + float(e["dur"]) for e in events if str(e.get("name", "")).startswith("Optimizer.step#"))
    launched = {
        e["args"]["correlation"]: float(e["ts"])
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    counts, lasted = Counter(), Counter()
    for e in events:
        if e.get("cat") == "kernel":
            step = bisect.bisect_left(ends, launched[e["args"]["correlation"]])
            counts[step] += 1
            lasted[step] += round(float(e["dur"]) * 1000)
    return [(counts[step], lasted[step]) for step in sorted(counts)]


@pytest.mark.parametrize(("name", "kernels"), [("words", 633), ("vision", 751)])
def test_every_kernel_of_a_step_is_counted_in_it_also_what_runs_while_we_write_between_steps(folder, name, kernels):
    """The device is half a step behind the host, and works on between two steps of the host: 1 to 5% of it was lost there."""
    plain = by_hand(name)
    assert [count for count, _ in plain] == [kernels] * (WARMUP + KEPT)
    trace = Run(folder(name)).trace()
    measured = trace.steps.loc[~trace.steps["warmup"], "step"]
    found = trace.kernels[trace.kernels["step"].isin(measured)].groupby("step", observed=True)
    assert found["count"].sum().tolist() == [kernels] * KEPT
    sums = (found["end_ns"].sum() - found["start_ns"].sum()).tolist()
    assert sums == pytest.approx([ns for _, ns in plain[WARMUP:]], abs=kernels), "the file's times are rounded to ns"
    whole = ks.breakdown(trace, "kind")
    assert int(whole.table["time_ns"].sum()) == whole.step_ns


def test_bfloat16_is_advised_first_with_about_what_trials_of_it_gave(folder):
    advice = kernelscope.advise(folder("words"))["advice"]
    assert [one["topic"] for one in advice[:2]] == ["mixed precision", "tensor cores"]
    assert advice[0]["saves_ns"] == pytest.approx(64.6e6, rel=0.1)


def test_a_script_on_a_gpu_whose_batches_are_made_in_its_own_process_is_told_so(folder):
    """Of 98 ms recorded the device computes for 42: nothing of this is known where it is taken for a script on a CPU."""
    said = kernelscope.advise(folder("vision"))
    assert said["hardware"] == "NVIDIA H100 80GB HBM3"
    assert sum(part["ns"] for part in said["parts"]) == said["step_ns"]
    topics = {one["topic"]: one["saves_ns"] / 1e6 for one in said["advice"]}
    assert list(topics)[:3] == ["host-bound", "input pipeline", "mixed precision"]
    assert {"copies", "layout"} <= set(topics)
    assert "dispatch" not in topics


def test_what_we_write_between_two_steps_is_in_none_of_them(folder):
    """The device waits meanwhile: 2.8 to 4.1 ms a step, which was told as time of the program's."""
    rows = [json.loads(line) for line in (DATA / "vision" / "kernels" / "1" / "steps.jsonl").read_text().splitlines()]
    by_host = [row["end_ns"] - row["start_ns"] for row in rows if not row["warmup"]]
    between = rows[-1]["end_ns"] - rows[-KEPT]["start_ns"] - sum(by_host)
    assert between > 2 * 2.8e6
    whole = ks.breakdown(Run(folder("vision")).trace(), "idle")
    assert whole.step_ns == pytest.approx(sum(by_host) / KEPT, rel=0.001)


def test_lines_have_the_calls_of_a_step_also_where_the_lines_pass_had_other_steps(folder):
    trace = Run(folder("vision")).trace()
    once = ks.breakdown(trace, "line").table
    trace.lines = trace.lines.assign(hits=trace.lines["hits"] * 2, time_ns=trace.lines["time_ns"] * 2)
    trace.info["lines_steps"] *= 2
    twice = ks.breakdown(trace, "line").table
    assert (once["count"].dropna() >= KEPT).all()
    assert twice[["count", "profiled_ns"]].equals(once[["count", "profiled_ns"]])
