"""SQLite files of ROCm's profilers: rocprofv3's and rocprof-sys' rocpd databases, and those of rpd (rocmProfileData)."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats.rocm import rocpd_v3, rpd
from kernelscope.analysis.trace import Trace


def matches(head: Head) -> bool:
    """Return whether these are rocpd's tables: rocprofv3's, whose names end with a database id, or rpd's, whose do not."""
    return bool(rocpd_v3.parts(head.tables)) or head.tables >= rpd.SIGNS


def read(path: Path) -> Trace:
    """Return the Trace of a database; raise EvidenceError if it is damaged or another database."""
    with Database(path) as database:
        if rocpd_v3.parts(database.tables):
            trace = rocpd_v3.read(database)
        elif database.tables >= rpd.SIGNS:
            trace = rpd.read(database)
        else:
            raise EvidenceError(f"{path}: no rocpd tables; name the .db file that rocprofv3 wrote, or an .rpd file")
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        trace.info["notes"].append("the write-ahead log beside the file was not read: some rows may be missing")
    return trace
