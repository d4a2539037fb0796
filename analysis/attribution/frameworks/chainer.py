"""Chainer: its functions as its hooks saw them, and numpy's OpenBLAS calls inside them."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, timed

# Chainer's functions whose names mislead about what they are used for, or that classify does not know
_KINDS = {
    "im2col": "layout",
    "col2im": "layout",
    "Convolution2DFunction": "convolution forward",
    "Deconvolution2DFunction": "convolution data gradient",  # in a convolution's backward; no network has a deconvolution
    "Convolution2DGradW": "convolution weight gradient",
    "LinearFunction": "gemm",
    "LinearGradWeight": "gemm",
    "LinearGradData": "gemm",
}


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if one of its files cannot be read."""
    return timed.read(folder, "numpy", _KINDS.get, "launch range", context)
