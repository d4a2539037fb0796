"""Energy passes by counters as the kernel shows them, in a folder that is kept up to date."""

import itertools
import json
import os
import threading
import time
from pathlib import Path

import pytest

from kernelscope.analysis import energy as found_energy
from kernelscope.analysis.energy.recording import recording
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import main
from kernelscope.tracer.outside import energy, environments
from kernelscope.tracer.outside.energy import Measurement, Plan
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.samplers.rapl import RaplSource
from kernelscope.tracer.outside.samplers.sampler import Sampler
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.variants import Variant

WATTS = 50.0
SHORT = Plan(
    windows=3, window_s=0.6, idle_s=2.0, block_s=0.3, blocks=2, cooldown_limit_s=0.6, warmup_limit_s=0.6, replay_warmup_s=0.1
)


class Package(RaplSource):
    """A package's counter in a file that is written anew before each reading, at a power that can be switched."""

    def __init__(self, folder):
        domain = folder / "intel-rapl:0"
        domain.mkdir(parents=True)
        (domain / "name").write_text("package-0\n")
        (domain / "max_energy_range_uj").write_text("262143328850\n")
        self._file = domain / "energy_uj"
        self._watts, self._joules, self._since, self._lock = WATTS, 1.0, time.monotonic(), threading.Lock()
        self._write()
        super().__init__(str(folder))

    def take(self, watts):
        """Take so much from now on; return the joules until now."""
        with self._lock:
            now = time.monotonic()
            self._joules += self._watts * (now - self._since)
            self._watts, self._since = watts, now
            return self._joules

    def _write(self):
        with self._lock:
            joules = self._joules + self._watts * (time.monotonic() - self._since)
            self._file.write_text(f"{joules * 1e6:.0f}\n")

    def sample(self, pid):
        self._write()
        return super().sample(pid)


@pytest.fixture
def package(tmp_path):
    return Package(tmp_path / "powercap")


class Worker:
    """A child at planted powers: 20 W asleep, 60 W in a step of 10 ms, 110 W in a call of conv1 alone, which takes 4 ms."""

    pid = 4321

    def __init__(self, package, folder):
        self._package, self._steps = package, folder / "steps.jsonl"
        self.used = {}  # number of the window: joules that were taken in it
        package.take(20.0)

    def tell(self, **command):
        if command["do"] == "warmup":
            return {"event": "warm"}
        if command.get("layer") == "fc1":
            return {"event": "cannot replay", "reason": "it is not called in a step"}
        alone = command["do"] == "replay"
        before, times = self._package.take(110.0 if alone else 60.0), [time.monotonic_ns()]
        for _ in range(command["steps"]):
            time.sleep(0.004 if alone else 0.010)
            times.append(time.monotonic_ns())
        self.used[command["window"]] = self._package.take(20.0) - before
        if not alone:
            with self._steps.open("a") as out:
                for start, end in itertools.pairwise(times):
                    row = {"step": 0, "window": command["window"], "warmup": False, "thread": 1, "start_ns": start, "end_ns": end}
                    out.write(json.dumps(row) + "\n")
        lengths = [end - start for start, end in itertools.pairwise(times)]
        return {"event": command["do"], "start_ns": times[0], "end_ns": times[-1], "step_ns": lengths}

    def wait_until_asleep(self):
        """It sleeps."""


def test_joules_of_a_layer_alone_at_planted_powers(tmp_path, package):
    folder = tmp_path / "run" / "energy" / "1"
    folder.mkdir(parents=True)
    record = {
        "schema": "kernelscope/run/1", "framework": "pytorch", "options": {"device": "cpu", "batch": 1},
        "passes": {"energy": {"folders": ["energy/1"]}},
    }  # fmt: skip
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    worker = Worker(package, folder)
    with Sampler([package], rate_hz=50) as sampler:
        Measurement(worker, sampler, folder, None, SHORT, ["conv1", "fc1"]).record()
        sampler.write(worker.pid, folder / "samples.parquet", {})
    run = Run(tmp_path / "run")
    conv1, fc1 = found_energy.replays(run)
    rows = recording(run).windows
    (row,) = rows[(rows["kind"] == "replay") & (rows["layer"] == "conv1")].to_dict("records")
    seconds = (row["end_ns"] - row["start_ns"]) / 1e9
    truth = (worker.used[int(row["window"])] - 20.0 * seconds) / conv1.calls * 1e6  # 90 W of 4 ms and what sleeping adds
    assert truth == pytest.approx(90.0 * conv1.call_ns / 1e3, rel=0.02)
    slack = 0.05 * 20.0 * conv1.call_ns / 1e3  # the idle power is known from 2 s only
    assert conv1.low_uj - slack <= truth <= conv1.high_uj + slack
    assert conv1.calls >= 100
    assert fc1.energy_uj is None
    assert fc1.reason == "not replayed: it is not called in a step"


class EnergyOnly(Session):
    """A session whose other passes are left out: they are tested elsewhere, and take long."""

    def _plan(self):
        return [(energy.NAME, 1)]


@pytest.mark.slow
def test_a_run_with_energy(tmp_path, package, monkeypatch, capsys):
    environment = environments.find("pytorch")
    if environment is None:
        reason = "no environment for pytorch; run `kernelscope env create pytorch`"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    monkeypatch.setattr(energy, "sources", lambda device: ([package], None))
    folder = Path(tmp_path / "run")
    folder.mkdir()
    options = RunOptions("lenet", device="cpu", batch=8, threads=1, energy=True)
    session = EnergyOnly([Variant("pytorch", environment)], options, [folder], ["kernelscope"], energy_plan=SHORT)
    session.run(lambda *_: None)
    assert session.sides[0].failure is None
    run = Run(folder)
    assert run.record["passes"]["energy"]["status"] == "complete"
    assert main.main(["energy", str(folder), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["source"] == "processor 0"
    steps = [(int(table["end_ns"].iloc[-1] - table["start_ns"].iloc[0]), len(table)) for table in recording(run).measured()]
    assert row["least_uj"] <= sum(WATTS * took / 1000 / count for took, count in steps) / 3 <= row["most_uj"]
    assert row["windows"] == len(steps) == 3
    assert row["idle_w"] == pytest.approx(WATTS, rel=0.2)
    replays = found_energy.replays(run)
    # most operations: conv2 2*10*10*16*25*6, conv1 2*28*28*6*25
    assert [replay.layer for replay in replays] == ["conv2", "conv1"]
    for replay in replays:
        assert replay.reason is None
        assert 0 < replay.call_ns < row["step_ns"]
        # the planted power is the same asleep and at work
        slack = 0.2 * WATTS * replay.call_ns / 1000
        assert replay.low_uj - slack <= 0 <= replay.high_uj + slack
