"""The NVML sampler against scripted GPUs behind the real pynvml. Expected numbers follow from the scripts by hand."""

from pathlib import Path

H100 = Path(__file__).with_name("h100.txt").read_text(encoding="utf8")
SAMPLE = """
from kernelscope.tracer.outside.samplers.nvml import NvmlSource
source = NvmlSource()
rows = source.sample(PID)
answer = {"rows": [row._asdict() for row in rows], "about": source.describe()}
"""


def _values(answer, gpu=0):
    return {row["metric"]: row["value"] for row in answer["rows"] if row["gpu"] == gpu}


def test_what_a_gpu_offers_is_sampled_and_what_it_does_not_has_a_reason(ask):
    answer = ask(H100 + "device process 4242 1000000\ndevice process 1 5\n", "PID = 4242" + SAMPLE)
    values = _values(answer)
    assert values.pop("gpu_power_w") in (300.0, 300.001), "the instantaneous field, in mW"
    assert 0 <= values.pop("gpu_energy_j") < 300 * 60
    assert values == {
        "gpu_power_average_w": 300.0, "gpu_memory_bytes": 4e9, "gpu_process_memory_bytes": 1e6, "gpu_utilisation": 0.75,
        "gpu_memory_utilisation": 0.25, "gpu_sm_clock_hz": 1501e6, "gpu_memory_clock_hz": 1502e6, "gpu_temperature_c": 55.0,
        "gpu_throttle_reasons": 4.0, "gpu_pcie_tx_bps": 1e6, "gpu_pcie_rx_bps": 2e6, "gpu_nvlink_tx_bytes": 5 * 1024.0,
    }  # fmt: skip
    (about,) = answer["about"]["gpus"]
    assert about["not_offered"] == {"gpu_nvlink_rx_bytes": "Not Supported"}
    assert about["uuid"] == "GPU-11111111-aaaa-bbbb-cccc-000000000001"
    assert about["pci"] == "0000:1b:00.0"
    assert about["power"]["asked"] == "NVML_FI_DEV_POWER_INSTANT"
    assert about["notes"] == []
    assert answer["about"]["driver"] == "550.00-stand-in"


def test_every_answer_has_its_time_and_how_long_the_question_took(ask):
    program = "import time\nPID = None\nbefore = time.monotonic_ns()" + SAMPLE
    program += "answer['before'], answer['after'], answer['wall'] = before, time.monotonic_ns(), time.time_ns()"
    answer = ask(H100, program)
    for row in answer["rows"]:
        assert answer["before"] < row["time_ns"] - row["spread_ns"] / 2 <= row["time_ns"] + row["spread_ns"] / 2 < answer["after"]
    rows = {row["metric"]: row for row in answer["rows"]}
    assert rows["gpu_pcie_tx_bps"]["spread_ns"] >= 20_000_000, "NVML counts for 20 ms"
    assert 0 <= answer["wall"] - rows["gpu_power_w"]["source_time_ns"] < 30e9, "the driver's stamp, ns since the epoch"
    assert rows["gpu_energy_j"]["source_time_ns"] is None


def test_without_the_instantaneous_field_the_old_call_is_used_and_its_averaging_said(ask):
    fallback = "device error field:186 3\n"
    (ampere,) = ask(H100.replace("9.0", "8.6") + fallback, "PID = None" + SAMPLE)["about"]["gpus"]
    assert ampere["power"]["asked"] == "nvmlDeviceGetPowerUsage"
    assert ampere["power"]["windows_ns"] == [1_000_000_000]
    (volta,) = ask(H100.replace("9.0", "7.0") + fallback, "PID = None" + SAMPLE)["about"]["gpus"]
    assert volta["power"]["windows_ns"] == [], "instantaneous before Ampere"
    (hopper,) = ask(H100, "PID = None" + SAMPLE)["about"]["gpus"]
    assert hopper["power"]["windows_ns"] == [25_000_000, 100_000_000]


