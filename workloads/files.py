"""Data sets as they are published (MNIST's idx files, CIFAR-10's binary files, folders of images) and as numpy arrays.

Uncompressed files are memory-mapped: only the samples that are taken are read from the disk.

Runs under Python 3.6 with numpy only; folders of images need Pillow too.
"""

import gzip
import os
import struct
from typing import IO, Any, Sequence, Tuple, cast

import numpy

from kernelscope.workloads.networks import Array, Network

IMAGE_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".webp")
ARRAYS = ("train-images.npy", "train-labels.npy")
MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
_CIFAR10_RECORD = 1 + 3 * 32 * 32  # a label, and planes red, green, blue


class DataError(ValueError):
    """A data file is missing, truncated or in another format."""


class Samples(object):
    """The samples of one data set; len() is their number."""

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self, indices: Array) -> Tuple[Array, Array]:
        """Return (images, labels) of these samples: uint8 [count, channels, height, width] and int64 [count]."""
        raise NotImplementedError


def find(network: Network, folder: str) -> Samples:
    """Return the training samples in a folder; raise DataError if there are none for this network, or if a file is damaged.

    Arrays take precedence; otherwise the network's data set decides the format.
    """
    if os.path.exists(os.path.join(folder, ARRAYS[0])):
        return Arrays(folder, network.input_shape)
    if network.dataset == "mnist":
        return Idx(folder)
    if network.dataset == "cifar10" and not _has_images(folder):
        return Cifar10(folder)
    if network.dataset in ("cifar10", "imagenet"):
        return ImageFolder(folder, network.input_shape)
    raise DataError("%s: %s takes no images; leave out --data to use random data" % (folder, network.name))


class Idx(Samples):
    """MNIST: a file of images and one of labels, each plain or compressed (.gz)."""

    def __init__(self, folder: str) -> None:
        self.images, self.labels = (_read_idx(folder, name, size) for name, size in zip(MNIST, (3, 1)))
        if len(self.images) != len(self.labels):
            raise DataError("%s: %d images but %d labels" % (folder, len(self.images), len(self.labels)))

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Array) -> Tuple[Array, Array]:
        """Return (images, labels) of these samples."""
        return self.images[indices][:, None], self.labels[indices].astype("int64")


class Cifar10(Samples):
    """CIFAR-10's binary version: data_batch_1.bin to _5.bin, up to the first one that is missing."""

    def __init__(self, folder: str) -> None:
        self.files = []
        for number in range(1, 6):
            path = os.path.join(folder, "data_batch_%d.bin" % number)
            if number > 1 and not os.path.exists(path):
                break
            self.files.append(_cifar10_records(folder, os.path.basename(path)))
        self.ends = numpy.cumsum([len(records) for records in self.files])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def take(self, indices: Array) -> Tuple[Array, Array]:
        """Return (images, labels) of these samples."""
        files: Array = numpy.searchsorted(self.ends, indices, side="right")
        starts = numpy.concatenate([[0], self.ends])
        records = numpy.stack([self.files[file][index - starts[file]] for file, index in zip(files, indices)])
        return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype("int64")


class Arrays(Samples):
    """Two numpy files: images uint8 [count, channels, height, width] and labels, integers [count]."""

    def __init__(self, folder: str, shape: Sequence[int]) -> None:
        self.images, self.labels = (_mapped(os.path.join(folder, name)) for name in ARRAYS)
        if self.images.dtype != numpy.uint8 or self.images.shape[1:] != tuple(image_shape(shape)):
            found = "%s %s" % (self.images.dtype, list(self.images.shape[1:]))
            raise DataError("%s: images are %s, not uint8 %s" % (folder, found, list(image_shape(shape))))
        if self.labels.shape != (len(self.images),) or self.labels.dtype.kind not in "iu" or not len(self.images):
            found = "%s %s" % (self.labels.dtype, list(self.labels.shape))
            raise DataError("%s: %d images but labels are %s, not one integer each" % (folder, len(self.images), found))

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Array) -> Tuple[Array, Array]:
        """Return (images, labels) of these samples."""
        return self.images[indices], self.labels[indices].astype("int64")


