"""Rates against ceilings: by hand, refusals, and sums that are kept."""

import json

import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis import EvidenceError
from kernelscope.analysis.device import ceilings
from kernelscope.analysis.device.roofline import roofline
from kernelscope.analysis.trace import Trace, conform
from tests.places import CORPUS

RECORD = {
    "schema": "kernelscope/ceilings/1", "source": "measured", "framework": "pytorch", "device": "cpu", "threads": 2,
    "copies": [{"bytes": 1 << 20, "bytes_per_s": 50e9, "by": "x"}, {"bytes": 1 << 28, "bytes_per_s": 10e9, "by": "x"}],
    "products": [{"dtype": "f32", "m": 512, "n": 512, "k": 512, "flops_per_s": 100e9, "by": "mm"}],
    "unavailable": {"f16": "no such type"},
}  # fmt: skip


def made(**columns):
    base = {
        "duration_ns": 1_000_000,
        "count": 1,
        "device": "cpu",
        "library": "mkl",
        "kind": "gemm",
        "dtype": "f32",
        "name": "sgemm",
    }
    return Trace(kernels=conform("kernels", pd.DataFrame({**base, **columns})))


def known():
    return ceilings.of_record(RECORD, "here")


def test_rates_by_hand():
    # 2 100 200 500 = 20 M operations in 1 ms: 20 G/s of 100; 4 (50000 + 100000 + 20000) = 680 kB: 0.68 GB/s of 50
    row = roofline(made(m=[100], n=200, k=500), "kernel", known()).table.iloc[0]
    assert row["flops"] == 20_000_000
    assert row["bytes"] == 680_000
    assert row["gflops_per_s"] == pytest.approx(20)
    assert row["of_product"] == pytest.approx(0.2)
    assert row["gbytes_per_s"] == pytest.approx(0.68)
    assert row["of_copy"] == pytest.approx(0.0136)
    assert row["copy_ceiling"] == "copy of 1 MiB"
    assert row["product_ceiling"] == "f32 product 512x512x512"
    # 29.4 operations a byte: the copy could feed 1471 Gflop/s, so the product limits
    assert (row["bound"], row["of_roofline"]) == ("product", pytest.approx(0.2))


def test_large_data_is_set_against_large_copies():
    row = roofline(made(m=[None], kind="activation", library="onednn", problem="1024x1024x16"), "kernel", known()).table.iloc[0]
    assert row["bytes"] == 2 * 4 << 24
    assert row["copy_ceiling"] == "copy of 256 MiB"
    assert pd.isna(row["gbytes_per_s"]), "134 GB/s where 10 can be copied"
    assert "1342% of the copy of 256 MiB (10 GB/s): not possible" in row["reason"]


def test_impossible_rates_are_withheld_with_a_reason():
    row = roofline(made(duration_ns=[190_000], m=100, n=200, k=500), "kernel", known()).table.iloc[0]  # 105.3 Gflop/s
    assert pd.isna(row["gflops_per_s"])
    assert pd.isna(row["of_product"])
    assert pd.isna(row["of_roofline"])
    assert row["reason"].startswith("105% of the f32 product 512x512x512 (100 Gflop/s): not possible")
    assert row["flops"] == 20_000_000, "what was counted stays"
    assert not pd.isna(row["gbytes_per_s"]), "what is possible is given"
    within = roofline(made(duration_ns=[191_000], m=100, n=200, k=500), "kernel", known()).table.iloc[0]  # 104.7
    assert within["of_product"] == pytest.approx(1.047, abs=1e-3)


def test_types_without_a_ceiling():
    row = roofline(made(m=[10], n=10, k=10, dtype="f64"), "kernel", known()).table.iloc[0]
    assert row["reason"] == "no product of f64 was measured"
    assert row["gflops_per_s"] == pytest.approx(2e-3)
    assert pd.isna(row["of_product"])


