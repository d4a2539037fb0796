"""Remedies for device errors, found by their messages: those of cudaGetErrorString, cuGetErrorName and NVML, and the words that
PyTorch, TensorFlow, XLA and MXNet add.
"""

import re

_REMEDIES = (
    (r"NVML Shared Library Not Found", "NVIDIA's driver is not installed, or this container was started without its GPUs"),
    (r"Driver Not Loaded", "the driver is installed but not loaded: see nvidia-smi, or load it with modprobe nvidia"),
    (r"library version mismatch", "the driver was updated while the old one is still loaded: reboot the machine"),
    (r"Insufficient Permissions", "this user may not query the GPU: check the permissions of /dev/nvidia*"),
    (r"out of memory|RESOURCE_EXHAUSTED|ResourceExhausted|OOM when alloc|STATUS_ALLOC_FAILED|can't allocate memory|MemoryError",
     "use a smaller --batch, or free memory (on a GPU, nvidia-smi shows who uses it)"),
    (r"GPU is lost|fallen off the bus|uncorrectable ECC",
     "the GPU failed: look for its Xid in nvidia-smi and the system log, then reset it or reboot the machine"),
    (r"busy or unavailable|DEVICE_UNAVAILABLE",
     "another process uses the GPU exclusively, or its compute mode prohibits computing: see nvidia-smi"),
    (r"driver version is insufficient|driver on your system is too old|SYSTEM_DRIVER_MISMATCH|unsupported toolchain",
     "the framework's CUDA is newer than the driver: update the driver, or use a build for an older CUDA"),
    (r"no kernel image is available|INVALID_PTX|NO_BINARY_FOR_GPU",
     "this build of the framework has no code for this GPU: use a newer build, or an older one for an old GPU"),
    (r"no CUDA-capable device|CUDA_ERROR_NO_DEVICE|Found no NVIDIA driver|No CUDA GPUs are available|invalid device ordinal",
     "see `kernelscope doctor` and CUDA_VISIBLE_DEVICES for the available GPUs, or use --device cpu"),
    (r"unspecified launch failure|illegal memory access|ILLEGAL_ADDRESS|LAUNCH_FAILED|assert triggered",
     "a kernel failed, maybe some calls earlier: run with CUDA_LAUNCH_BLOCKING=1 to see where"),
)  # fmt: skip


def remedied(message: str) -> str:
    """Return an error in one line: the line with a known error and its remedy, else the first line."""
    lines = [line.strip() for line in message.strip().split("\n") if line.strip()]
    for pattern, remedy in _REMEDIES:
        if any(re.search(pattern, line) for line in lines):
            telling = [line for line in lines if re.search(pattern, line)][-1]  # traces and the context come before it
            return "%s; %s" % (telling[:300].rstrip(".;"), remedy)
    return lines[0] if lines else message
