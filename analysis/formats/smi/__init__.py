"""GPU samples as text: nvidia-smi and DCGM."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("gpu-samples", "nvidia-smi query CSV, dmon, plain table; DCGM samples", f"{__name__}.trace", 150),)
