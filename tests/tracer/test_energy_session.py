"""run --energy with a real framework and counters as the kernel shows them, in a folder that a thread keeps up to date."""

import json
import threading
import time

import pytest

from kernelscope.analysis.run import Run
from kernelscope.cli import main
from kernelscope.tracer.outside import energy
from kernelscope.tracer.outside.energy import Plan
from kernelscope.tracer.outside.samplers.rapl import RaplSource

pytestmark = pytest.mark.slow
WATTS = 50.0


@pytest.fixture
def package(tmp_path):
    """One package that takes 50 W."""
    domain = tmp_path / "powercap" / "intel-rapl:0"
    domain.mkdir(parents=True)
    (domain / "name").write_text("package-0\n")
    (domain / "max_energy_range_uj").write_text("262143328850\n")
    counter, over = domain / "energy_uj", threading.Event()

    def tick():
        while not over.is_set():
            counter.with_suffix(".new").write_text(f"{time.monotonic_ns() * WATTS / 1000:.0f}\n")
            counter.with_suffix(".new").replace(counter)
            time.sleep(0.005)

    counter.write_text("0\n")
    thread = threading.Thread(target=tick)
    thread.start()
    yield domain.parent
    over.set()
    thread.join()


def test_a_run_with_energy(tmp_path, package, monkeypatch, capsys):
    short = Plan(windows=3, window_s=1.0, idle_s=1.0, block_s=0.3, blocks=2, cooldown_limit_s=1.0, warmup_limit_s=2.0)
    monkeypatch.setattr(energy, "Plan", lambda: short)
    monkeypatch.setattr(energy, "sources", lambda device: ([RaplSource(str(package))], None))
    folder = tmp_path / "run"
    options = ["--device", "cpu", "--energy", "--steps", "5", "--repeats", "1", "--batch", "8", "--threads", "1"]
    assert main.main(["run", "lenet", "-f", "pytorch", "-o", str(folder), *options]) == 0
    assert Run(folder).record["passes"]["energy"]["status"] == "complete"
    capsys.readouterr()
    assert main.main(["energy", str(folder), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["source"] == "processor 0"
    assert row["power_w"] == pytest.approx(WATTS, rel=0.05)
    assert row["idle_w"] == pytest.approx(WATTS, rel=0.05)
    assert row["energy_uj"] == pytest.approx(WATTS * row["step_ns"] / 1000, rel=0.05)
    assert row["windows"] == 3
    assert main.main(["energy", str(folder), "--by", "layer", "--format", "json"]) in (0, 3)  # 3: the kernels pass was too slow
    out = capsys.readouterr()
    if out.out:
        rows = json.loads(out.out)["rows"]
        assert sum(entry["energy_uj"] or 0 for entry in rows) == row["energy_uj"]
