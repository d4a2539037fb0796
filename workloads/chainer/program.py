"""The training and inference loops shared by all networks, as a Chainer user writes them."""

from typing import Any, Iterable, List

import chainer
import chainer.functions as F
import numpy

from kernelscope.workloads import program
from kernelscope.workloads.chainer.cifarcnn import CifarCNN
from kernelscope.workloads.chainer.cnn import CNN
from kernelscope.workloads.chainer.layers import layer_shapes
from kernelscope.workloads.chainer.lenet import LeNet
from kernelscope.workloads.chainer.mlp import MLP
from kernelscope.workloads.networks import Array, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Functions, Options, Parameters, Shapes, parameter

MODELS = {"lenet": LeNet, "mlp": MLP, "cnn": CNN, "cifarcnn": CifarCNN}
PARAMETERS = {"weight": "W", "bias": "b"}  # canonical name -> Chainer's; the layouts are the same


def make_optimizer(settings: Settings) -> Any:
    """Return the optimizer in a network's description; raise ValueError for one that is not supported."""
    if settings["name"] == "sgd":
        return chainer.optimizers.MomentumSGD(lr=settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return chainer.optimizers.RMSprop(lr=settings["learning_rate"], alpha=settings["decay"], eps=1e-7)
    raise ValueError("chainer: optimizer %s is not supported" % settings["name"])


class Program(program.Program):
    """One network with its loops on numpy; `options` are mode, batch, seed and dropout."""

    FRAMEWORK = "chainer"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",), "autotune": (False,)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        numpy.random.seed(options.get("seed") or 0)  # Chainer's source of randomness
        self.model: Any = MODELS[network.name](options.get("dropout", True))
        self.optimizer = make_optimizer(network.optimizer).setup(self.model)

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}; Chainer has the same layout."""
        for (layer, name), values in weights.items():
            getattr(self.model[layer], PARAMETERS[name]).array[...] = values

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with Chainer's names and shapes."""
        named = [(path.strip("/").split("/"), values) for path, values in self.model.namedparams()]
        return [parameter(layer, name, values.shape) for (layer, name), values in named]

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels first, labels as 32-bit class numbers."""
        return [(images, labels.astype("int32")) for images, labels in batches]

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            logits = self.model(images)
            loss = F.softmax_cross_entropy(logits, labels)
            self.model.cleargrads()
            loss.backward()
            self.optimizer.update()
            self.losses.append(float(loss.array))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch, which are numpy arrays."""
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            for images, _ in batches:
                self.model(images)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            return self.model(images).array

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed while the model runs."""
        return layer_shapes(self.network, self.model, images)

    def functions(self) -> Functions:
        """Return the loop and the model's own function."""
        return super().functions() + [self.model.forward]
