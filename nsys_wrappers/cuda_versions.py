"""Which nsys fits which CUDA. An older nsys often works, but may silently lose kernels: that is a warning, not a refusal."""

from __future__ import annotations

from kernelscope.nsys_wrappers.find import Tool

# The release of nsys that NVIDIA ships in each CUDA toolkit: the entries "nsight_systems" of
# developer.download.nvidia.com/compute/cuda/repos/*/version_<CUDA>.json (11.5, 11.8, 13.2, 13.3) and the folders
# /usr/local/cuda-<CUDA>/nsight-systems-<release> of the toolkits' packages (the others).
SHIPPED = {
    (11, 5): (2021, 3, 3),
    (11, 8): (2022, 4, 2),
    (12, 1): (2023, 1, 2),
    (12, 2): (2023, 2, 3),
    (12, 3): (2023, 3, 3),
    (12, 4): (2023, 4, 4),
    (12, 5): (2024, 2, 3),
    (12, 6): (2024, 4, 2),
    (12, 8): (2024, 6, 2),
    (12, 9): (2025, 1, 3),
    (13, 0): (2025, 3, 2),
    (13, 1): (2025, 5, 2),
    (13, 2): (2025, 6, 3),
    (13, 3): (2026, 1, 3),
}


def warning(tool: Tool, cuda: str) -> str | None:
    """Return one line if this nsys is older than the one shipped with this version of CUDA ("12.4"), else None.

    cuda: the newest version involved: the driver's (shown by nvidia-smi) or the framework's. A version between two in the table
    counts as the older one; text that is not a version gives no warning.
    """
    parts = cuda.split(".")[:2]
    if tool.name != "nsys" or not all(part.isdecimal() for part in parts):
        return None
    version = tuple(int(part) for part in parts)
    wanted = next((release for known, release in sorted(SHIPPED.items(), reverse=True) if known <= version), None)
    if wanted is None or tool.release >= wanted:
        return None
    release = ".".join(map(str, wanted))
    return f"nsys {tool.version} is older than CUDA {cuda}'s own {release}: kernels may be missing; install {release} or later"
