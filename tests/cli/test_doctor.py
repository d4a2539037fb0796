"""`kernelscope doctor`: says of every part of the machine what is there, or why it is not."""

import json
import platform

import pytest

from kernelscope.cli import main
from kernelscope.tracer.outside import counters, gpu, process_noise


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path / "home"))


def test_every_finding_has_a_value_or_a_reason(capsys):
    assert main.main(["doctor", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "kernelscope/doctor/1"
    rows = content["rows"]
    assert list(dict.fromkeys(row["section"] for row in rows)) == [
        "machine", "GPUs", "interpreters", "frameworks", "profilers", "collectors", "counters", "noise",
    ]  # fmt: skip
    for row in rows:
        assert row["value"] if row["available"] else row["reason"], row
    assert f"Python {platform.python_version()}" in {row["item"] for row in rows}


@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_formats(form, capsys):
    assert main.main(["doctor", "--format", form]) == 0
    out = capsys.readouterr().out
    assert "hardware counters" in out
    assert platform.node() not in out or len(platform.node()) < 4, "no host names"


def test_what_is_missing_comes_first(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "find", lambda: gpu.Gpus((), "no driver"))
    main.main(["doctor"])
    said, _ = capsys.readouterr().out.split("\n\n", 1)
    assert max(map(len, said.splitlines())) <= 100
    first, second, third = (sentence for sentence in " ".join(said.splitlines()).split(". ")[:3])
    assert first == "Ready to record: no framework on the processor; there is no NVIDIA GPU to record on"
    assert "`kernelscope profile`" in second
    assert third.startswith("Not set up: pytorch, tensorflow")
    assert "kernelscope env create" in third


def test_gpus_are_described(monkeypatch, capsys):
    device = gpu.Gpu(0, "NVIDIA H200", 150_000_000_000, "9.0", None)
    monkeypatch.setattr(gpu, "find", lambda: gpu.Gpus((device,), None))
    main.main(["doctor", "--format", "json"])
    (row,) = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["section"] == "GPUs"]
    assert row["value"] == "NVIDIA H200, 150 GB of memory, compute capability 9.0"


def test_energy_counters(tmp_path):
    assert counters.energy_counters(str(tmp_path))[0] == []
    for number, name in enumerate(("package-0", "dram")):
        domain = tmp_path / f"intel-rapl:{number}"
        domain.mkdir()
        (domain / "name").write_text(name + "\n")
        (domain / "max_energy_range_uj").write_text("262143328850\n")
        (domain / "energy_uj").write_text("12345\n")
    assert counters.energy_counters(str(tmp_path)) == (["package-0", "dram"], None)


def test_noise_that_was_measured(capsys):
    process_noise.keep("pytorch", {"wall": 0.081, "processor": 0.02, "programs": ["lenet", "cnn"], "processes": 6})
    assert process_noise.known()["pytorch"]["wall"] == 0.081
    main.main(["doctor", "--format", "json"])
    (row,) = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["section"] == "noise"]
    assert row["item"] == "pytorch"
    assert "up to 8.1% of a step and 2.0% of its processor time (of lenet, cnn)" in row["value"]
