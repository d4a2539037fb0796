"""TensorFlow 2 in our workloads: ranges around compiled calls, TensorFlow's own profiler for the work inside them, settings.

Python runs a `tf.function` once, to build its graph: hooks on layers would see the graph being built but no step. So layers
come from the names of the graph's operators, which carry the scopes of the layers that made them.

The ranges here give the rest: "call" is the time in a compiled function (the part that no operator fills is dispatch), and
"sync" is reading a tensor's value into Python.
"""

import functools
import json
import os
from typing import Any, Dict, Iterable, List

from kernelscope.tracer.inside.frameworks.tensorflow.library import Library
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import sharing
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

INTER_OP_THREADS = 2  # two branches at once, as a user's default on two cores; more would exceed the threads asked for
# {"sums": {sum of gradients outside any scope: [[names of the operators it adds up], [names of those that consume it]]}}
SUMS_FILE = "operators.sums.json"


class Hooks(Base):
    """The hooks of a pass over a TensorFlow workload."""

    VARIABLES = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    KERNELS_VARIABLES = {"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1"}

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.graphs: List[Any] = []  # those that gradients were added to

    def configure(self) -> None:
        """Import TensorFlow and set its thread pools: the requested threads within an operator, two across operators."""
        # by default it takes all of the GPU's memory at once, which leaves none for the frameworks it is compared with
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        import tensorflow as tf

        threading, devices = tf.config.threading, sharing(self.spec)
        if self.spec.get("threads"):
            threading.set_intra_op_parallelism_threads(self.spec["threads"] * devices)
            threading.set_inter_op_parallelism_threads(INTER_OP_THREADS * devices)
        self.library = Library(tf, devices)
        self._notice_execution()

    def _notice_execution(self) -> None:
        """Watch whether tapes are entered and models called eagerly, until a step has shown it.

        The wrappers are then removed: they cost an eager step time, and a compiled step never reaches them again.
        """
        import keras

        symbolic: List[Any] = []
        library, tf = self.library, self.library.tf
        enter, call = tf.GradientTape.__enter__, keras.Model.__call__
        function = library.function_class
        make = function.__init__

        @functools.wraps(enter)
        def entered(tape: Any) -> Any:
            library.eager["step"] = tf.executing_eagerly()
            if self.recorder.in_step:
                tf.GradientTape.__enter__ = enter
            return enter(tape)

        @functools.wraps(call)
        def called(model: Any, *arguments: Any, **keywords: Any) -> Any:
            if symbolic or any(isinstance(value, keras.KerasTensor) for value in arguments):
                symbolic.append(model)  # a model being built, not run
                try:
                    return call(model, *arguments, **keywords)
                finally:
                    symbolic.pop()
            library.eager["model"] = tf.executing_eagerly()
            if self.recorder.in_step and "__call__" in keras.Model.__dict__:
                del keras.Model.__call__
            return call(model, *arguments, **keywords)

        @functools.wraps(make)
        def made(*arguments: Any, **keywords: Any) -> Any:
            library.jit_compiled = library.jit_compiled or bool(keywords.get("jit_compile"))
            return make(*arguments, **keywords)

        tf.GradientTape.__enter__, keras.Model.__call__, function.__init__ = entered, called, made

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around every call of a compiled function and around tensor reads; return how layers are found."""
        self.ranged(self.library.function_class, "__call__", "phase", "call", "other")
        self.library.range_reading(Patches(), self.recorder)
        if not self.kernels:
            hidden = "none: Python does not see into a tf.function; the kernels pass finds them by operator names"
            return {"layers": hidden, "phases": "calls of compiled functions and reading of tensors only"}
        self._notice_gradients()
        return {
            "layers": "operator names: scopes of the compiled graph, recorded by TensorFlow's profiler",
            "phases": "operator names: gradient_tape scopes, gradient types, the optimizer's scope",
        }

    def _notice_gradients(self) -> None:
        """Keep every graph that computes gradients, to attribute its sums of gradients to layers later."""
        tf = self.library.tf
        gradient = tf.GradientTape.gradient

        @functools.wraps(gradient)
        def noted(*arguments: Any, **keywords: Any) -> Any:
            if not tf.executing_eagerly():
                self.graphs.append(tf.compat.v1.get_default_graph())
            return gradient(*arguments, **keywords)

        tf.GradientTape.gradient = noted

    def start_operators(self, program: Any) -> None:
        """Start the profiler; on a GPU record its kernels, unless another collector uses CUPTI."""
        self.library.start_profiler(self.on_gpu and self.spec.get("device_profiler", True))

    def stop_operators(self) -> List[str]:
        """Stop the profiler; keep its trace in the pass's folder and return its files' names."""
        files = self.library.stop_profiler(self.spec["folder"])
        with open(os.path.join(self.spec["folder"], SUMS_FILE), "w") as out:
            json.dump({"sums": _sums(self.graphs)}, out)
        return files


def _sums(graphs: Iterable[Any]) -> Dict[str, List[List[str]]]:
    """Return {sum of gradients: [names of the operators it adds up, names of those that consume it]} in these graphs."""
    found: Dict[Any, Any] = {}
    for graph in graphs:
        for operator in graph.get_operations():
            if operator.type == "AddN" and "/" not in operator.name:
                added = sorted({value.op.name for value in operator.inputs})
                takers = sorted({taker.name for output in operator.outputs for taker in output.consumers()})
                known = found.setdefault(operator.name, [added, takers])
                found[operator.name] = [sorted(set(old) | set(new)) for old, new in zip(known, (added, takers))]
    return found
