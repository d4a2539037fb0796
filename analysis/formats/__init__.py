"""Captures that other tools recorded: files as people have them become a Trace.

Each tool has a package here: what its files hold as tables, what these say as a Trace, and the descriptors of its formats (see
format.Format), by which it is found. `reading` does what is common to all.
"""

from kernelscope.analysis.formats.format import Format, all_formats, detect, format_named
from kernelscope.analysis.formats.reading import describe_kernels, finish, read, reading, reading_all

__all__ = ["Format", "all_formats", "describe_kernels", "detect", "finish", "format_named", "read", "reading", "reading_all"]
