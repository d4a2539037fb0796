"""JAX in our workloads: ranges around compiled calls, XLA's profiler for the work inside them, and the settings that matter.

Python runs a jitted function once, to trace it. A step then executes XLA operations. The profiler records each with its thread
and time, and also the compiled programs, in which every operation carries the scopes of its source code
(`jit(train_step)/transpose(jvp(conv1))/dot_general`). So layers come from `jax.named_scope`, or from libraries that set it.

The ranges here give the rest: "call" is the time in a jitted function (execution continues after it returns), "sync" is waiting
for a value.
"""

import functools
import os
import sys
from typing import Any, Callable, Dict, List

from kernelscope.tracer.inside.frameworks.jax.library import Library
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import sharing
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

_RANGED = "_kernelscope"  # on a wrapper of a jitted function


class Hooks(Base):
    """The hooks of a pass over a JAX workload."""

    VARIABLES = {"TF_CPP_MIN_LOG_LEVEL": "2"}

    def configure(self) -> None:
        """Set the platform and XLA's thread pool size, which are read on first use, and import JAX."""
        os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu" if self.on_gpu else "cpu")
        # by default it takes three quarters of the GPU's memory at once, too much for the frameworks it is compared with
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if self.spec.get("threads"):
            os.environ["NPROC"] = str(self.spec["threads"] * sharing(self.spec))
        import jax

        self.library = Library(jax, sharing(self.spec))
        if self.kernels:
            jax.config.update("jax_traceback_in_locations_limit", 0)  # keeps file paths out of the recorded programs

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around every call of a jitted function and around array reads; return how layers are found."""
        self._range_calls(program)
        self.library.range_reading(Patches(), self.recorder)
        if not self.kernels:
            hidden = "none: Python does not see into a compiled function; the kernels pass finds them by operations' scopes"
            return {"layers": hidden, "phases": "calls of jitted functions and reading of arrays only"}
        return {
            "layers": "scopes of XLA's operations (jax.named_scope); those without one from their neighbours in the program",
            "phases": "jvp and transpose in the scopes of XLA's operations",
        }

    def _range_calls(self, owner: Any) -> None:
        """Wrap in ranges the jitted functions of an object, its classes and its class's module."""
        jitted = type(self.library.jax.jit(lambda value: value))
        places = [owner, *type(owner).__mro__[:-1], sys.modules[type(owner).__module__]]
        for place in places:
            for name, value in list(vars(place).items()):
                if isinstance(value, jitted) and not hasattr(value, _RANGED):
                    setattr(place, name, _Ranged(value, self.recorder))

    def start_operators(self, program: Any) -> None:
        """Start the profiler, except on a GPU if another collector uses CUPTI, which the profiler needs."""
        if not self.on_gpu or self.spec.get("device_profiler") is not False:
            self.library.start_profiler()

    def stop_operators(self) -> List[str]:
        """Stop the profiler; keep its trace in the pass's folder and return its files' names."""
        return self.library.stop_profiler(self.spec["folder"])


class _Ranged(object):
    """A jitted function whose calls have a range; all other attributes are the function's own."""

    def __init__(self, function: Callable[..., Any], recorder: Recorder) -> None:
        setattr(self, _RANGED, True)
        self._function = function
        self._call = recorder.around("phase", "call", "other")(function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._call(*arguments, **keywords)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self._call, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)
