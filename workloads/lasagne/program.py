"""The training and inference loops that all networks share, as a Lasagne user writes them."""

import lasagne
import numpy
import theano
import theano.tensor as T

from kernelscope.workloads.lasagne import cifarcnn, cnn, lenet, mlp
from kernelscope.workloads.lasagne.updates import make_updates

MODELS = {"lenet": lenet.build, "mlp": mlp.build, "cnn": cnn.build, "cifarcnn": cifarcnn.build}
PARAMETERS = {"weight": "W", "bias": "b"}  # canonical name -> Lasagne's


# the only settings that there are
DEFAULTS = {"precision": "float32", "layout": "channels_first", "autotune": False}


def refuse_others(title, network, options):
    """Raise ValueError for a network or a setting that there is not."""
    if network.name not in MODELS:
        raise ValueError("%s: network %s is not supported" % (title, network.name))
    for name, only in sorted(DEFAULTS.items()):
        if options.get(name) not in (None, only):
            raise ValueError("%s: %s %s is not supported" % (title, name, options[name]))


class Program(object):
    """One network with its loops, compiled by Theano; `options` are mode, batch, seed and dropout."""

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        refuse_others("lasagne", network, options)
        lasagne.random.set_rng(numpy.random.RandomState(options.get("seed") or 0))
        self.images = T.tensor4("images") if len(network.input_shape) == 3 else T.matrix("images")
        self.labels = T.ivector("labels")
        self.net = MODELS[network.name](self.images, options.get("dropout", True))
        self.layers = {layer.name: layer for layer in lasagne.layers.get_all_layers(self.net) if layer.name}
        self.predict = theano.function([self.images], lasagne.layers.get_output(self.net, deterministic=True))
        self.step = self._step() if self.mode == "train" else None
        self.losses = []

    def _step(self):
        """Return the function that trains on one batch and returns its loss."""
        logits = lasagne.layers.get_output(self.net)
        loss = lasagne.objectives.categorical_crossentropy(T.nnet.softmax(logits), self.labels).mean()
        parameters = lasagne.layers.get_all_params(self.net, trainable=True)
        updates = make_updates(self.network.optimizer, loss, parameters)
        return theano.function([self.images, self.labels], loss, updates=updates)

    def load(self, weights):
        """Load {(layer, parameter): float32 array in canonical layout}; Lasagne's kernels are flipped, dense weights turned."""
        for (layer, name), values in weights.items():
            if values.ndim == 4:
                values = values[:, :, ::-1, ::-1]
            getattr(self.layers[layer], PARAMETERS[name]).set_value(
                numpy.ascontiguousarray(values.T if values.ndim == 2 else values)
            )

    def parameters(self):
        """Return what is trainable as a list of {layer, name, shape, count}, with Lasagne's names and shapes."""
        found = []
        for layer, owner in self.layers.items():
            for parameter in owner.get_params(trainable=True):
                shape = parameter.get_value(borrow=True).shape
                name = parameter.name.rpartition(".")[2]
                found.append({"layer": layer, "name": name, "shape": list(shape), "count": int(numpy.prod(shape))})
        return found

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels first and labels as 32-bit class numbers."""
        return [(images, labels.astype("int32")) for images, labels in batches]

    def stream(self, host_batches):
        """Yield each host batch as it is: Theano computes on numpy's arrays."""
        return iter(host_batches)

    def train(self, batches):
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.losses.append(float(self.step(images, labels)))

    def infer(self, batches):
        """Compute the logits of each batch, which are numpy's arrays."""
        for images, _ in batches:
            self.predict(images)

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        return self.predict(images)

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output}, observed in a function that returns every layer's output."""
        names = list(self.layers)
        outputs = lasagne.layers.get_output([self.layers[name] for name in names], deterministic=True)
        shapes = theano.function([self.images], [output.shape for output in outputs])(images)
        return {name: [int(size) for size in shape[1:]] for name, shape in zip(names, shapes)}

    def functions(self):
        """Return the functions worth profiling line by line: the loop; a compiled function runs no Python of the model."""
        return [self.train if self.mode == "train" else self.infer]
