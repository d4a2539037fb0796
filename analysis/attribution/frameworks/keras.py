"""Keras: the evidence of its backend. Keras 3 is here, Keras 2 in keras2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, jax, pytorch, tensorflow
from kernelscope.analysis.errors import EvidenceError

_Read = Callable[[Path, Context], Evidence]


def of_backends(name: str, readers: Mapping[str, _Read]) -> _Read:
    """Return a function that reads a run's kernels pass by its backend, and raises EvidenceError if a file cannot be read."""

    def read(folder: Path, context: Context) -> Evidence:
        backend = context.report.get("settings", {}).get("backend")
        if backend not in readers:
            raise EvidenceError(f"{folder / 'child.json'}: names no known backend of {name} ({backend}); record the run again")
        return readers[backend](folder, context)

    return read


read = of_backends("Keras", {"torch": pytorch.read, "tensorflow": tensorflow.read, "jax": jax.read})
