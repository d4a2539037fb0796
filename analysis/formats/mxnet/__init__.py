"""Dumps of mx.profiler."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("mxnet", "MXNet: chrome trace of mx.profiler", f"{__name__}.trace", 40),)
