"""Training and inference loops as a user of CNTK writes them: a Trainer, its minibatches, and eval."""

import importlib

import cntk as C
import numpy

from kernelscope.workloads import networks

# Canonical gate order is input, forget, cell, output; CNTK's LSTM block slices input, cell, forget, output.
_GATES_OF_CNTK = (0, 2, 1, 3)
_SCHEDULED_STEPS = 400  # after so many steps a bias correction with decay 0.9 is 1 in float64
_PARAMETERS = {"weight": "W", "bias": "b", "input_weight": "W", "hidden_weight": "H"}


class Program(object):
    """One network on CNTK; see the options in the session's specification (mode, batch, device, seed, dropout)."""

    def __init__(self, network, options):
        self.network = network
        self.losses = []
        C.cntk_py.set_fixed_random_seed(options["seed"])
        module = importlib.import_module("%s.%s" % (__package__, network.name))
        if network.name == "lstm":
            self.images = C.sequence.input_variable(network.input_shape[1], name="images")
        else:
            self.images = C.input_variable(network.input_shape, name="images")
        self.labels = C.input_variable(network.classes, name="labels")
        self.mode = options["mode"]
        self.model = module.model(network, options["dropout"])(self.images)
        self.trainer = None
        if self.mode == "train":
            self.loss = C.cross_entropy_with_softmax(self.model, self.labels, name="loss")
            learner = _learner(self.model.parameters, network.optimizer, options["batch"])
            self.trainer = C.Trainer(self.model, self.loss, [learner])

    def _layer(self, name):
        """Return the function of this layer, wherever in the model it is."""
        return self.model.find_by_name(name, depth=-1)

    def _owned(self, layer):
        """Return {CNTK's name: parameter} of a canonical layer."""
        function = self._layer(layer.name)
        if layer.type == "lstm":
            # the recurrence is no block: its parameters are those of the model that carry no later layer's name
            later = {p.uid for other in self.network.layers if other.type == "dense" for p in self._owned(other).values()}
            return {p.name: p for p in self.model.parameters if p.uid not in later}
        return {p.name: p for p in function.parameters}

    def load(self, weights):
        """Load the canonical weights."""
        layers = {layer.name: layer for layer in self.network.layers}
        for (name, parameter), values in weights.items():
            layer = layers[name]
            target = self._owned(layer)[_PARAMETERS[parameter]]
            target.value = numpy.ascontiguousarray(_to_cntk(layer, values)).reshape(target.shape)

    def parameters(self):
        """Return what is trainable: layer, name, CNTK's shape and count of each tensor."""
        found = []
        for layer in self.network.layers:
            if layer.parameters:
                for name, parameter in sorted(self._owned(layer).items()):
                    shape = [int(size) for size in parameter.shape]
                    row = {"layer": layer.name, "name": name, "shape": shape, "count": networks.elements(shape)}
                    found.append(row)
        return found

    def prepare(self, batches):
        """Return host batches as CNTK takes them: float32 images and one-hot float32 labels."""
        one_hot = numpy.eye(self.network.classes, dtype="float32")
        return [(images, one_hot[labels]) for images, labels in batches]

    def stream(self, host_batches):
        """Yield what the loop feeds: CNTK takes numpy arrays and converts them inside its own calls."""
        for images, labels in host_batches:
            yield images, labels

    def train(self, batches):
        """Train on every batch and read its loss."""
        for images, labels in batches:
            self.trainer.train_minibatch({self.images: images, self.labels: labels})
            self.losses.append(self.trainer.previous_minibatch_loss_average)

    def infer(self, batches):
        """Evaluate every batch; the outputs come back as numpy."""
        for images, _ in batches:
            self.model.eval({self.images: images})

    def outputs(self, images):
        """Return the logits of canonical images."""
        return numpy.asarray(self.model.eval({self.images: images})).reshape(len(images), -1)

    def layer_shapes(self, images):
        """Return each layer's output shape for one sample, as its evaluation gives it."""
        names = [layer.name for layer in self.network.layers if layer.type != "loss"]
        observed = {}
        for name in names:
            values = C.as_composite(self._layer(name)).eval({self.images: images[:2]})
            observed[name] = [int(size) for size in numpy.asarray(values).shape[1:]]
        return observed

    def functions(self):
        """Return the functions whose lines are profiled."""
        return [self.train if self.mode == "train" else self.infer]


def _learner(parameters, optimizer, batch):
    """Return the update rule of the network on gradients that are means over the batch.

    CNTK's own rmsprop is another rule: it adds 1e-6 under the root and starts its average at the first squared gradient,
    which moves the third loss by more than a thousandth. Its Adam without first moment is RMSProp but for a factor
    sqrt(1 - decay ** step), which the learning rate takes back; it agrees with other frameworks to the last digits.
    """
    rate = optimizer["learning_rate"]
    if optimizer["name"] == "sgd":
        momentum = C.momentum_schedule(optimizer["momentum"])
        return C.momentum_sgd(parameters, C.learning_parameter_schedule(rate), momentum, unit_gain=False)
    decay = optimizer["decay"]
    steps = numpy.arange(1, _SCHEDULED_STEPS + 1)
    rates = [float(value) for value in rate / numpy.sqrt(1.0 - decay**steps)]
    # without a reference minibatch size rates are used as they are; one entry serves one minibatch
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


def _to_cntk(layer, values):
    """Return a canonical parameter in CNTK's layout: dense and recurrent weights are (in, out)."""
    if layer.type == "lstm":
        gates = values.reshape((4, -1) + values.shape[1:])[list(_GATES_OF_CNTK)]
        return gates.reshape(values.shape).T
    return values.T if layer.type == "dense" else values
