from itertools import pairwise

import pytest

from kernelscope.analysis.device import datasheets
from kernelscope.analysis.device.datasheets import Datasheet, lookup

# names that captures have shown, with the number of multiprocessors where they tell it -> device of the table
SEEN = {
    ("A100-SXM4-40GB", 108): "A100 SXM4 40GB",
    ("AMD Instinct MI300X VF", 304): "Instinct MI300X",
    ("AMD Instinct MI300X", 304): "Instinct MI300X",
    ("GeForce GTX 980", None): "GTX 980",
    ("GeForce GTX TITAN X", 24): "GTX TITAN X",
    ("NVIDIA A100-PG509-200", 108): "A100 SXM4 40GB",
    ("NVIDIA A100-SXM4-80GB", 108): "A100 SXM4 80GB",
    ("NVIDIA B200", 148): "B200 SXM",
    ("NVIDIA GeForce RTX 2070 SUPER", 40): "RTX 2070 SUPER",
    ("NVIDIA GeForce RTX 3060 Laptop ", 30): "RTX 3060 Laptop",
    ("NVIDIA GeForce RTX 3060", 28): "RTX 3060",
    ("NVIDIA GeForce RTX 4060", 24): "RTX 4060",
    ("NVIDIA H100 80GB HBM3", 132): "H100 SXM5 80GB",
    ("NVIDIA RTX A5000", 64): "RTX A5000",
    ("NVIDIA TITAN RTX", 72): "TITAN RTX",
    ("TITAN V", 80): "TITAN V",
    ("TITAN Xp", None): "TITAN Xp",
    ("TPU v6 Lite", None): "TPU v6e",
    ("Tesla K80", 13): "K80 (one of its two GPUs)",
    ("Tesla V100-DGXS-32GB", 80): "V100 DGXS 32GB",
    ("Tesla V100-SXM2-16GB", 80): "V100 SXM2 16GB",
    ("Tesla V100-SXM2-32GB", 80): "V100 SXM2 32GB",
}
# other spellings of drivers and people
SPELLED = {
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA H200 NVL": "H200 NVL",
    "NVIDIA GH200 480GB": "GH200 96GB",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB",
    "nvidia a100 80gb pcie": "A100 PCIe 80GB",
    "A100-PCIE-40GB": "A100 PCIe 40GB",
    "A100 SXM4 40 GB": "A100 SXM4 40GB",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "RTX A6000": "RTX A6000",
    "Quadro RTX 6000": "Quadro RTX 6000",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
    "NVIDIA GeForce RTX 3060 12GB": "RTX 3060",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "RTX 4090 Laptop",
    "Tesla P100-PCIE-16GB": "P100 PCIe 16GB",
    "TITAN X (Pascal)": "TITAN X (Pascal)",
    "GeForce GTX 1060 3GB": "GTX 1060 3GB",
    "GeForce GTX 1060": "GTX 1060 6GB",
    "Tesla K20m": "K20",
    "AMD Instinct MI250X": "Instinct MI250X (one of its two dies)",
    "AMD Radeon RX 7900 XTX": "Radeon RX 7900 XTX",
    "Intel(R) Data Center GPU Max 1550": "Data Center GPU Max 1550 (one of its two stacks)",
}
UNKNOWN = (
    None, "", "GPU", "AMD Radeon Graphics", "ARTEMIS", "Intel AVX2", "Radeon", "H100", "A100", "V100", "RTX 9090",
    "NVIDIA GeForce RTX 4070 Ti SUPER Max-Q", "GeForce GTX 1060 with Max-Q Design", "NVIDIA A100-SXM-64GB", "GTX 1070 16GB",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 3080 12GB", "TITAN X", "A100-PCIe", "Xavier", "Orin", "NVIDIA H20-3e",
)  # fmt: skip
# lanes for float32 in a multiprocessor
LANES = {
    "Kepler": 192, "Maxwell": 128, "Pascal GP100": 64, "Pascal": 128, "Volta": 64, "Turing": 64, "Ampere GA100": 64,
    "Ampere": 128, "Ada": 128, "Hopper": 128, "Blackwell RTX": 128, "CDNA": 64, "CDNA 2": 64, "CDNA 3": 128, "CDNA 4": 128,
}  # fmt: skip


