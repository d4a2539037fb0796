"""Nsight Systems' SQLite exports (nsys export --type sqlite), of all versions."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats.nsys.columns import SIGNS
from kernelscope.analysis.formats.nsys.trace import read_tables
from kernelscope.analysis.trace import Trace


def matches(head: Head) -> bool:
    """Return whether the file is a SQLite database with nsys's table of texts and at least one other of its tables."""
    return "StringIds" in head.tables and bool(head.tables & SIGNS)


def read(path: Path) -> Trace:
    """Return the Trace of an export; raise EvidenceError if it cannot be read."""
    with Database(path) as database:
        trace = read_tables(database, "nsys-sqlite")
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        trace.info["notes"].append("the write-ahead log beside the file was not read: some rows may be missing")
    return trace
