"""Converts a data set into a framework's own format: ``python -m kernelscope.workloads.convert FRAMEWORK NETWORK FOLDER OUT``.

Runs in the framework's environment, whose own library writes the records. Prints {"samples", "files"} as JSON on the last line,
or {"error"}, and then exits with 1. FRAMEWORK may be `arrays`: numpy files, which every framework can read.

Runs under Python 3.6 with numpy and the framework.
"""

import importlib
import importlib.util
import json
import os
import sys
from typing import List

import numpy

from kernelscope.workloads import files, networks
from kernelscope.workloads.networks import Network

_AT_ONCE = 256  # samples


def write_arrays(folder: str, samples: files.Samples, network: Network) -> List[str]:
    """Write all samples (images uint8, labels) of a `files.Samples` as numpy files; return the files' paths."""
    paths = [os.path.join(folder, name) for name in files.ARRAYS]
    shape = files.image_shape(network.input_shape)
    images = numpy.lib.format.open_memmap(paths[0], "w+", "uint8", (len(samples),) + shape)
    labels = numpy.lib.format.open_memmap(paths[1], "w+", "int64", (len(samples),))
    for first in range(0, len(samples), _AT_ONCE):
        part = slice(first, min(first + _AT_ONCE, len(samples)))
        images[part], labels[part] = samples.take(numpy.arange(part.start, part.stop))
    images.flush()
    labels.flush()
    return paths


def main(framework: str, name: str, folder: str, out: str) -> int:
    """Convert, and print what was written or the error; return the exit status."""
    network = networks.get(name)
    try:
        samples = files.find(network, folder)
        if framework == "arrays":
            write = write_arrays
        else:
            module = "kernelscope.workloads.%s.records" % framework.partition("-")[0]
            if importlib.util.find_spec(module) is None:
                raise ValueError("%s has no record format here; every framework can read `arrays`" % framework)
            write = importlib.import_module(module).write
        answer = {"samples": len(samples), "files": write(out, samples, network)}
    except (OSError, ValueError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
