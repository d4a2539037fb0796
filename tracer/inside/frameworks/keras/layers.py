"""The layers of a Keras model: their paths, classes and weights."""

from typing import Any, List, Tuple

from kernelscope.tracer.inside.frameworks.script import elements


def paths(model: Any, prefixed: bool = False) -> List[Tuple[str, Any]]:
    """Return [(path, layer)] of a model and all its layers, outermost first; the model's path is its name."""
    found, waiting, seen = [(model.name, model)], [(model, model.name + "." if prefixed else "")], {id(model)}
    while waiting:
        layer, prefix = waiting.pop(0)
        for inner in getattr(layer, "_layers", None) or ():
            if id(inner) not in seen and hasattr(inner, "name"):
                seen.add(id(inner))
                found.append((prefix + inner.name, inner))
                waiting.append((inner, prefix + inner.name + "."))
    return found


def weights(layer: Any) -> int:
    """Return the number of elements in a layer's own weights, excluding those of its inner layers."""
    held = list(getattr(layer, "_trainable_variables", ())) + list(getattr(layer, "_non_trainable_variables", ()))
    return sum(elements(variable.shape) for variable in held)


def table(model: Any, prefixed: bool = False) -> List[Tuple[str, str, int]]:
    """Return (path, class, weights) of each layer of a model."""
    return [(path, type(layer).__name__, weights(layer)) for path, layer in paths(model, prefixed)]
