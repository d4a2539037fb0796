"""The part shared by workloads and scripts: MXNet's versions and settings, mx.profiler, and waiting for the engine."""

import contextlib
import mmap
import re
from typing import Any, Dict, List, Optional

from kernelscope.tracer.inside.frameworks.workload import cores, versions_of
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.packing import pack
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

TRACE_FILE = "operators.mxnet.json"
SYNCHRONISING = ("asnumpy", "wait_to_read")  # methods of an array that wait for its value; asscalar calls asnumpy
# the most nodes of a graph that run as one; in training, each direction has its own variable, which takes precedence
_BULK_NODES = (
    "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN",
    "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD",
    "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_BWD",
)
_ONEDNN_BANNER = b"dnnl_verbose,info,oneDNN v%d"


class Library(object):
    """MXNet as it was imported. hybridized: (outermost block, its options; None if it does not run as a graph)."""

    def __init__(self, mx: Any) -> None:
        self.mx = mx
        self.hybridized: List[Any] = []

    def versions(self) -> Dict[str, Any]:
        """Return the versions of MXNet and numpy, and the commit of the bundled oneDNN, which has no version number."""
        found = versions_of("mxnet", "numpy")
        onednn = _onednn_commit(self.mx.libinfo.find_lib_path()[0])
        if onednn:
            found["onednn"] = "commit " + onednn[:12]
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
        features = self.mx.runtime.Features()
        variable = os.environ.get
        return {
            "threads": int(variable("OMP_NUM_THREADS", "0")) or None,
            "cores": cores(),
            "engine": variable("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
            "engine_workers": int(variable("MXNET_CPU_WORKER_NTHREADS", "1")),
            "bulk_execution_train": variable("MXNET_EXEC_BULK_EXEC_TRAIN", "1") != "0",
            "bulk_execution_inference": variable("MXNET_EXEC_BULK_EXEC_INFERENCE", "1") != "0",
            "bulk_execution_nodes": _bulk_nodes(),
            "bulk_size": self._bulk_size(),
            "onednn": features.is_enabled("MKLDNN") and variable("MXNET_MKLDNN_ENABLED", "1") != "0",
            "blas": [name for name in ("BLAS_MKL", "BLAS_OPEN", "BLAS_ATLAS", "BLAS_APPLE") if features.is_enabled(name)],
            "default_dtype": "float32",
            "memory_format": "channels first",
            "cudnn_autotune": variable("MXNET_CUDNN_AUTOTUNE_DEFAULT", "1") if features.is_enabled("CUDNN") else None,
            "tf32": variable("NVIDIA_TF32_OVERRIDE", "1") != "0" if features.is_enabled("CUDA") else None,
            "execution": self._execution(),
        }

    def _execution(self) -> str:
        """Return "imperative" or "hybridized"; the latter with the options that decide how much is planned ahead.

        If hybridize() was called on several blocks, the one with most parameters is the network.
        """
        if not self.hybridized:
            return "imperative"
        options = max(self.hybridized, key=lambda pair: len(pair[0].collect_params().keys()))[1]
        if options is None:
            return "imperative"
        return " ".join(["hybridized"] + ["%s=%s" % pair for pair in sorted(options.items())])

    def _bulk_size(self) -> int:
        """Return how many imperative operators this thread's engine runs as one. It can only be read by setting it briefly."""
        set_bulk_size = self.mx.engine.set_bulk_size
        size = set_bulk_size(0)
        set_bulk_size(size)
        return size

    def start_profiler(self, folder: str) -> None:
        """Start mx.profiler once the queue is empty; `stop_profiler` writes its trace to this folder."""
        mx = self.mx
        mx.profiler.set_config(
            profile_symbolic=True,
            profile_imperative=True,
            profile_memory=False,
            profile_api=False,
            continuous_dump=False,
            aggregate_stats=False,
            filename=os.path.join(folder, TRACE_FILE),
        )
        mx.nd.waitall()
        mx.profiler.set_state("run")

    def stop_profiler(self, folder: str) -> str:
        """Stop the profiler and write its trace, compressed; return the file's name."""
        mx = self.mx
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        return os.path.basename(pack(os.path.join(folder, TRACE_FILE), 3))

    def range_waiting(self, patches: Patches, recorder: Recorder) -> None:
        """Put ranges around the functions that wait for the engine."""
        for owner, name in [(self.mx.nd.NDArray, name) for name in SYNCHRONISING] + [(self.mx.nd, "waitall")]:
            patches.wrap(owner, name, recorder.around("sync", name, "other"))


def _bulk_nodes() -> Optional[str]:
    """Return the variables' values for how many nodes of a graph run as one, as text; None if none is set."""
    values = [os.environ.get(name) for name in _BULK_NODES]
    return None if values == [None] * len(values) else " ".join(value or "default" for value in values)


def _onednn_commit(path: str) -> Optional[str]:
    """Return the commit of the oneDNN inside the library at `path`, or None. It precedes the text of oneDNN's banner."""
    with open(path, "rb") as library, contextlib.closing(mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ)) as text:
        banner = text.find(_ONEDNN_BANNER)
        match = re.search(rb"([0-9a-f]{40})\0+$", text[max(banner - 64, 0) : banner]) if banner >= 0 else None
    return match.group(1).decode("ascii") if match else None
