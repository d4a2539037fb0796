"""Training samples as a WebDataset, and PyTorch's loader over it.

A WebDataset is a tar file in which members with the same base name are one sample: here <number>.npy, an image uint8 [channels,
height, width], and <number>.cls, its class as text. Source of the format: the WebDataset project's specification.
"""

import io
import os
import tarfile
from typing import Any, Iterator, List

import numpy
import torch
from torch.utils.data import DataLoader, IterableDataset

from kernelscope.workloads.files import DataError, image_shape
from kernelscope.workloads.networks import Network

FILE = "train.tar"


def write(folder: str, samples: Any, network: Network) -> List[str]:
    """Write all samples (images uint8, labels) of a `files.Samples`; return the files' paths."""
    path = os.path.join(folder, FILE)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(len(samples)):
            images, labels = samples.take(numpy.array([number]))
            content = io.BytesIO()
            numpy.save(content, numpy.ascontiguousarray(images[0]), allow_pickle=False)
            for ending, values in (("npy", content.getvalue()), ("cls", str(labels[0]).encode())):
                member = tarfile.TarInfo("%08d.%s" % (number, ending))
                member.size = len(values)
                tar.addfile(member, io.BytesIO(values))
    return [path]


class WebDataset(IterableDataset):
    """The samples of a tar file in order, repeated endlessly: float32 images in [0, 1] of the network's shape, and classes.

    Iterating raises DataError if the file is missing, empty, damaged or has images of another shape.
    """

    def __init__(self, path: str, network: Network) -> None:
        self.path, self.network = path, network

    def __iter__(self) -> Iterator[Any]:
        while True:
            read, image = 0, None
            try:
                with tarfile.open(self.path, "r|") as tar:
                    for member in tar:
                        content = tar.extractfile(member).read()  # type: ignore[union-attr]
                        if member.name.endswith(".npy"):
                            image = self.decoded(member.name, content)
                        elif member.name.endswith(".cls") and image is not None:
                            read, label = read + 1, int(content)
                            yield image, label
            except (OSError, ValueError, tarfile.TarError) as error:
                raise DataError("%s: %s; convert the data again" % (self.path, error)) from error
            if not read:
                raise DataError("%s: contains no samples; convert the data again" % self.path)

    def decoded(self, name: str, content: bytes) -> Any:
        """Return one image as a tensor; raise ValueError if it has another shape or type."""
        values = numpy.load(io.BytesIO(content), allow_pickle=False)
        if values.dtype != numpy.uint8 or values.shape != image_shape(self.network.input_shape):
            raise ValueError("%s is %s %s" % (name, values.dtype, list(values.shape)))
        return torch.from_numpy(values).reshape(self.network.input_shape).float() / 255


def batches(program: Any, folder: str, batch: int) -> Iterator[Any]:
    """Yield (images, labels) as tensors on the program's device, in its layout; raise DataError as WebDataset does."""
    for images, labels in DataLoader(WebDataset(os.path.join(folder, FILE), program.network), batch_size=batch):
        yield images.to(program.device, memory_format=program.memory_format), labels.to(program.device)
