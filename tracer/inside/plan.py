"""What a run consists of: its passes, their order, and what children are given. Shared by all that start children."""

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

PASSES = ("check", "clean", "layers", "kernels", "lines")
REPEATED = ("clean", "kernels")  # times are compared: the clean pass for its interval, the kernels one to choose among
WHOLE = "whole"  # the mode of a program without steps: all of it is one
WINDOW_STEPS = 5  # steps of one turn: short against the machine's drift, long against the switch between children
HOST_BATCHES = 8  # distinct batches that are cycled through
# In steady conditions the clean pass goes on until a restart has measured so much of each side, or has so many windows: of LeNet
# against itself, six windows a restart left medians 2% apart, sixty 0.3%, and starting the processes takes longer than either.
STEADY_NS = 2000000000
STEADY_WINDOWS = 100
WARMUP_S = 30.0  # a loop that is not steady by then is measured as it is, and said to be unsteady
RUN_SCHEMA = "kernelscope/run/1"

# The C library's allocator gives memory back and faults it in again each step; spinning threads disturb whoever runs next.
STEADY_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_WAIT_POLICY": "passive",
}

# The variable that says how many threads compute, where it is not OpenMP's.
THREADS_VARIABLE = {
    "tensorflow": "TF_NUM_INTRAOP_THREADS",
    "keras-tensorflow": "TF_NUM_INTRAOP_THREADS",
    "jax": "NPROC",
    "keras-jax": "NPROC",
}

# Only these environment variables are ever recorded: profilers that record all of them have published people's tokens.
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
    """Return (pass, repeat) in the order in which they run, repeats counted from 1; passes: those that are wanted.

    The passes of one repeat stand together: machines drift over minutes, and what was recorded is put beside what was clean.
    """
    planned = []
    for number in range(1, repeats + 1):
        planned += [(name, number) for name in PASSES[:-1] if number == 1 or name in REPEATED]
    return [(name, number) for name, number in planned + [(PASSES[-1], 1)] if name in passes]


def windows(steps: int) -> List[int]:
    """Return the number of steps of each window of one repeat of a pass."""
    whole, rest = divmod(steps, WINDOW_STEPS)
    return [WINDOW_STEPS] * whole + ([rest] if rest else [])


def window(planned: List[int], number: int, measured_ns: float, name: str, steady: bool) -> int:
    """Return the number of steps of the next window, the one of this number; 0 when the pass of this name has had enough.

    planned: as `windows` gives them. measured_ns: what the steps before took, of a side on average.
    """
    if number < len(planned):
        return planned[number]
    more = steady and name == "clean" and measured_ns < STEADY_NS and number < STEADY_WINDOWS
    return WINDOW_STEPS if more else 0


def child_variables(environ: Mapping[str, str], threads: Optional[int], device: str, steady: bool = False) -> Dict[str, str]:
    """Return the environment that every child starts from: `environ` without what redirects imports, with what was asked for."""
    variables = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    variables.update({"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1"})
    if steady:
        variables.update(STEADY_VARIABLES)
    if device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = ""
    return variables
