"""The training and inference loops in MXNet: Gluon, hybridized, with autograd and a Trainer."""

import importlib

import mxnet as mx
import numpy
from mxnet import autograd, gluon

# what Gluon calls the canonical parameters; an LSTM's weights belong to its layer 0
_PARAMETER_NAMES = {
    "weight": "weight",
    "bias": "bias",
    "input_weight": "l0_i2h_weight",
    "hidden_weight": "l0_h2h_weight",
}
_LSTM_BIAS = "l0_i2h_bias"  # see lstm.py: the other bias stays zero


class Program(object):
    """One network with its loops; see the workloads' common interface in the documentation.

    options: mode ("train" or "infer"), batch, device ("cpu" or "cuda"), seed, threads and dropout (False switches it off).
    """

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        self.batch = options["batch"]
        self.context = mx.gpu(0) if options["device"] == "cuda" else mx.cpu()
        self.losses = []
        mx.random.seed(options["seed"])
        model = importlib.import_module(__name__.rsplit(".", 1)[0] + "." + network.name)
        self.net = model.build(network, options["dropout"])
        self.net.initialize(ctx=self.context)
        self.net.hybridize(static_alloc=True, static_shape=True)
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = self._trainer(network.optimizer)

    def _trainer(self, optimizer):
        settings = {"learning_rate": optimizer["learning_rate"]}
        if optimizer["name"] == "sgd":
            settings["momentum"] = optimizer["momentum"]
        else:
            # MXNet adds epsilon inside of the root: 1e-14 there is 1e-7 beside it
            settings.update(gamma1=optimizer["decay"], epsilon=1e-14)
        return gluon.Trainer(self.net.collect_params(), optimizer["name"], settings)

    def load(self, weights):
        """Set the parameters from {(layer, parameter): array}: Gluon's layouts and gate order are the canonical ones."""
        parameters = self.net.collect_params()
        for parameter in parameters.values():
            if parameter.grad_req == "null":
                parameter.set_data(mx.nd.zeros(parameter.shape))
        for (layer, name), values in weights.items():
            parameters[self._parameter_name(layer, name)].set_data(mx.nd.array(values))
        mx.nd.waitall()

    def _parameter_name(self, layer, name):
        recurrent = any(other.name == layer and other.type == "lstm" for other in self.network.layers)
        own = _LSTM_BIAS if recurrent and name == "bias" else _PARAMETER_NAMES[name]
        return "%s%s_%s" % (self.net.prefix, layer, own)

    def parameters(self):
        """Return layer, name, shape and count of every parameter that the trainer updates."""
        rows = []
        for name, parameter in self.net.collect_params().items():
            if parameter.grad_req != "null":
                layer, own = name[len(self.net.prefix) :].split("_", 1)
                count = int(numpy.prod(parameter.shape))
                rows.append({"layer": layer, "name": own, "shape": list(parameter.shape), "count": count})
        return rows

    def prepare(self, batches):
        """Return the batches as they are: Gluon takes images channels first, and labels as numbers."""
        return [(images, labels.astype("float32")) for images, labels in batches]

    def stream(self, host_batches):
        """Yield batches as NDArrays on the device."""
        for images, labels in host_batches:
            yield mx.nd.array(images, ctx=self.context), mx.nd.array(labels, ctx=self.context)

    def train(self, batches):
        """Train on the batches, one step each.

        As in any Gluon loop, reading the loss waits for the forward pass only: the engine may still compute gradients and
        updates while the next batch is being prepared, and the next forward pass waits for them.
        """
        for images, labels in batches:
            with autograd.record():
                loss = self.loss(self.net(images), labels)
            loss.backward()
            self.trainer.step(self.batch)
            self.losses.append(float(loss.mean().asscalar()))

    def infer(self, batches):
        """Compute the logits of the batches and bring them to numpy."""
        for images, _labels in batches:
            self.net(images).asnumpy()

    def outputs(self, images):
        """Return the logits for canonical images, in inference mode."""
        return self.net(mx.nd.array(images, ctx=self.context)).asnumpy()

    def layer_shapes(self, images):
        """Return each layer's output shape for one sample, taken from a run of the network's own graph on the images."""
        data = mx.sym.var("data", dtype="float32")
        outputs = self.net(data).get_internals()
        last = {}
        for name in outputs.list_outputs():
            layer = name[len(self.net.prefix) :].split("_", 1)[0]
            if name.startswith(self.net.prefix) and name.endswith("_output"):
                last[layer] = name
        layers = [layer.name for layer in self.network.layers if layer.name in last]
        inner = gluon.SymbolBlock([outputs[last[layer]] for layer in layers], data, self.net.collect_params())
        results = inner(mx.nd.array(images, ctx=self.context))
        return {layer: list(result.shape[1:]) for layer, result in zip(layers, results)}

    def functions(self):
        """Return what to line-profile: the loop; a hybridized network runs none of its Python code in a step."""
        return [self.train if self.mode == "train" else self.infer]
