"""An input pipeline with a slow map and no prefetching: the step waits for each batch to be made."""

import itertools

import tensorflow as tf

from kernelscope.workloads.tensorflow import program


def slowly(images, labels):
    enlarged = tf.image.resize(images, (224, 224), method="bicubic")
    return images + 1e-30 * tf.reduce_mean(enlarged), labels


class Program(program.Program):
    def stream(self, host_batches):
        first = next(host_batches)
        signature = tuple(tf.TensorSpec(array.shape, array.dtype) for array in first)
        batches = itertools.chain([first], host_batches)
        return iter(tf.data.Dataset.from_generator(lambda: batches, output_signature=signature).map(slowly))
