"""Makes the named changes, then does what a program does that each of them answers, and prints what became of it."""

import json
import sys

import keras
import numpy
import tensorflow as tf

from kernelscope.tracer.inside import changes
from kernelscope.tracer.inside.profiling.patches import Patches

met = []
for module in ("tensorflow", "keras"):
    changes.apply(module, sys.argv[1:], Patches(), lambda name, what: met.append([name, what]))

x, y = numpy.ones((8, 4), "float32"), numpy.ones((8, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
told = []  # batches


class Telling(keras.callbacks.Callback):
    """Notes that a batch is over."""

    def on_train_batch_end(self, batch, logs=None):
        """Note it."""
        told.append(batch)


model.fit(x, y, batch_size=4, epochs=1, verbose=0, shuffle=False, callbacks=[Telling()])
print("an epoch is over")


@tf.function
def squared(value):
    return tf.reduce_sum(value * value)


made = []  # samples


def sample(number):
    """Note that a sample is made."""
    made.append(int(number))
    return number


data = tf.data.Dataset.range(4).map(lambda n: tf.py_function(sample, [n], tf.int64)).batch(2)
epochs = [[batch.numpy().tolist() for batch in data] for _ in range(2)]
total = float(squared(tf.constant([1.0, 2.0])))
keras.backend.set_floatx("float64")
found = {"eager": bool(model.run_eagerly), "compiled": bool(model.jit_compile), "total": total, "type": keras.backend.floatx()}
found["computed in"] = str(model(x).dtype)
found.update(made=len(made), epochs=epochs, told=told)
sys.stdout.write(json.dumps({"met": met, **found}))  # printing may be among what is changed
