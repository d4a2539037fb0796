"""TensorFlow 2 and Keras 3: ranges around compiled calls, TensorFlow's own profiler for what happens inside them, settings.

Python runs a `tf.function` once, to build its graph: hooks on layers would see the making of the graph and no step. So the
layers come from the names of the graph's operators, which carry the scopes of the layers that made them; the profiler
records each operator with its full name, thread and time. It runs in the kernels pass only: at every level it makes networks of
many small operators slower by 12% and more, which a layers pass may not.

The ranges here tell the rest: "call" is the time in a compiled function (what no operator fills of it is dispatch), and
"sync" is the reading of a tensor's value into Python.
"""

import functools
import importlib
import json
import os
import sys
import tempfile

from kernelscope.tracer.inside import hooks
from kernelscope.tracer.inside.hooks import xspace

# 2 records the operators that TensorFlow's executor counts as expensive (above some 8000 cycles by its own estimate), 3 all of
# them; TensorFlow 2.21 takes this option and then records at level 2 whatever was asked for
HOST_TRACER_LEVEL = 3
INTER_OP_THREADS = 2  # two branches at once, as a user's default on two cores; more would exceed the threads asked for
# {"sums": {sum of gradients, which no scope encloses: [[names of the operators that it adds up], [names of those that take it]]}}
SUMS_FILE = "operators.sums.json"
# methods of a tensor that hand out its value
READING = ("numpy", "__array__", "__float__", "__int__", "__bool__", "__index__")


def environment(pass_name):
    """Return the variables to set before TensorFlow is imported: little logging, and in the kernels pass oneDNN's lines."""
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if pass_name == "kernels":
        variables.update({"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1"})
    return variables


class Hooks(object):
    """What a pass records of TensorFlow; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.tf = None
        self.eager = {}  # "step" and "model" -> whether its Python code ran outside of any graph; what was seen last
        self.jit_compiled = False
        self.profile = None
        self.graphs = []  # those into which gradients were put

    def configure(self):
        """Import TensorFlow and set its pools: within an operator the threads asked for, across operators two."""
        import tensorflow as tf

        self.tf = tf
        if self.spec.get("threads"):
            tf.config.threading.set_intra_op_parallelism_threads(self.spec["threads"] * hooks.sharing(self.spec))
            tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS * hooks.sharing(self.spec))
        self._notice_execution()

    def _notice_execution(self):
        """Watch in which way a training step's tape is entered and a model called, until it is known of a step.

        The wrappers are taken away then: they cost an eager step time, and a compiled one never comes back to them.
        """
        import keras

        tf, symbolic = self.tf, []
        enter, call = tf.GradientTape.__enter__, keras.Model.__call__
        function = type(tf.function(lambda: None))
        make = function.__init__

        @functools.wraps(enter)
        def entered(tape):
            self.eager["step"] = tf.executing_eagerly()
            if self.recorder.in_step:
                tf.GradientTape.__enter__ = enter
            return enter(tape)

        @functools.wraps(call)
        def called(model, *arguments, **keywords):
            if symbolic or any(isinstance(value, keras.KerasTensor) for value in arguments):
                symbolic.append(model)  # a model being built, not run
                try:
                    return call(model, *arguments, **keywords)
                finally:
                    symbolic.pop()
            self.eager["model"] = tf.executing_eagerly()
            if self.recorder.in_step and "__call__" in keras.Model.__dict__:
                del keras.Model.__call__
            return call(model, *arguments, **keywords)

        @functools.wraps(make)
        def made(*arguments, **keywords):
            self.jit_compiled = self.jit_compiled or bool(keywords.get("jit_compile"))
            return make(*arguments, **keywords)

        tf.GradientTape.__enter__, keras.Model.__call__, function.__init__ = entered, called, made

    def _execution(self):
        """Return whether steps run eagerly, as seen; before any ran, what is configured."""
        if self.tf.config.functions_run_eagerly():
            return "eager"
        step, model = self.eager.get("step"), self.eager.get("model")
        if step is None:
            step = model
        if not step:
            return "graph (tf.function)"
        return "eager, model in tf.function" if model is False else "eager"

    def versions(self):
        """Return the versions of TensorFlow, Keras and numpy, and of CUDA and cuDNN where the build has them.

        oneDNN's version is not asked for here: only its verbose header tells it, and the reader of those lines has it.
        """
        import keras
        import numpy

        found = {"tensorflow": self.tf.__version__, "keras": keras.__version__, "numpy": numpy.__version__}
        found.update(self.build_versions())
        return found

    def build_versions(self):
        """Return the versions of CUDA and cuDNN that this build of TensorFlow has."""
        build = self.tf.sysconfig.get_build_info()
        keys = (("cuda", "cuda_version"), ("cudnn", "cudnn_version"))
        return {name: str(build[key]) for name, key in keys if build.get("is_cuda_build") and build.get(key)}

    def settings(self):
        """Return the settings in force that can make a difference to speed or results; Keras's where it is used."""
        tf = self.tf
        found = {
            "threads": tf.config.threading.get_intra_op_parallelism_threads() // hooks.sharing(self.spec),
            "interop_threads": tf.config.threading.get_inter_op_parallelism_threads() // hooks.sharing(self.spec),
            "cores": hooks.cores(),
            "onednn": _onednn_enabled(),
            "xla_jit": tf.config.optimizer.get_jit() or ("jit_compile" if self.jit_compiled else "off"),
            "execution": self._execution(),
            "tf32_matmul": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
            "tf32_cudnn": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
            "deterministic_algorithms": os.environ.get("TF_DETERMINISTIC_OPS", "0") in ("1", "true")
            or bool(_determinism_enabled()),
            "graph_optimizers": {name: bool(on) for name, on in sorted(_optimizer_options(tf).items())},
        }
        found.update(_keras_settings())
        return found

    def attach_layers(self, program):
        """Put ranges around every call of a compiled function and around the reading of tensors; return how layers are found."""
        # the concrete classes are not public, but their instances are
        function = type(self.tf.function(lambda: None))
        self._wrap(function, "__call__", "phase", "call", "other")
        tensor = type(self.tf.constant(0.0))
        for name in READING:
            owner = next((cls for cls in tensor.__mro__ if name in cls.__dict__), None)
            if owner is not None and owner is not object:
                self._wrap(owner, name, "sync", "read", "other")
        if self.spec["pass"] != "kernels":
            hidden = "none: Python does not see into a tf.function; the kernels pass finds them by operator names"
            return {"layers": hidden, "phases": "calls of compiled functions and reading of tensors only"}
        self._notice_gradients()
        return {
            "layers": "operator names: scopes of the compiled graph, recorded by TensorFlow's profiler",
            "phases": "operator names: gradient_tape scopes, gradient types, the optimizer's scope",
        }

    def _notice_gradients(self):
        """Keep every graph in which gradients are computed, to find there whose the sums of gradients are."""
        tf, gradient = self.tf, self.tf.GradientTape.gradient

        @functools.wraps(gradient)
        def noted(*arguments, **keywords):
            if not tf.executing_eagerly():
                self.graphs.append(tf.compat.v1.get_default_graph())
            return gradient(*arguments, **keywords)

        tf.GradientTape.gradient = noted

    def _wrap(self, owner, name, category, label, phase):
        """Replace a method of a class by itself within a range."""
        setattr(owner, name, self.recorder.ranged(getattr(owner, name), category, label, phase))

    def start_operators(self, program):
        """Start the profiler in the kernels pass; on a GPU with its kernels, unless another collector has CUPTI."""
        if self.spec["pass"] != "kernels":
            return
        on_gpu = str(self.spec.get("device") or "cpu").startswith("cuda") and self.spec.get("device_profiler", True)
        options = self.tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=HOST_TRACER_LEVEL, python_tracer_level=0, device_tracer_level=int(on_gpu)
        )
        self.profile = tempfile.mkdtemp(prefix="kernelscope-")
        self.tf.profiler.experimental.start(self.profile, options=options)

    def stop_operators(self):
        """Stop the profiler; keep its trace in the pass's folder and return its file's name."""
        if self.profile is None:
            return []
        self.tf.profiler.experimental.stop()
        with open(os.path.join(self.spec["folder"], SUMS_FILE), "w") as out:
            json.dump({"sums": _sums(self.graphs)}, out)
        return xspace.keep(self.profile, self.spec["folder"])


