"""Horovod's timelines (HOROVOD_TIMELINE)."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("horovod", "Horovod: timeline", f"{__name__}.trace", 46),)
