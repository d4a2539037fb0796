"""Captures in a folder that is none itself: tools write a folder for each run, with notes and lists beside the capture."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.format import all_formats, formats_named
from kernelscope.analysis.recordings.kinds import IMPORT

_MOST = 100  # files that are looked into: a folder of more is no single recording, and no side of one


def within(folder: Path, form: str | None = None) -> Path | None:
    """Return the only file of a folder that a format reads; None for a file, for a folder of which a format reads the whole,
    and if there are none or several. form: of a format or a tool, as in `formats_named`: only these count.
    """
    found = _within(folder, form)
    return found[0] if len(found) == 1 else None


def of_processes(folder: Path) -> list[Path]:
    """Return the captures and imports in a folder if there are several: of processes of one program; else nothing.

    A report of Nsight Systems beside its own export is no further capture.
    """
    if not folder.is_dir() or (folder / IMPORT).is_file():
        return []
    imports = sorted(one.parent for one in folder.glob(f"*/{IMPORT}"))
    files = _within(folder)
    found = imports + [one for one in files if one.suffix != ".nsys-rep" or one.with_suffix(".sqlite") not in files]
    return found if len(found) > 1 else []


def _within(folder: Path, form: str | None = None) -> list[Path]:
    """Return the files of a folder that a format reads, by name; none if a format reads the folder as a whole."""
    if not folder.is_dir() or (folder / "trace").is_dir() or _is_capture(folder, None):
        return []
    files = sorted(one for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))
    return [one for one in files if _is_capture(one, form)] if len(files) <= _MOST else []


def _is_capture(path: Path, form: str | None) -> bool:
    """Return whether one of the formats reads this; a file that cannot be opened may be a capture and is not passed over."""
    try:
        head = read_head(path)
        return any(one.matches(head) for one in (formats_named(form) if form else all_formats()))
    except EvidenceError:
        return path.is_file() and path.stat().st_size > 0
