"""A framework without a module here: operators that its program marked, and numpy's OpenBLAS calls inside them."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, timed

# Layer types whose names classify does not know as operators
_KINDS = {"dense forward": "gemm", "dense backward": "gemm", "loss forward": "softmax", "loss backward": "softmax"}


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if one of its files cannot be read."""
    return timed.read(folder, "numpy", _KINDS.get, "launch range", context)
