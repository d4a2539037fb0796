"""Inference directly on oneDNN's C library: primitives are created once and executed one after another in every step."""

from typing import Any, Iterable

import numpy

from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.onednn import lenet
from kernelscope.workloads.onednn.layers import Builder
from kernelscope.workloads.program import Functions, InferenceProgram, Options, Shapes

MODELS = {"lenet": lenet.build}


class Program(InferenceProgram):
    """One network with its loop; `options` are mode and batch."""

    FRAMEWORK = "onednn"

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        self.shape = (options["batch"],) + tuple(network.input_shape)
        self.logits = numpy.empty((options["batch"], network.classes), dtype="float32")

    def load(self, weights: Weights) -> None:
        """Build the network from {(layer, parameter): float32 array in canonical layout}; oneDNN has the same plain layout."""
        self.weights = weights
        self.library = Builder()
        self.source = MODELS[self.network.name](self.library, numpy.zeros(self.shape, dtype="float32"), self.logits, weights)
        self.steps = self.library.steps

    def run(self, images: Array) -> Any:
        """Compute the logits of one batch and return them: an array [batch, classes] that the next call overwrites."""
        self.source.show(images)
        for _, execute in self.steps:
            execute()
        self.library.wait()
        return self.logits

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch, which are on the host anyway."""
        for images, _ in batches:
            self.run(images)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images."""
        return self.run(images).copy()

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output}, taken from the tensors; flattening needs no primitive here."""
        shapes = {layer: list(sizes[1:]) for layer, sizes in self.library.shapes.items()}
        shapes["flatten"] = [int(numpy.prod(shapes["pool2"]))]
        return shapes

    def functions(self) -> Functions:
        """Return the loop and the function that runs a step."""
        return super().functions() + [self.run]
