"""What the names of TensorFlow's operators tell: their layer and phase; and which layers a oneDNN problem's shape fits."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

_NUMBERED = re.compile(r"_\d+$")
_LOSS = re.compile(
    r"(^|_)(loss|crossentropy|squared_error|absolute_error|percentage_error|hinge|poisson|kl_divergence|huber|log_cosh)"
)
_OPTIMIZER = re.compile(
    r"^(sgd|rm_?s_?prop|adam|adamw|adadelta|adagrad|adamax|nadam|ftrl|lion|lamb|muon|adafactor|(loss_scale_)?optimizer)$"
)
_UPDATE = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")
_COUNTER = re.compile(r"^(Add|AddV2|AssignVariableOp|AssignAddVariableOp|ReadVariableOp)$")
_BACKWARD_SCOPE = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)?/|_grad(_\d+)?(/|$)")
_BACKWARD_TYPE = re.compile(r"Grad($|[A-Z_])|Backprop")
_FUSED = re.compile(r"Fused\w*(Conv|MatMul)")
_FUSING_TYPES = ("convolution", "dense")  # layers whose operator takes the following ones into itself
_FUSED_TYPES = ("tanh", "relu", "dropout", "flatten")

_DIMENSION = re.compile(r"([a-z]+)(\d+)")


@dataclass(frozen=True)
class Resolved:
    """Where an operator belongs: layer and phase as in the Trace, and the method that told."""

    layer: str | None
    phase: str | None
    attribution: str


class GraphNames:
    """Resolves operators' full names with the network's layers in order; Keras numbers a scope that it opens again (conv1_1)."""

    def __init__(self, network: dict[str, Any], training: bool):
        self._types = {str(layer["name"]): str(layer["type"]) for layer in network["layers"]}
        self._order = list(self._types)
        self._training = training

    def resolve(self, scope: str, type_name: str) -> Resolved:
        """Return layer and phase of the operator `scope` of type `type_name`; the layer is null where no scope names one.

        A fused operator bears the name of the last one that went into it (relu1_1/Relu for a convolution with bias and
        activation): its layer is the convolution or dense layer before, found by the order of layers.
        """
        parts = scope.split("/")
        backward = bool(_BACKWARD_SCOPE.search(scope) or _BACKWARD_TYPE.search(type_name))
        phase = "backward" if backward else "forward"
        layer = next((found for found in map(self._layer, reversed(parts[:-1])) if found), None) or self._layer(parts[-1])
        if layer is not None:
            main = self._fused_into(layer) if _FUSED.search(type_name) else layer
            return Resolved(main, phase, "operator name" if main == layer else "graph order")
        if any(_OPTIMIZER.match(_NUMBERED.sub("", part)) for part in parts[:-1]) or _UPDATE.match(type_name):
            return Resolved(None, "optimizer", "operator name")
        if any(_LOSS.search(part) for part in parts):
            return Resolved("loss", phase, "operator name")
        if self._training and len(parts) <= 2 and _COUNTER.match(type_name):
            return Resolved(None, "optimizer", "operator name")  # the optimizer counts its steps outside of every scope
        return Resolved(None, phase if backward else None, "none")

    def _layer(self, part: str) -> str | None:
        if part in self._types:
            return part
        unnumbered = _NUMBERED.sub("", part)
        return unnumbered if unnumbered in self._types else None

    def _fused_into(self, layer: str) -> str:
        """Return the layer whose computation a fused operator under the name of `layer` does."""
        position = self._order.index(layer)
        while position > 0 and self._types[self._order[position]] in _FUSED_TYPES:
            position -= 1
        found = self._order[position]
        return found if self._types[found] in _FUSING_TYPES else layer


def fits_shape(primitive: str, problem: str, layer: dict[str, Any]) -> bool:
    """Return whether a oneDNN problem can be one of this layer's: forward or either gradient, whatever the batch."""
    source, result = [list(map(int, layer[name])) for name in ("input_shape", "output_shape")]
    kind = str(layer["type"])
    if primitive in ("convolution", "pooling"):
        return _fits_image(problem, source, result)
    if primitive == "inner_product":
        sizes = {name: int(size) for name, size in _DIMENSION.findall(problem)}
        return kind == "dense" and (sizes.get("ic"), sizes.get("oc")) == (source[0], result[0])
    numbers = [[int(size) for size in re.findall(r"\d+", part)] for part in problem.split(":")]
    if len(numbers) == 2 and all(len(part) >= 2 for part in numbers):
        return _fits_product(Counter([*numbers[0][-2:], numbers[1][-1]]), layer, source, result)
    return _fits_tensor(numbers[0], layer, source, result)


def _fits_image(problem: str, source: list[int], result: list[int]) -> bool:
    sizes = {name: int(size) for name, size in _DIMENSION.findall(problem)}
    if len(source) != 3 or len(result) != 3:
        return False
    shape = [
        sizes.get("ic"),
        sizes.get("ih"),
        sizes.get("iw"),
        sizes.get("oc", sizes.get("ic")),
        sizes.get("oh"),
        sizes.get("ow"),
    ]
    return shape == source + result


def _fits_product(sizes: Counter[int], layer: dict[str, Any], source: list[int], result: list[int]) -> bool:
    """Return whether a product's m, n and k hold the layer's weight matrix; the third of them is then the batch."""
    if layer["type"] == "dense":
        matrices = [(source[0], result[0])]
    elif layer["type"] == "lstm":
        matrices = [(4 * result[-1], source[-1]), (4 * result[-1], result[-1])]
    else:
        return False
    return any(not Counter(matrix) - sizes for matrix in matrices)


def _fits_tensor(dimensions: list[int], layer: dict[str, Any], source: list[int], result: list[int]) -> bool:
    """Return whether a reorder's tensor is the layer's weight, input or output, with or without its batch."""
    found = Counter(size for size in dimensions if size != 1)
    tensors = [source, result]
    if layer["type"] == "convolution":
        kernel = int(layer["settings"]["kernel"])
        tensors.append([result[0], source[0], kernel, kernel])
    elif layer["type"] == "dense":
        tensors.append([source[0], result[0]])
    elif layer["type"] == "lstm":
        tensors.extend([[4 * result[-1], source[-1]], [4 * result[-1], result[-1]]])
    counts = [Counter(size for size in tensor if size != 1) for tensor in tensors]
    return any(
        found == count or (not count - found and len(dimensions) == len(tensor) + 1)
        for count, tensor in zip(counts, tensors, strict=True)
    )
