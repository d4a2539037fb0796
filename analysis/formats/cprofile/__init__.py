"""Results of Python's own profilers, cProfile and profile: the text that pstats prints."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("cprofile", "Python: statistics of cProfile, as pstats prints them", f"{__name__}.text", 180),)
