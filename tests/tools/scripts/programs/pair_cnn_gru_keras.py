import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers

# Strip-of-pixels classification, conv front end + GRU reading the columns
NUM_CLASSES = 10
HEIGHT, WIDTH = 32, 96
BATCH_SIZE = 32
EPOCHS = 6
STEPS_PER_EPOCH = int(sys.argv[1]) if len(sys.argv) > 1 else 64

keras.utils.set_random_seed(0)


def generate(n, seed):
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(99).random((NUM_CLASSES, HEIGHT, 24))
    labels = rng.integers(0, NUM_CLASSES, n)
    images = 0.5 * rng.random((n, HEIGHT, WIDTH, 1))
    starts = rng.integers(0, WIDTH - 24, n)
    for img, lab, s in zip(images, labels, starts):
        img[:, s:s + 24, 0] += patterns[lab]
    return images.astype("float32"), labels.astype("int64")


def get_model():
    inputs = keras.Input((HEIGHT, WIDTH, 1))
    x = layers.Conv2D(16, 3, padding="same")(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(32, 3, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.MaxPooling2D(2)(x)
    # columns become time steps: (8, 24, 32) -> (24, 8 * 32)
    x = layers.Permute((2, 1, 3))(x)
    x = layers.Reshape((WIDTH // 4, HEIGHT // 4 * 32))(x)
    x = layers.GRU(64)(x)
    outputs = layers.Dense(NUM_CLASSES)(x)
    return keras.Model(inputs, outputs)


x_train, y_train = generate(2048, 0)
dataset = (
    tf.data.Dataset.from_tensor_slices((x_train, y_train))
    .shuffle(2048)
    .repeat()
    .batch(BATCH_SIZE, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

model = get_model()
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.summary()


class EpochPrinter(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        print(f"epoch {epoch + 1}: " + ", ".join(f"{k}={v:.4f}" for k, v in logs.items()))


model.fit(
    dataset,
    epochs=EPOCHS,
    steps_per_epoch=STEPS_PER_EPOCH,
    callbacks=[EpochPrinter()],
    verbose=0,
)
