"""The training and inference loops that all networks share, as a Keras 3 user writes them, whatever the backend."""

import keras

from kernelscope.workloads.keras import weights
from kernelscope.workloads.keras.optimizers import make_optimizer
from kernelscope.workloads.tensorflow import models

CHOICES = ("precision", "layout", "autotune")


class Program(object):
    """One network with its loops; `options` are mode, batch, seed, dropout and those of `choices`.

    Keras takes the GPU that it sees.
    """

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        if any(options.get(name) is not None for name in CHOICES):
            from kernelscope.workloads.keras.choices import choose

            choose("keras-" + keras.backend.backend(), options)
        keras.utils.set_random_seed(options.get("seed") or 0)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="loss")
        self.optimizer = make_optimizer(network.optimizer)
        self.model = models.build(network.name, options.get("dropout", True))
        self.model.compile(optimizer=self.optimizer, loss=self.loss)
        self.losses = []

    def load(self, values):
        """Load {(layer, parameter): float32 array in canonical layout} in Keras's layout."""
        weights.load(self.model, self.network, values)

    def parameters(self):
        """Return what is trainable as a list of {layer, name, shape, count}, with Keras's names and shapes."""
        return weights.parameters(self.model)

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels last and labels as class numbers."""
        return [(weights.channels_last(images), labels) for images, labels in batches]

    def stream(self, host_batches):
        """Yield each host batch as it is: Keras brings it to the device."""
        return iter(host_batches)

    def train(self, batches):
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.losses.append(self.model.train_on_batch(images, labels))

    def infer(self, batches):
        """Bring the logits of each batch to the host."""
        for images, _ in batches:
            self.model.predict_on_batch(images)

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        return self.model.predict_on_batch(weights.channels_last(images))

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output, channels first}, observed by running the layers one by one."""
        return weights.layer_shapes(self.model, keras.ops.convert_to_tensor(weights.channels_last(images)))

    def functions(self):
        """Return the functions worth profiling line by line."""
        return [self.train if self.mode == "train" else self.infer]
