"""JAX as used by both workloads and scripts: its versions, the settings in force, XLA's profiler, and array reads."""

import os
import sys
import tempfile
from typing import Any, Callable, Dict, List

from kernelscope.tracer.inside.frameworks import xspace
from kernelscope.tracer.inside.frameworks.workload import cores, versions_of
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

HOST_TRACER_LEVEL = 2  # XLA's operations; 3 adds events of its thread pools
# methods of an array that return its value or wait for it
READING = ("__array__", "__float__", "__int__", "__bool__", "__index__", "item", "tolist", "block_until_ready")
# numpy functions that read an array through the buffer protocol, bypassing its methods
NUMPY_READING = ("asarray", "asanyarray", "array", "ascontiguousarray")


class Library(object):
    """The imported JAX. sharing: how many devices of this process share XLA's thread pool."""

    def __init__(self, jax: Any, sharing: int = 1) -> None:
        self.jax = jax
        self.sharing = sharing
        self._profile: Any = None  # folder of the profiler's trace
        self._session: Any = None  # or the profiler itself, if JAX has no public way to set what it records

    def versions(self) -> Dict[str, Any]:
        """Return the versions of JAX, its compiled part, numpy and the model and optimizer libraries."""
        return versions_of("jax", "jaxlib", "numpy", "optax", "flax", "keras")

    def settings(self) -> Dict[str, Any]:
        """Return the settings in force that can affect speed or results."""
        config = self.jax.config
        pool = int(os.environ.get("NPROC") or 0) or cores()
        return {
            "threads": pool and pool // self.sharing,
            "cores": cores(),
            "execution": "eager" if config.jax_disable_jit else "compiled: jax.jit (XLA)",
            "default_dtype": "float64" if config.jax_enable_x64 else "float32",
            "matmul_precision": str(config.jax_default_matmul_precision or "default"),
            "debug_nans": bool(config.jax_debug_nans),
            "platform": self.jax.default_backend(),
            "xla_flags": os.environ.get("XLA_FLAGS"),
        }

    def start_profiler(self) -> None:
        """Start XLA's profiler without its Python events."""
        profiler = self.jax.profiler
        if hasattr(profiler, "ProfileOptions"):
            profile = tempfile.mkdtemp(prefix="kernelscope-")
            profiler.start_trace(profile, profiler_options=_without_python(profiler.ProfileOptions()))
            self._profile = profile
        else:
            self._session = _session()

    def stop_profiler(self, folder: str) -> List[str]:
        """Stop the profiler if it runs and keep its trace without the host name; return its files' names."""
        profile, session = self._profile, self._session
        self._profile = self._session = None
        if session is not None:
            return xspace.write(session.stop(), folder)
        if profile is None:
            return []
        self.jax.profiler.stop_trace()
        return xspace.keep(profile, folder)

    def range_reading(self, patches: Patches, recorder: Recorder) -> None:
        """Put ranges around the methods of an array that wait for its value, and around numpy functions that read it."""
        array, reading = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None), recorder.around("sync", "read", "other")
        for name in READING:
            if hasattr(array, name):  # without functools.wraps: JAX's compiled functions have names that are not plain strings
                patches.set(array, name, reading(getattr(array, name)))
        for name in NUMPY_READING if array is not None else ():
            patches.wrap(sys.modules["numpy"], name, lambda original: _of_arrays(array, original, reading(original)))


def _of_arrays(array: Any, original: Callable[..., Any], ranged: Any) -> Callable[..., Any]:
    """Return a numpy function that opens a range if its argument is an array of this class."""

    def read(*arguments: Any, **keywords: Any) -> Any:
        return (ranged if arguments and isinstance(arguments[0], array) else original)(*arguments, **keywords)

    return read


def _without_python(options: Any) -> Any:
    """Make the profiler record operations but not Python, which is expensive."""
    options.host_tracer_level, options.python_tracer_level = HOST_TRACER_LEVEL, 0
    return options


def _session() -> Any:
    """Start the profiler of a JAX without jax.profiler.ProfileOptions; raise RuntimeError if one is already running."""
    module = sys.modules["jax._src.profiler"]
    if module._profile_state.profile_session is not None:
        raise RuntimeError("the script uses jax.profiler itself, and only one can run")
    profiler = module.xla_client.profiler
    return profiler.ProfilerSession(_without_python(profiler.ProfileOptions()))
