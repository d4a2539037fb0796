"""Keras 3: the evidence of its backend."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, jax, pytorch, tensorflow
from kernelscope.analysis.errors import EvidenceError

_READERS = {"torch": pytorch.read, "tensorflow": tensorflow.read, "jax": jax.read}


def read(folder: Path, context: Context) -> Evidence:
    """Read the kernels pass of one run; raises EvidenceError when a file of it cannot be read."""
    backend = context.report.get("settings", {}).get("backend")
    if backend not in _READERS:
        raise EvidenceError(f"{folder / 'child.json'}: says no known backend of Keras ({backend}); record the run again")
    return _READERS[backend](folder, context)
