"""Layer and phase of TensorFlow's operators, from their names; and which layers the shape of a oneDNN problem fits."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.analysis.attribution.frameworks import Context
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace.records import read_object

SCOPES_FILE = "operators.scopes.json"
SUMS_FILE = "operators.sums.json"

_NUMBERED = re.compile(r"_\d+$")
_LOSS = re.compile(
    r"(^|_)(loss|crossentropy|squared_error|absolute_error|percentage_error|hinge|poisson|kl_divergence|huber|log_cosh)"
)
_OPTIMIZER = re.compile(
    r"^(sgd|rm_?s_?prop|adam|adamw|adadelta|adagrad|adamax|nadam|ftrl|lion|lamb|muon|adafactor|(loss_scale_)?optimizer)$"
)
_UPDATE = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")
_OWN_UPDATE = re.compile(r"^Assign(Sub|Add)VariableOp$")  # in a loop that updates variables itself
_COUNTER = re.compile(r"^(Add|AddV2|AssignVariableOp|AssignAddVariableOp|ReadVariableOp)$")
_BACKWARD_SCOPE = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)?/|_grad(_\d+)?(/|$)")
_BACKWARD_TYPE = re.compile(r"Grad($|[A-Z_])|Backprop")
DATA = r"^(\w*Iterator\w*|\w+Dataset(V\d+)?)$"  # types of operators that make batches
_DATA = re.compile(DATA)
_CONCRETE = re.compile(r"^__(inference|forward|backward)_")
_FUSED = re.compile(r"Fused\w*(Conv|MatMul)")
_PRODUCT = re.compile(r"(?i)(conv|matmul|biasadd)")
_PARTS = ("scopes", "operators", "fused")
_FUSING_TYPES = ("convolution", "dense")  # layers whose operator can absorb the following ones
_FUSED_TYPES = ("tanh", "relu", "sigmoid", "gelu", "dropout", "flatten", "add")
_GATES = {"lstm": 4, "gru": 3}
_PADDING = "_pad"  # suffix of layers that only pad for the layer whose name precedes it

_DIMENSION = re.compile(r"([a-z]+)(\d+)")


@dataclass(frozen=True)
class Resolved:
    """Where an operator belongs: layer and phase as in the Trace, and the method that found them."""

    layer: str | None
    phase: str | None
    attribution: str


class GraphNames:
    """Resolves operators' full names to the network's layers. Keras numbers a scope that it opens again (conv1_1).

    sums: {sum of gradients: [names of the operators that it adds up, names of those that take it]}. Sums have no scope. If all
    that a sum adds up belongs to one layer, which takes a tensor several times, so does the sum. Otherwise it is the gradient
    of an output that several layers take. It then belongs to the layer with that output, whose gradients are computed from it.
    """

    def __init__(self, network: dict[str, Any], training: bool, sums: dict[str, list[list[str]]] | None = None):
        self._types = {str(layer["name"]): str(layer["type"]) for layer in network["layers"]}
        before = dict(zip(list(self._types)[1:], self._types, strict=False))
        self._inputs = {
            str(layer["name"]): [str(name) for name in layer.get("inputs", [before.get(str(layer["name"]), "")])]
            for layer in network["layers"]
        }
        self._sums = sums or {}
        self._training = training

    def resolve(self, scope: str, type_name: str) -> Resolved:
        """Return layer and phase of the operator `scope` of type `type_name`; the layer is None if no scope names one.

        A fused operator has the name of the last operator fused into it (relu1_1/Relu for a convolution with bias and
        activation). It belongs to the convolution or dense layer before that.
        """
        parts = scope.split("/")
        backward = bool(_BACKWARD_SCOPE.search(scope) or _BACKWARD_TYPE.search(type_name))
        phase = "backward" if backward else "forward"
        layer = self._named(parts)
        if layer is not None:
            main = self._fused_into(layer) if _FUSED.search(type_name) else layer
            return Resolved(main, phase, "operator name" if main == layer else "graph order")
        if any(_OPTIMIZER.match(_NUMBERED.sub("", part)) for part in parts[:-1]) or _UPDATE.match(type_name):
            return Resolved(None, "optimizer", "operator name")
        if any(_LOSS.search(part) for part in parts):
            return Resolved("loss", phase, "operator name")
        if parts[-1] in self._sums:
            return Resolved(self._summed(parts[-1]), "backward", "graph order")
        if self._training and len(parts) <= 2 and _COUNTER.match(type_name):
            return Resolved(None, "optimizer", "operator name")  # the optimizer counts its steps outside all scopes
        return Resolved(None, phase if backward else None, "none")

    def _named(self, parts: list[str]) -> str | None:
        """Return the layer of the innermost scope that names one, or of the operator itself."""
        return next((one for one in map(self._layer, [*reversed(parts[:-1]), parts[-1]]) if one), None)

    def _layer(self, part: str) -> str | None:
        for name in (part, _NUMBERED.sub("", part)):
            if name in self._types or (name.endswith(_PADDING) and name[: -len(_PADDING)] in self._types):
                return name
        return None

    def _summed(self, name: str) -> str | None:
        """Return the layer that a sum of gradients belongs to; None if the operators that take it disagree."""
        return self._only_layer(name, 0) or self._only_layer(name, 1)

    def _only_layer(self, name: str, side: int) -> str | None:
        """Return the only layer of the operators that a sum adds up (side 0) or that take it (1), through other sums."""
        seen, waiting, layers = {name}, [name], set()
        while waiting:
            for other in self._sums[waiting.pop()][side]:
                if other in self._sums:
                    waiting += [other] if other not in seen else []
                    seen.add(other)
                else:
                    layers.add(self._named(other.split("/")))
        return layers.pop() if len(layers) == 1 else None

    def _fused_into(self, layer: str) -> str:
        """Return the layer that a fused operator named after `layer` computes; `layer` itself if that is ambiguous."""
        result = self._products(layer, passed_sum=False)
        return result.pop() if len(result) == 1 else layer

    def _products(self, layer: str, passed_sum: bool) -> set[str]:
        """Return the layers whose product can be fused with this one: preceding ones, with at most one sum between."""
        kind = self._types.get(layer)
        if kind in _FUSING_TYPES:
            return {layer}
        if kind not in _FUSED_TYPES or (kind == "add" and passed_sum):
            return set()
        return set().union(*(self._products(name, passed_sum or kind == "add") for name in self._inputs[layer]))


class RecordedNames:
    """Resolves names by what was recorded when their graphs were made (tracer.inside.frameworks.tensorflow.graphs).

    functions: {concrete function: {"function", "scopes", "operators", "fused", "calls"}}. If a function was made several times
    and it is unknown which one ran, only what all of them agree on counts. Operators without a scope belong to the function, as
    one opaque layer.
    """

    def __init__(self, functions: dict[str, dict[str, Any]], training: bool):
        self._functions = functions
        self._training = training
        self._merged: dict[str, dict[str, Any]] = {}
        self._ran: dict[str, set[str]] = {}  # function -> products that ran unfused, or in a fused operator of known product

    def saw(self, scope: str, type_name: str, function: str | None) -> None:
        """Record an operator that ran, before any is resolved: this can settle which of two products another operator fused."""
        parts = scope.split("/")
        candidates = _candidates(parts, self._table(function)["fused"]) if _FUSED.search(type_name) else None
        ran = self._ran.setdefault(function or "", set())
        if candidates is not None and len(candidates) == 1:
            ran.add(candidates[0])
        elif candidates is None:
            ran.update("/".join(parts[first:]) for first in range(len(parts)) if _PRODUCT.match(parts[-1]))

    @classmethod
    def of(cls, content: dict[str, Any], source: str, training: bool) -> RecordedNames:
        """Return the names of a file's content; raise EvidenceError if the content is not valid. source: the file."""
        functions = content.get("functions")
        if not isinstance(functions, dict) or not all(map(_is_table, functions.values())):
            raise EvidenceError(f"{source}: has no table of scopes; record the script again")
        return cls(functions, training)

    def function(self, name: str) -> str:
        """Return the function's name as the script's author wrote it, from the name of what runs: __inference_train_12."""
        known = self._functions.get(name)
        if known is not None:
            return str(known["function"])
        return _CONCRETE.sub("", _NUMBERED.sub("", name))

    def resolve(self, scope: str, type_name: str, function: str | None = None) -> Resolved:
        """Return layer and phase of an operator that ran within a function; None if unknown."""
        table = self._table(function)
        parts = scope.split("/")
        if _FUSED.search(type_name):
            parts = self._product(parts, table["fused"], function)
        owner = _owner(parts, table["scopes"], table["operators"])
        phase = "backward" if _BACKWARD_SCOPE.search(scope) or _BACKWARD_TYPE.search(type_name) else None
        if owner is None and (_UPDATE.match(type_name) or (self._training and _OWN_UPDATE.match(type_name))):
            owner = (None, "optimizer")
        if owner is None and any(_OPTIMIZER.match(_NUMBERED.sub("", part).lower()) for part in parts[:-1]):
            owner = (None, "optimizer")
        if owner is None and _LOSS.search(scope):
            owner = ("loss", "forward")
        if owner is None and _DATA.match(type_name):
            owner = (None, "data")
        layer, own = owner if owner is not None else (None, None)
        result = "backward" if phase and own in (None, "forward") else own
        if layer is None and result in (None, "forward", "backward") and function is not None:
            return Resolved(self.function(function), result or "forward", "launch range")
        return Resolved(layer, result, "none" if owner is None else "operator name")

    def _product(self, parts: list[str], fused: dict[str, list[str]], function: str | None) -> list[str]:
        """Return the parts of the name of the product that a fused operator computes; none if that is ambiguous."""
        candidates = _candidates(parts, fused)
        if candidates is None:
            return parts if _PRODUCT.match(parts[-1]) else []
        left = (
            [name for name in candidates if name not in self._ran.get(function or "", ())] if len(candidates) > 1 else candidates
        )
        return left[0].split("/") if len(left) == 1 else []

    def _table(self, function: str | None) -> dict[str, Any]:
        """Return what a function's tables and those of functions it calls agree on; of all functions if it is unknown."""
        key = function or ""
        if key not in self._merged:
            tables = [self._functions[key]] if key in self._functions else self._called(self.function(key) if key else None)
            waiting, seen = [name for table in tables for name in table.get("calls", ())], set[str]()
            while waiting:
                name = waiting.pop()
                if name not in seen:
                    seen.add(name)
                    tables = tables + (result := self._called(name))
                    waiting += [inner for table in result for inner in table.get("calls", ())]
            self._merged[key] = {part: _agreed([table[part] for table in tables]) for part in _PARTS}
        return self._merged[key]

    def _called(self, name: str | None) -> list[dict[str, Any]]:
        """Return the tables of all functions of this name; of all functions for None."""
        return [table for table in self._functions.values() if name is None or table["function"] == name]


