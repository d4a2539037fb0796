"""What to do about errors of devices, by what frameworks and CUDA say: messages of cudaGetErrorString, cuGetErrorName and NVML,
and the words that PyTorch, TensorFlow, XLA and MXNet add for them.
"""

import re

_REMEDIES = (
    (r"NVML Shared Library Not Found", "NVIDIA's driver is not installed, or this container was started without its GPUs"),
    (r"Driver Not Loaded", "the driver is installed and not loaded: see nvidia-smi, or load it with modprobe nvidia"),
    (r"library version mismatch", "the driver was updated while the old one is loaded: start the machine again"),
    (r"Insufficient Permissions", "this user may not ask the GPU: see the permissions of /dev/nvidia*"),
    (r"out of memory|RESOURCE_EXHAUSTED|ResourceExhausted|OOM when alloc|STATUS_ALLOC_FAILED|can't allocate memory|MemoryError",
     "use a smaller --batch, or free memory (on a GPU nvidia-smi tells who holds it)"),
    (r"GPU is lost|fallen off the bus|uncorrectable ECC",
     "the GPU failed: see nvidia-smi and the system's log for its Xid, then reset it or start the machine again"),
    (r"busy or unavailable|DEVICE_UNAVAILABLE",
     "another process has the GPU for itself, or it is in a mode that forbids computing: see nvidia-smi"),
    (r"driver version is insufficient|driver on your system is too old|SYSTEM_DRIVER_MISMATCH|unsupported toolchain",
     "the framework's CUDA is newer than the driver: update the driver, or use a build for an older CUDA"),
    (r"no kernel image is available|INVALID_PTX|NO_BINARY_FOR_GPU",
     "this build of the framework has no code for this GPU: use a newer (or for an old GPU an older) build"),
    (r"no CUDA-capable device|CUDA_ERROR_NO_DEVICE|Found no NVIDIA driver|No CUDA GPUs are available|invalid device ordinal",
     "see `kernelscope doctor` and CUDA_VISIBLE_DEVICES for what there is, or use --device cpu"),
    (r"unspecified launch failure|illegal memory access|ILLEGAL_ADDRESS|LAUNCH_FAILED|assert triggered",
     "the GPU's program failed, maybe some calls earlier: run it with CUDA_LAUNCH_BLOCKING=1 to see where"),
)  # fmt: skip


def remedied(message: str) -> str:
    """Return an error in a line: the one that tells, with what can be done about it, where that is known; else the first."""
    lines = [line.strip() for line in message.strip().split("\n") if line.strip()]
    for pattern, remedy in _REMEDIES:
        if any(re.search(pattern, line) for line in lines):
            telling = [line for line in lines if re.search(pattern, line)][-1]  # before it stand traces and what was being done
            return "%s; %s" % (telling[:300].rstrip(".;"), remedy)
    return lines[0] if lines else message
