"""Chrome traces of PyTorch: torch.profiler (Kineto) and the older torch.autograd.profiler."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("kineto", "PyTorch: chrome trace of torch.profiler or autograd", f"{__name__}.trace", 20),)
