"""The training and inference loops shared by all networks, as a CNTK user writes them: a Trainer, its minibatches, and eval."""

from typing import Any, Dict, Iterable, List, Set

import cntk as C
import numpy
from cntk.logging.graph import depth_first_search

from kernelscope.workloads import networks, program
from kernelscope.workloads.networks import Array, Layer, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Options, Parameters, Shapes, builder, parameter

# The canonical gate order is input, forget, cell, output; CNTK's LSTM block has input, cell, forget, output.
_GATES_OF_CNTK = (0, 2, 1, 3)
_SCHEDULED_STEPS = 400  # after this many steps a bias correction with decay 0.9 is 1 in float64
# network -> module with the function of its name that builds it
MODELS = {
    "lenet": "lenet",
    "mlp": "mlp",
    "cnn": "cnn",
    "lstm": "lstm",
    "cifarcnn": "cifarcnn",
    "gru": "gru",
    "fcn5": "fcn",
    "fcn8": "fcn",
    "lstm32": "stacked_lstm",
    "lstm64": "stacked_lstm",
    "alexnet": "alexnet",
    "alexnet_cifar10": "alexnet",
    "vgg16": "vgg16",
    "vgg16_cifar10": "vgg16",
    "googlenet": "googlenet",
    "googlenet_cifar10": "googlenet",
    "resnet50": "resnet50",
    "resnet50_cifar10": "resnet50",
    "gpt2": "gpt2",
}
_NORMALISATION = {"weight": "scale", "bias": "bias"}
# layer type -> {canonical parameter: CNTK's name}
_PARAMETERS = {
    "convolution": {"weight": "W", "bias": "b"},
    "dense": {"weight": "W", "bias": "b"},
    "embedding": {"weight": "E"},
    "lstm": {"input_weight": "W", "hidden_weight": "H", "bias": "b"},
    "gru": {"input_weight": "W", "hidden_weight": "H", "input_bias": "b", "hidden_bias": "c"},
    "batch_norm": _NORMALISATION,
    "layer_norm": _NORMALISATION,
}
_RECURRENT = ("lstm", "gru")


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, device, seed and dropout."""

    FRAMEWORK = "cntk"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",), "autotune": (False,)}
    ONE_DEVICE = "CNTK's distributed learners need processes started by OpenMPI's mpiexec, which is not set up here"

    def __init__(self, network: Network, options: Options) -> None:
        if any(layer.type == "gelu" and not layer.settings["approximate"] for layer in network.layers):
            raise ValueError("cntk: %s is not supported: CNTK has no error function, which its GELU needs" % network.name)
        super().__init__(network, options, MODELS)
        C.cntk_py.set_fixed_random_seed(options["seed"])
        self.images = _input(network)
        self.labels = C.input_variable(network.classes, name="labels")
        self.model = _model(network, options, self.images)
        names = {layer.name for layer in network.layers}
        # one search for all names: CNTK's own find_by_name walks the whole graph for each
        self.layers = {f.name: f for f in depth_first_search(self.model, lambda f: f.name in names, depth=-1)}
        self.trainer: Any = None
        if self.mode == "train":
            self.loss = C.cross_entropy_with_softmax(self.model, self.labels, name="loss")
            learner = _learner(self.model.parameters, network.optimizer, options["batch"])
            self.trainer = C.Trainer(self.model, self.loss, [learner])

    def _owned(self, layer: Layer) -> Dict[str, Any]:
        """Return {CNTK's name: parameter} of a canonical layer."""
        if layer.type not in _RECURRENT:
            return {p.name: p for p in self.layers[layer.name].parameters}
        # a recurrence is not a block: its own parameters are those that it depends on and its inputs do not
        before: Set[str] = set()
        for source in layer.inputs:
            if source != networks.INPUT:
                before.update(p.uid for p in C.as_composite(self.layers[source]).parameters)
        return {p.name: p for p in C.as_composite(self.layers[layer.name]).parameters if p.uid not in before}

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}, converted to CNTK's layout."""
        owned = {layer.name: (layer, self._owned(layer)) for layer in self.network.layers if layer.parameters}
        for (name, kind), values in weights.items():
            layer, parameters = owned[name]
            target = parameters[_PARAMETERS[layer.type][kind]]
            target.value = numpy.ascontiguousarray(_to_cntk(layer, values)).reshape(target.shape)

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with CNTK's names and shapes."""
        found = []
        for layer in self.network.layers:
            if layer.parameters:
                for name, tensor in sorted(self._owned(layer).items()):
                    found.append(parameter(layer.name, name, tensor.shape))
        return found

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as CNTK takes them: float32 images or word numbers, and one-hot float32 labels."""
        return [(_numbers(images), _one_hot(labels, self.network.classes)) for images, labels in batches]

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.trainer.train_minibatch({self.images: images, self.labels: labels})
            self.losses.append(self.trainer.previous_minibatch_loss_average)

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch; they are returned as numpy arrays."""
        for images, _ in batches:
            self.model.eval({self.images: images})

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return numpy.asarray(self.model.eval({self.images: _numbers(images)})).reshape(len(images), -1)

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed by evaluating the layers."""
        functions = {layer.name: self.layers[layer.name] for layer in self.network.layers if layer.type != "loss"}
        values = C.combine(list(functions.values())).eval({self.images: _numbers(images[:2])})
        shapes = {name: numpy.asarray(values[function.output]).shape[1:] for name, function in functions.items()}
        return {name: [int(size) for size in shape] for name, shape in shapes.items()}


def _input(network: Network) -> Any:
    """Return the input variable of a batch; for a recurrent network it is a sequence of numbers or vectors."""
    if any(layer.type in _RECURRENT for layer in network.layers):
        return C.sequence.input_variable(network.input_shape[1:], name="images")
    return C.input_variable(network.input_shape, name="images")


def _model(network: Network, options: Options, images: Any) -> Any:
    """Return the model of the images. Batch normalisations keep the same share of their running means as in every framework."""
    build = builder("cntk", MODELS[network.name], network.name)
    kept = [layer.settings["keep"] for layer in network.layers if layer.type == "batch_norm"]
    if not kept:
        return build(network, options["dropout"])(images)
    with C.layers.default_options(normalization_time_constant=-options["batch"] / numpy.log(kept[0])):
        model = build(network, options["dropout"])(images)
    for constant in model.constants:
        if constant.name == "aggregate_variance":
            constant.value = numpy.ones(constant.shape, dtype="float32")
        elif constant.name == "aggregate_count":  # of samples; if it were 0, the means would be the first batch's alone
            constant.value = numpy.array(options["batch"], dtype="float32")
    return model


def _learner(parameters: Any, optimizer: Settings, batch: int) -> Any:
    """Return the network's update rule, for gradients that are means over the batch.

    CNTK's own rmsprop is another rule: it adds 1e-6 under the root and starts its average at the first squared gradient, which
    changes the third loss by more than a thousandth. CNTK's Adam without first moment is RMSProp up to a factor
    sqrt(1 - decay ** step), which the learning rate compensates; it agrees with other frameworks to the last digits.
    """
    rate = optimizer["learning_rate"]
    if optimizer["name"] == "sgd":
        momentum = C.momentum_schedule(optimizer["momentum"])
        return C.momentum_sgd(parameters, C.learning_parameter_schedule(rate), momentum, unit_gain=False)
    if optimizer["name"] == "adam":
        return _adam(parameters, optimizer)
    decay = optimizer["decay"]
    steps = numpy.arange(1, _SCHEDULED_STEPS + 1)
    rates = [float(value) for value in rate / numpy.sqrt(1.0 - decay**steps)]
    # without a reference minibatch size, rates are used as they are; each entry is for one minibatch
    schedule = C.learning_parameter_schedule(rates, minibatch_size=C.learners.IGNORE, epoch_size=batch)
    return C.adam(
        parameters,
        schedule,
        momentum=0.0,
        unit_gain=False,
        variance_momentum=C.momentum_schedule(decay),
        epsilon=1e-7,
        minibatch_size=C.learners.IGNORE,
    )


def _adam(parameters: Any, optimizer: Settings) -> Any:
    """Return Adam. CNTK adds epsilon to the uncorrected root, so in the first step 1e-8 equals the paper's 3e-7."""
    return C.adam(
        parameters,
        C.learning_parameter_schedule(optimizer["learning_rate"], minibatch_size=C.learners.IGNORE),
        momentum=C.momentum_schedule(optimizer["beta1"]),
        unit_gain=True,  # the gradient's share of the first moment is 1 - beta1, as in the paper
        variance_momentum=C.momentum_schedule(optimizer["beta2"]),
        epsilon=optimizer["epsilon"],
        minibatch_size=C.learners.IGNORE,
    )


def _numbers(images: Any) -> Array:
    """Return samples as float32, the type of CNTK's inputs; word numbers are exact up to 16,777,216."""
    return images.astype("float32", copy=False)


def _one_hot(labels: Array, classes: int) -> Array:
    found = numpy.zeros((len(labels), classes), dtype="float32")
    found[numpy.arange(len(labels)), labels] = 1.0
    return found


def _to_cntk(layer: Layer, values: Array) -> Array:
    """Return a canonical parameter in CNTK's layout: dense and recurrent weights are (in, out)."""
    if layer.type == "lstm":
        gates = values.reshape((4, -1) + values.shape[1:])[list(_GATES_OF_CNTK)]
        return gates.reshape(values.shape).T
    return values.T if layer.type in ("dense", "gru") else values
