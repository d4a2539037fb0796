"""Ranges of TensorFlow's eager code: layers, phases, and what the loop waits for.

The gradient of an eager operator is known by the forward operator it belongs to. The tape tells the scope of some of them, and of
others the tensors: these are numbered in the order of their making, so that one made between the beginning and the end of a
layer's call was made by it. Gradients of which neither is told belong to no layer.
"""

import bisect
import sys
from typing import Any, Dict, List, Optional, Set

from kernelscope.tracer.inside.frameworks.tensorflow.graphs import LayerName
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

MOST_CALLS = 100000  # of layers between two gradients


class Ranges(object):
    """The ranges of one pass. adapter: labels layers."""

    def __init__(self, library: Any, recorder: Recorder, adapter: Any) -> None:
        self.tf = library.tf
        self._library = library
        self.recorder = recorder
        self._adapter = adapter
        self._patches = Patches()
        self._made = Made()
        self._labels: Dict[Any, Any] = {}
        self._scopes: Dict[Any, Any] = {}  # scope that Keras opens in eager code -> labels of the calls in it
        self._tape = _module("tensorflow.python.pywrap_tfe")
        self._backprop = _module("tensorflow.python.eager.backprop")
        self._uid: Any = getattr(_module("tensorflow.python.framework.ops"), "uid", None)  # the next number

    def attach(self) -> None:
        """Put there what is there only while ranges are recorded."""
        self._library.range_reading(self._patches, self.recorder)
        if self._uid is not None and hasattr(self._tape, "TFE_Py_RegisterGradientFunction"):
            self._tape.TFE_Py_RegisterGradientFunction(self._gradient)

    def detach(self) -> None:
        """Take it away."""
        self._patches.undo()
        if hasattr(self._tape, "TFE_Py_RegisterGradientFunction"):
            self._tape.TFE_Py_RegisterGradientFunction(self._backprop._gradient_function)
        self._made = Made()

    # --- what the adapter opens: each returns what `close` takes --------------------------------------------------------------

    def open(self, name: str) -> "Opened":
        """Open a range of the framework's own work."""
        return Opened(self.recorder.push("phase", name, None, "other"))

    def backward(self) -> "Opened":
        """Open the range of a call of GradientTape.gradient."""
        return Opened(self.recorder.push("phase", "backward", None, "backward"))

    def tape(self, name: str, outermost: bool) -> "Opened":
        """Open the range of what is computed under a tape; what was made before the outermost one is no longer of interest."""
        if outermost:
            self._made = Made()
        return self.named(name, (name, "forward"))

    def optimizer(self) -> "Opened":
        """Open the range of an optimizer's step."""
        return Opened(self.recorder.push("phase", "optimizer step", None, "optimizer"))

    def named(self, label: str, owner: Any) -> "Opened":
        """Open the range of a loss or metric."""
        begun = self._number()
        return Opened(self.recorder.push("layer", label, *owner), label, begun)

    def layer(self, name: LayerName, outermost: bool) -> "Opened":
        """Open the range of a layer's call. name: as graphs.Calls has it."""
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
        """Close a range and those in it; output: what the call returned, for layers."""
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
        """Compute an operator's gradient within the range of the layer whose operator it is."""
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
        """Return the layer of an eager scope, where it is one's only."""
        parts = (scope or "").rstrip("/").split("/")
        while parts:
            labels = self._scopes.get("/".join(parts))
            if labels is not None:
                return next(iter(labels)) if len(labels) == 1 else None
            parts.pop()
        return None


class Opened(object):
    """A range that is open. begun: the number that a tensor made at its beginning would have had, None where nobody asks."""

    __slots__ = ("number", "label", "begun")

    def __init__(self, number: Optional[int], label: Optional[str] = None, begun: Optional[int] = None) -> None:
        self.number = number
        self.label = label
        self.begun = begun


class Made(object):
    """Which layer's call made a tensor, by the numbers that tensors get when they are made."""

    def __init__(self) -> None:
        self._ends: List[Any] = []  # of calls, in order
        self._calls: List[Any] = []  # (begin, layer)
        self._returned: Set[Any] = set()  # numbers of tensors that calls returned, and that operators of others may take

    def add(self, opened: Any, end: int, returned: Any) -> None:
        """Note a call that has ended, at this number, and the tensors that it returned."""
        if len(self._ends) >= MOST_CALLS:
            self.__init__()  # type: ignore[misc]
        self._ends.append(end)
        self._calls.append((opened.begun, opened.label))
        for tensor in returned:
            number = getattr(tensor, "_id", None)
            if number is not None:
                self._returned.add(number)

    def layer(self, outputs: Any, inputs: Any) -> Optional[str]:
        """Return the layer to whose call an operator belongs that has these tensors, None where they do not tell.

        Its own call made its outputs. Of its inputs the newest one tells, if it did not leave the call that made it.
        """
        made = [tensor._id for tensor in outputs if hasattr(tensor, "_id")]
        if not made:
            made = [max([tensor._id for tensor in inputs if hasattr(tensor, "_id")] or [-1])]
            if made[0] in self._returned:
                return None
        return self._of(made[0])

    def only(self) -> Optional[str]:
        """Return the layer of all calls, where all are of one."""
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
