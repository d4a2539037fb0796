"""JAX in our workloads: ranges around compiled calls, XLA's profiler for what happens inside them, and the settings that matter.

Python runs a jitted function once, to trace it. What a step then executes are XLA's operations; the profiler records each with
its thread and time, and beside them the compiled programs, in which every operation bears the scopes of the code that it came
from (`jit(train_step)/transpose(jvp(conv1))/dot_general`). So layers come from `jax.named_scope`, or from libraries that set it.

The ranges here tell the rest: "call" is the time in a jitted function (execution goes on after it returned), "sync" is the
waiting for a value.
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
    """What a pass records of JAX."""

    VARIABLES = {"TF_CPP_MIN_LOG_LEVEL": "2"}

    def configure(self) -> None:
        """Set the platform and the size of XLA's thread pool, which it reads when it is first used, and import JAX."""
        os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu" if self.on_gpu else "cpu")
        # by itself it takes three quarters of the GPU's memory at once, and leaves too little for those that it is compared with
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if self.spec.get("threads"):
            os.environ["NPROC"] = str(self.spec["threads"] * sharing(self.spec))
        import jax

        self.library = Library(jax, sharing(self.spec))
        if self.kernels:
            jax.config.update("jax_traceback_in_locations_limit", 0)  # the recorded programs would hold paths of files

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around every call of a jitted function and around the reading of arrays; return how layers are found."""
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
        """Replace the jitted functions that an object has, by itself, its class or its module, by themselves within a range."""
        jitted = type(self.library.jax.jit(lambda value: value))
        places = [owner, *type(owner).__mro__[:-1], sys.modules[type(owner).__module__]]
        for place in places:
            for name, value in list(vars(place).items()):
                if isinstance(value, jitted) and not hasattr(value, _RANGED):
                    setattr(place, name, _Ranged(value, self.recorder))

    def start_operators(self, program: Any) -> None:
        """Start the profiler; not on a GPU where another collector has CUPTI, which it cannot do without."""
        if not self.on_gpu or self.spec.get("device_profiler") is not False:
            self.library.start_profiler()

    def stop_operators(self) -> List[str]:
        """Stop the profiler; keep its trace in the pass's folder and return its file's name."""
        return self.library.stop_profiler(self.spec["folder"])


class _Ranged(object):
    """A jitted function whose calls have a range; everything else is the function's own."""

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
