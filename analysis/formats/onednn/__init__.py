"""Verbose lines of oneDNN, among other output and MKL's lines."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("verbose", "oneDNN, DNNL, MKL-DNN verbose and MKL_VERBOSE, mixed with other output", f"{__name__}.verbose", 130),
)
