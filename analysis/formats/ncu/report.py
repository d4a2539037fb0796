"""Nsight Compute's own reports (.ncu-rep): printed by an installed ncu, as their format is not published."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.ncu import printed
from kernelscope.analysis.trace import Trace
from kernelscope.nsys_wrappers import find, ncu_import
from kernelscope.nsys_wrappers.export import ExportError
from kernelscope.tracer.inside import temporary

_MAGIC = b"NVR\x00"


def matches(head: Head) -> bool:
    """Return whether the file begins like a report of any version of Nsight Compute."""
    return not head.compressed and head.content.startswith(_MAGIC)


def read(path: Path) -> Trace:
    """Return the Trace of a report; if it cannot be printed here, raise EvidenceError that says what is needed."""
    by_hand = f"print it where Nsight Compute is installed: ncu --import {path.name} --csv --page raw > {path.stem}.csv"
    tool = find.find("ncu")
    if tool is None:
        raise EvidenceError(
            f"{path}: reading a report of Nsight Compute needs ncu, and none is installed; install it, name it in "
            f"KERNELSCOPE_NCU, or {by_hand}"
        )
    try:
        with temporary.folder() as folder:
            trace = printed.read(ncu_import.export_csv(tool, path, Path(folder)))
    except ExportError as error:
        raise EvidenceError(f"{path}: {error}; use an ncu at least as new as the one that recorded it, or {by_hand}") from error
    except EvidenceError as error:
        raise EvidenceError(f"{path}: as printed by ncu {tool.version}: {error}") from error
    except OSError as error:
        raise EvidenceError(f"{path}: no room for the export ({error.strerror or error}); set TMPDIR to a larger disk") from error
    trace.info["source"] |= {"format": "ncu-report", "version": tool.version}
    return trace
