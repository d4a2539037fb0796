"""XSpace files of the profiler that TensorFlow, JAX and PyTorch/XLA share."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("xplane", "TensorFlow, JAX: XPlane protobuf", f"{__name__}.trace", 60),)
