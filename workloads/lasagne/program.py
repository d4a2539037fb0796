"""The training and inference loops shared by all networks, as a Lasagne user writes them."""

from typing import Any, Iterable, List

import lasagne
import numpy
import theano
import theano.tensor as T

from kernelscope.workloads import program
from kernelscope.workloads.lasagne import cifarcnn, cnn, lenet, mlp
from kernelscope.workloads.lasagne.updates import make_updates
from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.program import Batch, Options, Parameters, Shapes, parameter

MODELS = {"lenet": lenet.build, "mlp": mlp.build, "cnn": cnn.build, "cifarcnn": cifarcnn.build}
PARAMETERS = {"weight": "W", "bias": "b"}  # canonical name -> Lasagne's


class Program(program.Program):
    """One network with its loops, compiled by Theano; `options` are mode, batch, seed and dropout."""

    FRAMEWORK = "lasagne"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",), "autotune": (False,)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        lasagne.random.set_rng(numpy.random.RandomState(options.get("seed") or 0))
        self.images = T.tensor4("images") if len(network.input_shape) == 3 else T.matrix("images")
        self.labels = T.ivector("labels")
        self.net = MODELS[network.name](self.images, options.get("dropout", True))
        self.layers = {layer.name: layer for layer in lasagne.layers.get_all_layers(self.net) if layer.name}
        self.predict = theano.function([self.images], lasagne.layers.get_output(self.net, deterministic=True))
        self.step: Any = self._step() if self.mode == "train" else None

    def _step(self) -> Any:
        """Return the function that trains on one batch and returns its loss."""
        logits = lasagne.layers.get_output(self.net)
        loss = lasagne.objectives.categorical_crossentropy(T.nnet.softmax(logits), self.labels).mean()
        parameters = lasagne.layers.get_all_params(self.net, trainable=True)
        updates = make_updates(self.network.optimizer, loss, parameters)
        return theano.function([self.images, self.labels], loss, updates=updates)

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}: kernels flipped, dense weights transposed."""
        for (layer, name), values in weights.items():
            if values.ndim == 4:
                values = values[:, :, ::-1, ::-1]
            getattr(self.layers[layer], PARAMETERS[name]).set_value(
                numpy.ascontiguousarray(values.T if values.ndim == 2 else values)
            )

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with Lasagne's names and shapes."""
        found = []
        for layer, owner in self.layers.items():
            for shared in owner.get_params(trainable=True):
                found.append(parameter(layer, shared.name.rpartition(".")[2], shared.get_value(borrow=True).shape))
        return found

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels first, labels as 32-bit class numbers."""
        return [(images, labels.astype("int32")) for images, labels in batches]

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.losses.append(float(self.step(images, labels)))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch, which are numpy arrays."""
        for images, _ in batches:
            self.predict(images)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return self.predict(images)

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed in a function that returns every output."""
        names = list(self.layers)
        outputs = lasagne.layers.get_output([self.layers[name] for name in names], deterministic=True)
        shapes = theano.function([self.images], [output.shape for output in outputs])(images)
        return {name: [int(size) for size in shape[1:]] for name, shape in zip(names, shapes)}
