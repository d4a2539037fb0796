"""Occupancy: numbers by hand, numbers of NVIDIA's own calculator, and what PyTorch's profiler wrote into captures."""

import gzip
import json

import pandas as pd
import pytest

from kernelscope.analysis.device import occupancy
from kernelscope.analysis.trace import Trace, conform
from tests import places

CORPUS = places.CORPUS / "kineto"


def test_by_hand():
    # 7.0: 64 warps, 65536 registers in 4 parts of 16384. 256 threads are 8 warps; 57 registers x 32 = 1824, rounded up to 2048 a
    # warp: 8 warps a part, 32 in all, so 4 blocks; shared memory 16384 of 98304: 6 blocks; warps 64 / 8: 8 blocks
    found = occupancy.of_launch("7.0", (19, 16, 1), (256, 1, 1), 57, 16384, 80)
    assert (found.blocks, found.limiter, found.occupancy) == (4, "registers", 0.5)
    assert found.waves == 304 / 320 == 0.95  # 304 blocks, 4 on each of 80
    assert found.tail == pytest.approx(0.95)
    assert found.mean_occupancy == pytest.approx(304 / 80 * 256 / 2048)


def test_last_wave():
    found = occupancy.of_launch("8.0", (108 * 2 * 3 + 54, 1, 1), (1024, 1, 1), 32, 0, 108)
    assert (found.blocks, found.occupancy, found.limiter) == (2, 1.0, "warps")
    assert found.waves == 3.25
    assert found.tail == 0.25
    full = occupancy.of_launch("8.0", (432, 1, 1), (1024, 1, 1), 32, 0, 108)
    assert (full.waves, full.tail) == (2.0, 1.0)


# capability, threads, registers, shared bytes: resident blocks, from cuda_occupancy.h of CUDA 13.0 compiled with g++
@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks"),
    [
        ("3.0", 64, 22, 0, 16), ("3.7", 128, 64, 8192, 14), ("5.2", 96, 40, 3000, 16), ("6.0", 320, 182, 19106, 0),
        ("6.1", 256, 32, 49152, 2), ("7.5", 256, 32, 16384, 4), ("8.0", 128, 255, 33280, 2), ("8.6", 128, 32, 0, 12),
        ("8.9", 32, 16, 0, 24), ("9.0", 384, 168, 231424, 1), ("10.0", 128, 64, 102400, 2), ("12.0", 1024, 33, 0, 1),
        ("9.0", 1024, 65, 0, 0), ("5.3", 512, 65, 0, 0),
    ],
)  # fmt: skip
def test_as_nvidia_counts(capability, threads, registers, shared, blocks):
    held = occupancy.resident_blocks(occupancy.LIMITS[capability], threads, registers, shared)
    assert min(held.values()) == blocks


def test_unknown_stays_unknown():
    kernels = conform(
        "kernels",
        pd.DataFrame({
            "name": ["a", "b", "c"], "duration_ns": [5, 7, 11], "count": 1, "device": ["cuda:0", "cuda:1", "cpu"],
            "grid": ["80,1,1", "1,1,1", None], "block": ["64,1,1"] * 3, "registers": [32, 32, 32], "shared_memory": [0, 0, 0],
        }),
    )  # fmt: skip
    kernels.loc[0, "registers"] = pd.NA
    devices = [{"device": "cuda:0", "compute_capability": "7.0", "multiprocessors": 80}, {"device": "cuda:1", "name": "?"}]
    table = occupancy.table(Trace(kernels=kernels, info={"devices": devices}))
    assert table["duration_ns"].sum() == 23
    assert table["occupancy"].isna().all()
    assert list(table["reason"]) == [
        "not a kernel of an NVIDIA GPU", "the capture does not have the device's compute capability",
        "the capture does not have the registers",
    ]  # fmt: skip
    assert occupancy.of_launch("2.0", (1, 1, 1), (32, 1, 1), 16, 0, 16) == "the limits of compute capability 2.0 are unknown"


@pytest.mark.parametrize("name", ["h100_timesformer", "negative_queue_length", "event_sync_multi", "simple_add_input"])
def test_estimates_of_pytorchs_profiler(name):
    """The profiler's estimate of achieved occupancy is our mean_occupancy; beyond 48 kB of shared memory it writes 0."""
    files = sorted(CORPUS.glob(f"*{name}*"))
    if not files:
        pytest.skip("the corpus is not here")
    content = gzip.decompress(files[0].read_bytes()) if files[0].suffix == ".gz" else files[0].read_bytes()
    trace = json.loads(content)
    device = (trace.get("deviceProperties") or trace["computeProperties"])[0]
    capability = f"{device.get('computeMajor', device.get('major'))}.{device.get('computeMinor', device.get('minor'))}"
    number = device.get("numSms", device.get("multiProcessorCount"))
    compared = 0
    for event in trace["traceEvents"]:
        told = event.get("args", {})
        if "est. achieved occupancy %" not in told or told["shared memory"] > 49152:
            continue
        grid, block = tuple(told["grid"]), tuple(told["block"])
        found = occupancy.of_launch(capability, grid, block, told["registers per thread"], told["shared memory"], number)
        assert abs(found.mean_occupancy * 100 - told["est. achieved occupancy %"]) <= 0.51, event["name"]
        compared += 1
    if not compared:
        pytest.skip("the capture has no estimates")
