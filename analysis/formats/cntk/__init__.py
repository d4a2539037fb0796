"""CNTK's own records: training logs, the profiler's timeline, tables of node timing."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("cntk-profiler", "CNTK: profiler's timeline", f"{__name__}.profiler", 50),
    Format("cntk-log", "CNTK: training log", f"{__name__}.log", 140),
)
