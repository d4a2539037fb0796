"""LeNet-5 in plain numpy: forward, backward and update written out, as in a course on neural networks."""

from typing import Any, Iterable, List

import numpy

from kernelscope.workloads import program
from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.plainnumpy.layers import AveragePool, Convolution, Dense, Flatten, Layer, SoftmaxCrossEntropy, Tanh
from kernelscope.workloads.program import Marked, Options, Parameters, Shapes, parameter


def lenet() -> List[Layer]:
    """Return the layers for images [batch, 1, 28, 28]."""
    features = [Convolution("conv1", 2), Tanh("tanh1"), AveragePool("pool1")]
    features += [Convolution("conv2", 0), Tanh("tanh2"), AveragePool("pool2"), Flatten("flatten")]
    return features + [Dense("fc1"), Tanh("tanh3"), Dense("fc2"), Tanh("tanh4"), Dense("fc3")]


MODELS = {"lenet": lenet}


class Program(program.Program):
    """One network with its loops, on numpy's arrays."""

    FRAMEWORK = "plainnumpy"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        self.layers = MODELS[network.name]()
        self.loss = SoftmaxCrossEntropy()

    def load(self, weights: Weights) -> None:
        """Copy the weights, whose layout is the layers' own; the momentum starts at zero."""
        layers = {layer.name: layer for layer in self.layers}
        for (layer, name), values in weights.items():
            layers[layer].values[name] = values.copy()
        self.velocity = {key: numpy.zeros_like(values) for key, values in weights.items()}

    def parameters(self) -> Parameters:
        """Return what is trainable."""
        return [parameter(layer.name, name, values.shape) for layer in self.layers for name, values in layer.values.items()]

    def forward(self, images: Array) -> Array:
        """Return the logits."""
        for layer in self.layers:
            images = layer.forward(images)
        return images

    def update(self) -> None:
        """Change the parameters by stochastic gradient descent with momentum."""
        rate, momentum = (numpy.float32(self.network.optimizer[name]) for name in ("learning_rate", "momentum"))
        for layer in self.layers:
            for name, gradient in layer.gradients.items():
                velocity = self.velocity[layer.name, name]
                velocity *= momentum
                velocity += gradient
                layer.values[name] -= rate * velocity

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            loss = self.loss.forward(self.forward(images), labels)
            gradient = self.loss.backward()
            for layer in reversed(self.layers):
                gradient = layer.backward(gradient)
            self.update()
            self.losses.append(float(loss))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch."""
        for images, _ in batches:
            self.forward(images)

    def outputs(self, images: Array) -> Array:
        """Return the logits for canonical images."""
        return self.forward(images)

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output}, layer by layer."""
        shapes = {}
        for layer in self.layers:
            images = layer.forward(images)
            shapes[layer.name] = list(images.shape[1:])
        return shapes

    def mark(self, marked: Marked) -> None:
        """Say which functions compute the layers, the loss and the update."""
        for layer in self.layers:
            marked(layer, "forward", layer.name, "forward")
            marked(layer, "backward", layer.name, "backward")
        marked(self.loss, "forward", "loss", "forward")
        marked(self.loss, "backward", "loss", "backward")
        marked(self, "update", None, "optimizer")
