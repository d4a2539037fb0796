"""The training and inference loops that all networks share, as a Caffe2 user writes them."""

from typing import Any, Iterable, Iterator, List

import numpy
from caffe2.python import model_helper, optimizer, workspace

from kernelscope.workloads import program
from kernelscope.workloads.caffe2 import cifarcnn, cnn, lenet, mlp
from kernelscope.workloads.networks import Array, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Functions, Options, Parameters, Shapes, parameter

MODELS = {"lenet": lenet.build, "mlp": mlp.build, "cnn": cnn.build, "cifarcnn": cifarcnn.build}
PARAMETERS = {"weight": "_w", "bias": "_b"}  # the endings of brew's names of blobs


def add_optimizer(model: Any, settings: Settings) -> None:
    """Append the update rule of a network's description to a model that has gradients.

    Caffe2 adds RMSProp's epsilon inside of the root, so that the square of the usual 1e-7 stands there.
    """
    if settings["name"] == "sgd":
        optimizer.build_sgd(model, settings["learning_rate"], momentum=settings["momentum"], nesterov=0, policy="fixed")
    elif settings["name"] == "rmsprop":
        optimizer.build_rms_prop(model, settings["learning_rate"], decay=settings["decay"], epsilon=1e-14, policy="fixed")
    else:
        raise ValueError("no optimizer %r here" % settings["name"])


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, threads and dropout."""

    FRAMEWORK = "caffe2"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",)}
    MADE_BY_LOADING = True

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        threads = options.get("threads")
        flags = ["--caffe2_omp_num_threads=%d" % threads, "--caffe2_mkl_num_threads=%d" % threads] if threads else []
        workspace.GlobalInit(["caffe2", "--caffe2_log_level=2"] + flags)
        workspace.ResetWorkspace()  # it is the process's
        self.model = self.make("train", options) if self.mode == "train" else self.make("infer", options)
        self.tested = self.model if self.mode == "infer" else self.make("infer", options)

    def make(self, name: str, options: Options) -> Any:
        """Return a model; the one named train has gradients and updates. All share parameters, which are blobs, by name."""
        training = name == "train"
        scope = {"order": "NCHW", "is_test": int(not training)}
        model = model_helper.ModelHelper(name=name, arg_scope=scope)
        data = model.StopGradient("data", "data") if training else "data"
        self.logits = MODELS[self.network.name](model, data, options.get("dropout", True))
        if training:
            _, loss = model.SoftmaxWithLoss([self.logits, "label"], ["softmax", "loss"])
            model.AddGradientOperators([loss])
            add_optimizer(model, self.network.optimizer)
        workspace.RunNetOnce(model.param_init_net)
        return model

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}, which is Caffe2's own, and create the nets."""
        for (layer, name), values in weights.items():
            workspace.FeedBlob(layer + PARAMETERS[name], values)
        first = numpy.zeros((1,) + tuple(self.network.input_shape), dtype="float32")
        self.feed(first, numpy.zeros(1, dtype="int32"))
        for model in {self.model, self.tested}:
            workspace.CreateNet(model.net)

    def feed(self, images: Array, labels: Array) -> None:
        """Make a batch the blobs that the nets take."""
        workspace.FeedBlob("data", images)
        workspace.FeedBlob("label", labels)

    def run(self, model: Any) -> None:
        """Run a model's operators."""
        workspace.RunNet(model.net)

    def parameters(self) -> Parameters:
        """Return what is trainable as a list of {layer, name, shape, count}, with Caffe2's names and shapes."""
        found = []
        for blob in map(str, self.model.GetParams()):
            layer, _, name = blob.rpartition("_")
            found.append(parameter(layer, name, workspace.FetchBlob(blob).shape))
        return found

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the host's batches: numpy arrays, images channels first and labels as class numbers of 32 bits."""
        return [(images, labels.astype("int32")) for images, labels in batches]

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch once it is in the workspace."""
        for images, labels in host_batches:
            self.feed(images, labels)
            yield images, labels

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for _ in batches:
            self.run(self.model)
            self.losses.append(float(workspace.FetchBlob("loss")))

    def infer(self, batches: Iterable[Any]) -> None:
        """Bring the logits of each batch to the host."""
        for _ in batches:
            self.run(self.tested)
            workspace.FetchBlob(self.logits)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        self.feed(images, numpy.zeros(len(images), dtype="int32"))
        workspace.RunNet(self.tested.net)
        return workspace.FetchBlob(self.logits)

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output}, observed in the blobs that a run leaves."""
        self.outputs(images)
        names = [layer.name for layer in self.network.layers if layer.type != "loss"]
        return {name: list(workspace.FetchBlob(name).shape[1:]) for name in names}

    def functions(self) -> Functions:
        """Return the loop, and what runs a net."""
        return super().functions() + [self.run]
