"""The training and inference loops shared by all networks, as a Keras 3 user writes them for any backend."""

from typing import Any, Iterable, List

import keras

from kernelscope.workloads import program
from kernelscope.workloads.keras import weights as layouts
from kernelscope.workloads.keras.optimizers import make_optimizer
from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.program import Batch, Options, Parameters, Shapes
from kernelscope.workloads.tensorflow import models


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, seed, dropout and those of CHOICES.

    Keras uses a GPU if it sees one.
    """

    FRAMEWORK = "keras-" + keras.backend.backend()
    AUTOTUNE = () if FRAMEWORK == "keras-jax" else (False, True)
    SETTINGS = {"precision": ("float32", "bfloat16"), "layout": ("channels_last",), "autotune": AUTOTUNE}
    REASONS = {"autotune": "XLA decides when it compiles"}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, models.MODELS)
        if self.choices:
            from kernelscope.workloads.keras.choices import choose

            choose(**self.choices)
        keras.utils.set_random_seed(options.get("seed") or 0)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="loss")
        self.optimizer = make_optimizer(network.optimizer)
        self.model = models.build(network.name, options.get("dropout", True))
        self.model.compile(optimizer=self.optimizer, loss=self.loss)

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}, converted to Keras's layout."""
        layouts.load(self.model, self.network, weights)

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with Keras's names and shapes."""
        return layouts.parameters(self.model)

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels last, labels as class numbers."""
        return [(layouts.channels_last(images), labels) for images, labels in batches]

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.losses.append(self.model.train_on_batch(images, labels))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to the host."""
        for images, _ in batches:
            self.model.predict_on_batch(images)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return self.model.predict_on_batch(layouts.channels_last(images))

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed by running the layers one by one."""
        return layouts.layer_shapes(self.model, keras.ops.convert_to_tensor(layouts.channels_last(images)))
