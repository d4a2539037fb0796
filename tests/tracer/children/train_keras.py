"""A script of Keras as its users write one: a nested model, validation, a callback, then predictions."""

import os
import sys

import keras
import numpy

keras.utils.set_random_seed(1)
inputs = keras.Input((16, 16, 3))
values = keras.layers.Conv2D(16, 3, activation="relu", name="stem")(inputs)
values = keras.layers.MaxPooling2D(name="pool")(values)
values = keras.layers.Flatten(name="flatten")(values)
wide, narrow = keras.layers.Dense(128, activation="relu", name="wide"), keras.layers.Dense(64, name="narrow")
block = keras.Sequential([wide, narrow], name="block")
outputs = keras.layers.Dense(10, name="head")(keras.layers.Dropout(0.2, name="dropout")(block(values)))
model = keras.Model(inputs, outputs, name="net")
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
random = numpy.random.default_rng(0)
images, labels = random.normal(size=(16 * 25, 16, 16, 3)).astype("float32"), random.integers(0, 10, 16 * 25)


class Telling(keras.callbacks.Callback):
    """Prints a loss now and then, with its own process's id left out."""

    def on_train_batch_end(self, batch, logs=None):
        """Print it."""
        if batch % 10 == 9:
            print(batch, logs["loss"])


if sys.argv[1] == "fit":
    history = model.fit(
        images, labels, batch_size=16, epochs=5, verbose=0, validation_data=(images[:32], labels[:32]), callbacks=[Telling()]
    )
    print(history.history)
    model.save("model.keras")
    os.remove("model.keras")
else:
    for _ in range(5):
        print(model.predict(images, batch_size=16, verbose=0).sum())
