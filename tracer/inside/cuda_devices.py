"""The GPUs that this process sees, in its own order, as the CUDA driver lists them: maps cuda:0 to a physical GPU."""

import ctypes
import uuid
from typing import Any, Dict, List

MOST = 64


def seen() -> List[Dict[str, Any]]:
    """Return one {"index", "uuid", "pci"} per device that CUDA shows this process; an empty list without a driver.

    Call it after the framework has used the GPU: earlier, it would initialise the driver in the framework's place.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int()
        if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
            return []
        return [_device(driver, index) for index in range(min(count.value, MOST))]
    except (OSError, AttributeError):
        return []


def _device(driver: Any, index: int) -> Dict[str, Any]:
    device = ctypes.c_int()
    found: Dict[str, Any] = {"index": index, "uuid": None, "pci": None}
    if driver.cuDeviceGet(ctypes.byref(device), index):
        return found
    address = ctypes.create_string_buffer(64)
    if not driver.cuDeviceGetPCIBusId(address, len(address), device):
        found["pci"] = address.value.decode("ascii", "replace")
    identity = (ctypes.c_ubyte * 16)()
    # the second version tells MIG instances apart; drivers before CUDA 11.4 have only the first
    ask = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    if not ask(ctypes.byref(identity), device):
        found["uuid"] = str(uuid.UUID(bytes=bytes(bytearray(identity))))
    return found
