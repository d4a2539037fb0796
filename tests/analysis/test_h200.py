"""Recordings of a real NVIDIA H200 (tests/data/gpu/h200): what is said of them, beside the host's clock and plain recounts.

The captures are of tests/tools/gpu/plants.py. Steps without a profiler were 14.4 ms for the decoder, 32.2 ms in float32, 35.0 ms
with attention written out, 31.6 ms with another process on the GPU; 1.31 ms for the small layers as a CUDA graph and 14.1 ms
launched one by one. Recorded ones, by the host's clock, are given where they are compared with.
"""

from __future__ import annotations

import gzip
import json
import shutil
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.device_account import COMPUTE, INTERRUPTED, account
from kernelscope.analysis.accounting.interruptions import interruptions
from kernelscope.analysis.kernels.names import describe
from kernelscope.analysis.recordings.run import Run
from tests import forked

DATA = Path(__file__).parents[1] / "data" / "gpu" / "h200"


@pytest.fixture
def run(tmp_path):
    """Return a function that reads one of the recorded runs, of which a copy keeps its cache."""
    return lambda name: Run(Path(shutil.copytree(DATA / name, tmp_path / name)))


def capture(name):
    return DATA / f"{name}.pt.trace.json.gz"


@cache
def read(name):
    return ks.read(capture(name))


@cache
def explained(a, b):
    return json.loads(forked.run("explain", str(capture(a)), str(capture(b)), "--format", "json").stdout)


def kernels_of(name):
    """Return (name, grid, duration in us) of each kernel of a capture, read with nothing but json."""
    with gzip.open(capture(name), "rt") as file:
        events = json.load(file)["traceEvents"]
    return [(e["name"], tuple(e["args"]["grid"]), e["dur"]) for e in events if e.get("cat") == "kernel"]


def test_interrupted_kernels_are_those_that_last_longer_by_a_time_slice():
    usual = defaultdict(list)
    for name, grid, lasted in kernels_of("gpt-shared-device"):
        usual[name, grid].append(lasted)
    middle = {key: statistics.median(values) for key, values in usual.items()}
    longer = [lasted - middle[name, grid] for name, grid, lasted in kernels_of("gpt-shared-device")]
    longer = [extra for extra, (name, grid, lasted) in zip(longer, kernels_of("gpt-shared-device"), strict=True)
              if extra > 800 and lasted > 1.5 * middle[name, grid]]  # fmt: skip
    found = interruptions(read("gpt-shared-device"))
    assert found.count == len(longer) == 44
    assert found.extra_ns.sum() == pytest.approx(1e3 * sum(longer), abs=44 * 2)
    assert found.usual_ns == pytest.approx(2.5e6, rel=0.02)


@pytest.mark.parametrize("name", ["gpt", "gpt-float32", "gpt-math-attention", "mlp", "mlp-graph", "mlp-again"])
def test_kernels_of_a_process_that_has_the_gpu_for_itself_are_not_interrupted(name):
    assert interruptions(read(name)) is None


def test_interruptions_are_a_part_of_the_step_beside_the_kernels_own_time():
    alone, shared = account(read("gpt")), account(read("gpt-shared-device"))
    assert int(shared.rows["time_ns"].sum()) == shared.step_ns
    assert shared.time_ns(part=INTERRUPTED) > 0.4 * shared.step_ns
    assert alone.time_ns(part=INTERRUPTED) == 0
    assert shared.time_ns(part=COMPUTE) == pytest.approx(alone.time_ns(part=COMPUTE), rel=0.06)


def test_another_process_on_the_gpu_is_named_with_what_it_costs():
    said = explained("gpt", "gpt-shared-device")
    first = said["findings"][0]
    assert (first["cause"], first["confidence"]) == ("shared device", "high")
    assert first["explains_ns"] / 1e6 == pytest.approx(31.627 - 14.597, rel=0.05)


def test_advice_begins_with_the_other_process():
    said = forked.run("advise", str(capture("gpt-shared-device"))).stdout
    assert "another process has the device 52%" in " ".join(said.split())
    assert "1. Up to 16.6 ms: another process uses the same device" in said