def sheet(name: str) -> Datasheet:
    found = [row for row in datasheets.table() if row.name == name]
    assert len(found) == 1, name
    return found[0]


@pytest.mark.parametrize(("seen", "device"), SEEN.items(), ids=[name for name, _ in SEEN])
def test_devices_of_captures_are_found(seen, device):
    assert lookup(*seen) == lookup(seen[0]) == sheet(device)


@pytest.mark.parametrize(("name", "device"), SPELLED.items())
def test_spellings_are_found(name, device):
    assert lookup(name) == lookup(name.upper()) == sheet(device)


@pytest.mark.parametrize("name", UNKNOWN)
def test_no_data_sheet_is_guessed(name):
    assert lookup(name) is None


def test_multiprocessors_tell_devices_of_a_name_apart():
    assert lookup("Xavier", 8) == sheet("Jetson AGX Xavier")
    assert lookup("Xavier", 6) == sheet("Jetson Xavier NX")
    assert lookup("AMD Instinct MI250X / MI250", 104) == sheet("Instinct MI250 (one of its two dies)")
    assert lookup("NVIDIA GeForce RTX 3080", 68) == lookup("NVIDIA GeForce RTX 3080") == sheet("RTX 3080 10GB")
    assert lookup("NVIDIA GeForce RTX 3080", 70) is None  # the version with 12 GB, which has the same name
    assert lookup("AMD Instinct MI300X", 38) is None  # one of eight parts


@pytest.mark.parametrize(
    ("device", "bandwidth", "single", "half"),
    [
        ("H100 SXM5 80GB", 3.35e12, 66.9e12, 989.4e12),
        ("A100 SXM4 40GB", 1.555e12, 19.5e12, 312e12),
        ("V100 SXM2 16GB", 0.9e12, 15.7e12, 125e12),
        ("Instinct MI300X", 5.3e12, 163.4e12, 1307.4e12),
    ],
)
def test_numbers_of_white_papers(device, bandwidth, single, half):
    row = sheet(device)
    assert row.bandwidth == pytest.approx(bandwidth)
    assert row.flops("f32") == row.flops("f32", False) == pytest.approx(single)
    assert row.flops("f16") == row.flops("f16", True) == pytest.approx(half)


def test_other_types():
    a100, v100, p100, mi250x = map(lookup, ("A100-SXM4-40GB", "V100-SXM2-16GB", "P100-SXM2-16GB", "MI250X"))
    assert a100.flops("tf32") == a100.flops("f32", True) == 156e12
    assert (a100.flops("f64"), a100.flops("f64", False)) == (19.5e12, 9.7e12)
    assert a100.flops("f16", False) == 78e12
    assert a100.flops("s8") == a100.flops("u8") == 624e12
    assert (a100.flops("f8e4m3"), a100.flops("c64"), a100.flops("f32 to bf16")) == (None, None, None)
    assert sheet("H100 SXM5 80GB").flops("f8_e5m2") == 1978.9e12
    assert (v100.flops("tf32"), v100.flops("f32", True), v100.flops("bf16")) == (None, 15.7e12, None)
    assert p100.flops("f16") == p100.flops("f16", True) == p100.flops("f16", False) == 21.2e12  # it has no tensor cores
    assert (mi250x.flops("f32"), mi250x.flops("f32", True), mi250x.flops("f32", False)) == (47.9e12, 47.9e12, 23.9e12)
    assert sheet("Instinct MI308X").flops("f16") is None


