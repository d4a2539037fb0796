"""Records of kernelscope's own CUPTI collector."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("cupti", "kernelscope's CUPTI collector: cupti.records", f"{__name__}.trace", 15, "records"),)
