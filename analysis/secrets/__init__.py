"""What looks like a secret in captures: searched, said by its place, and overwritten in copies; never shown."""

from kernelscope.analysis.secrets.search import LISTED, REPORT_MAGIC, SearchResult, Secret, find, remarks

__all__ = ["LISTED", "REPORT_MAGIC", "SearchResult", "Secret", "find", "remarks"]
