"""Sampling from outside: a process that burns one core is seen doing so, and nothing is recorded between windows."""

import os
import subprocess
import sys
import time

import pyarrow.parquet as pq

from kernelscope.tracer.outside.samplers.cpu import CpuSource
from kernelscope.tracer.outside.samplers.nvml import NvmlSource
from kernelscope.tracer.outside.samplers.sampler import Sampler

BURN = "import time\nwhile True: sum(range(1000))"


def test_a_busy_process_shows_in_its_windows_only(tmp_path):
    burner = subprocess.Popen([sys.executable, "-c", BURN])
    try:
        with Sampler([CpuSource()], rate_hz=20) as sampler:
            for window in range(2):
                sampler.open(burner.pid, window)
                time.sleep(0.5)
                sampler.close()
                time.sleep(0.2)
            path = tmp_path / "samples.parquet"
            sampler.write(burner.pid, path)
            description = sampler.describe()
    finally:
        burner.kill()
        burner.wait()
    table = pq.read_table(path).to_pandas()
    busy = table[table["metric"] == "core_busy"]
    assert set(busy["window"]) == {0, 1}
    assert sorted(busy["core"].unique()) == list(range(os.cpu_count()))
    assert busy.groupby("core")["value"].mean().max() > 0.5
    assert busy["value"].between(0, 1).all()
    assert (table[table["metric"] == "resident_bytes"]["value"] > 1e6).all()
    gaps = table.groupby("window")["time_ns"].agg(["min", "max"])
    assert gaps.loc[1, "min"] - gaps.loc[0, "max"] >= 0.2e9
    assert description["asked_period_ns"] == 50_000_000
    assert 50_000_000 <= description["median_period_ns"] < 500_000_000


def test_a_process_that_is_gone_gives_no_samples_and_no_error(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    assert all(sample.metric == "core_busy" for sample in CpuSource().sample(gone.pid))


def test_without_a_driver_the_reason_is_told():
    source = NvmlSource()
    if source.unavailable is None:
        assert source.sample(None), "NVML answers but gives no reading"
    else:
        assert source.sample(None) == []
        assert source.describe()["unavailable"] == source.unavailable
