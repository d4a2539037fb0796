"""The training and inference loops that all networks share, as a TensorFlow 2 and Keras 3 user writes them."""

import keras
import tensorflow as tf

from kernelscope.workloads.keras import weights
from kernelscope.workloads.keras.optimizers import make_optimizer
from kernelscope.workloads.keras.weights import channels_last
from kernelscope.workloads.tensorflow import models

CHOICES = ("precision", "layout", "autotune")


class Program(object):
    """One network with its loops; `options` are mode, batch, device, seed, threads, dropout and those of `choices`."""

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        self.device = "/GPU:0" if str(options.get("device") or "cpu").startswith("cuda") else "/CPU:0"
        if any(options.get(name) is not None for name in CHOICES):
            from kernelscope.workloads.keras.choices import choose

            choose("tensorflow", options)
        keras.utils.set_random_seed(options.get("seed") or 0)
        with self.scope():
            self.model = models.build(network.name, options.get("dropout", True))
            self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="loss")
            self.optimizer = make_optimizer(network.optimizer)
            self.optimizer.build(self.model.trainable_variables)
        self.losses = []

    def scope(self):
        """Return the context in which the model is built."""
        return tf.device(self.device)

    @tf.function
    def train_step(self, images, labels):
        """Forward, backward and update for one batch; return its mean loss."""
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = self.loss(labels, logits)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss

    @tf.function
    def infer_step(self, images):
        """Return the logits of one batch in inference mode."""
        return self.model(images, training=False)

    def load(self, values):
        """Load {(layer, parameter): float32 array in canonical layout} in Keras's layout."""
        weights.load(self.model, self.network, values)

    def parameters(self):
        """Return what is trainable as a list of {layer, name, shape, count}, with Keras's names and shapes."""
        return weights.parameters(self.model)

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels last and labels as class numbers."""
        return [(channels_last(images), labels) for images, labels in batches]

    def stream(self, host_batches):
        """Yield each host batch as tensors on the device."""
        for images, labels in host_batches:
            with tf.device(self.device):
                tensors = tf.convert_to_tensor(images), tf.convert_to_tensor(labels)
            yield tensors

    def train(self, batches):
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            loss = self.train_step(images, labels)
            self.losses.append(float(loss))

    def infer(self, batches):
        """Bring the logits of each batch to the host."""
        for images, _ in batches:
            logits = self.infer_step(images)
            logits.numpy()

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        return self.infer_step(tf.convert_to_tensor(channels_last(images))).numpy()

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output, channels first}, observed by running the layers one by one."""
        return weights.layer_shapes(self.model, tf.convert_to_tensor(channels_last(images)))

    def functions(self):
        """Return the functions worth profiling line by line; the steps themselves are compiled and run no Python."""
        return [self.train if self.mode == "train" else self.infer]