@pytest.mark.parametrize(
    ("b", "cause", "steps_ms", "explains_ms", "within"),
    [
        ("gpt-float32", "precision", (23.126, 32.709), 32.244 - 14.388, 0.05),
        ("gpt-math-attention", "attention algorithm", (23.126, 39.634), 35.034 - 14.449, 0.05),
    ],
)
def test_the_cause_that_was_planted_comes_first_with_its_size(b, cause, steps_ms, explains_ms, within):
    """explains_ms: by how much steps without a profiler differ, which the host's pace is not in: there the device is slower."""
    said = explained("gpt", b)
    assert said["findings"][0]["cause"] == cause
    assert said["findings"][0]["explains_ns"] / 1e6 == pytest.approx(explains_ms, rel=within)
    assert [said[side]["step_ns"] / 1e6 for side in "ab"] == pytest.approx(steps_ms, rel=0.03)
    assert sum(row["delta_ns"] for row in said["rows"]) == said["wall_delta_ns"]


def test_less_waiting_for_the_host_follows_from_longer_kernels_and_is_no_gain():
    said = explained("gpt", "gpt-float32")
    assert said["findings"][-1]["cause"] == "less waiting for the host"
    assert said["hidden"] is None


def test_launching_one_by_one_what_a_graph_launches_at_once_is_named():
    said = explained("mlp-graph", "mlp")
    first = said["findings"][0]
    assert (first["cause"], first["confidence"]) == ("CUDA graphs", "high")
    assert "1 graph a step" in first["title"]
    assert first["share"] == pytest.approx(1, abs=0.05)


def test_the_same_program_at_another_pace_of_the_host_has_no_cause():
    said = explained("mlp", "mlp-again")
    assert abs(said["wall_delta_ns"]) > 0.1 * said["a"]["step_ns"]  # so much did two recordings of it differ there
    assert said["findings"] == []
    assert "the host makes the same" in said["abstained"]


def test_products_of_bfloat16_are_told_from_those_in_tf32_by_their_names():
    assert describe("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", None, None).dtype == "bf16"
    assert describe("nvjet_sm90_sss_64x64_64x16_2x1_v_bz_NNN", None, None).dtype == "tf32"
    table = read("gpt").kernels
    assert set(table.loc[table["name"].astype("string").str.startswith("nvjet"), "dtype"]) == {"bf16"}


def test_kernels_of_xlas_command_buffers_are_of_layers(run):
    trace = run("lenet-jax-framework").trace()
    kernels = trace.kernels[(trace.kernels["device"] != "cpu").to_numpy(bool)]
    assert not kernels["operator"].astype("string").str.startswith("command_buffer").any()
    lasted = kernels["end_ns"] - kernels["start_ns"]
    placed = kernels["layer"].notna() | (kernels["phase"] == "optimizer")
    assert lasted[placed].sum() > 0.97 * lasted.sum()
    assert {"conv1", "conv2", "fc1", "fc2", "fc3", "pool1", "pool2", "loss"} <= set(kernels["layer"].dropna())
    of = kernels.assign(short=kernels["name"].astype("string")).groupby("short")["layer"].agg(lambda values: set(values.dropna()))
    # as the compiled program lists them: the weights' gradients of dense layers are products, each with its own number
    assert of["gemm_fusion_dot_3"] == {"fc1"}
    assert of["gemm_fusion_dot_general_11"] == {"fc3"}
    assert of["loop_reduce_window_fusion"] == {"pool2"}


def test_calls_of_cudnn_are_tied_to_their_layers(run):
    trace = run("lenet-cudnn-cupti").trace()
    kernels = trace.kernels[(trace.kernels["device"] != "cpu").to_numpy(bool)]
    assert kernels["layer"].notna().all()
    assert {"conv1", "conv2", "fc1", "fc2", "fc3"} <= set(kernels["layer"])


def test_a_run_of_pytorch_adds_up_and_has_every_kernel_once(run):
    trace = run("lenet-pytorch-framework").trace()
    kernels = trace.kernels[(trace.kernels["device"] != "cpu").to_numpy(bool)]
    with gzip.open(DATA / "lenet-pytorch-framework" / "kernels" / "1" / "operators.pt.trace.json.gz", "rt") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "kernel"]
    assert len(kernels) == len(events) == 1060
    lasted = int((kernels["end_ns"] - kernels["start_ns"]).sum())
    assert lasted == pytest.approx(1e3 * sum(e["dur"] for e in events), abs=1060)
    whole = ks.breakdown(trace, "layer")
    assert int(whole.table["time_ns"].sum()) == whole.step_ns
