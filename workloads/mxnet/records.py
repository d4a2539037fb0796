"""Training samples as RecordIO, and MXNet's own image reader, which decodes on its own threads outside Python.

A record is MXNet's header with the class, and an image as lossless PNG; `im2rec --encoding .png` packs the same. The records
have an index file: a line for each, with its number and its position.
"""

import os
import struct
import zlib
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import mxnet as mx
import numpy

from kernelscope.workloads.files import DataError, image_shape
from kernelscope.workloads.networks import Array, Network

FILE, INDEX = "train.rec", "train.idx"
_MAGIC = 0xCED7230A  # at the start of each record
_LENGTH = (1 << 29) - 1  # mask of the length in a record's second number
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = {1: 0, 3: 2}  # channels -> PNG's colour type: grey, RGB


def write(folder: str, samples: Any, network: Network) -> List[str]:
    """Write all samples (images uint8, labels) of a `files.Samples`; return the files' paths."""
    paths = [os.path.join(folder, name) for name in (FILE, INDEX)]
    writer = mx.recordio.MXIndexedRecordIO(paths[1], paths[0], "w")
    for number in range(len(samples)):
        images, labels = samples.take(numpy.array([number]))
        header = mx.recordio.IRHeader(0, float(labels[0]), number, 0)
        writer.write_idx(number, mx.recordio.pack(header, png(images[0])))
    writer.close()
    return paths


def png(image: Array) -> bytes:
    """Return an image uint8 [channels, height, width] as the bytes of a PNG file; MXNet's own writer needs OpenCV's package."""
    channels, height, width = image.shape
    rows = image.transpose(1, 2, 0).reshape(height, width * channels)
    filtered = numpy.concatenate([numpy.zeros((height, 1), "uint8"), rows], axis=1)  # filter type 0 before each row
    size = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    chunks = (b"IHDR", size), (b"IDAT", zlib.compress(filtered.tobytes(), 1)), (b"IEND", b"")
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content) & 0xFFFFFFFF
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def batches(program: Any, folder: str, batch: int) -> Iterator[Any]:
    """Yield (images, labels) as NDArrays on the program's device, in the records' order, repeated endlessly.

    Raises DataError if the files are missing or truncated, have images of another size, or fewer samples than a batch.
    """
    paths = [os.path.join(folder, name) for name in (FILE, INDEX)]
    shape = image_shape(program.network.input_shape)
    _check(paths, shape, batch)
    reader = mx.io.ImageRecordIter(
        path_imgrec=paths[0],
        path_imgidx=paths[1],
        data_shape=shape,
        batch_size=batch,
        scale=1.0 / 255.0,
        verbose=False,
    )  # with ctx="cpu" it would decode each batch into the previous one's memory, even while that is being read
    while True:
        for read in reader:
            images = read.data[0].as_in_context(program.context).reshape((batch,) + tuple(program.network.input_shape))
            yield images, read.label[0].as_in_context(program.context)
        reader.reset()  # the last batch was filled up from the start; the next pass begins after those samples


def _check(paths: Any, shape: Sequence[int], batch: int) -> None:
    """Raise DataError for bad files: MXNet's reader would end the process, from its own thread, or decode garbage."""
    for path in paths:
        if not os.path.exists(path):
            raise DataError("%s: not found; convert the data with `kernelscope data convert`" % path)
    with open(paths[1]) as index:
        lines = index.read().split("\n")[:-1]
    if len(lines) < batch:
        raise DataError("%s: %d samples are fewer than a batch of %d; use a smaller batch" % (paths[0], len(lines), batch))
    with open(paths[0], "rb") as records:
        for line in (lines[0], lines[-1]):
            found = _image_size(records, line)
            if found != shape[1:]:
                what = "truncated or not a PNG" if found is None else "%d x %d pixels" % found
                wanted = (paths[0], line.split("\t")[0], what, shape[1], shape[2])
                raise DataError("%s: record %s is %s, not an image of %d x %d; convert the data again" % wanted)


def _image_size(records: Any, line: Any) -> Optional[Tuple[int, ...]]:
    """Return (height, width) of the image at the position in a line of the index; None if there is no complete PNG."""
    start = line.split("\t")[-1]
    if not start.isdigit():
        return None
    records.seek(int(start))
    head = records.read(8)
    magic, length = struct.unpack("<II", head) if len(head) == 8 else (0, 0)
    content = records.read(length & _LENGTH)
    if magic != _MAGIC or len(content) != length & _LENGTH or len(content) < 48:
        return None
    _, image = mx.recordio.unpack(content)
    return struct.unpack(">II", image[16:24])[::-1] if image.startswith(_SIGNATURE) else None
