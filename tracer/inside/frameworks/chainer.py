"""Chainer on numpy: its own hooks around functions, ranges around phases and layers, and numpy's OpenBLAS calls.

Chainer has no operator trace, but it calls hooks before and after each function, forward and backward. A function's layer is
the link that runs it, or else follows from its place among the network's functions of that type (see workloads.chainer.layers).
Backward is called on the same object, and whatever a function calls in its backward belongs to its layer.
"""

import functools
import importlib
import os
from typing import Any, Callable, Dict, List

from kernelscope.tracer.inside.frameworks import openblas, timed
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import cores, version_of
from kernelscope.tracer.inside.ranges import Recorder

_LAYER = "_kernelscope_layer"  # attribute of a function: its layer
# These unfold windows into columns and back: besides the product, most of the time of convolutions and poolings on numpy
_COLUMNS = (
    ("chainer.utils.conv", "im2col_cpu", "im2col"),
    ("chainer.utils.conv", "col2im_cpu", "col2im"),
    ("chainer.utils.conv_nd", "im2col_nd_cpu", "im2col"),
    ("chainer.utils.conv_nd", "col2im_nd_cpu", "col2im"),
)


class Hooks(Base):
    """What a pass records of Chainer."""

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.chainer: Any = None
        self.layers: Any = None
        self.backward: List[Any] = []  # layers of the functions whose backward is running, innermost last
        self.operators = timed.Operators(recorder)
        self.blas = openblas.Calls(recorder)

    def configure(self) -> None:
        """Set the number of threads and import chainer, which imports numpy."""
        openblas.limit_threads(self.spec.get("threads"))
        import chainer

        self.chainer = chainer

    def versions(self) -> Dict[str, Any]:
        """Return the versions of chainer, numpy and OpenBLAS."""
        return {
            "chainer": self.chainer.__version__,
            "numpy": version_of("numpy"),
            "openblas": openblas.facts().get("version"),
        }

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
        chainer, blas = self.chainer, openblas.facts()
        return {
            "threads": blas.get("threads") or int(os.environ.get("OMP_NUM_THREADS", "0")) or None,
            "cores": cores(),
            "blas": "OpenBLAS for %s" % blas["core"] if "core" in blas else None,
            "ideep": bool(chainer.backends.intel64.is_ideep_available() and chainer.config.use_ideep != "never"),
            "type_check": bool(chainer.config.type_check),
            "debug": bool(chainer.config.debug),
            "default_dtype": str(chainer.get_dtype()),
            "memory_format": "channels first",
            "execution": "eager",
        }

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around the model, its functions, backward and the optimizer; return how layers and phases are found."""
        chainer = self.chainer
        layers = importlib.import_module("kernelscope.workloads.chainer.layers")
        self.layers = layers.Layers(program.network, program.model)
        self.layers.__enter__()
        _function_hook(chainer, self).__enter__()
        self._attach_functions()
        kind = type(program.model)
        self.ranged(kind, "__call__", "phase", "forward", "forward")
        self.ranged(chainer.Variable, "backward", "phase", "backward", "backward")
        self.ranged(program.optimizer, "update", "phase", "optimizer update", "optimizer")
        self.ranged(kind, "cleargrads", "phase", "optimizer cleargrads", "optimizer")
        if self.kernels:
            self._attach_columns()
            self._attach_updates()
        return {
            "layers": "function hooks: the function's link, or its place among the network's layers of that type",
            "phases": "calls of the model, Variable.backward, the optimizer's update and cleargrads",
        }

    def _attach_functions(self) -> None:
        """Put its layer's range around each function's application, including type checks and the building of the graph."""
        push, pop, original = self.recorder.push, self.recorder.pop, self.chainer.FunctionNode.apply

        @functools.wraps(original)
        def apply(function: Any, inputs: Any) -> Any:
            if self.backward:  # a function that a backward calls
                function.__dict__[_LAYER] = self.backward[-1]
                return original(function, inputs)
            layer = function.__dict__[_LAYER] = self.layers.of(function)
            if layer is None:
                return original(function, inputs)
            push("layer", layer, layer, "forward")
            try:
                return original(function, inputs)
            finally:
                pop()

        self.chainer.FunctionNode.apply = apply

    def _attach_columns(self) -> None:
        for module, name, label in _COLUMNS:
            owner = importlib.import_module(module)
            setattr(owner, name, self.operators.timed(getattr(owner, name), label, shapes=_first_shape))

    def _attach_updates(self) -> None:
        """Time the update of each parameter."""
        rule, operators = self.chainer.optimizer.UpdateRule, self.operators
        original = rule.update

        @functools.wraps(original)
        def update(self: Any, parameter: Any) -> Any:
            operators.enter(type(self).__name__ + ".update", phase="optimizer", shapes=timed.shape_text([parameter]))
            try:
                return original(self, parameter)
            finally:
                operators.leave(True)

        rule.update = update

    def start_operators(self, program: Any) -> None:
        """Start recording operators and OpenBLAS calls."""
        self.operators.tracing = True
        self.blas.start()

    def stop_operators(self) -> List[str]:
        """Write the recorded operators and calls; return the names of the written files."""
        self.operators.tracing = False
        return [self.operators.write(self.spec["folder"])] + self.blas.stop(self.spec["folder"])


def _first_shape(array: Any, *_: Any) -> str:
    return timed.shape_text([array])


def _function_hook(chainer: Any, owner: Any) -> Any:
    """Return the hook that Chainer calls around each function."""
    operators, recorder, kernels = owner.operators, owner.recorder, owner.kernels

    class Around(chainer.FunctionHook):  # type: ignore[misc]
        name = "kernelscope"

        def forward_preprocess(self, function: Callable[..., Any], in_data: Any) -> None:
            if kernels:
                layer = function.__dict__.get(_LAYER)
                operators.enter(_label(function), layer, None if owner.backward else "forward", timed.shape_text(in_data))

        def forward_postprocess(self, function: Callable[..., Any], in_data: Any) -> None:
            if kernels:
                operators.leave(True)

        def backward_preprocess(self, function: Callable[..., Any], in_data: Any, out_grad: Any) -> None:
            layer = function.__dict__.get(_LAYER)
            owner.backward.append(layer)
            recorder.push("layer", layer or _label(function), layer, "backward")
            if kernels:
                operators.enter(_label(function) + ".backward", layer, "backward", timed.shape_text(out_grad))

        def backward_postprocess(self, function: Callable[..., Any], in_data: Any, out_grad: Any) -> None:
            if kernels:
                operators.leave()
            recorder.pop()
            owner.backward.pop()

    return Around()


def _label(function: Any) -> str:
    return type(function).__name__.lstrip("_")
