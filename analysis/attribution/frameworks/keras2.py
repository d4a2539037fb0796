"""Keras 2: the evidence of its backend."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, cntk, mxnet, theano
from kernelscope.analysis.errors import EvidenceError

_READERS = {"theano": theano.read, "cntk": cntk.read, "mxnet": mxnet.read}


def read(folder: Path, context: Context) -> Evidence:
    """Read the kernels pass of one run; raises EvidenceError when a file of it cannot be read."""
    backend = context.report.get("settings", {}).get("backend")
    if backend not in _READERS:
        raise EvidenceError(f"{folder / 'child.json'}: says no known backend of Keras 2 ({backend}); record the run again")
    return _READERS[backend](folder, context)
