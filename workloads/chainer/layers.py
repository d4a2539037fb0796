"""Finds the canonical layer that a Chainer function computes: links have names, plain functions have a type and an order."""

from typing import Any, Dict, List, Optional

import chainer

from kernelscope.workloads.networks import Network
from kernelscope.workloads.program import Shapes

# Chainer's function -> canonical layer type; a link's functions belong to the link
_TYPES = {
    "Tanh": "tanh",
    "ReLU": "relu",
    "Sigmoid": "sigmoid",
    "AveragePooling2D": "pooling_average",
    "MaxPoolingND": "pooling_max",
    "Dropout": "dropout",
    "Reshape": "flatten",
    "SoftmaxCrossEntropy": "loss",
}


class Layers(chainer.LinkHook):
    """Finds the layer of each function in a forward pass, while installed as a link hook.

    network: the canonical description. model: a chain whose links have the layers' names. Outside links, the n-th function of a
    type is the network's n-th layer of that type.
    """

    name = "kernelscope_layers"

    def __init__(self, network: Network, model: Any) -> None:
        self._model = model
        self._links = {id(link) for link in model.children()}
        self._link = None  # the name of the running link
        self._named: Dict[Optional[str], List[str]] = {}
        for layer in network.layers:
            self._named.setdefault(layer.type, []).append(layer.name)
        self._seen: Dict[Optional[str], int] = {}

    def forward_preprocess(self, args: Any) -> None:
        """Enter a link; entering the model begins a new pass."""
        if args.link is self._model:
            self._seen = {}
        elif id(args.link) in self._links:
            self._link = args.link.name

    def forward_postprocess(self, args: Any) -> None:
        """Leave a link."""
        if id(args.link) in self._links:
            self._link = None

    def of(self, function: Any) -> Optional[str]:
        """Return the layer of a function that is about to run, or None. Call it once per function: it counts them."""
        if self._link is not None:
            return self._link
        kind = _TYPES.get(type(function).__name__)
        number = self._seen[kind] = self._seen.get(kind, -1) + 1
        names = self._named.get(kind, ())
        return names[number] if number < len(names) else None


def layer_shapes(network: Network, model: Any, images: Any) -> Shapes:
    """Return {layer: shape of one sample's output}, observed while the model runs; a layer's last function decides."""
    shapes, layers, original = {}, Layers(network, model), chainer.FunctionNode.apply

    def observed(function: Any, inputs: int) -> Any:
        layer = layers.of(function)
        outputs = original(function, inputs)
        shapes[str(layer)] = [int(size) for size in outputs[0].shape[1:]]
        return outputs

    chainer.FunctionNode.apply = observed
    try:
        with layers, chainer.no_backprop_mode():  # in training mode, so that dropout runs as a function
            model(images)
    finally:
        chainer.FunctionNode.apply = original
    return shapes
