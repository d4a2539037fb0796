"""TensorFlow as used by both workloads and scripts: its versions, the settings in force, and its own profiler.

The profiler records each operator with its full name, thread and time. It runs in the kernels pass only: at every level it
slows networks of many small operators by 12% or more, which a layers pass must not.
"""

import importlib
import os
import sys
import tempfile
from typing import Any, Dict, List, Optional

from kernelscope.tracer.inside.frameworks import keras, xspace
from kernelscope.tracer.inside.frameworks.unprinted import Unprinted
from kernelscope.tracer.inside.frameworks.workload import cores, versions_of
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

# 2 records the operators that TensorFlow's executor considers expensive (above about 8000 cycles by its own estimate), 3 all of
# them; TensorFlow 2.21 accepts this option but always records at level 2
HOST_TRACER_LEVEL = 3
# messages that the profiler writes to stderr when it starts and stops
REMARKS = (
    rb"^.*\b(\w*profiler\w*|\w*tracer\w*|session_manager|save_profile|cupti\w*|xplane\w*)\.cc:\d+\].*\n"
    rb"|^WARNING: All log messages before absl::.*\n"
)
# methods of a tensor that return its value
READING = ("numpy", "__array__", "__float__", "__int__", "__bool__", "__index__")


class Library(object):
    """The imported TensorFlow. sharing: how many devices of this process share its thread pools.

    eager: "step" and "model" -> whether its Python code last ran outside any graph. jit_compiled: whether a function was
    compiled with XLA.
    """

    def __init__(self, tf: Any, sharing: int = 1) -> None:
        self.tf = tf
        self.sharing = sharing
        self.eager: Dict[Any, Any] = {}
        self.jit_compiled = False
        self.function_class = type(tf.function(lambda: None))  # the class is not public, its instances are
        self._profile: Any = None

    def versions(self) -> Dict[str, Any]:
        """Return the versions of TensorFlow, Keras and numpy, and of CUDA and cuDNN if the build has them.

        oneDNN's version is missing here: only its verbose header gives it, and the reader of those lines takes it from there.
        """
        found = versions_of("tensorflow", "keras", "numpy")
        build = self.tf.sysconfig.get_build_info()
        keys = (("cuda", "cuda_version"), ("cudnn", "cudnn_version"))
        found.update({name: str(build[key]) for name, key in keys if build.get("is_cuda_build") and build.get(key)})
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the settings in force that can affect speed or results, and Keras's if it is in use."""
        tf = self.tf
        found = {
            "threads": tf.config.threading.get_intra_op_parallelism_threads() // self.sharing,
            "interop_threads": tf.config.threading.get_inter_op_parallelism_threads() // self.sharing,
            "cores": cores(),
            "onednn": _onednn_enabled(),
            "xla_jit": tf.config.optimizer.get_jit() or ("jit_compile" if self.jit_compiled else "off"),
            "execution": self._execution(),
            "tf32_matmul": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
            "tf32_cudnn": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
            "deterministic_algorithms": os.environ.get("TF_DETERMINISTIC_OPS", "0") in ("1", "true")
            or bool(_determinism_enabled()),
            "graph_optimizers": {name: bool(on) for name, on in sorted(_optimizer_options(tf).items())},
        }
        found.update(keras.settings(sys.modules.get("keras")))
        return found

    def _execution(self) -> str:
        """Return whether steps were seen to run eagerly; before any ran, what is configured."""
        if self.tf.config.functions_run_eagerly():
            return "eager"
        step, model = self.eager.get("step"), self.eager.get("model")
        if step is None:
            step = model
        if not step:
            return "graph (tf.function)"
        return "eager, model in tf.function" if model is False else "eager"

    def start_profiler(self, on_gpu: bool) -> None:
        """Start the profiler. on_gpu: also record a GPU's kernels; no other collector may then use CUPTI."""
        profiler = self.tf.profiler.experimental
        options = profiler.ProfilerOptions(
            host_tracer_level=HOST_TRACER_LEVEL, python_tracer_level=0, device_tracer_level=int(on_gpu)
        )
        profile = tempfile.mkdtemp(prefix="kernelscope-")
        try:
            with Unprinted(REMARKS):
                profiler.start(profile, options=options)
        except Exception:
            os.rmdir(profile)
            raise
        self._profile = profile

    def stop_profiler(self, folder: str) -> List[str]:
        """Stop the profiler if it runs and keep its trace in a folder; return its files' names."""
        profile, self._profile = self._profile, None
        if profile is None:
            return []
        with Unprinted(REMARKS):
            self.tf.profiler.experimental.stop()
        return xspace.keep(profile, folder)

    def range_reading(self, patches: Patches, recorder: Recorder) -> None:
        """Put ranges around the methods of a tensor that return its value."""
        tensor = type(self.tf.constant(0.0))
        for name in READING:
            owner = next((cls for cls in tensor.__mro__ if name in cls.__dict__), None)
            if owner is not None and owner is not object:
                patches.wrap(owner, name, recorder.around("sync", "read", "other"))


def _determinism_enabled() -> bool:
    """Return whether deterministic operators are on; the getter is not part of the public interface."""
    try:
        from tensorflow.python.framework.config import is_op_determinism_enabled
    except ImportError:
        return False
    return is_op_determinism_enabled()


def _onednn_enabled() -> Optional[bool]:
    """Return whether oneDNN's operators replace TensorFlow's own; None if this version cannot tell.

    If TF_ENABLE_ONEDNN_OPTS is unset, TensorFlow decides by processor: those without AVX512-VNNI or newer do not use them.
    """
    for name in ("tensorflow.python.util._pywrap_util_port", "tensorflow.python._pywrap_util_port"):
        try:
            return bool(importlib.import_module(name).IsMklEnabled())
        except (ImportError, AttributeError):
            continue
    return None


def _optimizer_options(tf: Any) -> Dict[str, bool]:
    """Return the graph optimizers that were explicitly switched on or off."""
    return {name: on for name, on in tf.config.optimizer.get_experimental_options().items() if isinstance(on, bool)}
