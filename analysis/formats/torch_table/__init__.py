"""Tables that torch.profiler prints: key_averages().table()."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("torch-table", "PyTorch: printed table of key_averages()", f"{__name__}.trace", 105),)
