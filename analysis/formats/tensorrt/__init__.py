"""Times of layers that TensorRT measured: exports and prints of trtexec, and prints of the samples' profilers."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("tensorrt-profile", "TensorRT: layers as JSON (trtexec --exportProfile)", f"{__name__}.exported", 48),
    Format("tensorrt-table", "TensorRT: printed layers (trtexec --dumpProfile, IProfiler)", f"{__name__}.printed", 108),
)
