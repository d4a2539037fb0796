"""Weights and batches between the canonical layout and Keras's: inputs first, channels last."""

import keras
import numpy

# canonical name of a parameter -> Keras's; a recurrent layer's gates come in the same order (input, forget, cell, output)
PARAMETERS = {"weight": "kernel", "input_weight": "kernel", "hidden_weight": "recurrent_kernel", "bias": "bias"}


def channels_last(images):
    """Return images [batch, channels, height, width] as [batch, height, width, channels]; other shapes as they are."""
    return numpy.ascontiguousarray(images.transpose(0, 2, 3, 1)) if images.ndim == 4 else images


def load(model, weights):
    """Load {(layer, parameter): float32 array in canonical layout} into a model."""
    for (layer, name), values in weights.items():
        target = model.get_layer(layer)
        variable = getattr(getattr(target, "cell", target), PARAMETERS[name])
        variable.assign(keras_layout(model, layer, values))


def keras_layout(model, layer, values):
    """Return a parameter's values in the layout that Keras keeps."""
    if values.ndim == 4:
        return values.transpose(2, 3, 1, 0)
    if values.ndim == 1:
        return values
    source = flattened_by(model, layer)
    if source is not None:
        height, width, channels = source
        values = values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(values), -1)
    return values.T


def flattened_by(model, name):
    """Return (height, width, channels) of what is flattened into the layer's inputs, or None."""
    position = [layer.name for layer in model.layers].index(name)
    before = model.layers[position - 1] if position else None
    if not isinstance(before, keras.layers.Flatten):
        return None
    return tuple(before.input.shape[1:])


def parameters(model):
    """Return what is trainable as a list of {layer, name, shape, count}, with Keras's names and shapes."""
    found = []
    for layer in model.layers:
        for variable in layer.trainable_variables:
            shape = [int(size) for size in variable.shape]
            count = int(numpy.prod(shape))
            found.append({"layer": layer.name, "name": variable.name, "shape": shape, "count": count})
    return found


def layer_shapes(model, values):
    """Return {layer: shape of one sample's output, channels first}, observed by running the layers on `values` one by one."""
    shapes = {}
    for layer in model.layers:
        values = layer(values, training=False) if isinstance(layer, keras.layers.Dropout) else layer(values)
        shape = [int(size) for size in values.shape[1:]]
        shapes[layer.name] = shape[-1:] + shape[:-1] if len(shape) == 3 else shape
    return shapes
