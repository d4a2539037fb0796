"""Nsight Systems' exports as folders: parquetdir (usually NAME_pqtdir) and arrowdir (NAME_arwdir)."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.nsys.columns import SIGNS
from kernelscope.analysis.formats.nsys.folder_tables import SUFFIXES, Folder
from kernelscope.analysis.formats.nsys.trace import read_tables
from kernelscope.analysis.trace import Trace


def matches(head: Head) -> bool:
    """Return whether this is a folder with nsys's table of texts and at least one other of its tables."""
    for suffix in SUFFIXES:
        tables = {name.removesuffix(suffix) for name in head.entries if name.endswith(suffix)}
        if "StringIds" in tables and tables & SIGNS:
            return True
    return False


def read(path: Path) -> Trace:
    """Return the Trace of an exported folder; raise EvidenceError if it cannot be read."""
    return read_tables(Folder(path), "nsys-folder")
