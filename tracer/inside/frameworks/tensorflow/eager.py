"""Ranges of TensorFlow's eager code: layers, phases, and the reads that the loop waits for.

The gradient of an eager operator belongs to the layer of its forward operator. For some operators the tape gives the scope, for
others the tensors. Tensors are numbered in creation order, so a tensor created between the start and end of a layer's call was
created by it. Gradients with neither belong to no layer, unless all calls were of one layer.
"""

import bisect
import sys
from typing import Any, Dict, List, Optional, Set

from kernelscope.tracer.inside.frameworks.tensorflow.graphs import LayerName
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

MOST_CALLS = 100000  # most calls kept under one tape


class Ranges(object):
    """The ranges of one pass. adapter: gives the labels of layers."""

    def __init__(self, library: Any, recorder: Recorder, adapter: Any) -> None:
        self.tf = library.tf
        self._library = library
        self.recorder = recorder
        self._adapter = adapter
        self._patches = Patches()
        self._made = Made()
        self._labels: Dict[Any, Any] = {}
        self._scopes: Dict[Any, Any] = {}  # eager scope opened by Keras -> labels of the calls in it
        self._tape = _module("tensorflow.python.pywrap_tfe")
        self._backprop = _module("tensorflow.python.eager.backprop")
        self._uid: Any = getattr(_module("tensorflow.python.framework.ops"), "uid", None)  # the next number

    def attach(self) -> None:
        """Install the hooks that are needed only while ranges are recorded."""
        self._library.range_reading(self._patches, self.recorder)
        if self._uid is not None and hasattr(self._tape, "TFE_Py_RegisterGradientFunction"):
            self._tape.TFE_Py_RegisterGradientFunction(self._gradient)

    def detach(self) -> None:
        """Remove the hooks."""
        self._patches.undo()
        if hasattr(self._tape, "TFE_Py_RegisterGradientFunction"):
            self._tape.TFE_Py_RegisterGradientFunction(self._backprop._gradient_function)
        self._made = Made()

    # --- ranges that the adapter opens; `close` takes what each returns -------------------------------------------------------

    def open(self, name: str) -> "Opened":
        """Open a range of the framework's own work."""
        return Opened(self.recorder.push("phase", name, None, "other"))

    def backward(self) -> "Opened":
        """Open the range of a call of GradientTape.gradient."""
        return Opened(self.recorder.push("phase", "backward", None, "backward"))

    def tape(self, name: str, outermost: bool) -> "Opened":
        """Open the range of the work under a tape; tensors made before the outermost tape no longer matter."""
        if outermost:
            self._made = Made()
        return self.named(name, (name, "forward"))

    def optimizer(self) -> "Opened":
        """Open the range of an optimizer's step."""
        return Opened(self.recorder.push("phase", "optimizer step", None, "optimizer"))

    def named(self, label: str, owner: Any) -> "Opened":
        """Open a range with an owner, (layer, phase): a loss, a metric, a scope or a tape."""
        begun = self._number()
        return Opened(self.recorder.push("layer", label, *owner), label, begun)

    def layer(self, name: LayerName, outermost: bool) -> "Opened":
        """Open the range of a layer call. name: as in graphs.Calls."""
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = self._adapter.label(name)
            model, path, _ = name
            self._scopes.setdefault("/".join([model] + path.split(".") if path else [model]), set()).add(label)
        phase = self.recorder.push("phase", "forward", None, "forward") if outermost else None
        begun = self._number()
        number = self.recorder.push("layer", label, label, "forward")
        return Opened(phase if outermost else number, label, begun)

    def close(self, opened: Any, output: Any = None) -> None:
        """Close a range and those inside it. output: for layers, the call's return value."""
        self.recorder.close(opened.number)
        if opened.begun is not None:
            returned = [output] if hasattr(output, "_id") else self.tf.nest.flatten(output)
            self._made.add(opened, self._uid(), returned)

    def _number(self) -> Optional[int]:
        return self._uid() if self._uid is not None else None

    # --- gradients -------------------------------------------------------------------------------------------------------

    def _gradient(
        self, operator: Any, attributes: Any, count: int, inputs: Any, outputs: Any, gradients: Any, skipped: Any, scope: Any
    ) -> Any:
        """Compute an operator's gradient within the range of the operator's layer."""
        function = self._backprop._gradient_function
        layer = None
        if self.tf.executing_eagerly():
            layer = self._made.layer(outputs or (), inputs or ()) or self._scoped(scope) or self._made.only()
        if layer is None:
            return function(operator, attributes, count, inputs, outputs, gradients, skipped, scope)
        number = self.recorder.push("layer", layer, layer, "backward")
        try:
            return function(operator, attributes, count, inputs, outputs, gradients, skipped, scope)
        finally:
            self.recorder.close(number)

    def _scoped(self, scope: Optional[str]) -> Optional[str]:
        """Return the layer of an eager scope; None unless it is exactly one layer's."""
        parts = (scope or "").rstrip("/").split("/")
        while parts:
            labels = self._scopes.get("/".join(parts))
            if labels is not None:
                return next(iter(labels)) if len(labels) == 1 else None
            parts.pop()
        return None


class Opened(object):
    """An open range. begun: the number a tensor made at its start would have had; None if not tracked."""

    __slots__ = ("number", "label", "begun")

    def __init__(self, number: Optional[int], label: Optional[str] = None, begun: Optional[int] = None) -> None:
        self.number = number
        self.label = label
        self.begun = begun


class Made(object):
    """Which layer's call made a tensor, by the number each tensor gets when it is made."""

    def __init__(self) -> None:
        self._ends: List[Any] = []  # of calls, in order
        self._calls: List[Any] = []  # (begin, layer)
        self._returned: Set[Any] = set()  # numbers of tensors returned by calls: other layers may use them

    def add(self, opened: Any, end: int, returned: Any) -> None:
        """Note a call that ended at this number, and the tensors it returned."""
        if len(self._ends) >= MOST_CALLS:
            self.__init__()  # type: ignore[misc]
        self._ends.append(end)
        self._calls.append((opened.begun, opened.label))
        for tensor in returned:
            number = getattr(tensor, "_id", None)
            if number is not None:
                self._returned.add(number)

    def layer(self, outputs: Any, inputs: Any) -> Optional[str]:
        """Return the layer of the operator with these tensors; None if they do not identify it.

        Its outputs were made by its layer's call. Otherwise its newest input decides, unless a call returned that input.
        """
        made = [tensor._id for tensor in outputs if hasattr(tensor, "_id")]
        if not made:
            made = [max([tensor._id for tensor in inputs if hasattr(tensor, "_id")] or [-1])]
            if made[0] in self._returned:
                return None
        return self._of(made[0])

    def only(self) -> Optional[str]:
        """Return the layer of all calls; None if they are not all of one layer."""
        layers = {layer for _, layer in self._calls}
        return layers.pop() if len(layers) == 1 else None

    def _of(self, number: int) -> Optional[str]:
        """Return the layer of the innermost call that was open when this number was given: the first to end after it."""
        for at in range(bisect.bisect_right(self._ends, number), len(self._ends)):
            begun, layer = self._calls[at]
            if begun <= number:
                return layer
        return None


def _module(name: str) -> Any:
    return sys.modules.get(name)
