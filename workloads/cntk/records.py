"""Training samples in CNTK's text format (CTF), and CNTK's reader over it.

Each line is a sample: `|labels` with a number for each class, one of them 1, and `|features` with the image's numbers in [0,
1], channels first. Lists of images (map files) need CNTK's image reader; see the notes on frameworks.
"""

import os
from typing import Any, Iterator, List

import numpy
from cntk.io import INFINITELY_REPEAT, CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

from kernelscope.workloads.files import DataError
from kernelscope.workloads.networks import Network

FILE = "train.ctf"


def write(folder: str, samples: Any, network: Network) -> List[str]:
    """Write all samples (images uint8, labels) of a `files.Samples`; return the files' paths."""
    path = os.path.join(folder, FILE)
    numbers = ["%.9g" % (numpy.float32(value) / numpy.float32(255.0)) for value in range(256)]
    with open(path, "w") as out:
        for number in range(len(samples)):
            images, labels = samples.take(numpy.array([number]))
            classes = ["1" if label == labels[0] else "0" for label in range(network.classes)]
            values = [numbers[value] for value in images[0].ravel()]
            out.write("|labels %s |features %s\n" % (" ".join(classes), " ".join(values)))
    return [path]


def batches(program: Any, folder: str, batch: int) -> Iterator[Any]:
    """Yield (images, labels) as CNTK's reader gives them to a trainer, labels one-hot; in inference, images as numpy.

    A trainer takes flat data for an input of any shape; evaluation does not. Raises ValueError for recurrent networks,
    DataError if the file is missing, empty or damaged.
    """
    network, path = program.network, os.path.join(folder, FILE)
    if any(layer.type in ("lstm", "gru") for layer in network.layers):
        raise ValueError("cntk: loading records is not supported for sequences")
    if not os.path.exists(path):
        raise DataError("%s: not found; convert the data with `kernelscope data convert`" % path)
    streams = StreamDefs(
        features=StreamDef(field="features", shape=int(numpy.prod(network.input_shape))),
        labels=StreamDef(field="labels", shape=network.classes),
    )
    try:
        source = MinibatchSource(CTFDeserializer(path, streams), randomize=False, max_sweeps=INFINITELY_REPEAT)
        while True:
            read = source.next_minibatch(batch)
            if not read:
                raise DataError("%s: contains no samples; convert the data again" % path)
            images, labels = read[source.streams.features], read[source.streams.labels]
            if program.mode == "infer":
                images = images.asarray().reshape((-1,) + tuple(network.input_shape))
            yield images, labels
    except RuntimeError as error:  # CNTK's message includes its call stack
        raise DataError("%s: %s; convert the data again" % (path, str(error).split("\n")[0])) from error
