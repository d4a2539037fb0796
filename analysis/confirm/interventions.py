"""What can be changed in a program without touching its source: environment variables, and changes in its own process.

`changes` are names of `tracer.inside.changes`; `topics` are those of advice (analysis.advise) and of causes (analysis.explain)
that a change answers. GENERAL changes are tried on every program: they are settings of the process, and no rule can predict
whether they help.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kernelscope.analysis.explain.causes import (
    attention,
    execution,
    input_pipeline,
    launches,
    memory,
    precision,
    python,
    synchronisation,
    threads,
)

PYTORCH, TENSORFLOW, MXNET, JAX, CNTK = "pytorch", "tensorflow", "mxnet", "jax", "cntk"
ONE_NODE, WIDE_VECTORS = "one-node", "wide-vectors"
_NODES = Path("/sys/devices/system/node")  # memory nodes: machines with several sockets have several
_PROCESSORS = Path("/proc/cpuinfo")
SEPARATORS = {"XLA_FLAGS": " ", "PYTORCH_CUDA_ALLOC_CONF": ",", "MALLOC_CONF": ","}  # of variables that hold several settings
GENERAL = "settings"  # the topic of changes that are tried on every program
# Changes that record losses or outputs, which results are compared by
VALUES = {
    PYTORCH: ("pytorch:values",),
    TENSORFLOW: ("tensorflow:values", "keras:values"),
    MXNET: ("mxnet:values",),
    JAX: ("jax:values",),
}


@dataclass(frozen=True)
class Intervention:
    """One change.

    name: its name on the command line and in tables. frameworks: those that have it, none for all. topics: of findings that it
    answers. keep: the line that makes it permanent. changes, variables: how it is made. results: why results differ; empty if
    they must stay the same. bound: it is not a remedy, and only shows the most that could be gained. word: a finding's title
    must contain it for this change to be the answer, if the topic has several remedies. cores: it removes threads or ties them
    to cores, so next to busy processes it may help only because of them. already: a setting, and how its value begins, of
    workloads that have the change already.
    """

    name: str
    frameworks: tuple[str, ...]
    topics: tuple[str, ...]
    keep: str
    changes: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    results: str = ""
    bound: bool = False
    word: str = ""
    cores: bool = False
    already: tuple[str, str] = ("", "")

    def made(self, settings: Mapping[str, object]) -> bool:
        """Return whether a workload with these settings has the change already."""
        name, value = self.already
        return bool(name) and str(settings.get(name, "")).startswith(value)

    def answers(self, topic: str, title: str) -> bool:
        """Return whether it is a remedy for a finding."""
        return topic in self.topics and self.word in title.lower()


def _setting(
    name: str, frameworks: tuple[str, ...], topics: tuple[str, ...], variables: Mapping[str, str], cores: bool = False
) -> Intervention:
    """Return a change of environment variables; setting them makes it permanent."""
    keep = " ".join(f"{variable}={value}" for variable, value in variables.items())
    return Intervention(name, frameworks, topics, keep, variables=variables, cores=cores)


_HEAP = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
_ONE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_BOUND = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}  # threads stay on their cores, and near their memory
_BULK = {"MXNET_EXEC_BULK_EXEC_TRAIN": "1", "MXNET_EXEC_BULK_EXEC_INFERENCE": "1", "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN": "15"}
_TORCH, _TF, _MX, _JAX = (PYTORCH,), (TENSORFLOW,), (MXNET,), (JAX,)
_EAGER = ("dispatch", "host-bound", "python", "small kernels", execution.CAUSE, python.CAUSE, launches.CAUSE)
_FUSION = ("fusion", "unfused elementwise chain", "unfused bias or activation")
_DEBUGGING = ("debugging mode", "execution settings")
_INPUT = (input_pipeline.CAUSE,)  # advice has the same topic
_OPTIMIZER = ("optimizer", "optimizer implementation")
_PRECISION = ("mixed precision", "tensor cores", precision.CAUSE)
_DOUBLE = ("double precision", precision.CAUSE)
_THREADS = ("threads", "oversubscribed cores", threads.CAUSE, threads.IDLE_CAUSE)
_ONEDNN = ("oneDNN", "library switched off")
_LIBRARY, _CONVOLUTION = "slower library", "convolution algorithm"
_LAYOUTS, _RECOMPUTATION = "layout conversions", "recomputation"
_ALLOCATING = ("allocator", memory.ALLOCATOR)
_SILENT = ("python", "host-bound", python.CAUSE)

INTERVENTIONS = (
    Intervention("compiled-model", _TORCH, (*_FUSION, *_EAGER, _LIBRARY, "attention", attention.CAUSE), "model.compile()",
                 ("pytorch:compiled",)),
    Intervention("channels-last", _TORCH, ("layout", _LAYOUTS, _LIBRARY, _CONVOLUTION),
                 "model.to(memory_format=torch.channels_last)", ("pytorch:channels last",),
                 already=("memory_format", "channels last")),
    Intervention("fused-optimizer", _TORCH, _OPTIMIZER, "torch.optim.Adam(..., fused=True)", ("pytorch:fused optimizer",)),
    Intervention("foreach-optimizer", _TORCH, _OPTIMIZER, "torch.optim.Adam(..., foreach=True)", ("pytorch:foreach optimizer",)),
    Intervention("inference-mode", _TORCH, ("autograd", "dispatch", "host-bound"), "with torch.inference_mode():",
                 ("pytorch:inference mode",)),
    Intervention("no-anomaly-detection", _TORCH, _DEBUGGING, "torch.autograd.set_detect_anomaly(False)",
                 ("pytorch:no checks",), word="anomaly"),
    Intervention("no-deterministic-algorithms", _TORCH, _DEBUGGING, "torch.use_deterministic_algorithms(False)",
                 ("pytorch:not deterministic",), word="deterministic"),
    Intervention("no-checkpoints", _TORCH, (_RECOMPUTATION,), "call the layers without torch.utils.checkpoint",
                 ("pytorch:no checkpoints",)),
    Intervention("all-cores", _TORCH, _THREADS, "torch.set_num_threads(len(os.sched_getaffinity(0)))", ("pytorch:all cores",)),
    Intervention("onednn-on", _TORCH, _ONEDNN, "torch.backends.mkldnn.enabled = True", ("pytorch:onednn",)),
    Intervention("loader-workers", _TORCH, _INPUT, "DataLoader(..., num_workers=2, persistent_workers=True)",
                 ("pytorch:workers",)),
    Intervention("single-precision", _TORCH, _DOUBLE, "remove .double() and torch.float64", ("pytorch:single precision",),
                 results="it computes in single precision"),
    Intervention("bfloat16", _TORCH, _PRECISION, "with torch.autocast(device_type, dtype=torch.bfloat16):", ("pytorch:bfloat16",),
                 results="models compute in bfloat16"),
    Intervention("tf32", _TORCH, ("tensor cores", precision.CAUSE), "torch.backends.cuda.matmul.allow_tf32 = True",
                 ("pytorch:tf32",), results="products are computed in TF32"),
    Intervention("cudnn-benchmark", _TORCH, (_CONVOLUTION,), "torch.backends.cudnn.benchmark = True",
                 ("pytorch:cudnn benchmark",)),
    Intervention("pinned-batches", _TORCH, ("copies",), "DataLoader(..., pin_memory=True)", ("pytorch:pinned batches",)),
    Intervention("gradients-let-go", _TORCH, ("zeroed gradients",), "optimizer.zero_grad(set_to_none=True)",
                 ("pytorch:gradients let go",)),
    _setting("expandable-memory", _TORCH, _ALLOCATING, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    Intervention("one-batch", _TORCH, (*_INPUT, "loop over samples"), "", ("pytorch:one batch",),
                 results="every step gets the same batch", bound=True),
    *(Intervention("silent", (one,), _SILENT, "", (f"{one}:silent",), bound=True) for one in (PYTORCH, MXNET, JAX, CNTK)),
    Intervention("silent", _TF, _SILENT, "", ("tensorflow:silent", "keras:silent"), bound=True),
    Intervention("no-synchronisation", _TORCH, (synchronisation.CAUSE,), "",
                 ("pytorch:no synchronisation",), bound=True),
    Intervention("single-precision", _TF, _DOUBLE, "keras.config.set_floatx('float32')", ("keras:single precision",),
                 results="it computes in single precision"),
    Intervention("bfloat16", _TF, _PRECISION, "keras.mixed_precision.set_global_policy('mixed_bfloat16')", ("keras:bfloat16",),
                 results="models compute in bfloat16"),
    Intervention("graphs", _TF, _EAGER, "model.compile(..., run_eagerly=False)", ("tensorflow:graphs", "keras:graphs"),
                 already=("execution", "graph")),
    Intervention("xla", _TF, (*_FUSION, *_EAGER, _LIBRARY), "model.compile(..., jit_compile=True)",
                 ("tensorflow:compiled", "keras:compiled"), already=("xla_jit", "jit_compile")),
    Intervention("parallel-input", _TF, _INPUT, "dataset.map(f, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)",
                 ("tensorflow:parallel input",)),
    Intervention("cached-input", _TF, _INPUT, "dataset.batch(n).cache()", ("tensorflow:cached input",),
                 results="every epoch has the same batches"),
    _setting("asynchronous-memory", _TF, _ALLOCATING, {"TF_GPU_ALLOCATOR": "cuda_malloc_async"}),
    Intervention("one-batch", _TF, _INPUT, "", ("tensorflow:one batch",), results="every step gets the same batch", bound=True),
    _setting("onednn-on", _TF, _ONEDNN, {"TF_ENABLE_ONEDNN_OPTS": "1"}),
    Intervention("hybridized", _MX, (*_FUSION, *_EAGER, _LAYOUTS), "net.hybridize(static_alloc=True, static_shape=True)",
                 ("mxnet:hybridized",), already=("execution", "hybridized")),
    _setting("no-mirror", _MX, (_RECOMPUTATION,), {"MXNET_BACKWARD_DO_MIRROR": "0", "MXNET_MEMORY_OPT": "0"}),
    _setting("aggregated-updates", _MX, _OPTIMIZER, {"MXNET_OPTIMIZER_AGGREGATION_SIZE": "45"}),
    _setting("bulk-execution", _MX, _DEBUGGING, _BULK),
    _setting("engine-threads", _MX, _THREADS, {"MXNET_CPU_WORKER_NTHREADS": str(len(os.sched_getaffinity(0)))}),
    _setting("onednn-on", _MX, _ONEDNN, {"MXNET_MKLDNN_ENABLED": "1", "MXNET_ONEDNN_ENABLED": "1"}),
    _setting("hidden-communication", _JAX, ("communication",), {"XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true"}),
    Intervention("jit-on", _JAX, _EAGER, "jax.config.update('jax_disable_jit', False)", ("jax:compiled",),
                 {"JAX_DISABLE_JIT": "0"}),
    Intervention("jitted-gradients", _JAX, _EAGER, "jax.jit(jax.value_and_grad(f))", ("jax:compiled gradients",)),
    Intervention("single-precision", _JAX, _DOUBLE, "jax.config.update('jax_enable_x64', False)", ("jax:single precision",),
                 {"JAX_ENABLE_X64": "0"}, results="it computes in single precision"),
    _setting(WIDE_VECTORS, _JAX, (GENERAL,), {"XLA_FLAGS": "--xla_cpu_prefer_vector_width=512"}),
    Intervention("fast-math", _JAX, _FUSION, "XLA_FLAGS=--xla_cpu_enable_fast_math=true",
                 variables={"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}, results="arithmetic is reordered and approximate"),
    Intervention("donation", _JAX, ("copies within the device", "extra copies"), "jax.jit(step, donate_argnums=(0,))",
                 ("jax:donated",)),
    Intervention("no-tracing", (CNTK,), _DEBUGGING, "cntk.logging.set_computation_network_trace_level(0)", ("cntk:untraced",)),
    Intervention("plain-learner", (CNTK,), _OPTIMIZER, "", ("cntk:plain learners",),
                 results="parameters are updated by plain SGD", bound=True),
    _setting("bound-threads", (), _THREADS, _BOUND, True),
    Intervention(ONE_NODE, (), (GENERAL,), "numactl --cpunodebind=0 --membind=0",
                 tuple(f"{family}:one node" for family in (PYTORCH, TENSORFLOW, MXNET, JAX, CNTK))),
    Intervention("all-instructions", (), ("older instruction set",), "unset ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA",
                 variables={"ONEDNN_MAX_CPU_ISA": "DEFAULT", "DNNL_MAX_CPU_ISA": "DEFAULT"}),
    Intervention("asynchronous-launches", (), _DEBUGGING, "unset CUDA_LAUNCH_BLOCKING",
                 variables={"CUDA_LAUNCH_BLOCKING": "0"}, word="cuda_launch_blocking"),
    _setting("one-thread", (PYTORCH, MXNET, CNTK), (GENERAL,), _ONE, True),
    _setting("one-thread", _TF, (GENERAL,), _ONE | {"TF_NUM_INTRAOP_THREADS": "1"}, True),
    _setting("one-thread", _JAX, (GENERAL,), {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}, True),
    _setting("kept-heap", (), (GENERAL, "heap"), _HEAP),
    _setting("sleeping-threads", (), (GENERAL,), {"OMP_WAIT_POLICY": "passive"}, True),
)  # fmt: skip
# Allocators that replace the C library's: their names and libraries
_HEAPS = {"jemalloc": "jemalloc", "tcmalloc": "tcmalloc_minimal", "mimalloc": "mimalloc"}
# Does nothing: its verdict shows how far verdicts can be trusted. It is only tried when named
NOTHING = _setting("nothing", (), (), {"KERNELSCOPE_NOTHING": "1"})


@cache
def heaps() -> tuple[Intervention, ...]:
    """Return the changes that replace the C library's allocator, one for each allocator installed on this machine."""
    found = {name: find_library(library) for name, library in _HEAPS.items()}
    return tuple(_setting(name, (), (GENERAL,), {"LD_PRELOAD": file}) for name, file in found.items() if file is not None)


