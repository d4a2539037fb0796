"""Training samples as RecordIO, and Gluon's loader over it.

A record is MXNet's header with the class, and the bytes of an image uint8 [channels, height, width]; beside the records lies
their index.
"""

import itertools
import os

import mxnet as mx
import numpy
from mxnet.gluon.data import DataLoader, RecordFileDataset, Sampler

from kernelscope.workloads.files import DataError, image_shape

FILE, INDEX = "train.rec", "train.idx"


def write(folder, samples, network):
    """Write all samples (images uint8, labels) of an object of `files`; return the files' paths."""
    paths = [os.path.join(folder, name) for name in (FILE, INDEX)]
    writer = mx.recordio.MXIndexedRecordIO(paths[1], paths[0], "w")
    for number in range(len(samples)):
        images, labels = samples.take(numpy.array([number]))
        header = mx.recordio.IRHeader(0, float(labels[0]), number, 0)
        writer.write_idx(number, mx.recordio.pack(header, images[0].tobytes()))
    writer.close()
    return paths


class Records(RecordFileDataset):
    """The samples of a file of records: float32 images in [0, 1) of the network's shape, and classes."""

    def __init__(self, path, network):
        for name in (path, os.path.splitext(path)[0] + ".idx"):
            if not os.path.exists(name):
                raise DataError("%s: not there; convert the data with `kernelscope data convert`" % name)
        super(Records, self).__init__(path)
        self.path, self.shape, self.size = path, network.input_shape, int(numpy.prod(image_shape(network.input_shape)))
        if not len(self):
            raise DataError("%s: holds no samples; convert the data again" % path)

    def __getitem__(self, number):
        header, content = mx.recordio.unpack(super(Records, self).__getitem__(number))
        if len(content) != self.size:
            raise DataError("%s: an image of %d bytes, not of %d; convert the data again" % (self.path, len(content), self.size))
        image = numpy.frombuffer(content, dtype="uint8").reshape(self.shape)
        return image.astype("float32") / numpy.float32(255.0), header.label


class OverAndOver(Sampler):
    """All samples in their order, without an end."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return itertools.cycle(range(self.length))

    def __len__(self):
        return self.length


def batches(program, folder, batch):
    """Yield (images, labels) as NDArrays on the program's device."""
    records = Records(os.path.join(folder, FILE), program.network)
    for images, labels in DataLoader(records, batch_size=batch, sampler=OverAndOver(len(records)), last_batch="keep"):
        yield images.as_in_context(program.context), labels.astype("float32").as_in_context(program.context)
