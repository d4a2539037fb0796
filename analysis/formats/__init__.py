"""Captures that other tools recorded: files as people have them, as tables and as a Trace.

Each tool has a package here: what its files hold as tables, what these say as a Trace, and the descriptors of its formats (see
format.Format), by which it is found. What is common to all is done in recordings.captures.
"""

from kernelscope.analysis.formats.format import Format, all_formats, detect, format_named

__all__ = ["Format", "all_formats", "detect", "format_named"]
