"""Timelines of TensorFlow 1's RunMetadata, and reports of its tfprof."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("tensorflow-timeline", "TensorFlow 1: chrome trace of RunMetadata", f"{__name__}.timeline", 30),
    Format("tfprof", "TensorFlow 1: report of tfprof", f"{__name__}.tfprof", 106),
)
