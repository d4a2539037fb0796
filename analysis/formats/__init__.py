"""Captures that other tools recorded: their files, read into tables and from there into a Trace.

Each tool has a package here. It reads the tool's files into tables, turns these into a Trace, and lists the descriptors of its
formats (see format.Format), through which it is found. Steps that all formats share are in recordings.captures.
"""

from kernelscope.analysis.formats.format import Format, all_formats, detect, format_named

__all__ = ["Format", "all_formats", "detect", "format_named"]