def _is_table(entry: Any) -> bool:
    """Return whether this is a valid entry of RecordedNames: pairs of texts or nulls; lists of texts."""
    if not isinstance(entry, dict) or not isinstance(entry.get("function"), str) or not isinstance(entry.get("fused"), dict):
        return False
    lists = [*entry["fused"].values(), entry.get("calls", [])]
    if not all(isinstance(names, list) and all(isinstance(one, str) for one in names) for names in lists):
        return False
    owners = [owner for part in ("scopes", "operators") for owner in _values(entry.get(part))]
    return all(isinstance(one, list) and len(one) == 2 and all(v is None or isinstance(v, str) for v in one) for one in owners)


def _values(table: Any) -> list[Any]:
    return list(table.values()) if isinstance(table, dict) else [None]


def _candidates(parts: list[str], fused: dict[str, list[str]]) -> list[str] | None:
    """Return the products that an operator of this name can be fused with; None if nothing was recorded about it."""
    return next((fused[name] for first in range(len(parts)) if (name := "/".join(parts[first:])) in fused), None)


def _owner(parts: list[str], scopes: dict[str, Any], operators: dict[str, Any]) -> tuple[str | None, str | None] | None:
    """Return the owner of an operator: that of the longest known scope, however deep graphs were nested in others."""
    for first in range(len(parts)):
        for last in range(len(parts) - 1, first, -1):
            result = scopes.get("/".join(parts[first:last]))
            if result is not None:
                return result[0], result[1]
    for first in range(len(parts)):
        result = operators.get("/".join(parts[first:]))
        if result is not None:
            return result[0], result[1]
    return None


