"""ONNX Runtime's own profile."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("onnxruntime", "ONNX Runtime: profile of SessionOptions.enable_profiling", f"{__name__}.trace", 19),)