def _sums(graphs):
    """Return {sum of gradients: [names of the operators that it adds up, names of those that take it]} of these graphs."""
    found = {}
    for graph in graphs:
        for operator in graph.get_operations():
            if operator.type == "AddN" and "/" not in operator.name:
                added = sorted({value.op.name for value in operator.inputs})
                takers = sorted({taker.name for output in operator.outputs for taker in output.consumers()})
                known = found.setdefault(operator.name, [added, takers])
                found[operator.name] = [sorted(set(old) | set(new)) for old, new in zip(known, (added, takers))]
    return found


def _keras_settings():
    """Return the settings of Keras 3, none where it is not imported."""
    config = getattr(sys.modules.get("keras"), "config", None)
    if not hasattr(config, "dtype_policy"):
        return {}
    return {
        "memory_format": config.image_data_format().replace("_", " "),
        "default_dtype": config.floatx(),
        "precision_policy": config.dtype_policy().name,
    }


def _determinism_enabled():
    """Return whether deterministic operators are on; the getter is not part of the public interface."""
    try:
        from tensorflow.python.framework.config import is_op_determinism_enabled
    except ImportError:
        return False
    return is_op_determinism_enabled()


def _onednn_enabled():
    """Return whether oneDNN's operators take the place of TensorFlow's own; None where this version cannot tell.

    Where TF_ENABLE_ONEDNN_OPTS is not set, TensorFlow decides by the processor: those without AVX512-VNNI or newer go without.
    """
    for name in ("tensorflow.python.util._pywrap_util_port", "tensorflow.python._pywrap_util_port"):
        try:
            return bool(importlib.import_module(name).IsMklEnabled())
        except (ImportError, AttributeError):
            continue
    return None


def _optimizer_options(tf):
    """Return which of the graph's optimizers were switched on or off by hand; those left alone are not listed."""
    return {name: on for name, on in tf.config.optimizer.get_experimental_options().items() if isinstance(on, bool)}
