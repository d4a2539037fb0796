"""Profiles of Triton's Proton (.hatchet)."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("proton", "Triton Proton: .hatchet tree", f"{__name__}.trace", 45),)
