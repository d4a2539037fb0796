"""The training and inference loops that all networks share, as a TensorFlow 2 and Keras 3 user writes them."""

import keras
import numpy
import tensorflow as tf

from kernelscope.workloads.tensorflow import cnn, lenet, lstm, mlp

MODELS = {"lenet": lenet.build, "mlp": mlp.build, "cnn": cnn.build, "lstm": lstm.build}

# canonical name of a parameter -> Keras's; a recurrent layer's gates come in the same order (input, forget, cell, output)
PARAMETERS = {"weight": "kernel", "input_weight": "kernel", "hidden_weight": "recurrent_kernel", "bias": "bias"}


class RMSprop(keras.optimizers.RMSprop):
    """RMSprop with epsilon outside of the root: w -= rate * g / (sqrt(v) + epsilon).

    Keras adds it under the root. No value there gives the same update: gradients near epsilon move their weights by up to a
    third more or less, which alone changes the third loss by more than the 0.1% that a fair comparison allows.
    """

    def update_step(self, gradient, variable, learning_rate):
        """Apply one gradient; as many operators as the original runs."""
        ops = keras.ops
        rate = ops.cast(learning_rate, variable.dtype)
        velocity = self._velocities[self._get_variable_index(variable)]
        square = ops.multiply(1 - self.rho, ops.square(gradient))
        self.assign(velocity, ops.add(ops.multiply(self.rho, velocity), square))
        denominator = ops.add(ops.sqrt(velocity), self.epsilon)
        self.assign_sub(variable, ops.divide(ops.multiply(rate, gradient), denominator))


def make_optimizer(settings):
    """Return the optimizer of a network's description."""
    if settings["name"] == "sgd":
        return keras.optimizers.SGD(settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return RMSprop(settings["learning_rate"], rho=settings["decay"], epsilon=1e-7)
    raise ValueError("no optimizer %r here" % settings["name"])


def channels_last(images):
    """Return images [batch, channels, height, width] as [batch, height, width, channels]; other shapes as they are."""
    return numpy.ascontiguousarray(images.transpose(0, 2, 3, 1)) if images.ndim == 4 else images


class Program(object):
    """One network with its loops; `options` are mode, batch, device, seed, threads and dropout."""

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
        self.device = "/GPU:0" if str(options.get("device") or "cpu").startswith("cuda") else "/CPU:0"
        keras.utils.set_random_seed(options.get("seed") or 0)
        with tf.device(self.device):
            self.model = MODELS[network.name](options.get("dropout", True))
            self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="loss")
            self.optimizer = make_optimizer(network.optimizer)
            self.optimizer.build(self.model.trainable_variables)
        self.losses = []

    @tf.function
    def train_step(self, images, labels):
        """Forward, backward and update for one batch; return its mean loss."""
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = self.loss(labels, logits)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss

    @tf.function
    def infer_step(self, images):
        """Return the logits of one batch in inference mode."""
        return self.model(images, training=False)

    def load(self, weights):
        """Load {(layer, parameter): float32 array in canonical layout} in Keras's layout."""
        for (layer, name), values in weights.items():
            target = self.model.get_layer(layer)
            variable = getattr(getattr(target, "cell", target), PARAMETERS[name])
            variable.assign(self._keras_layout(layer, values))

    def _keras_layout(self, layer, values):
        """Return a parameter's values in the layout that Keras keeps: inputs first, channels last."""
        if values.ndim == 4:
            return values.transpose(2, 3, 1, 0)
        if values.ndim == 1:
            return values
        source = self._flattened_by(layer)
        if source is not None:
            height, width, channels = source
            values = values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(values), -1)
        return values.T

    def _flattened_by(self, name):
        """Return (height, width, channels) of what is flattened into the layer's inputs, or None."""
        layers = self.model.layers
        position = [layer.name for layer in layers].index(name)
        before = layers[position - 1] if position else None
        if not isinstance(before, keras.layers.Flatten):
            return None
        return tuple(before.input.shape[1:])

    def parameters(self):
        """Return what is trainable as a list of {layer, name, shape, count}, with Keras's names and shapes."""
        found = []
        for layer in self.model.layers:
            for variable in layer.trainable_variables:
                shape = [int(size) for size in variable.shape]
                count = int(numpy.prod(shape))
                found.append({"layer": layer.name, "name": variable.name, "shape": shape, "count": count})
        return found

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels last and labels as class numbers."""
        return [(channels_last(images), labels) for images, labels in batches]

    def stream(self, host_batches):
        """Yield each host batch as tensors on the device."""
        for images, labels in host_batches:
            with tf.device(self.device):
                tensors = tf.convert_to_tensor(images), tf.convert_to_tensor(labels)
            yield tensors

    def train(self, batches):
        """Train one step per batch and keep each step's loss."""
        for images, labels in batches:
            loss = self.train_step(images, labels)
            self.losses.append(float(loss))

    def infer(self, batches):
        """Bring the logits of each batch to the host."""
        for images, _ in batches:
            logits = self.infer_step(images)
            logits.numpy()

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        return self.infer_step(tf.convert_to_tensor(channels_last(images))).numpy()

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output, channels first}, observed by running the layers one by one."""
        shapes = {}
        values = tf.convert_to_tensor(channels_last(images))
        for layer in self.model.layers:
            values = layer(values, training=False) if isinstance(layer, keras.layers.Dropout) else layer(values)
            shape = [int(size) for size in values.shape[1:]]
            shapes[layer.name] = shape[-1:] + shape[:-1] if len(shape) == 3 else shape
        return shapes

    def functions(self):
        """Return the functions worth profiling line by line; the steps themselves are compiled and run no Python."""
        return [self.train if self.mode == "train" else self.infer]
