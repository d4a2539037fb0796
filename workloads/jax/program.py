"""The training and inference loops that all networks share, as a JAX and optax user writes them."""

import functools

import jax
import numpy
import optax

from kernelscope.workloads.jax import cnn, lenet, lstm, mlp

MODELS = {"lenet": lenet.build, "mlp": mlp.build, "cnn": cnn.build, "lstm": lstm.build}


def make_optimizer(settings):
    """Return the optimizer of a network's description."""
    if settings["name"] == "sgd":
        return optax.sgd(settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return optax.rmsprop(settings["learning_rate"], decay=settings["decay"], eps=1e-7, eps_in_sqrt=False)
    raise ValueError("no optimizer %r here" % settings["name"])


def initialise(layers, key):
    """Return {layer: {parameter: values}}, drawn at random."""
    scale = jax.nn.initializers.normal(0.05)
    keys = iter(jax.random.split(key, sum(len(layer.shapes) for layer in layers.values())))
    shapes = {name: layer.shapes for name, layer in layers.items() if layer.shapes}
    return {name: {kind: scale(next(keys), shape) for kind, shape in own.items()} for name, own in shapes.items()}


def apply(layers, parameters, values, key=None):
    """Return the logits; key: for random numbers in training. Each layer's operations bear its name."""
    for number, (name, layer) in enumerate(layers.items()):
        with jax.named_scope(name):
            own_key = None if key is None else jax.random.fold_in(key, number)
            values = layer(parameters.get(name), values, own_key)
    return values


class Program(object):
    """One network with its loops; `options` are mode, batch, device, seed, threads and dropout."""

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        self.device = jax.devices("gpu" if str(options.get("device") or "cpu").startswith("cuda") else "cpu")[0]
        self.layers = MODELS[network.name](options.get("dropout", True))
        self.optimizer = make_optimizer(network.optimizer)
        self.key, key = jax.device_put(jax.random.split(jax.random.key(options.get("seed") or 0)), self.device)
        self.parameters_of = jax.device_put(initialise(self.layers, key), self.device)
        self.state = jax.device_put(self.optimizer.init(self.parameters_of), self.device)
        self.losses = []

    def loss(self, parameters, images, labels, key):
        """Return the mean loss of one batch."""
        logits = apply(self.layers, parameters, images, key)
        with jax.named_scope("loss"):
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2, 3))
    def train_step(self, parameters, state, key, images, labels):
        """Forward, backward and update for one batch; return what changed, and the mean loss."""
        key, own = jax.random.split(key)
        loss, gradients = jax.value_and_grad(self.loss)(parameters, images, labels, own)
        with jax.named_scope("optimizer"):
            updates, state = self.optimizer.update(gradients, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
        return parameters, state, key, loss

    @functools.partial(jax.jit, static_argnums=0)
    def infer_step(self, parameters, images):
        """Return the logits of one batch in inference mode."""
        return apply(self.layers, parameters, images)

    def load(self, weights):
        """Load {(layer, parameter): float32 array in canonical layout} in this program's layout: inputs first, channels last."""
        for (layer, name), values in weights.items():
            own = self._own_layout(layer, values)
            self.parameters_of[layer][name] = jax.device_put(own, self.device)

    def _own_layout(self, layer, values):
        if values.ndim == 4:
            return values.transpose(2, 3, 1, 0)
        if values.ndim == 1:
            return values
        names = [described.name for described in self.network.layers]
        before = self.network.layers[max(names.index(layer) - 1, 0)]
        if before.type == "flatten":
            channels, height, width = before.input_shape
            values = values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(values), -1)
        return values.T

    def parameters(self):
        """Return what is trainable as a list of {layer, name, shape, count}, with this program's shapes."""
        found = []
        for layer, own in self.parameters_of.items():
            for name, values in own.items():
                found.append({"layer": layer, "name": name, "shape": list(values.shape), "count": int(values.size)})
        return found

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels last and labels as class numbers of 32 bits."""
        return [(channels_last(images), labels.astype("int32")) for images, labels in batches]

    def stream(self, host_batches):
        """Yield each host batch as arrays on the device."""
        for images, labels in host_batches:
            yield jax.device_put(images, self.device), jax.device_put(labels, self.device)

    def train(self, batches):
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            self.parameters_of, self.state, self.key, loss = self.train_step(
                self.parameters_of, self.state, self.key, images, labels
            )
            self.losses.append(float(loss))

    def infer(self, batches):
        """Bring the logits of each batch to the host."""
        for images, _ in batches:
            logits = self.infer_step(self.parameters_of, images)
            numpy.asarray(logits)

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        return numpy.asarray(self.infer_step(self.parameters_of, channels_last(images)))

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output, channels first}, observed by running the layers one by one."""
        shapes, values = {}, channels_last(images)
        for name, layer in self.layers.items():
            values = layer(self.parameters_of.get(name), values, None)
            shape = list(values.shape[1:])
            shapes[name] = shape[-1:] + shape[:-1] if len(shape) == 3 else shape
        return shapes

    def functions(self):
        """Return the functions worth profiling line by line; the steps themselves are compiled and run no Python."""
        return [self.train if self.mode == "train" else self.infer]


def channels_last(images):
    """Return images [batch, channels, height, width] as [batch, height, width, channels]; other shapes as they are."""
    return numpy.ascontiguousarray(images.transpose(0, 2, 3, 1)) if images.ndim == 4 else images
