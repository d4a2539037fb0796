"""The training and inference loops shared by all networks, as a TensorFlow 2 and Keras 3 user writes them."""

from typing import Any, Iterable, Iterator, List

import keras
import tensorflow as tf

from kernelscope.workloads import program
from kernelscope.workloads.keras import weights as layouts
from kernelscope.workloads.keras.optimizers import make_optimizer
from kernelscope.workloads.keras.weights import channels_last
from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.program import Batch, Options, Parameters, Shapes
from kernelscope.workloads.tensorflow import models


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, device, seed, threads, dropout and those of CHOICES."""

    FRAMEWORK = "tensorflow"
    SETTINGS = {"precision": ("float32", "bfloat16"), "layout": ("channels_last",), "autotune": (False, True)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, models.MODELS)
        self.device = "/GPU:0" if str(options.get("device") or "cpu").startswith("cuda") else "/CPU:0"
        if self.choices:
            from kernelscope.workloads.keras.choices import choose

            choose(**self.choices)
        keras.utils.set_random_seed(options.get("seed") or 0)
        with self.scope():
            self.model = models.build(network.name, options.get("dropout", True))
            self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="loss")
            self.optimizer = make_optimizer(network.optimizer)
            self.optimizer.build(self.model.trainable_variables)

    def scope(self) -> Any:
        """Return the context in which the model is built."""
        return tf.device(self.device)

    @tf.function
    def train_step(self, images: Any, labels: Any) -> Any:
        """Run forward, backward and update for one batch; return its mean loss."""
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = self.loss(labels, logits)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss

    @tf.function
    def infer_step(self, images: Any) -> Any:
        """Return the logits of one batch in inference mode."""
        return self.model(images, training=False)

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}, converted to Keras's layout."""
        layouts.load(self.model, self.network, weights)

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with Keras's names and shapes."""
        return layouts.parameters(self.model)

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels last, labels as class numbers."""
        return [(channels_last(images), labels) for images, labels in batches]

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch as tensors on the device."""
        for images, labels in host_batches:
            with tf.device(self.device):
                tensors = tf.convert_to_tensor(images), tf.convert_to_tensor(labels)
            yield tensors

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            loss = self.train_step(images, labels)
            self.losses.append(float(loss))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to the host."""
        for images, _ in batches:
            logits = self.infer_step(images)
            logits.numpy()

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return self.infer_step(tf.convert_to_tensor(channels_last(images))).numpy()

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed by running the layers one by one."""
        return layouts.layer_shapes(self.model, tf.convert_to_tensor(channels_last(images)))
