"""What looks like a secret in captures: searched, said by its place, and overwritten in copies; never shown."""

from kernelscope.analysis.secrets.search import LISTED, REPORT_MAGIC, Finding, Findings, find, remarks

__all__ = ["LISTED", "REPORT_MAGIC", "Finding", "Findings", "find", "remarks"]
