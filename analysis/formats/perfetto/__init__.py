"""Perfetto traces (.pftrace, .perfetto-trace): those of its SDK, of rocprofv3, and of kernelscope's own exports."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("perfetto", "Perfetto: trace packets (.pftrace)", f"{__name__}.trace", 65),)
