"""Chainer: its functions as its hooks saw them, and numpy's calls of OpenBLAS inside of them."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, timed

# Chainer's functions whose names say something else than what they are used for, or nothing that classify knows
_KINDS = {
    "im2col": "layout",
    "col2im": "layout",
    "Convolution2DFunction": "convolution forward",
    "Deconvolution2DFunction": "convolution data gradient",  # of a convolution's backward; none of the networks has one
    "Convolution2DGradW": "convolution weight gradient",
    "LinearFunction": "gemm",
    "LinearGradWeight": "gemm",
    "LinearGradData": "gemm",
}


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raises EvidenceError when a file of it cannot be read."""
    return timed.read(folder, "numpy", _KINDS.get, "launch range", context)
