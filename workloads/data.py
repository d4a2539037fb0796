"""Input batches: seeded random data, or the user's own files.

Images are float32, channels first, in the shape of the network's input; random ones are in [0, 1), those from files in [0, 1].
Labels are int64. Random data is never zero or constant: power and, on some processors, speed depend on the values (see the
project's notes on power).

Runs under Python 3.6 with numpy only.
"""

import itertools
from typing import Iterator, List, Optional, Tuple

import numpy

from kernelscope.workloads import files
from kernelscope.workloads.files import DataError
from kernelscope.workloads.networks import Array, Network
from kernelscope.workloads.program import Batch

__all__ = ["DataError", "batches", "from_files"]


def batches(network: Network, batch: int, seed: int, count: int, folder: Optional[str] = None) -> List[Batch]:
    """Return `count` batches as a list of (images, labels), of `batch` samples each.

    Without `folder`, the data is drawn from `seed`. With it, the first count * batch training samples of the network's data set
    are read in one of the formats of `files`, starting over if the files have fewer. Raises DataError as `files.find` does.
    """
    if folder is not None:
        return list(itertools.islice(from_files(network, batch, folder), count))
    images, labels = _random(network, batch * count, seed)
    images = images.reshape((count, batch) + tuple(network.input_shape))
    labels = labels.reshape((count, batch))
    return [(numpy.ascontiguousarray(images[i]), numpy.ascontiguousarray(labels[i])) for i in range(count)]


def from_files(network: Network, batch: int, folder: str) -> Iterator[Batch]:
    """Yield (images, labels) of `batch` samples each, read on demand, in the files' order, endlessly; raise DataError."""
    samples = files.find(network, folder)
    for first in itertools.count(0, batch):
        images, labels = samples.take(numpy.arange(first, first + batch) % len(samples))
        if labels.max() >= network.classes:
            raise DataError("%s: a label is %d, but %s has %d classes" % (folder, labels.max(), network.name, network.classes))
        scaled = images.astype("float32") / numpy.float32(255.0)
        yield scaled.reshape((batch,) + tuple(network.input_shape)), labels


def _random(network: Network, samples: int, seed: int) -> Tuple[Array, Array]:
    random = numpy.random.RandomState(seed + 1)  # not the stream of the weights
    shape = (samples,) + tuple(network.input_shape)
    if network.words:
        images = random.randint(0, network.words, size=shape).astype("int64")
    else:
        images = random.uniform(0.0, 1.0, size=shape).astype("float32")
    labels = random.randint(0, network.classes, size=samples).astype("int64")
    return images, labels
