"""The machine and the settings that a measurement was made under, and what of the environment may be written down."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

# Only these environment variables are ever recorded: profilers that record all of them have published people's tokens.
RECORDED_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_VISIBLE_DEVICES", "DNNL_MAX_CPU_ISA", "DNNL_VERBOSE", "DNNL_VERBOSE_TIMESTAMP",
    "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "KMP_BLOCKTIME", "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_", "MKLDNN_VERBOSE", "MKL_DYNAMIC", "MKL_NUM_THREADS", "MKL_VERBOSE",
    "MXNET_CUDNN_AUTOTUNE_DEFAULT", "MXNET_ENGINE_TYPE", "MXNET_EXEC_BULK_EXEC_INFERENCE", "MXNET_EXEC_BULK_EXEC_TRAIN",
    "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "OMP_WAIT_POLICY", "ONEDNN_MAX_CPU_ISA",
    "ONEDNN_VERBOSE", "ONEDNN_VERBOSE_TIMESTAMP", "TF_DETERMINISTIC_OPS", "TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "XLA_FLAGS",
)  # fmt: skip


def recorded(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may be written down and are set."""
    return {name: variables[name] for name in RECORDED_VARIABLES if name in variables}


def machine() -> dict[str, Any]:
    """Return what the machine is: processor, cores, memory, operating system; no host or user name."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "allowed_threads": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


def without_home(text: str) -> str:
    """Return the text with the home folder written as ~: run folders are passed on, user names are not."""
    home = str(Path.home())
    return text.replace(home + os.sep, "~" + os.sep) if home not in ("/", "") else text
