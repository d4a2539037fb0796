"""The portable agent's own NVML, by ctypes, against scripted GPUs. Expected numbers follow from the scripts by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.tracer.outside import agent

GPU = Path(__file__).with_name("h100.txt").read_text(encoding="utf8")
SOURCE = "from kernelscope.tracer.inside.agent.nvml import NvmlSource\nsource = NvmlSource()\n"


def test_facts_and_samples(ask):
    found, rows = ask(GPU, SOURCE + "answer = [source.facts(), source.sample(None)]")
    (gpu,) = found["gpus"]
    assert (found["unavailable"], found["driver"], found["cuda"]) == (None, "550.00-stand-in", None), "it does not tell its CUDA"
    assert gpu["uuid"] == "GPU-11111111-aaaa-bbbb-cccc-000000000001"
    assert (gpu["pci"], gpu["compute_capability"], gpu["memory_bytes"]) == ("00000000:1B:00.0", "9.0", 8_000_000_000)
    assert gpu["mig"] is False
    assert gpu["power"] == "NVML_FI_DEV_POWER_INSTANT"
    assert gpu["not_offered"] == []
    values = {metric: value for metric, value, core, device in rows if device == "cuda:0"}
    assert set(values) == set(gpu["offered"])
    assert values["gpu_power_w"] == pytest.approx(300, abs=0.01)
    assert (values["gpu_memory_bytes"], values["gpu_utilisation"], values["gpu_sm_clock_hz"]) == (4e9, 0.75, 1501e6)
    assert values["gpu_temperature_c"] == 55


def test_what_a_gpu_refuses_is_not_offered_and_the_old_power_is_asked(ask):
    refused = "device error field:186 3\ndevice error nvmlDeviceGetTotalEnergyConsumption 3\ndevice mig MIG-aaaa\n"
    (gpu,) = ask(GPU + refused, SOURCE + "answer = source.facts()")["gpus"]
    assert gpu["power"] == "nvmlDeviceGetPowerUsage"
    assert gpu["not_offered"] == ["gpu_energy_j"]
    assert gpu["mig"] is True


def test_update_periods_are_measured(ask):
    (found,) = ask(GPU, SOURCE + "answer = source.update_periods(2.0)")
    assert found["device"] == "cuda:0"
    assert 10e6 < found["gpu_power_w_ns"] < found["gpu_energy_j_ns"] < 1e9
    (still,) = ask(GPU.replace("update 20 100", "update 5000 5000"), SOURCE + "answer = source.update_periods(0.5)")
    assert still["asked"] > 10
    assert (still["gpu_power_w_ns"], still["gpu_energy_j_ns"]) == (None, None)


def test_the_agent_checks_what_it_can_and_says_why_the_rest_is_not_run(ask, tmp_path):
    agent.pack(tmp_path / "agent.pyz")
    command = [sys.executable, "-I", "-S", str(tmp_path / "agent.pyz"), "check", "-o", str(tmp_path / "out"), "-f", "pytorch"]
    program = f"import subprocess\ndone = subprocess.run({command!r}, capture_output=True, text=True)\n"
    program += f"answer = [done.returncode, done.stderr, json.load(open({str(tmp_path / 'out' / 'check.json')!r}))]"
    status, said, found = ask(GPU, program)
    outcomes = {(row["check"], row["subject"]): row for row in found["results"]}
    assert outcomes["NVML fields", "agent"]["outcome"] == "passed"
    assert outcomes["NVML fields", "agent"]["measured"]["driver"] == "550.00-stand-in"
    assert outcomes["NVML update periods", "agent"]["outcome"] == "passed"
    assert outcomes["NVML sampling", "agent"]["measured"]["cuda:0 gpu_memory_bytes"] == [4e9, 4e9]
    assert outcomes["visible devices", "agent"]["outcome"] == "failed", "NVML shows a GPU that CUDA does not have"
    assert outcomes["record", "pytorch, framework"]["reasons"] == ["this interpreter has no module torch"]
    assert status == 1
    assert "Traceback" not in said


def test_without_a_driver_nothing_fails(tmp_path):
    agent.pack(tmp_path / "agent.pyz")
    command = [sys.executable, "-I", "-S", tmp_path / "agent.pyz", "check", "-o", tmp_path / "out", "-f", "pytorch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "passed" in done.stderr:
        pytest.skip("this machine has a GPU")
    assert done.returncode == 0
    assert done.stderr.count("not run: no GPU (NVML: no driver (libnvidia-ml.so.1 cannot be loaded))") == 8
