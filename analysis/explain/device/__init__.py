"""Explain captures by the account of their device. Layers, passes and markers are not needed."""

from kernelscope.analysis.explain.device.explanation import explain
from kernelscope.analysis.explain.device.repeated import explain_processes
from kernelscope.analysis.explain.device.side import CaptureSide, DeviceSide, applies

__all__ = ["CaptureSide", "DeviceSide", "applies", "explain", "explain_processes"]
