"""The training and inference loops shared by all networks, as a Caffe2 user writes them."""

from typing import Any, Iterable, Iterator, List

import numpy
from caffe2.python import model_helper, optimizer, workspace

from kernelscope.workloads import program
from kernelscope.workloads.caffe2 import cifarcnn, cnn, lenet, mlp
from kernelscope.workloads.networks import Array, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Functions, Options, Parameters, Shapes, parameter

MODELS = {"lenet": lenet.build, "mlp": mlp.build, "cnn": cnn.build, "cifarcnn": cifarcnn.build}
PARAMETERS = {"weight": "_w", "bias": "_b"}  # canonical name -> suffix of brew's blob name


def add_optimizer(model: Any, settings: Settings) -> None:
    """Append the update rule in a network's description to a model that has gradients; raise ValueError for an unknown one.

    Caffe2 adds RMSProp's epsilon inside the square root, so it is the square of the usual 1e-7.
    """
    if settings["name"] == "sgd":
        optimizer.build_sgd(model, settings["learning_rate"], momentum=settings["momentum"], nesterov=0, policy="fixed")
    elif settings["name"] == "rmsprop":
        optimizer.build_rms_prop(model, settings["learning_rate"], decay=settings["decay"], epsilon=1e-14, policy="fixed")
    else:
        raise ValueError("caffe2: unknown optimizer %r" % settings["name"])


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
        workspace.ResetWorkspace()  # there is one per process
        self.model = self.make("train", options) if self.mode == "train" else self.make("infer", options)
        self.tested = self.model if self.mode == "infer" else self.make("infer", options)

    def make(self, name: str, options: Options) -> Any:
        """Return a model; the one named train has gradients and updates. Models share parameters, which are blobs, by name."""
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
        """Load {(layer, parameter): float32 array in canonical layout}, and create the nets. Caffe2 has the same layout."""
        for (layer, name), values in weights.items():
            workspace.FeedBlob(layer + PARAMETERS[name], values)
        first = numpy.zeros((1,) + tuple(self.network.input_shape), dtype="float32")
        self.feed(first, numpy.zeros(1, dtype="int32"))
        for model in {self.model, self.tested}:
            workspace.CreateNet(model.net)

    def feed(self, images: Array, labels: Array) -> None:
        """Put a batch into the nets' input blobs."""
        workspace.FeedBlob("data", images)
        workspace.FeedBlob("label", labels)

    def run(self, model: Any) -> None:
        """Run a model's operators."""
        workspace.RunNet(model.net)

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with Caffe2's names and shapes."""
        found = []
        for blob in map(str, self.model.GetParams()):
            layer, _, name = blob.rpartition("_")
            found.append(parameter(layer, name, workspace.FetchBlob(blob).shape))
        return found

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels first, labels as 32-bit class numbers."""
        return [(images, labels.astype("int32")) for images, labels in batches]

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Put each batch into the workspace, and yield it."""
        for images, labels in host_batches:
            self.feed(images, labels)
            yield images, labels

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for _ in batches:
            self.run(self.model)
            self.losses.append(float(workspace.FetchBlob("loss")))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to numpy."""
        for _ in batches:
            self.run(self.tested)
            workspace.FetchBlob(self.logits)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        self.feed(images, numpy.zeros(len(images), dtype="int32"))
        workspace.RunNet(self.tested.net)
        return workspace.FetchBlob(self.logits)

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed in the blobs after a run."""
        self.outputs(images)
        names = [layer.name for layer in self.network.layers if layer.type != "loss"]
        return {name: list(workspace.FetchBlob(name).shape[1:]) for name in names}

    def functions(self) -> Functions:
        """Return the loop and the function that runs a net."""
        return super().functions() + [self.run]