def _agreed(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the entries on which all tables that have them agree."""
    merged: dict[str, Any] = {}
    refused = set()
    for table in tables:
        for name, owner in table.items():
            if merged.setdefault(name, owner) != owner:
                refused.add(name)
    return {name: owner for name, owner in merged.items() if name not in refused}


def names_of(folder: Path, context: Context) -> GraphNames | RecordedNames:
    """Return the names that resolve layers: the network of our own programs, or what was recorded of a script's graphs."""
    path, training = folder / SCOPES_FILE, context.mode == "train"
    if context.network:
        sums = folder / SUMS_FILE
        return GraphNames(context.network, training, _read_sums(sums) if sums.is_file() else None)
    if not path.is_file():
        return RecordedNames({}, training)
    return RecordedNames.of(read_object(path), str(path), training)


def _read_sums(path: Path) -> dict[str, list[list[str]]]:
    """Return what each sum of gradients adds up and who takes it; raise EvidenceError if the file does not say so."""
    sums = read_object(path).get("sums")
    sides = [side for both in sums.values() for side in _pair(both)] if isinstance(sums, dict) else [None]
    if not all(isinstance(side, list) and all(isinstance(name, str) for name in side) for side in sides):
        raise EvidenceError(f"{path}: does not say what sums of gradients add up and what takes them; record the run again")
    return dict(sums)  # type: ignore[arg-type]


def _pair(both: Any) -> list[Any]:
    return both if isinstance(both, list) and len(both) == 2 else [None]


def fits_shape(primitive: str, problem: str, layer: dict[str, Any]) -> bool:
    """Return whether a oneDNN problem can belong to this layer: forward or either gradient, with any batch size."""
    source, result = [list(map(int, layer[name])) for name in ("input_shape", "output_shape")]
    kind = str(layer["type"])
    if primitive in ("convolution", "pooling"):
        return _fits_image(problem, source, result)
    if primitive == "inner_product":
        sizes = {name: int(size) for name, size in _DIMENSION.findall(problem)}
        return kind == "dense" and (sizes.get("ic"), sizes.get("oc")) == (source[-1], result[-1])
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
    """Return whether a product's m, n and k contain the layer's weight matrix; the third is then the batch."""
    matrices = _matrices(layer, source, result)
    return any(not Counter(matrix) - sizes for matrix in matrices)


def _matrices(layer: dict[str, Any], source: list[int], result: list[int]) -> list[list[int]]:
    """Return the sizes of a layer's weight matrices; for attention, those of one head's keys."""
    if layer["type"] == "dense":
        return [[source[-1], result[-1]]]
    if layer["type"] == "attention":
        return [[result[0], result[-1] // int(layer["settings"]["heads"])]]
    if layer["type"] in _GATES:
        gates = _GATES[layer["type"]] * result[-1]
        return [[gates, source[-1]], [gates, result[-1]]]
    return []


def _fits_tensor(dimensions: list[int], layer: dict[str, Any], source: list[int], result: list[int]) -> bool:
    """Return whether a reorder's tensor is the layer's weight, input or output, with or without the batch."""
    matches = Counter(size for size in dimensions if size != 1)
    tensors = [source, result]
    if layer["type"] == "convolution":
        kernel = int(layer["settings"]["kernel"])
        tensors.append([result[0], source[0], kernel, kernel])
    else:
        tensors.extend(_matrices(layer, source, result))
    counts = [Counter(size for size in tensor if size != 1) for tensor in tensors]
    return any(
        matches == count or (not count - matches and len(dimensions) == len(tensor) + 1)
        for count, tensor in zip(counts, tensors, strict=True)
    )
