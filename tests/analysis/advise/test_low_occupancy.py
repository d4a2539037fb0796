"""Advice on kernels with few warps, on made-up totals of an A100: 108 multiprocessors of 64 warps. Numbers are by hand."""

import pytest

from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.rules import low_occupancy
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import Trace, conform

A100 = {"device": "cuda:0", "name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0", "multiprocessors": 108}
WALK = {
    "name": "walk(float*)", "kind": "unknown", "count": 1, "duration_ns": 50_000_000, "grid": "2160,1,1", "block": "256,1,1",
    "registers": 255, "shared_memory": 0,
}  # fmt: skip
FULL = {**WALK, "name": "full(float*)", "registers": 32}


def found(*kernels, device=A100):
    table = conform("kernels", [{"device": "cuda:0", **one} for one in kernels])
    result = advice.of_subject(of_trace(Trace(kernels=table, info={"devices": [device]}), "made-up"))
    return [one for one in result["advice"] if one["topic"] == low_occupancy.TOPIC]


def test_registers_limit_the_warps():
    """255 registers for 32 threads are 8,192 of the 16,384 of each of 4 parts: 8 warps, one block, 8 of 64: 12.5%."""
    (one,) = found(WALK, FULL)
    assert one["title"] == "walk fills at most 12% of the device's slots for warps: its registers limit them"
    assert (one["saves_ns"], one["at_most"]) == (25_000_000, False), "half of it, as its bytes are unknown"
    assert one["evidence"][0] == "It takes 50.0 ms (50%) in all."
    assert "2,160 blocks of 256 threads, with 255 registers a thread" in one["evidence"][1]
    assert "__launch_bounds__" in one["remedy"]
    assert "assumed" in one["estimate"]
    assert one["link"].endswith("#occupancy")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"registers": 32, "shared_memory": 100_000}, "its shared memory limits them"),  # one block of 8 warps
        ({"registers": 32, "block": "32,1,1", "grid": "216,1,1"}, "its grid is small"),  # 2 blocks of a warp: 2 of 64
    ],
)
def test_other_limits(changes, why):
    (one,) = found({**WALK, **changes}, FULL)
    assert one["title"].endswith(why)


@pytest.mark.parametrize(("rate", "saves"), [(1_019.5e9, 22_222_222), (1_900e9, None)])
def test_bytes_bound_what_is_saved(monkeypatch, rate, saves):
    """Half of 2,039 GB/s: 50 ms * (1 - 0.5 / 0.9). At 93% of them more warps save nothing."""
    monkeypatch.setattr(low_occupancy, "_bytes_per_s", lambda trace, name: rate)
    result = found(WALK, FULL)
    assert [one["saves_ns"] for one in result] == ([] if saves is None else [pytest.approx(saves, abs=1)])
    assert all(one["at_most"] and "50% of the 2,039 GB/s" in " ".join(one["evidence"]) for one in result)


@pytest.mark.parametrize(
    "changes",
    [
        {"registers": 32},
        {"kind": "gemm"},
        {"kind": "attention"},
        {"kind": "convolution forward"},
        {"name": "my_flash_attn_fwd(float*)"},
        {"name": "void at::native::reduce_kernel<512, 1>(float*)"},
        {"library": "cudnn"},
        {"grid": "50,1,1"},
        {"count": 10_000},
        {"duration_ns": 2_000_000},
        {"registers": None},
    ],
    ids=["tuned", "product", "attention", "convolution", "named attention", "ATen's", "a library's", "few blocks", "short",
         "a small part", "unknown registers"],
)  # fmt: skip
def test_what_is_no_low_occupancy(changes):
    """A grid of fewer blocks than multiprocessors has advice of its own: small kernels."""
    assert found({**WALK, **changes}, FULL) == []


@pytest.mark.parametrize(
    "device", [{"device": "cuda:0"}, {**A100, "compute_capability": "99.0"}, {"device": "cuda:0", "name": "X"}]
)
def test_an_unknown_device(device):
    assert found(WALK, FULL, device=device) == []
