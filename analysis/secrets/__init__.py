"""Values in captures that look like secrets: found, reported by their place, overwritten in copies, and never shown."""

from kernelscope.analysis.secrets.search import LISTED, REPORT_MAGIC, SearchResult, Secret, find, remarks

__all__ = ["LISTED", "REPORT_MAGIC", "SearchResult", "Secret", "find", "remarks"]