class ImageFolder(Samples):
    """A folder of images for each class. Classes are numbered from 0, by folder name; the order of samples is random but fixed.

    Each image is scaled to just cover the network's input, and its centre is cropped. Needs Pillow.
    """

    def __init__(self, folder: str, shape: Sequence[int]) -> None:
        try:
            from PIL import Image
        except ImportError as error:
            remedy = "install it, or let `kernelscope data convert` make records, which do not need it"
            raise DataError("%s: reading images needs Pillow, which is missing here; %s" % (folder, remedy)) from error
        self.library: Any = Image
        self.shape = shape
        classes = sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
        found = [(os.path.join(folder, name), label) for label, name in enumerate(classes)]
        found = [(os.path.join(path, name), label) for path, label in found for name in sorted(os.listdir(path))]
        found = [(path, label) for path, label in found if path.lower().endswith(IMAGE_ENDINGS)]
        if not found:
            raise DataError("%s: found no images in subfolders, one for each class" % folder)
        order = numpy.random.RandomState(0).permutation(len(found))
        self.samples = [found[number] for number in order]

    def __len__(self) -> int:
        return len(self.samples)

    def take(self, indices: Array) -> Tuple[Array, Array]:
        """Return (images, labels) of these samples, decoded; raise DataError for a damaged image."""
        chosen = [self.samples[index] for index in indices]
        return numpy.stack([self._decoded(path) for path, _ in chosen]), numpy.array([label for _, label in chosen], "int64")

    def _decoded(self, path: str) -> Array:
        channels, height, width = self.shape
        try:
            with self.library.open(path) as opened:
                image = opened.convert("RGB" if channels == 3 else "L")
        except (OSError, ValueError, self.library.DecompressionBombError) as error:
            raise DataError("%s: cannot read this image: %s" % (path, error)) from error
        factor = max(float(height) / image.height, float(width) / image.width)
        size = max(width, int(round(image.width * factor))), max(height, int(round(image.height * factor)))
        image = image.resize(size, self.library.BILINEAR)
        left, top = (size[0] - width) // 2, (size[1] - height) // 2
        values = numpy.asarray(image.crop((left, top, left + width, top + height)))
        return values.reshape(height, width, channels).transpose(2, 0, 1)


def image_shape(shape: Sequence[int]) -> Tuple[int, ...]:
    """Return channels, height and width of a network's input; flat and row-wise inputs are MNIST images."""
    return tuple(shape) if len(shape) == 3 else (1, 28, 28)


def _has_images(folder: str) -> bool:
    return not os.path.exists(os.path.join(folder, "data_batch_1.bin")) and any(
        os.path.isdir(os.path.join(folder, name)) for name in os.listdir(folder)
    )


def _mapped(path: str) -> Array:
    try:
        return numpy.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError("%s: not a numpy array: %s" % (path, error)) from error


def _open(folder: str, name: str) -> Tuple[IO[bytes], str]:
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return open(path, "rb"), path
    if os.path.exists(path + ".gz"):
        return cast(IO[bytes], gzip.open(path + ".gz", "rb")), path + ".gz"
    raise DataError("%s: no %s or %s.gz found; leave out --data to use random data" % (folder, name, name))


def _read_exactly(file: IO[bytes], path: str, size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise DataError("%s: ends after %d of %d bytes; download the file again" % (path, len(content), size))
    return content


def _read_idx(folder: str, name: str, dimensions: int) -> Array:
    """Return one idx file of unsigned bytes as an array; the file is a magic number, big-endian sizes, then the values."""
    file, path = _open(folder, name)
    with file:
        (magic,) = struct.unpack(">I", _read_exactly(file, path, 4))
        if magic != 0x0800 + dimensions:
            raise DataError("%s: not an idx file with %d dimensions (magic number %#x)" % (path, dimensions, magic))
        shape = struct.unpack(">%dI" % dimensions, _read_exactly(file, path, 4 * dimensions))
        size = int(numpy.prod([int(s) for s in shape]))
        if size == 0 or size > 1 << 31:
            raise DataError("%s: its header claims %d values" % (path, size))
        if path.endswith(".gz") or os.path.getsize(path) < file.tell() + size:
            return numpy.frombuffer(_read_exactly(file, path, size), dtype="uint8").reshape(shape)
        return numpy.memmap(path, "uint8", "r", file.tell(), shape)


def _cifar10_records(folder: str, name: str) -> Array:
    file, path = _open(folder, name)
    with file:
        content = file.read() if path.endswith(".gz") else None
    size = os.path.getsize(path) if content is None else len(content)
    if not size or size % _CIFAR10_RECORD:
        raise DataError("%s: %d bytes are not a whole number of %d-byte records" % (path, size, _CIFAR10_RECORD))
    values = numpy.memmap(path, "uint8", "r") if content is None else numpy.frombuffer(content, dtype="uint8")
    return values.reshape(-1, _CIFAR10_RECORD)
