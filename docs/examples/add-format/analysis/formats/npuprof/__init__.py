"""Logs of npu-prof, the profiler of a made-up accelerator."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("npuprof", "npu-prof: log of calls and kernels", f"{__name__}.trace", 90),)
