"""JAX: ranges around compiled calls, XLA's profiler for what happens inside them, and the settings that matter.

Python runs a jitted function once, to trace it. What a step then executes are XLA's operations; the profiler records each with
its thread and time, and beside them the compiled programs, in which every operation bears the scopes of the code that it came
from (`jit(train_step)/transpose(jvp(conv1))/dot_general`). So layers come from `jax.named_scope`, or from libraries that set it.

The ranges here tell the rest: "call" is the time in a jitted function (execution goes on after it returned), "sync" is the
waiting for a value.
"""

import functools
import os
import sys
import tempfile

from kernelscope.tracer.inside import hooks
from kernelscope.tracer.inside.hooks import xspace

HOST_TRACER_LEVEL = 2  # XLA's operations; 3 adds events of its thread pools
# methods of an array that hand out its value, or wait for it
READING = ("__array__", "__float__", "__int__", "__bool__", "__index__", "item", "tolist", "block_until_ready")
# numpy's functions that read an array through the buffer protocol, past its methods
NUMPY_READING = ("asarray", "asanyarray", "array", "ascontiguousarray")
_RANGED = "_kernelscope"  # on a wrapper of a jitted function


def environment(pass_name):
    """Return the variables to set before JAX is imported: little logging."""
    return {"TF_CPP_MIN_LOG_LEVEL": "2"}


class Hooks(object):
    """What a pass records of JAX; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.jax = None
        self.profile = None

    def configure(self):
        """Set the platform and the size of XLA's thread pool, which it reads when it is first used, and import JAX."""
        on_cuda = str(self.spec.get("device") or "cpu").startswith("cuda")
        os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu" if on_cuda else "cpu")
        if self.spec.get("threads"):
            os.environ["NPROC"] = str(self.spec["threads"] * hooks.sharing(self.spec))
        import jax

        self.jax = jax
        if self.spec["pass"] == "kernels":
            jax.config.update("jax_traceback_in_locations_limit", 0)  # the recorded programs would hold paths of files

    def versions(self):
        """Return the versions of JAX, its compiled part, numpy and the libraries of models and optimizers that are loaded."""
        found = {"jax": self.jax.__version__}
        for name in ("jaxlib", "numpy", "optax", "flax", "keras"):
            version = hooks.version_of(name)
            if version:
                found[name] = version
        return found

    def settings(self):
        """Return the settings in force that can make a difference to speed or results."""
        config = self.jax.config
        pool = int(os.environ.get("NPROC") or 0) or hooks.cores()
        return {
            "threads": pool and pool // hooks.sharing(self.spec),
            "cores": hooks.cores(),
            "execution": "eager" if config.jax_disable_jit else "compiled: jax.jit (XLA)",
            "default_dtype": "float64" if config.jax_enable_x64 else "float32",
            "matmul_precision": str(config.jax_default_matmul_precision or "default"),
            "debug_nans": bool(config.jax_debug_nans),
            "platform": self.jax.default_backend(),
            "xla_flags": os.environ.get("XLA_FLAGS"),
        }

    def attach_layers(self, program):
        """Put ranges around every call of a jitted function and around the reading of arrays; return how layers are found."""
        self.range_calls(program)
        self.range_reading()
        if self.spec["pass"] != "kernels":
            hidden = "none: Python does not see into a compiled function; the kernels pass finds them by operations' scopes"
            return {"layers": hidden, "phases": "calls of jitted functions and reading of arrays only"}
        return {
            "layers": "scopes of XLA's operations (jax.named_scope); those without one from their neighbours in the program",
            "phases": "jvp and transpose in the scopes of XLA's operations",
        }

    def range_calls(self, owner):
        """Replace the jitted functions that an object has, by itself, its class or its module, by themselves within a range."""
        jitted = type(self.jax.jit(lambda value: value))
        places = [owner, *type(owner).__mro__[:-1], sys.modules[type(owner).__module__]]
        for place in places:
            for name, value in list(vars(place).items()):
                if isinstance(value, jitted) and not hasattr(value, _RANGED):
                    setattr(place, name, _Ranged(value, self.recorder))

    def range_reading(self):
        """Put ranges around the methods of an array that wait for its value, and around numpy's functions that read it."""
        array = type(self.jax.numpy.zeros(()))
        for name in READING:
            if hasattr(array, name):
                setattr(array, name, self.recorder.ranged(_plain(getattr(array, name)), "sync", "read", "other"))
        import numpy

        for name in NUMPY_READING:
            original = getattr(numpy, name)
            ranged = self.recorder.ranged(original, "sync", "read", "other")
            setattr(numpy, name, of_arrays(array, original, ranged))

    def start_operators(self, program):
        """Start the profiler in the kernels pass; not on a GPU where another collector has CUPTI, which it cannot do without."""
        on_gpu = str(self.spec.get("device") or "cpu").startswith("cuda")
        if self.spec["pass"] != "kernels" or (on_gpu and self.spec.get("device_profiler") is False):
            return
        options = self.jax.profiler.ProfileOptions()
        options.host_tracer_level, options.python_tracer_level = HOST_TRACER_LEVEL, 0
        self.profile = tempfile.mkdtemp(prefix="kernelscope-")
        self.jax.profiler.start_trace(self.profile, profiler_options=options)

    def stop_operators(self):
        """Stop the profiler; keep its trace in the pass's folder without the machine's name, and return its file's name."""
        if self.profile is None:
            return []
        self.jax.profiler.stop_trace()
        return xspace.keep(self.profile, self.spec["folder"])


def of_arrays(array, original, ranged):
    """Return a function of numpy that goes through its ranged form where it is given an array of this class."""

    @functools.wraps(original)
    def read(*arguments, **keywords):
        return (ranged if arguments and isinstance(arguments[0], array) else original)(*arguments, **keywords)

    return read


def _plain(function):
    """Return a Python function that calls one of JAX's compiled ones, whose names are no plain texts as functools wants them."""
    return lambda *arguments, **keywords: function(*arguments, **keywords)


class _Ranged(object):
    """A jitted function whose calls have a range; everything else is the function's own."""

    def __init__(self, function, recorder):
        setattr(self, _RANGED, True)
        self._function = function
        self._call = recorder.ranged(_plain(function), "phase", "call", "other")

    def __call__(self, *arguments, **keywords):
        return self._call(*arguments, **keywords)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self._call, instance)

    def __getattr__(self, name):
        return getattr(self._function, name)
