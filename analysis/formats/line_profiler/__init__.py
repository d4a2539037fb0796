"""Results of line_profiler: its text tables and its .lprof files."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("line-profiler-pickle", "line_profiler: .lprof", f"{__name__}.lprof", 70),
    Format("line-profiler", "line_profiler: text table", f"{__name__}.text", 100),
)
