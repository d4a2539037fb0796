"""Which physical GPU is cuda:0: CUDA_VISIBLE_DEVICES in all its forms, and what the process itself tells."""

import pytest

from kernelscope.tracer.outside.gpu import Gpu, Mig, pci_address, reported, visible

UUIDS = (
    "GPU-1a2b0000-0000-0000-0000-000000000001",
    "GPU-1a2c0000-0000-0000-0000-000000000002",
    "GPU-ff000000-0000-0000-0000-000000000003",
)
ALIKE = [Gpu(i, "NVIDIA A100", None, "8.0", None, uuid, f"0000:{0x10 + i:02x}:00.0") for i, uuid in enumerate(UUIDS)]
UNLIKE = [*ALIKE[:2], Gpu(2, "NVIDIA T4", None, "7.5", None, UUIDS[2], "0000:12:00.0")]
INSTANCES = (
    Mig("MIG-aa000000-0000-0000-0000-00000000000a", "MIG 1g.10gb", None),
    Mig("MIG-ab000000-0000-0000-0000-00000000000b", "MIG 1g.10gb", None),
)
DIVIDED = [ALIKE[0], Gpu(1, "NVIDIA A100", None, "8.0", None, UUIDS[1], "0000:11:00.0", INSTANCES)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [0, 1, 2]), ("", []), ("-1", []), ("2,0", [2, 0]), ("0,-1,1", [0]), ("1, 2", [1, 2]), ("7", []), ("0,7,1", [0]),
        ("1,1", []), ("1gpu,2", [1, 2]), ("none", []), ("NoDevFiles", []), ("+1", [1]),
        ("GPU-1a2b", [0]), ("GPU-1a2", []), ("GPU-ff,GPU-1a2c", [2, 1]), ("GPU-ff,GPU-1a2", [2]), ("GPU-ff,0", [2]),
        ("GPU-ff,GPU-ff00", []), ("GPU-", []), (UUIDS[1], [1]), ("MIG-aa", []),
    ],
)  # fmt: skip
def test_visible_devices(text, expected):
    seen = visible({} if text is None else {"CUDA_VISIBLE_DEVICES": text}, ALIKE)
    assert [entry.gpu.index for entry in seen] == expected
    assert [entry.number for entry in seen] == list(range(len(expected)))


def test_the_order_is_certain_only_where_it_can_be():
    assert "alike" in visible({}, ALIKE)[0].method
    assert visible({}, UNLIKE)[0].method.startswith("not certain")
    assert visible({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, UNLIKE)[0].method.startswith("not certain")
    assert visible({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, UNLIKE)[0].method == "order of PCI addresses (CUDA_DEVICE_ORDER)"
    assert visible({"CUDA_VISIBLE_DEVICES": "GPU-ff"}, UNLIKE)[0].method == "UUID in CUDA_VISIBLE_DEVICES"


def test_instances_of_a_divided_gpu():
    (first,) = visible({"CUDA_VISIBLE_DEVICES": "1"}, DIVIDED)
    assert (first.gpu.index, first.mig) == (1, INSTANCES[0])
    (named,) = visible({"CUDA_VISIBLE_DEVICES": "MIG-ab"}, DIVIDED)
    assert (named.gpu.index, named.mig) == (1, INSTANCES[1])
    assert visible({"CUDA_VISIBLE_DEVICES": "MIG-a"}, DIVIDED) == []
    assert "whole GPU" in named.as_dict()["note"]
    assert named.as_dict()["mig"] == INSTANCES[1].uuid
    (only,) = visible({}, DIVIDED)
    assert only.mig == INSTANCES[0], "with an instance visible CUDA sees nothing beside it"


def test_what_the_process_tells_is_matched_by_uuid_and_else_by_address():
    told = [
        {"index": 0, "uuid": "ff000000-0000-0000-0000-000000000003", "pci": "0000:12:00.0"},
        {"index": 1, "uuid": None, "pci": "0000:10:00.0"},
        {"index": 2, "uuid": "deadbeef-0000-0000-0000-000000000000", "pci": "0000:99:00.0"},
    ]
    seen = reported(told, UNLIKE)
    assert [(entry.number, entry.gpu.index) for entry in seen] == [(0, 2), (1, 0)]
    assert seen[0].method.startswith("UUID")
    assert seen[1].method.startswith("PCI address")
    (instance,) = reported([{"index": 0, "uuid": "AB000000-0000-0000-0000-00000000000B", "pci": "0000:11:00.0"}], DIVIDED)
    assert instance.mig == INSTANCES[1]


def test_pci_addresses_have_one_form():
    assert pci_address("00000000:1B:00.0") == pci_address("0000:1b:00.0") == pci_address("1B:00.0") == "0000:1b:00.0"
    assert pci_address("") is None
    assert pci_address("nonsense") is None
