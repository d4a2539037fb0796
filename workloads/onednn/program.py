"""Inference straight on oneDNN's C library: primitives are made once, and executed one after another in every step."""

import numpy

from kernelscope.workloads.onednn import lenet
from kernelscope.workloads.onednn.layers import Builder

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
            raise ValueError("onednn has %s in inference only; give --mode infer: %s" % (known, asked))
        self.shape = (options["batch"],) + tuple(network.input_shape)
        self.logits = numpy.empty((options["batch"], network.classes), dtype="float32")
        self.losses = []

    def load(self, weights):
        """Build the network with {(layer, parameter): float32 array in canonical layout}, which is oneDNN's own."""
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
        """Yield each host batch as it is: the library reads the array where it lies."""
        return iter(host_batches)

    def run(self, images):
        """Compute the logits of one batch."""
        self.source.show(images)
        for _, execute in self.steps:
            execute()
        self.library.wait()
        return self.logits

    def infer(self, batches):
        """Bring the logits of each batch to the host, where they are anyway."""
        for images, _ in batches:
            self.run(images)

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images."""
        return self.run(images).copy()

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output}: those of the tensors; flattening is no primitive here."""
        shapes = {layer: list(sizes[1:]) for layer, sizes in self.library.shapes.items()}
        shapes["flatten"] = [int(numpy.prod(shapes["pool2"]))]
        return shapes

    def functions(self):
        """Return the functions worth profiling line by line."""
        return [self.infer, self.run]
