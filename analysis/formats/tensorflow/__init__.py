"""Timelines of TensorFlow 1's RunMetadata."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("tensorflow-timeline", "TensorFlow 1: chrome trace of RunMetadata", f"{__name__}.timeline", 30),)