def test_without_permission_the_reason_is_kept_and_the_rest_goes_on(ask):
    refused = (
        "device error nvmlDeviceGetTotalEnergyConsumption 4\ndevice error field:186 4\ndevice error nvmlDeviceGetPowerUsage 3\n"
    )
    answer = ask(H100 + refused, "PID = None" + SAMPLE)
    (about,) = answer["about"]["gpus"]
    assert about["not_offered"]["gpu_energy_j"] == "Insufficient Permissions"
    assert about["not_offered"]["gpu_power_w"] == (
        "NVML_FI_DEV_POWER_INSTANT: Insufficient Permissions; nvmlDeviceGetPowerUsage: Not Supported"
    )
    assert about["power"]["asked"] == "none"
    assert "gpu_temperature_c" in _values(answer)


def test_rare_questions_are_not_asked_with_every_reading(ask):
    program = (
        "PID = None" + SAMPLE + "answer = [[row.metric for row in source.sample(None)] for _ in range(3)]\n"
        "answer += [[row.metric for row in NvmlSource(energy=True).sample(None)]]"
    )
    first, second, third, energy = ask(H100, program)
    assert "gpu_pcie_tx_bps" not in first + second + third
    assert "gpu_power_w" in first
    assert "gpu_power_w" in third
    assert sorted(energy) == ["gpu_energy_j", "gpu_power_w", "gpu_temperature_c"], "the energy pass asks for little, and often"


def test_update_periods_are_measured(ask):
    program = (
        "from kernelscope.tracer.outside.samplers import nvml\n"
        "nvml.MEASURE_S = 2.0\nanswer = nvml.NvmlSource(measure=True).describe()['gpus'][0]['update_periods']"
    )
    periods = ask(H100, program)
    assert 10e6 < periods["gpu_power_w_ns"] < periods["gpu_energy_j_ns"]
    assert 50e6 < periods["gpu_energy_j_ns"] < 1e9
    assert "median time between changes" in periods["method"]
    still = ask(H100.replace("update 20 100", "update 5000 5000"), program)
    assert still["gpu_power_w_ns"] is None
    assert still["gpu_energy_j_ns"] is None


def test_a_gpu_that_is_lost_is_noted_once_and_the_others_go_on(ask):
    other = H100.replace("000000000001", "000000000002").replace("1B", "3D")
    program = (
        "PID = None" + SAMPLE + "for _ in range(4):\n    rows = source.sample(None)\n"
        "answer = {'rows': [row._asdict() for row in rows], 'about': source.describe()}"
    )
    answer = ask(H100 + "device lost 3\n" + other, program)
    lost, well = answer["about"]["gpus"]
    assert lost["notes"] == ["GPU is lost; no longer sampled"]
    assert well["notes"] == []
    assert {row["gpu"] for row in answer["rows"]} == {1}


def test_a_gpu_that_cannot_be_opened_leaves_the_others(ask):
    other = H100.replace("000000000001", "000000000002")
    broken = H100 + "device error nvmlDeviceGetHandleByIndex_v2 15\n"
    answer = ask(broken + other, "PID = None" + SAMPLE)
    assert {row["gpu"] for row in answer["rows"]} == {1}
    assert answer["about"]["refused"] == ["NVML: GPU 0: GPU is lost"]
    answer = ask(broken, "PID = None" + SAMPLE)
    assert answer["about"]["unavailable"] == "NVML: GPU 0: GPU is lost"
    found = ask(broken + other, "from kernelscope.tracer.outside import gpu\nanswer = [d.index for d in gpu.find().devices]")
    assert found == [1]


def test_no_driver_is_a_reason(ask):
    # init is what the library itself answers
    answer = ask("", "PID = None" + SAMPLE)
    assert answer["about"] == {"source": "nvml", "unavailable": "NVML sees no GPU"}


def test_the_energy_counter_as_polled_gives_the_power_that_was_scripted(ask):
    """A square wave of 100 and 300 W in equal parts: 200 W between the first and the last change of the counter."""
    program = """
import time
from kernelscope.tracer.outside.samplers.nvml import NvmlSource
source, seen = NvmlSource(energy=True), []
end = time.monotonic() + 1.3
while time.monotonic() < end:
    for row in source.sample(None):
        if row.metric == "gpu_energy_j" and (not seen or seen[-1][1] != row.value):
            seen.append((row.time_ns, row.value))
    time.sleep(0.002)
answer = seen[1:]
"""
    seen = ask(H100.replace("power 300000 300000 1000", "power 100000 300000 200"), program)
    (start, low), (end, high) = seen[0], seen[-1]
    assert all(round(value) % 40 in (0, 30) for _, value in seen), "30 J in the first half of a period, 10 J in the second"
    assert abs(high - low - 200.0 * (end - start) / 1e9) < 60.0, "but for the edges"


