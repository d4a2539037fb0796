"""The training and inference loops shared by all networks in MXNet: Gluon, hybridized, with autograd and a Trainer."""

from typing import Any, Iterable, Iterator, List, Optional

import mxnet as mx
from mxnet import autograd, gluon

from kernelscope.workloads import program
from kernelscope.workloads.networks import Array, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Options, Parameters, Shapes, builder, parameter

MODELS = {  # network -> module with the function of its name that builds it
    "lenet": "lenet",
    "mlp": "mlp",
    "cnn": "cnn",
    "lstm": "lstm",
    "cifarcnn": "cifarcnn",
    "gru": "gru",
    "fcn5": "fcn",
    "fcn8": "fcn",
    "lstm32": "lstms",
    "lstm64": "lstms",
    "alexnet": "alexnet",
    "alexnet_cifar10": "alexnet",
    "vgg16": "vgg16",
    "vgg16_cifar10": "vgg16",
    "googlenet": "googlenet",
    "googlenet_cifar10": "googlenet",
    "resnet50": "resnet50",
    "resnet50_cifar10": "resnet50",
    "gpt2": "transformers",
    "bert_base": "transformers",
    "vit_s16": "transformers",
}
# layer type -> {canonical parameter: Gluon's name}; other names are the same. The weights of an LSTM or GRU belong to its
# layer 0; an LSTM has one bias here, see lstm.py
_NORMALISATION = {"weight": "gamma", "bias": "beta"}
_RECURRENT = {"input_weight": "l0_i2h_weight", "hidden_weight": "l0_h2h_weight"}
_PARAMETER_NAMES = {
    "batch_norm": _NORMALISATION,
    "layer_norm": _NORMALISATION,
    "lstm": dict(_RECURRENT, bias="l0_i2h_bias"),
    "gru": dict(_RECURRENT, input_bias="l0_i2h_bias", hidden_bias="l0_h2h_bias"),
}


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, device, seed and dropout."""

    FRAMEWORK = "mxnet"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",), "autotune": (False,)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        self.batch = options["batch"]
        self.context = self.contexts(options)
        mx.random.seed(options["seed"])
        self.net = builder("mxnet", MODELS[network.name], network.name)(network, options["dropout"])
        self.net.initialize(ctx=self.context)
        self.net.hybridize(static_alloc=True, static_shape=True)
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = self._trainer(network.optimizer)

    def contexts(self, options: Options) -> Any:
        """Return the device that has the parameters."""
        return mx.gpu(0) if options["device"] == "cuda" else mx.cpu()

    def _trainer(self, optimizer: Settings) -> Any:
        """Return the trainer. MXNet's Adam adds epsilon to the root before the bias correction; with 1e-8, no loss shows it."""
        settings = dict(optimizer)
        name = settings.pop("name")
        if name == "rmsprop":
            # MXNet adds epsilon inside the square root: 1e-14 there stands for 1e-7 outside
            settings.update(gamma1=settings.pop("decay"), epsilon=1e-14)
        return gluon.Trainer(self.net.collect_params(), name, settings)

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}; Gluon has the same layouts and order of gates."""
        parameters = self.net.collect_params()
        types = {layer.name: layer.type for layer in self.network.layers}
        for (layer, name), values in weights.items():
            own = _PARAMETER_NAMES.get(types[layer], {}).get(name, name)
            parameters["%s%s_%s" % (self.net.prefix, layer, own)].set_data(mx.nd.array(values))
        mx.nd.waitall()

    def layer_of(self, name: str) -> Optional[str]:
        """Return the layer to which a parameter, or a node of the network's graph, belongs by its name; None if there is none.

        Names begin with the network's and the layer's prefix. Both may contain underscores, so the longest matching layer
        counts.
        """
        if not name.startswith(self.net.prefix):
            return None
        own = name[len(self.net.prefix) :] + "_"
        found = [layer.name for layer in self.network.layers if own.startswith(layer.name + "_")]
        return max(found, key=len) if found else None

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with Gluon's names and shapes."""
        rows = []
        for name, values in self.net.collect_params().items():
            if values.grad_req != "null":
                layer = str(self.layer_of(name))
                rows.append(parameter(layer, name[len(self.net.prefix) + len(layer) + 1 :], values.shape))
        return rows

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the batches as numpy arrays: images channels first, labels as float32 class numbers."""
        return [(images, labels.astype("float32")) for images, labels in batches]

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each batch as NDArrays on the device."""
        for images, labels in host_batches:
            yield mx.nd.array(images, ctx=self.context), mx.nd.array(labels, ctx=self.context)

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss.

        As in any Gluon loop, reading the loss waits for the forward pass only: the engine may still compute gradients and
        updates while the next batch is being prepared, and the next forward pass waits for them.
        """
        for images, labels in batches:
            with autograd.record():
                loss = self.loss(self.net(images), labels)
            loss.backward()
            self.trainer.step(self.batch)
            self.losses.append(float(loss.mean().asscalar()))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to numpy."""
        for images, _labels in batches:
            self.net(images).asnumpy()

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return self.net(mx.nd.array(images, ctx=self.context)).asnumpy()

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed in a run of the network's own graph."""
        data = mx.sym.var("data", dtype="float32")
        outputs = self.net(data).get_internals()
        last = {}
        for name in outputs.list_outputs():
            if name.endswith("_output"):
                last[self.layer_of(name[: -len("_output")])] = name
        layers = [layer.name for layer in self.network.layers if layer.name in last]
        inner = gluon.SymbolBlock([outputs[last[layer]] for layer in layers], data, self.net.collect_params())
        results = inner(mx.nd.array(images, ctx=self.net.collect_params().list_ctx()[0]))
        return {layer: list(result.shape[1:]) for layer, result in zip(layers, results)}
