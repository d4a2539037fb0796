"""The training and inference loops shared by all networks, as a Keras 2 user writes them for any backend.

Images are channels first: Theano, CNTK and MXNet compute in that layout, and Keras is set to it.
"""

from typing import Any, Iterable, List

import keras
import numpy

from kernelscope.workloads import program
from kernelscope.workloads.keras2 import cifarcnn, cnn, lenet, mlp
from kernelscope.workloads.keras2.losses import loss
from kernelscope.workloads.networks import Array, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Options, Parameters, Shapes, parameter

MODELS = {"lenet": lenet.build, "mlp": mlp.build, "cnn": cnn.build, "cifarcnn": cifarcnn.build}


def make_optimizer(settings: Settings) -> Any:
    """Return the optimizer in a network's description; raise ValueError for one that is not supported.

    On MXNet, Keras uses MXNet's RMSprop, whose epsilon is inside the square root: 1e-14 there stands for 1e-7 outside.
    """
    if settings["name"] == "sgd":
        return keras.optimizers.SGD(lr=settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        epsilon = 1e-14 if keras.backend.backend() == "mxnet" else 1e-7
        return keras.optimizers.RMSprop(lr=settings["learning_rate"], rho=settings["decay"], epsilon=epsilon)
    raise ValueError("keras 2: optimizer %s is not supported" % settings["name"])


def no_dropout(rate: float, name: str) -> Any:
    """Return a layer that replaces a dropout that is off. MXNet's Keras does not support a layer that returns its own input."""
    return keras.layers.Lambda(lambda values: values * 1.0, name=name)


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, seed and dropout."""

    FRAMEWORK = "keras-" + keras.backend.backend()
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",), "autotune": (False,)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        numpy.random.seed(options.get("seed") or 0)  # Keras's source of randomness
        keras.backend.set_image_data_format("channels_first")
        self.model = MODELS[network.name](keras.layers.Dropout if options.get("dropout", True) else no_dropout)
        self.model.compile(optimizer=make_optimizer(network.optimizer), loss=loss)

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}, converted to Keras's layout."""
        for layer in {layer for layer, _ in weights}:
            kernel, bias = weights[(layer, "weight")], weights[(layer, "bias")]
            self.model.get_layer(layer).set_weights([self._keras_layout(layer, kernel), bias])

    def _keras_layout(self, layer: str, kernel: Array) -> Array:
        """Return a weight in Keras's layout: inputs before outputs, and flattened images channels last.

        On MXNet, a convolution's weights stay in MXNet's layout, which is the canonical one; on Theano, they are flipped.
        """
        if kernel.ndim == 4:
            backend = keras.backend.backend()
            flipped = kernel[:, :, ::-1, ::-1] if backend == "theano" else kernel
            return flipped if backend == "mxnet" else flipped.transpose(2, 3, 1, 0)
        before = self.model.layers[self.model.layers.index(self.model.get_layer(layer)) - 1]
        if isinstance(before, keras.layers.Flatten):
            images = kernel.reshape((-1,) + tuple(before.input_shape[1:]))
            kernel = images.transpose(0, 2, 3, 1).reshape(kernel.shape)
        return kernel.T

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with Keras's names and shapes."""
        found = []
        for layer in self.model.layers:
            for name, values in zip(("kernel", "bias"), layer.get_weights()):
                found.append(parameter(layer.name, name, values.shape))
        return found

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels first, labels one-hot."""
        return [(images, keras.utils.to_categorical(labels, self.network.classes)) for images, labels in batches]

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.losses.append(float(self.model.train_on_batch(images, labels)))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch, which are returned as numpy arrays."""
        for images, _ in batches:
            self.model.predict_on_batch(images)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return self.model.predict_on_batch(images)

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed in a model that returns every output."""
        layers = self.model.layers
        inner = keras.models.Model(self.model.inputs, [layer.output for layer in layers])
        inner.compile(optimizer="sgd", loss="mse")
        results = inner.predict_on_batch(images)
        return {layer.name: [int(size) for size in result.shape[1:]] for layer, result in zip(layers, results)}