def test_gpus_are_found_with_uuid_address_and_instances(ask):
    divided = H100.replace("000000000001", "000000000002").replace("1B", "3D")
    divided += "device mig MIG-aaaa\ndevice mig MIG-bbbb\n"
    program = (
        "from kernelscope.tracer.outside import gpu\nfound = gpu.find().devices\n"
        "answer = [[d.uuid, d.pci, [m.uuid for m in d.mig], d.memory_bytes] for d in found]\n"
        "answer += [[s.as_dict() for s in gpu.visible({'CUDA_VISIBLE_DEVICES': 'MIG-b'}, found)]]"
    )
    first, second, seen = ask(H100 + divided, program)
    assert first == ["GPU-11111111-aaaa-bbbb-cccc-000000000001", "0000:1b:00.0", [], 8_000_000_000]
    assert second == ["GPU-11111111-aaaa-bbbb-cccc-000000000002", "0000:3d:00.0", ["MIG-aaaa", "MIG-bbbb"], 8_000_000_000]
    assert seen[0]["device"] == "cuda:0"
    assert seen[0]["index"] == 1
    assert seen[0]["mig"] == "MIG-bbbb"


def test_samples_are_written_under_the_childs_numbers(ask, tmp_path):
    other = H100.replace("000000000001", "000000000002").replace("1B", "3D")
    program = f"""
import os, time
import pyarrow.parquet as pq
from kernelscope.tracer.outside.samplers.nvml import NvmlSource
from kernelscope.tracer.outside.samplers.sampler import Sampler
with Sampler([NvmlSource(energy=True)], rate_hz=50) as sampler:
    sampler.open(os.getpid(), 0)
    time.sleep(0.3)
    recent = sampler.since(os.getpid(), ORIGIN, "gpu_power_w")
    sampler.close()
    sampler.write(os.getpid(), {str(tmp_path / "s.parquet")!r}, {{1: "cuda:0"}})
table = pq.read_table({str(tmp_path / "s.parquet")!r}).to_pydict()
answer = [sorted(set(table["device"])), len(recent), table["spread_ns"][0], list(table)]
"""
    devices, recent, spread, columns = ask(H100 + other, program)
    assert devices == ["cuda:0"]
    assert recent >= 4
    assert spread > 0
    assert columns == ["time_ns", "window", "core", "device", "metric", "value", "spread_ns", "source_time_ns"]


def test_a_gpu_without_an_energy_counter_gives_the_reason(ask):
    program = (
        "from kernelscope.tracer.outside import energy\nfound, reason = energy.sources('cuda')\n"
        "answer = [[source.name for source in found if source.name == 'nvml'], reason]"
    )
    assert ask(H100, program) == [["nvml"], None]
    old = H100 + "device error nvmlDeviceGetTotalEnergyConsumption 3\n"
    assert ask(old, program) == [[], "NVIDIA H100: Not Supported (GPUs have the energy counter since Volta)"]


def test_a_process_tells_its_devices_and_they_are_matched(ask):
    other = H100.replace("11111111-aaaa-bbbb-cccc-000000000001", "abababab-abab-abab-abab-abababababab").replace("1B", "3E")
    program = (
        "from kernelscope.tracer.inside import cuda_devices\nfrom kernelscope.tracer.outside import gpu\n"
        "told = cuda_devices.seen()\nanswer = [told, [s.as_dict() for s in gpu.reported(told, gpu.find().devices)]]"
    )
    told, seen = ask(H100.replace("1B", "3D") + other, program)
    assert told == [
        {"index": 0, "uuid": "11111111-1111-1111-1111-111111111111", "pci": "0000:3D:00.0"},
        {"index": 1, "uuid": "abababab-abab-abab-abab-abababababab", "pci": None},
    ]
    assert [(entry["device"], entry["index"]) for entry in seen] == [("cuda:0", 0), ("cuda:1", 1)]
    assert seen[0]["method"].startswith("PCI address")
    assert seen[1]["method"].startswith("UUID")
