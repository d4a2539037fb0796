"""Inference straight on cuDNN and cuBLAS: descriptors are made once, and the libraries are called in every step."""

import numpy

from kernelscope.workloads.cudnn.layers import Builder
from kernelscope.workloads.onednn import lenet  # a list of calls of the builder, which has the same methods

MODELS = {"lenet": lenet.build}


class Program(object):
    """One network with its loop; `options` are mode and batch."""

    MADE_BY_LOADING = True  # there is no network before there are weights

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        if self.mode != "infer" or network.name not in MODELS:
            known = ", ".join(MODELS)
            asked = "network %s is not supported in mode %s" % (network.name, self.mode)
            raise ValueError("cudnn has %s in inference only; give --mode infer: %s" % (known, asked))
        self.shape = (options["batch"],) + tuple(network.input_shape)
        self.logits = numpy.empty((options["batch"], network.classes), dtype="float32")
        self.losses = []

    def load(self, weights):
        """Build the network with {(layer, parameter): float32 array in canonical layout}, which is cuDNN's own."""
        self.weights = weights
        self.library = Builder()
        self.source = MODELS[self.network.name](self.library, numpy.zeros(self.shape, dtype="float32"), self.logits, weights)
        self.steps = self.library.steps

    def parameters(self):
        """Return the weights as a list of {layer, name, shape, count}."""
        return [
            {"layer": layer, "name": name, "shape": list(values.shape), "count": int(values.size)}
            for (layer, name), values in self.weights.items()
        ]

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels first and labels as class numbers, as they come."""
        return list(batches)

    def stream(self, host_batches):
        """Copy each host batch to the device; yield its labels."""
        for images, labels in host_batches:
            self.source.show(images)
            yield labels

    def run(self):
        """Compute the logits of the batch on the device, and bring them to the host."""
        for _, execute in self.steps:
            execute()
        self.library.fetch()
        return self.logits

    def infer(self, batches):
        """Bring the logits of each batch to the host."""
        for _ in batches:
            self.run()

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images."""
        self.source.show(numpy.ascontiguousarray(images))
        return self.run().copy()

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output}: those of the tensors; flattening is no call here."""
        shapes = {layer: list(sizes[1:]) for layer, sizes in self.library.shapes.items()}
        shapes = {layer: sizes[:1] if sizes[1:] == [1, 1] else sizes for layer, sizes in shapes.items()}
        shapes["flatten"] = [int(numpy.prod(shapes["pool2"]))]
        return shapes

    def functions(self):
        """Return the functions worth profiling line by line."""
        return [self.infer, self.run]