def test_without_ceilings_nothing_is_compared():
    result = roofline(made(m=[100], n=200, k=500))
    assert result.table["of_product"].isna().all()
    assert result.table["gflops_per_s"].iloc[0] == pytest.approx(20)
    assert "no ceilings" in result.notes[0]


def test_steps_and_sums():
    trace = made(m=[10, 10, 10], n=10, k=10, start_ns=[10, 110, 210], end_ns=[20, 120, 230], duration_ns=[10, 10, 20],
                 step=[0, 1, 2], layer=["a", "a", None], phase=["forward", "forward", None])  # fmt: skip
    trace.steps = conform("steps", pd.DataFrame({
        "step": [0, 1, 2], "warmup": [True, False, False], "thread": 1, "start_ns": [0, 100, 200], "end_ns": [100, 200, 300],
    }))  # fmt: skip
    result = roofline(trace, "kernel")
    assert (result.kernel_ns, result.table["duration_ns"].sum(), result.steps) == (30, 30, 2)
    layers = roofline(trace, "layer")
    assert layers.step_ns == layers.table["time_ns"].sum() == 100
    assert layers.table["duration_ns"].sum() == 30
    assert any("1 kernels outside of measured steps" in note for note in layers.notes)


@pytest.mark.parametrize(
    "record",
    [None, [], {}, {**RECORD, "schema": "x/1"}, {**RECORD, "copies": [{"bytes": "x"}]}, {**RECORD, "source": "guess"},
     {**RECORD, "products": [{"dtype": "f32", "flops_per_s": 0}]}],
)  # fmt: skip
def test_damaged_ceilings_are_refused(record):
    with pytest.raises(EvidenceError, match=r"^here: "):
        ceilings.of_record(record, "here")


def test_ceilings_of_another_device_are_refused():
    with pytest.raises(EvidenceError, match="ceilings of cpu do not apply to kernels on cuda"):
        roofline(made(m=[1], n=1, k=1, device="cuda:0"), "kernel", known())


def test_vendors_numbers_are_marked_and_busy_machines_named():
    found = ceilings.of_record({**RECORD, "source": "vendor", "waited": 0.4}, "here")
    assert found.copy(10).name == "copy of 1 MiB, vendor's number"
    assert any("40% of the time waited" in note for note in found.notes)
    others = ceilings.of_record({**RECORD, "waited": 0.0, "others": 0.3, "measured": "2026-11-22T03:00:00+00:00"}, "here")
    assert any("(30% of it used by others)" in note for note in others.notes)
    assert others.measured.startswith("2026-11-22")
    quiet = ceilings.of_record({**RECORD, "waited": 0.0, "others": 0.05}, "here")
    assert not any("may be too low" in note for note in quiet.notes)


def test_kernels_beyond_a_ceiling_are_counted():
    """2 x 512^3 operations in 10 ns are more than any ceiling."""
    found = roofline(made(m=[512], n=512, k=512), "kernel", known())
    assert any(note.startswith("1 of 1 rows exceed a ceiling") for note in found.notes)


@pytest.mark.parametrize(
    "name",
    [
        "kineto/*h100_timesformer*", "kineto/*1623143089861*", "kineto/*b200*", "nsys/*2_7B_nvtx.sqlite", "nvprof/*189edf9a5e*",
        "nvprof/*basic_nvprof*", "nvprof/*tfcnn*",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("kineto/*xdit*", "nsys/*h100_2gpu_1s_v1*")),
    ],
)  # fmt: skip
def test_captures_keep_their_sums(name):
    files = sorted(CORPUS.glob(name))
    if not files:
        pytest.skip("the corpus is not here")
    trace = ks.read(files[0])
    result = roofline(trace, "kernel")
    assert result.table["duration_ns"].sum() == result.kernel_ns
    if not result.steps:
        assert result.kernel_ns == trace.kernels["duration_ns"].sum()
    assert (result.table["known_ns"] <= result.table["duration_ns"]).all()
    text = json.dumps(result.as_dict(), allow_nan=False)
    assert json.loads(text)["schema"] == "kernelscope/roofline/1"
