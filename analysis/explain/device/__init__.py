"""Explain captures that others recorded by the device's own account: no layers, passes or markers of ours are needed."""

from kernelscope.analysis.explain.device.explanation import explain
from kernelscope.analysis.explain.device.side import CaptureSide, DeviceSide, applies

__all__ = ["CaptureSide", "DeviceSide", "applies", "explain"]
