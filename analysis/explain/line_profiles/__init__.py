"""Explain two results of line_profiler: which lines of the program take longer, or execute more often."""

from kernelscope.analysis.explain.line_profiles.explanation import applies, explain

__all__ = ["applies", "explain"]
