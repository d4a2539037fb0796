"""Keras's layers on the torch backend: calls of keras.layers.Layer, named by their paths in the model."""

import sys
import threading
from typing import Any, Callable, Dict

from kernelscope.tracer.inside.frameworks.keras import layers
from kernelscope.tracer.inside.frameworks.pytorch import modules
from kernelscope.tracer.inside.ranges import Recorder


class Layers(modules.Layers):
    """The ranges of one pass; everything that is not Keras's own is found as in a PyTorch script."""

    def __init__(self, adapter: Any, recorder: Recorder, kernels: bool) -> None:
        self.adapter = adapter
        self._innermost = threading.local()  # module: the one with an open Keras call
        below = adapter.below
        super(Layers, self).__init__(below.library, recorder, adapter.known(), below.on_gpu(), kernels)

    def attach(self) -> Dict[str, Any]:
        """Add the ranges; return how layers and phases are found."""
        found = super(Layers, self).attach()
        package, patches = self.adapter.keras, self._patches
        patches.wrap(package.layers.Layer, "__call__", self._calling)
        owners = [package.losses.Loss]
        compiled = getattr(sys.modules.get("keras.src.trainers.compile_utils"), "CompileLoss", None)
        if compiled is not None and "__call__" in vars(compiled):
            owners.append(compiled)
        for owner in owners:
            patches.wrap(owner, "__call__", self._losing)
        found["layers"] = "calls of Keras's layers, each with its full path; backward by hooks on the tensors between them"
        found["phases"] = "calls of the model, backward, apply of optimizers and zero_grad of models, batches from iterators"
        return found

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Open one range for Keras's call of a layer and PyTorch's call of the same module inside it."""
        ranged, innermost = super(Layers, self)._calling(original), self._innermost

        def called(module: Any, *arguments: Any, **keywords: Any) -> Any:
            around = getattr(innermost, "module", None)
            if around is module:
                return original(module, *arguments, **keywords)
            innermost.module = module
            try:
                return ranged(module, *arguments, **keywords)
            finally:
                innermost.module = around

        return called

    def _name(self, root: Any, prefixed: bool) -> None:
        """Name a model and all its layers."""
        if not hasattr(root, "_layers"):
            super(Layers, self)._name(root, prefixed)
            return
        for path, layer in layers.paths(root, prefixed):
            if id(layer) not in self._names:
                self._names[id(layer)] = path
                self._kept.append(layer)
                self._types.setdefault(path, (type(layer).__name__, layers.weights(layer)))
