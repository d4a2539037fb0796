"""Captures that others recorded, set against each other: exact sums at the level that they have, and what they lack is said."""

from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.sides import load
from tests.places import CORPUS

PAIRS = [
    ("nsys/YoonKyonghwan__EfficientCenterFormer__baseline.sqlite",
     "nsys/YoonKyonghwan__EfficientCenterFormer__baseline_v2.sqlite"),
    ("mxnet/sandeep-krishnamurthy__mxnet-profiler-demo__cpu_mnist_cnn_profile_output.json",
     "mxnet/sandeep-krishnamurthy__mxnet-profiler-demo__gpu_mnist_cnn_profile_output.json"),
    ("kineto/facebookresearch__HolisticTraceAnalysis__cp_end_to_end_simple_add_input_trace.json.gz",
     "kineto/AMD-AGI__TraceLens__h100_Qwen1.5-0.5B.json.gz"),
]  # fmt: skip


def _paths(pair):
    found = [next(CORPUS.glob(f"**/{Path(name).name}"), None) for name in pair]
    if None in found:
        pytest.skip(f"needs {pair} in ../shared/corpus")
    return found


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS)
def test_parts_add_up_to_the_difference_of_the_captures(pair):
    paths = _paths(pair)
    result = explain(*map(load, paths))
    rows = sum(row["delta_ns"] for row in result["rows"])
    assert rows + result["instrumentation_ns"] == result["wall_delta_ns"]
    assert sum(part["delta_ns"] for part in result["parts"]) + result["instrumentation_ns"] == result["wall_delta_ns"]
    assert sum(found["explains_ns"] for found in result["findings"]) + result["unexplained_ns"] == result["wall_delta_ns"]
    for side, path in zip(("a", "b"), paths, strict=True):
        # a capture without a clean pass is compared as it was recorded: its mean step, or the whole of it
        assert result[side]["step_ns"] == pytest.approx(ks.breakdown(ks.read(path), "kind").step_ns, abs=1)
    assert any("not both sides have a clean pass" in note for note in result["notes"])


def test_totals_are_set_against_totals():
    forward, both = _paths([
        "ShibukiZero__assignment2-systems__2.7b_ctx512_forward_cuda_gpu_kern_sum.txt",
        "ShibukiZero__assignment2-systems__2.7b_ctx512_forward_cuda_gpu_kern_sum_nvtx.txt",
    ])  # fmt: skip
    result = explain(load(forward), load(both))
    sums = [int(ks.read(path).kernels["duration_ns"].sum()) for path in (forward, both)]
    assert [result["a"]["step_ns"], result["b"]["step_ns"]] == sums
    assert sum(row["delta_ns"] for row in result["rows"]) == sums[1] - sums[0] == result["wall_delta_ns"]
    assert "totals only" in result["missing"]["a"]["timeline"]


def test_the_same_recording_twice_is_said_to_be_that(tmp_path, run_folder):
    folder = run_folder(tmp_path / "run", "tensorflow/lenet-train")
    assert explain(load(folder), load(folder))["abstained"] == "both sides are the same recording"


def test_a_capture_against_itself_has_no_findings():
    path = _paths(PAIRS[0])[0]
    side = load(path)
    result = explain(side, side)
    assert result["wall_delta_ns"] == 0
    assert result["findings"] == []
    assert all(row["delta_ns"] == 0 for row in result["rows"])


def test_other_devices_are_named_first():
    names = (
        "AMD-AGI__TraceLens__mi300_resnet_act_checkpoint.json.gz",
        "pytorch__kineto__resnet50_nw0_worker0.1623143089861.pt.trace.json.gz",
    )
    paths = [CORPUS / "kineto" / name for name in names]
    if not all(path.is_file() for path in paths):
        pytest.skip("needs ../shared/corpus")
    result = explain(*map(load, paths))
    assert result["findings"][0]["cause"] == "different devices"
    assert "MI300X" in result["findings"][0]["title"]
    assert "V100" in result["findings"][0]["title"]
