"""Input batches: seeded random data, or the user's own MNIST and CIFAR-10 files.

Images are float32 in [0, 1), channels first, in the shape of the network's input; labels are int64. Random data is never
zero or constant: power and, on some processors, speed depend on the values (see the project's notes on power).

Runs under Python 3.6 with numpy only.
"""

import gzip
import os
import struct

import numpy


class DataError(ValueError):
    """A data file is missing, cut short or of another format."""


def batches(network, batch, seed, count, folder=None):
    """Return `count` batches as a list of (images, labels), of `batch` samples each.

    Without `folder` the data is drawn from `seed`. With it, the first count * batch training samples of the network's data
    set are read from MNIST idx files (train-images-idx3-ubyte, plain or .gz) or CIFAR-10 binary files (data_batch_1.bin ...),
    starting over when the files hold fewer.
    """
    if folder is None:
        images, labels = _random(network, batch * count, seed)
    else:
        reader = _read_mnist if network.dataset == "mnist" else _read_cifar10
        images, labels = reader(folder, batch * count)
    images = images.reshape((count, batch) + tuple(network.input_shape))
    labels = labels.reshape((count, batch))
    return [(numpy.ascontiguousarray(images[i]), numpy.ascontiguousarray(labels[i])) for i in range(count)]


def _random(network, samples, seed):
    random = numpy.random.RandomState(seed + 1)  # not the stream the weights came from
    shape = (samples,) + tuple(network.input_shape)
    if network.words:
        images = random.randint(0, network.words, size=shape).astype("int64")
    else:
        images = random.uniform(0.0, 1.0, size=shape).astype("float32")
    labels = random.randint(0, network.classes, size=samples).astype("int64")
    return images, labels


def _open(folder, name):
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return open(path, "rb"), path
    if os.path.exists(path + ".gz"):
        return gzip.open(path + ".gz", "rb"), path + ".gz"
    raise DataError("%s: no %s or %s.gz there; leave out --data to use random data" % (folder, name, name))


def _read_exactly(file, path, size):
    content = file.read(size)
    if len(content) != size:
        raise DataError("%s: ends after %d of %d bytes; fetch the file again" % (path, len(content), size))
    return content


def _read_idx(folder, name, dimensions):
    """Read one idx file of unsigned bytes: a magic number, the sizes as big-endian integers, then the values."""
    file, path = _open(folder, name)
    with file:
        (magic,) = struct.unpack(">I", _read_exactly(file, path, 4))
        if magic != 0x0800 + dimensions:
            raise DataError("%s: not an idx file of %d dimensions (magic number %#x)" % (path, dimensions, magic))
        shape = struct.unpack(">%dI" % dimensions, _read_exactly(file, path, 4 * dimensions))
        size = int(numpy.prod([int(s) for s in shape]))
        if size == 0 or size > 1 << 31:
            raise DataError("%s: claims to hold %d values" % (path, size))
        values = numpy.frombuffer(_read_exactly(file, path, size), dtype="uint8")
    return values.reshape(shape)


def _read_mnist(folder, samples):
    images = _read_idx(folder, "train-images-idx3-ubyte", 3)
    labels = _read_idx(folder, "train-labels-idx1-ubyte", 1)
    if len(images) != len(labels):
        raise DataError("%s: %d images but %d labels" % (folder, len(images), len(labels)))
    return _take(images, labels, samples)


def _read_cifar10(folder, samples):
    """Read CIFAR-10's binary version: records of one label byte and 3072 bytes of planes red, green, blue."""
    images, labels, have = [], [], 0
    for number in range(1, 6):
        name = "data_batch_%d.bin" % number
        if have >= samples or (number > 1 and not os.path.exists(os.path.join(folder, name))):
            break
        file, path = _open(folder, name)
        with file:
            content = file.read()
        if not content or len(content) % 3073:
            raise DataError("%s: %d bytes are not whole records of 3073 bytes" % (path, len(content)))
        records = numpy.frombuffer(content, dtype="uint8").reshape(-1, 3073)
        labels.append(records[:, 0])
        images.append(records[:, 1:].reshape(-1, 3, 32, 32))
        have += len(records)
    return _take(numpy.concatenate(images), numpy.concatenate(labels), samples)


def _take(images, labels, samples):
    order = numpy.arange(samples) % len(images)
    scaled = images[order].astype("float32") / numpy.float32(255.0)
    return scaled, labels[order].astype("int64")
