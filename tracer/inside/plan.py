"""The plan of a run: its passes, their order, and the children's environment. Shared by everything that starts children."""

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

PASSES = ("check", "clean", "layers", "kernels", "lines")
REPEATED = ("clean", "kernels")  # times are compared: clean passes give an interval, of kernels passes one is chosen
WHOLE = "whole"  # the mode of a program without steps: the whole program is one step
WINDOW_STEPS = 5  # steps per turn: short compared with the machine's drift, long compared with switching children
HOST_BATCHES = 8  # distinct batches that are cycled through
# In steady conditions, the clean pass goes on until a restart has measured each side this long, or for this many windows. With
# LeNet against itself, six windows per restart left medians 2% apart, sixty 0.3%; starting the processes takes longer than
# either.
STEADY_NS = 2000000000
STEADY_WINDOWS = 100
WARMUP_S = 30.0  # a loop that is not steady by then is measured anyway and reported as unsteady
RUN_SCHEMA = "kernelscope/run/1"

# The C library's allocator returns memory and faults it in again each step; spinning threads disturb whoever runs next.
STEADY_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_WAIT_POLICY": "passive",
}

# The variable for the number of computing threads, if it is not OpenMP's.
THREADS_VARIABLE = {
    "tensorflow": "TF_NUM_INTRAOP_THREADS",
    "keras-tensorflow": "TF_NUM_INTRAOP_THREADS",
    "jax": "NPROC",
    "keras-jax": "NPROC",
}

# Only these environment variables are ever recorded: profilers that record all variables have published people's tokens.
RECORDED_VARIABLES = (
    "ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING", "CUDA_VISIBLE_DEVICES", "DNNL_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA",
    "DNNL_PRIMITIVE_CACHE_CAPACITY", "DNNL_VERBOSE", "DNNL_VERBOSE_TIMESTAMP", "GLIBC_TUNABLES", "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT", "KERAS_BACKEND", "KMP_AFFINITY", "KMP_BLOCKTIME", "MALLOC_ARENA_MAX", "MALLOC_CHECK_", "MALLOC_CONF",
    "MALLOC_MMAP_THRESHOLD_", "MALLOC_PERTURB_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_", "MKLDNN_VERBOSE", "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE", "MKL_DYNAMIC", "MKL_ENABLE_INSTRUCTIONS", "MKL_NUM_THREADS", "MKL_THREADING_LAYER", "MKL_VERBOSE",
    "MXNET_BACKWARD_DO_MIRROR", "MXNET_CPU_WORKER_NTHREADS", "MXNET_CUDNN_AUTOTUNE_DEFAULT", "MXNET_ENGINE_TYPE",
    "MXNET_EXEC_BULK_EXEC_INFERENCE", "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN", "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_BWD",
    "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD", "MXNET_EXEC_BULK_EXEC_TRAIN", "MXNET_EXEC_NUM_TEMP", "MXNET_MKLDNN_CACHE_NUM",
    "MXNET_MKLDNN_ENABLED", "MXNET_SUBGRAPH_BACKEND", "MXNET_USE_FUSION", "NPROC", "NVIDIA_TF32_OVERRIDE", "OMP_DYNAMIC",
    "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "OMP_SCHEDULE", "OMP_THREAD_LIMIT", "OMP_WAIT_POLICY",
    "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA", "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "ONEDNN_VERBOSE",
    "ONEDNN_VERBOSE_TIMESTAMP", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE",
    "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONTRACEMALLOC", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_JIT",
    "TF_CUDNN_USE_AUTOTUNE", "TF_DETERMINISTIC_OPS", "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR", "TF_GPU_THREAD_MODE", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS",
    "TORCHDYNAMO_DISABLE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE",
)  # fmt: skip


def order(repeats: int, passes: Sequence[str] = PASSES) -> List[Tuple[str, int]]:
    """Return (pass, repeat) in the order in which they run, with repeats counted from 1. passes: the requested ones.

    The passes of one repeat run together: machines drift over minutes, and recorded passes are compared with clean ones.
    """
    planned = []
    for number in range(1, repeats + 1):
        planned += [(name, number) for name in PASSES[:-1] if number == 1 or name in REPEATED]
    return [(name, number) for name, number in planned + [(PASSES[-1], 1)] if name in passes]


def windows(steps: int) -> List[int]:
    """Return the number of steps in each window of one repeat of a pass."""
    whole, rest = divmod(steps, WINDOW_STEPS)
    return [WINDOW_STEPS] * whole + ([rest] if rest else [])


def window(planned: List[int], number: int, measured_ns: float, name: str, steady: bool) -> int:
    """Return the number of steps in the next window, which has this number; 0 if the pass of this name is done.

    planned: the result of `windows`. measured_ns: how long the steps so far took, on average over the sides.
    """
    if number < len(planned):
        return planned[number]
    more = steady and name == "clean" and measured_ns < STEADY_NS and number < STEADY_WINDOWS
    return WINDOW_STEPS if more else 0


def child_variables(environ: Mapping[str, str], threads: Optional[int], device: str, steady: bool = False) -> Dict[str, str]:
    """Return the environment that every child starts with: `environ` without import paths, plus the requested settings."""
    variables = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    variables.update({"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1"})
    if steady:
        variables.update(STEADY_VARIABLES)
    if device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = ""
    return variables
