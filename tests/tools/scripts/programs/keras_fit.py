"""Keras 3 CNN with model.fit and a tf.data pipeline."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

IMG = 32
NUM_CLASSES = 6
SEED = 42


def fake_dataset(n, seed):
    rs = np.random.RandomState(seed)
    y = rs.randint(0, NUM_CLASSES, size=(n,)).astype("int32")
    base = np.random.RandomState(0).rand(NUM_CLASSES, IMG, IMG, 3)
    x = 0.6 * base[y] + 0.4 * rs.rand(n, IMG, IMG, 3)
    return (x * 255).astype("uint8"), y


def augment(image, label):
    image = tf.cast(image, tf.float32) / 255.0
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.1)
    return image, label


def scale(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


def make_pipeline(x, y, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(1024, seed=SEED).repeat()
        ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        ds = ds.map(scale)
    return ds.batch(batch_size, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


def build_model():
    inputs = keras.Input(shape=(IMG, IMG, 3))
    x = layers.Conv2D(24, 3, padding="same", use_bias=False)(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(48, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(NUM_CLASSES, activation="softmax")(x)
    return keras.Model(inputs, outputs, name="small_cnn")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps-per-epoch", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()

    keras.utils.set_random_seed(SEED)
    x_train, y_train = fake_dataset(4000, seed=1)
    x_val, y_val = fake_dataset(256, seed=2)
    train_ds = make_pipeline(x_train, y_train, args.batch, training=True)
    val_ds = make_pipeline(x_val, y_val, 64, training=False)

    model = build_model()
    model.summary()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )

    callbacks = [
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=2),
    ]
    history = model.fit(
        train_ds,
        epochs=args.epochs,
        steps_per_epoch=args.steps_per_epoch,
        validation_data=val_ds,
        callbacks=callbacks,
        verbose=2,
    )
    print("final val accuracy: %.3f" % history.history["val_accuracy"][-1])


if __name__ == "__main__":
    main()
