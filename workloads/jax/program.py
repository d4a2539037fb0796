"""The training and inference loops shared by all networks, as a JAX and optax user writes them."""

import functools
from typing import Any, Dict, Iterable, Iterator, List, Tuple

import jax
import numpy
import optax
from jax import numpy as jnp

from kernelscope.workloads import program
from kernelscope.workloads.jax.layers import BatchNorm, Block, Dropout
from kernelscope.workloads.networks import Array, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Options, Parameters, Shapes, builder, parameter

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
    "vgg16": "vgg",
    "vgg16_cifar10": "vgg",
    "googlenet": "googlenet",
    "googlenet_cifar10": "googlenet",
    "resnet50": "resnet",
    "resnet50_cifar10": "resnet",
    "gpt2": "transformers",
    "bert_base": "transformers",
    "vit_s16": "transformers",
}
PRECISIONS = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


def make_model(network: str, dropout: bool) -> Any:
    """Return the network as a block of layers; dropout: whether its dropout layers drop anything in training."""
    return builder("jax", MODELS[network], network)(dropout)


def make_optimizer(settings: Settings) -> Any:
    """Return the optimizer in a network's description; raise ValueError for an unknown one."""
    if settings["name"] == "sgd":
        return optax.sgd(settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return optax.rmsprop(settings["learning_rate"], decay=settings["decay"], eps=1e-7, eps_in_sqrt=False)
    if settings["name"] == "adam":
        return optax.adam(settings["learning_rate"], settings["beta1"], settings["beta2"], eps=settings["epsilon"])
    raise ValueError("jax: unknown optimizer %r" % settings["name"])


def platform(options: Options) -> str:
    """Return JAX's name for the kind of device: "gpu" or "cpu"."""
    return "gpu" if str(options.get("device") or "cpu").startswith("cuda") else "cpu"


def initialise(layers: Any, key: Any) -> Any:
    """Return random {layer: {parameter: values}}; layers: {name: layer}, key: JAX's random key."""
    scale = jax.nn.initializers.normal(0.05)
    keys = iter(jax.random.split(key, sum(len(layer.shapes) for layer in layers.values())))
    shapes = {name: layer.shapes for name, layer in layers.items() if layer.shapes}
    return {name: {kind: scale(next(keys), shape) for kind, shape in own.items()} for name, own in shapes.items()}


def starting_statistics(layers: Any) -> Any:
    """Return {layer: {"mean", "variance"}} of batch normalisations that have seen no batch."""
    start = {"mean": jnp.zeros, "variance": jnp.ones}
    shapes = {name: layer.statistics for name, layer in layers.items() if layer.statistics}
    return {name: {kind: start[kind](shape) for kind, shape in own.items()} for name, own in shapes.items()}


class Run(object):
    """One pass through a model.

    statistics: running statistics, updated by the pass. key: for random numbers in training, else None. shapes: those of the
    layers' outputs, with the batch, by layer.
    """

    def __init__(self, parameters: Any, statistics: Any, key: Any = None) -> None:
        self.parameters = parameters
        self.statistics = dict(statistics)
        self.key = key
        self.shapes: Dict[str, Tuple[int, ...]] = {}

    def block(self, block: Any, values: Any, prefix: str = "") -> Any:
        """Return a block's output; its layers run under their names as named scopes."""

        def run(name: str, *inputs: Any) -> Any:
            layer, full = block.layers[name], prefix + name
            return self.block(layer, inputs[0], full + "_") if isinstance(layer, Block) else self.layer(layer, full, inputs)

        return block(run, values)

    def layer(self, layer: Any, name: str, inputs: Any) -> Any:
        """Return one layer's output; note its shape and, for a batch normalisation, its new statistics."""
        with jax.named_scope(name):
            key = self.key
            if key is not None and isinstance(layer, Dropout):
                key = jax.random.fold_in(key, len(self.shapes))
            if isinstance(layer, BatchNorm):
                result, self.statistics[name] = layer(self.parameters[name], inputs[0], key, self.statistics[name])
            else:
                result = layer(self.parameters.get(name), *inputs, key=key)
        self.shapes[name] = result.shape
        return result


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, device, seed, threads, dropout and precision.

    In bfloat16, parameters stay float32 and are cast for each pass; normalisations and the loss are computed in float32.
    """

    FRAMEWORK = "jax"
    SETTINGS = {"precision": tuple(PRECISIONS), "layout": ("channels_last",)}
    REASONS = {"autotune": "XLA decides when it compiles"}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        self.dtype = PRECISIONS[self.choices.get("precision", "float32")]
        self.device = self.place(options)
        self.model = make_model(network.name, options.get("dropout", True))
        layers = self.model.leaves()
        self.optimizer = make_optimizer(network.optimizer)
        self.key, key = jax.device_put(jax.random.split(jax.random.key(options.get("seed") or 0)), self.device)
        self.parameters_of = jax.device_put(initialise(layers, key), self.device)
        self.statistics = jax.device_put(starting_statistics(layers), self.device)
        self.state = jax.device_put(self.optimizer.init(self.parameters_of), self.device)

    def place(self, options: Options) -> Any:
        """Return the device, or the sharding, of parameters and other shared values."""
        return jax.devices(platform(options))[0]

    def apply(self, parameters: Any, statistics: Any, images: Any, key: Any = None) -> Any:
        """Return (logits float32 [batch, classes], statistics); key: for random numbers in training, else None."""
        run = Run(self.cast(parameters), statistics, key)
        logits = run.block(self.model, self.cast(images))
        return logits.astype(jnp.float32), run.statistics

    def cast(self, values: Any) -> Any:
        """Return floating-point values cast to the type of the computation; integers stay as they are."""
        if self.dtype == jnp.float32:
            return values
        return jax.tree.map(lambda one: one.astype(self.dtype) if jnp.issubdtype(one.dtype, jnp.floating) else one, values)

    def loss(self, parameters: Any, statistics: Any, images: Any, labels: Any, key: Any) -> Any:
        """Return (mean loss of one batch, statistics)."""
        logits, statistics = self.apply(parameters, statistics, images, key)
        with jax.named_scope("loss"):
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), statistics

    @functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2, 3, 4))
    def train_step(self, parameters: Any, statistics: Any, state: Any, key: Any, images: Any, labels: Any) -> Any:
        """Run forward, backward and update for one batch; return (parameters, statistics, state, key, mean loss)."""
        key, own = jax.random.split(key)
        gradient = jax.value_and_grad(self.loss, has_aux=True)
        (loss, statistics), gradients = gradient(parameters, statistics, images, labels, own)
        with jax.named_scope("optimizer"):
            updates, state = self.optimizer.update(gradients, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
        return parameters, statistics, state, key, loss

    @functools.partial(jax.jit, static_argnums=0)
    def infer_step(self, parameters: Any, statistics: Any, images: Any) -> Any:
        """Return the logits of one batch in inference mode."""
        return self.apply(parameters, statistics, images)[0]

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}, converted to inputs first, channels last."""
        layers = {layer.name: layer for layer in self.network.layers}
        for (layer, name), values in weights.items():
            own = self._own_layout(layers, layers[layer], values)
            self.parameters_of[layer][name] = jax.device_put(own, self.device)

    def _own_layout(self, layers: Any, layer: Any, values: Any) -> Any:
        if layer.type == "convolution" and values.ndim == 4:
            return values.transpose(2, 3, 1, 0)
        if layer.type not in ("dense", "lstm", "gru") or values.ndim == 1:
            return values
        before = layers.get(layer.inputs[0])
        while before is not None and before.type == "dropout":
            before = layers.get(before.inputs[0])
        if before is not None and before.type == "flatten":
            channels, height, width = before.input_shape
            values = values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(values), -1)
        return values.T

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with this program's shapes."""
        return [parameter(layer, name, own[name].shape) for layer, own in self.parameters_of.items() for name in own]

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels last, words and labels as 32-bit numbers."""
        return [(as_fed(images), labels.astype("int32")) for images, labels in batches]

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch as arrays on the device."""
        for images, labels in host_batches:
            yield jax.device_put(images, self.device), jax.device_put(labels, self.device)

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.parameters_of, self.statistics, self.state, self.key, loss = self.train_step(
                self.parameters_of, self.statistics, self.state, self.key, images, labels
            )
            self.losses.append(float(loss))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to the host."""
        for images, _ in batches:
            logits = self.infer_step(self.parameters_of, self.statistics, images)
            numpy.asarray(logits)

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return numpy.asarray(self.infer_step(self.parameters_of, self.statistics, as_fed(images)))

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed while JAX traces the model."""
        run = Run(self.parameters_of, self.statistics)
        jax.eval_shape(lambda values: run.block(self.model, values), as_fed(images))
        shapes = {name: list(shape[1:]) for name, shape in run.shapes.items()}
        return {name: shape[-1:] + shape[:-1] if len(shape) == 3 else shape for name, shape in shapes.items()}


def as_fed(samples: Any) -> Array:
    """Return images [batch, channels, height, width] as [batch, height, width, channels], words as int32, others unchanged."""
    if samples.dtype == numpy.int64:
        return samples.astype("int32")
    return numpy.ascontiguousarray(samples.transpose(0, 2, 3, 1)) if samples.ndim == 4 else samples
