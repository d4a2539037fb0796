"""The training and inference loops that all networks share, as a Chainer user writes them."""

import chainer
import chainer.functions as F
import numpy

from kernelscope.workloads.chainer.cifarcnn import CifarCNN
from kernelscope.workloads.chainer.cnn import CNN
from kernelscope.workloads.chainer.layers import layer_shapes
from kernelscope.workloads.chainer.lenet import LeNet
from kernelscope.workloads.chainer.mlp import MLP

MODELS = {"lenet": LeNet, "mlp": MLP, "cnn": CNN, "cifarcnn": CifarCNN}
PARAMETERS = {"weight": "W", "bias": "b"}  # canonical name -> Chainer's; the layouts are the same


# the only settings that there are
DEFAULTS = {"precision": "float32", "layout": "channels_first", "autotune": False}


def refuse_others(title, network, options):
    """Raise ValueError for a network or a setting that there is not."""
    if network.name not in MODELS:
        raise ValueError("%s: network %s is not supported" % (title, network.name))
    for name, only in sorted(DEFAULTS.items()):
        if options.get(name) not in (None, only):
            raise ValueError("%s: %s %s is not supported" % (title, name, options[name]))


def make_optimizer(settings):
    """Return the optimizer of a network's description."""
    if settings["name"] == "sgd":
        return chainer.optimizers.MomentumSGD(lr=settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return chainer.optimizers.RMSprop(lr=settings["learning_rate"], alpha=settings["decay"], eps=1e-7)
    raise ValueError("chainer: optimizer %s is not supported" % settings["name"])


class Program(object):
    """One network with its loops on numpy; `options` are mode, batch, seed and dropout."""

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        refuse_others("chainer", network, options)
        numpy.random.seed(options.get("seed") or 0)  # which Chainer draws from
        self.model = MODELS[network.name](options.get("dropout", True))
        self.optimizer = make_optimizer(network.optimizer).setup(self.model)
        self.losses = []

    def load(self, weights):
        """Load {(layer, parameter): float32 array in canonical layout}, which is Chainer's own."""
        for (layer, name), values in weights.items():
            getattr(self.model[layer], PARAMETERS[name]).array[...] = values

    def parameters(self):
        """Return what is trainable as a list of {layer, name, shape, count}, with Chainer's names and shapes."""
        found = []
        for path, parameter in self.model.namedparams():
            layer, name = path.strip("/").split("/")
            found.append({"layer": layer, "name": name, "shape": list(parameter.shape), "count": int(parameter.size)})
        return found

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels first and labels as 32-bit class numbers."""
        return [(images, labels.astype("int32")) for images, labels in batches]

    def stream(self, host_batches):
        """Yield each host batch as it is: Chainer computes on numpy's arrays."""
        return iter(host_batches)

    def train(self, batches):
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            logits = self.model(images)
            loss = F.softmax_cross_entropy(logits, labels)
            self.model.cleargrads()
            loss.backward()
            self.optimizer.update()
            self.losses.append(float(loss.array))

    def infer(self, batches):
        """Compute the logits of each batch, which are numpy's arrays."""
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            for images, _ in batches:
                self.model(images)

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            return self.model(images).array

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output}, observed while the model runs."""
        return layer_shapes(self.network, self.model, images)

    def functions(self):
        """Return the functions worth profiling line by line."""
        return [self.train if self.mode == "train" else self.infer, self.model.forward]
