"""Run an installed Nsight Systems to turn its streams into reports, and reports into files that others can read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from kernelscope.nsys_wrappers.find import Tool, find, find_all, importer

STREAM_SUFFIX = ".qdstrm"
_PARQUET_SINCE = (2023, 4)  # seen in its help, but not in 2022.4's
_START_S, _S_PER_MB = 60.0, 2.0
_KEPT = 1 << 16
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\x20-\x7e]+")


class ExportError(Exception):
    """A report cannot be exported: one line that says why."""


def suitable(needed: tuple[int, ...] = ()) -> Tool | None:
    """Return the nsys to export with: the chosen one if it is new enough for the report, else the newest; None without any.

    needed: the version that recorded, as numbers, as far as known.
    """
    chosen = find("nsys")
    if chosen is None or chosen.release[: len(needed)] >= needed:
        return chosen
    return max(find_all("nsys"), key=lambda tool: tool.release)


def export_report(
    tool: Tool, report: Path, folder: Path, form: Literal["sqlite", "parquetdir"] = "sqlite", stream: bool = False
) -> Path:
    """Export a report into the folder and return export.sqlite or the folder export.parquetdir, with one file per table.

    stream: the report is still a .qdstrm and is imported first. Nothing is written beside the report. Raises ExportError if the
    release does not support the form, or if nsys fails, takes too long or writes nothing. A failing nsys may leave a file
    without the device's work, so its output counts only if it reports success.
    """
    if form == "parquetdir" and tool.release < _PARQUET_SINCE:
        raise ExportError(f"nsys {tool.version} cannot export Parquet; export SQLite, or use nsys 2023.4 or later")
    if stream:
        report = import_stream(tool, report, folder)
    exported = folder / f"export.{form}"
    arguments = ["export", "--type", form, "--force-overwrite", "true", "--output", str(exported), str(report.absolute())]
    status, printed = run_logged([str(tool.path), *arguments], folder, report)
    if status or not (any(exported.iterdir()) if exported.is_dir() else exported.is_file() and exported.stat().st_size):
        raise ExportError(f"nsys {tool.version} ({tool.path}) did not export it: {telling_line(printed)}")
    return exported


def import_stream(tool: Tool, stream: Path, folder: Path) -> Path:
    """Make a report from a .qdstrm in the folder, with the importer near the tool, and return its path.

    Raises ExportError without an importer, if it fails, and for an incomplete stream.
    """
    program = importer(tool)
    if program is None:
        raise ExportError(f"nsys {tool.version} has no QdstrmImporter, which a .qdstrm needs")
    report = folder / "report.nsys-rep"
    status, printed = run_logged([str(program), "-i", str(stream.absolute()), "-o", str(report)], folder, stream)
    if status or not report.is_file():
        raise ExportError(f"QdstrmImporter of nsys {tool.version} did not read it: {telling_line(printed)}")
    return report


def run_logged(command: Sequence[str], folder: Path, source: Path) -> tuple[int, str]:
    """Return a command's exit status and the end of its output; output.txt in the folder has all of it.

    The command runs in the folder, in its own process group, with a time limit that depends on the source's size.
    """
    limit = _START_S + _S_PER_MB * source.stat().st_size / 1e6
    log = folder / "output.txt"
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "TMPDIR": str(folder)},
                start_new_session=True,
            )
            try:
                process.wait(limit)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        with log.open("rb") as printed:
            printed.seek(max(0, log.stat().st_size - _KEPT))
            return process.returncode, printed.read().decode("utf8", errors="replace")
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"{Path(command[0]).name} did not finish within {limit:.0f} s") from error
    except OSError as error:
        raise ExportError(f"{command[0]} cannot be run: {error.strerror or error}") from error


def telling_line(printed: str) -> str:
    """Return the line that says what went wrong, without progress bars and control characters."""
    lines = [" ".join(_CONTROL.sub(" ", line).split()) for line in re.split(r"[\r\n]+", printed)]
    lines = [line for line in lines if line and "%" not in line]
    telling = [line for line in lines if re.search(r"error|fail|invalid|newer|cannot|not ", line, re.IGNORECASE)]
    return (telling or lines or ["it printed nothing"])[0][:300]
