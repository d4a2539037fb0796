"""Dumps and printed statistics of mx.profiler."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("mxnet", "MXNet: chrome trace of mx.profiler", f"{__name__}.trace", 40),
    Format("mxnet-table", "MXNet: printed statistics of mx.profiler.dumps()", f"{__name__}.printed", 106),
)
