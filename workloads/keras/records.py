"""Training samples as a TFRecord file, which Keras reads if its backend is TensorFlow; other backends raise ValueError."""

import os
from typing import Any, Iterator, List

import keras

from kernelscope.workloads.networks import Network


def _tensorflow() -> Any:
    if keras.backend.backend() != "tensorflow":
        raise ValueError("keras-%s: loading records is not supported" % keras.backend.backend())
    from kernelscope.workloads.tensorflow import records

    return records


def write(folder: str, samples: Any, network: Network) -> List[str]:
    """Write all samples (images uint8, labels) of a `files.Samples`; return the files' paths."""
    return _tensorflow().write(folder, samples, network)


def batches(program: Any, folder: str, batch: int) -> Iterator[Any]:
    """Return an iterator over (images, labels): tensors, channels last."""
    records = _tensorflow()
    return iter(records.dataset(program.network, os.path.join(folder, records.FILE), batch))
