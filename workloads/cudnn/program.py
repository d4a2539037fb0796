"""Inference directly on cuDNN and cuBLAS: descriptors are created once, and the libraries are called in every step."""

from typing import Any, Iterable, Iterator

import numpy

from kernelscope.workloads.cudnn.layers import Builder
from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.onednn import lenet  # it only calls a builder, and both builders have the same methods
from kernelscope.workloads.program import Batch, Functions, InferenceProgram, Options, Shapes

MODELS = {"lenet": lenet.build}


class Program(InferenceProgram):
    """One network with its loop; `options` are mode and batch."""

    FRAMEWORK = "cudnn"

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        self.shape = (options["batch"],) + tuple(network.input_shape)
        self.logits = numpy.empty((options["batch"], network.classes), dtype="float32")

    def load(self, weights: Weights) -> None:
        """Build the network from {(layer, parameter): float32 array in canonical layout}; cuDNN has the same layout."""
        self.weights = weights
        self.library = Builder()
        self.source = MODELS[self.network.name](self.library, numpy.zeros(self.shape, dtype="float32"), self.logits, weights)
        self.steps = self.library.steps

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Copy each host batch to the device; yield its labels."""
        for images, labels in host_batches:
            self.source.show(images)
            yield labels

    def run(self) -> Any:
        """Compute the logits of the batch on the device and copy them to the host; return them."""
        for _, execute in self.steps:
            execute()
        self.library.fetch()
        return self.logits

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to the host."""
        for _ in batches:
            self.run()

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images."""
        self.source.show(numpy.ascontiguousarray(images))
        return self.run().copy()

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output}, taken from the tensors; flattening needs no call here."""
        shapes = {layer: list(sizes[1:]) for layer, sizes in self.library.shapes.items()}
        shapes = {layer: sizes[:1] if sizes[1:] == [1, 1] else sizes for layer, sizes in shapes.items()}
        shapes["flatten"] = [int(numpy.prod(shapes["pool2"]))]
        return shapes

    def functions(self) -> Functions:
        """Return the loop and the function that runs a step."""
        return super().functions() + [self.run]
