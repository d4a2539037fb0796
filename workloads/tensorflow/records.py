"""Training samples as a TFRecord file, and tf.data's pipeline over it.

A record is a tf.train.Example with `image`, the bytes of a uint8 array [height, width, channels], and `label`, its class.
"""

import os
from typing import Any, Iterator, List

import numpy
import tensorflow as tf

from kernelscope.workloads.files import DataError, image_shape
from kernelscope.workloads.networks import Network

FILE = "train.tfrecord"


def write(folder: str, samples: Any, network: Network) -> List[str]:
    """Write all samples (images uint8, labels) of a `files.Samples`; return the files' paths."""
    path = os.path.join(folder, FILE)
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(len(samples)):
            images, labels = samples.take(numpy.array([number]))
            image = tf.train.BytesList(value=[images[0].transpose(1, 2, 0).tobytes()])
            label = tf.train.Int64List(value=[int(labels[0])])
            feature = {"image": tf.train.Feature(bytes_list=image), "label": tf.train.Feature(int64_list=label)}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return [path]


def dataset(network: Network, path: str, batch: int) -> Any:
    """Return batches of (images, labels) in the file's order, repeated endlessly: images float32 in [0, 1], channels last."""
    channels, height, width = image_shape(network.input_shape)
    shape = (height, width, channels) if len(network.input_shape) == 3 else network.input_shape
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def decoded(record: Any) -> Any:
        sample = tf.io.parse_single_example(record, features)
        image = tf.reshape(tf.io.decode_raw(sample["image"], tf.uint8), shape)
        return tf.cast(image, tf.float32) / 255.0, sample["label"]

    records = tf.data.TFRecordDataset(path).map(decoded, num_parallel_calls=tf.data.AUTOTUNE)
    return records.repeat().batch(batch).prefetch(tf.data.AUTOTUNE)


def batches(program: Any, folder: str, batch: int) -> Iterator[Any]:
    """Yield (images, labels) as tensors on the program's device; raise DataError if the file is missing, empty or damaged."""
    path = os.path.join(folder, FILE)
    try:
        for images, labels in dataset(program.network, path, batch):
            with tf.device(program.device):
                placed = tf.identity(images), tf.identity(labels)
            yield placed
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
        raise DataError("%s: %s; convert the data again" % (path, error.message.split("\n")[0])) from error
    raise DataError("%s: contains no samples; convert the data again" % path)