def test_links_in_one_direction():
    assert sheet("V100 SXM2 16GB").host_bandwidth == pytest.approx(15.75e9, rel=1e-3)
    assert sheet("RTX 4060").host_bandwidth == pytest.approx(sheet("T4").host_bandwidth)  # eight faster lanes, sixteen slower
    assert sheet("H100 SXM5 80GB").host_bandwidth == pytest.approx(63.0e9, rel=1e-3)
    assert sheet("K20").host_bandwidth == pytest.approx(8e9)
    assert sheet("GH200 96GB").host_bandwidth == sheet("H100 SXM5 80GB").link_bandwidth == 450e9
    assert (sheet("V100 PCIe 16GB").link_bandwidth, sheet("RTX 4090 Laptop").host_bandwidth) == (None, None)


def test_unknown_is_never_zero():
    for row in datasheets.table():
        rates = (
            row.bandwidth,
            row.host_bandwidth,
            row.link_bandwidth,
            row.l2_bytes,
            row.memory_gb,
            row.multiprocessors,
            row.boost_hz,
        )
        assert all(value is None or value > 0 for value in (*rates, *row.vector.values(), *row.tensor.values())), row
        assert row.source, row
        assert (row.host_link is None) == (row.host_bandwidth is None), row
        assert set(row.vector) <= {"f64", "f32", "f16", "bf16", "s8"}, row
        assert set(row.tensor) <= {"f64", "f32", "tf32", "f16", "bf16", "f8", "s8"}, row


def test_names_are_of_one_device_unless_multiprocessors_tell():
    for row in datasheets.table():
        for name in row.names:
            assert lookup(name, row.multiprocessors) == row, name
    names = [row.name for row in datasheets.table()]
    assert len(names) == len(set(names))


def test_rates_fit_units_and_clocks():
    for row in datasheets.table():
        lanes = LANES.get(row.architecture)
        if lanes and row.multiprocessors and row.boost_hz and "f32" in row.vector:
            assert row.vector["f32"] == pytest.approx(2 * lanes * row.multiprocessors * row.boost_hz, rel=0.015), row.name


def test_tensor_cores_are_faster_the_smaller_the_type_and_dense():
    for row in datasheets.table():
        rates = [row.tensor[kind] for kind in ("f64", "tf32", "f16", "f8") if kind in row.tensor]
        assert all(slower < faster for slower, faster in pairwise(rates)), row.name
        if "tf32" in row.tensor:
            assert row.tensor["f16"] == pytest.approx(2 * row.tensor["tf32"], rel=0.03), row.name
        if "f8" in row.tensor:  # a rate with sparsity beside one without would be four times as high
            assert row.tensor["f8"] == pytest.approx(2 * row.tensor["f16"], rel=0.02), row.name
        if "bf16" in row.tensor and "f16" in row.tensor:
            assert row.tensor["bf16"] == pytest.approx(row.tensor["f16"]) or row.architecture == "CDNA", row.name
        if row.architecture in ("Ampere GA100", "Ada", "Hopper", "Blackwell", "CDNA 3") and "f16" in row.tensor:
            assert "tf32" in row.tensor, row.name


def test_memories_and_links_get_faster():
    steps = [
        ("K80 (one of its two GPUs)", "M40 12GB", "P100 SXM2 16GB", "V100 SXM2 16GB", "A100 SXM4 40GB", "A100 SXM4 80GB",
         "H100 SXM5 80GB", "H200 SXM", "B200 SXM"),
        ("Instinct MI25", "Instinct MI50", "Instinct MI100", "Instinct MI210", "Instinct MI300X", "Instinct MI325X",
         "Instinct MI355X"),
        ("T4", "A10", "RTX A6000", "RTX 6000 Ada", "RTX PRO 6000 Blackwell Workstation Edition"),
        ("GTX 980", "GTX 1080", "RTX 2080", "RTX 3080 10GB", "RTX 5080"),
    ]  # fmt: skip
    for family in steps:
        assert all(sheet(old).bandwidth < sheet(new).bandwidth for old, new in pairwise(family)), family
    assert (
        sheet("P100 SXM2 16GB").link_bandwidth < sheet("V100 SXM2 16GB").link_bandwidth < sheet("A100 SXM4 40GB").link_bandwidth
    )