def combined(variables: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with more of them; those that hold several settings keep theirs, of two values the later counts."""
    both = {
        name: variables[name] + SEPARATORS[name] + value
        for name, value in more.items()
        if name in SEPARATORS and variables.get(name)
    }
    return {**variables, **more, **both}


def of_framework(framework: str) -> list[Intervention]:
    """Return the changes that a framework has; Keras has those of the framework that computes."""
    every = (*INTERVENTIONS, *heaps(), NOTHING)
    lacking = {name for name, there in ((ONE_NODE, _several_nodes()), (WIDE_VECTORS, _wide_vectors())) if not there}
    mine = (one for one in every if not one.frameworks or _family(framework) in one.frameworks)
    return [one for one in mine if one.name not in lacking]


def _several_nodes() -> bool:
    return len(list(_NODES.glob("node[0-9]*"))) > 1


def _wide_vectors() -> bool:
    """Return whether processors here have vectors of 512 bits (AVX-512), of which XLA uses half unless it is told."""
    return _PROCESSORS.is_file() and " avx512f " in _PROCESSORS.read_text(encoding="utf8", errors="replace")


def noting(framework: str) -> tuple[str, ...]:
    """Return the changes that record what programs of a framework compute; none if that cannot be seen."""
    return VALUES.get(_family(framework), ())


def _family(framework: str) -> str:
    name = framework.rpartition("-")[2]
    return PYTORCH if name == "torch" else name


def known() -> list[str]:
    """Return the names of all interventions, those of allocators that are not installed, too."""
    return list(dict.fromkeys(one.name for one in (*INTERVENTIONS, NOTHING))) + list(_HEAPS)
