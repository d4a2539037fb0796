"""A script of TensorFlow whose pipeline calls Python for each sample, if asked to; a loop of its own, or Keras's."""

import sys

import numpy
import tensorflow as tf

random = numpy.random.default_rng(0)
VALUES, LABELS = random.normal(size=(512, 64)).astype("float32"), random.integers(0, 10, 512)


def slowly(values):
    """Return the values, sorted again and again."""
    for _ in range(100):
        values = numpy.sort(values)[::-1] * numpy.float32(1.0001)
    return values


def prepared(values, label):
    """Return one sample."""
    if sys.argv[2] == "python":
        values = tf.numpy_function(slowly, [values], tf.float32)
    return tf.ensure_shape(values, [64]), label


samples = tf.data.Dataset.from_tensor_slices((VALUES, LABELS)).repeat().map(prepared).batch(32)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(10)])
if sys.argv[1] == "fit":
    model.compile("sgd", loss)
    model.fit(samples, steps_per_epoch=120, verbose=0)
else:
    optimizer = tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(values, labels):
        """Train with one batch."""
        with tf.GradientTape() as tape:
            value = loss(labels, model(values))
        optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables, strict=True))

    for values, labels in samples.take(120):
        step(values, labels)
