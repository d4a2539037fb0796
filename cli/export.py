"""Export a run, a comparison or a capture to Perfetto, Chrome JSON, CSV, Parquet, Excel or Markdown."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import whole
from kernelscope.analysis.trace import Trace
from kernelscope.cli import sharing, warn
from kernelscope.cli.output import refuse_source
from kernelscope.reports.export import chrome, csv_files, parquet, perfetto, sources
from kernelscope.reports.export.events import events, origins
from kernelscope.reports.export.sheets import Sheet
from kernelscope.reports.export.sources import Handling, Source
from kernelscope.tracer.inside import temporary
from kernelscope.tracer.outside import locks
from kernelscope.tracer.outside.errors import InputError, UsageError
from kernelscope.tracer.version import VERSION

Write = Callable[[Path], list[str]]  # writes OUT, returns messages for the user

FORMATS = ("perfetto", "chrome", "csv", "parquet", "xlsx", "markdown")
_FOLDERS = ("csv", "parquet")
_ENDINGS = {".pftrace": "perfetto", ".json": "chrome", ".xlsx": "xlsx", ".md": "markdown"}
_EXAMPLES = {"perfetto": "trace.pftrace", "chrome": "trace.json.gz", "xlsx": "tables.xlsx", "markdown": "summary.md"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("path", metavar="PATH", help="a folder that `run`, `compare` or `import` wrote, or a capture")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="output format (default: by the ending of OUT). "
        "perfetto, chrome: every event, for ui.perfetto.dev and the like; the sides of a comparison are aligned at their "
        "first measured steps. csv, parquet: a folder with a file per table. xlsx: a sheet per table. markdown: a summary",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="a file, or a folder for csv and parquet; traces are compressed if it ends in .gz",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace OUT if it exists; in a folder, only the files that are written"
    )
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the recording, write OUT, say on stderr what was written."""
    target = Path(arguments.output)
    form = arguments.format or _ENDINGS.get(target.with_suffix("").suffix if target.suffix == ".gz" else target.suffix)
    if form is None:
        raise UsageError(
            f"{target}: the format is not clear from its name; add --format {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    _check(target, form, arguments.force)
    refuse_source(target, [Path(arguments.path)])
    to_file(arguments.path, form, target, arguments.full_paths)
    return 0


def to_file(path: str, form: str, target: Path, full_paths: bool) -> None:
    """Write a recording in one of FORMATS, and say on stderr what was written and what was left out."""
    write = _WRITERS[form](sources.source(Path(path), _handling(full_paths)))
    try:
        said = _written(write, target, form in _FOLDERS)
    except OSError as error:
        lacking = "some of its files are missing; " if form in _FOLDERS and target.is_dir() and any(target.iterdir()) else ""
        remedy = "raise the limit (ulimit -f)" if error.errno == errno.EFBIG else "choose another place"
        raise InputError(f"{target}: not writable: {error.strerror or error}; {lacking}{remedy}") from error
    for line in said:
        print(f"kernelscope: {line}", file=sys.stderr)
    print(f"exported: {target}", file=sys.stderr)


def _handling(full_paths: bool) -> Handling:
    """Return how to handle what is exported."""
    return Handling(
        VERSION,
        plain=partial(sharing.shareable, full_paths=full_paths),
        trace=partial(sharing.shareable_trace, full_paths=full_paths),
        warn=warn.about_info,
    )


def _written(write: Write, target: Path, folder: bool) -> list[str]:
    """Write OUT and return messages for the user; a file gets its name only when it is complete."""
    if folder:
        with _alone_in(target):
            return write(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole.growing(target) as path:
        return write(path)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder against other exports. Create it if necessary, and remove it if it stays empty."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locks.exclusive_folder(folder):
            yield
    finally:
        if made and not any(folder.iterdir()):
            folder.rmdir()


def _check(target: Path, form: str, force: bool) -> None:
    """Raise InputError if something would be lost, or if OUT is of the wrong kind."""
    if form in _FOLDERS:
        if target.exists() and not target.is_dir():
            raise InputError(f"{target}: is a file; {form} writes a folder with a file per table: name a folder")
        if target.is_dir() and any(target.iterdir()) and not force:
            raise InputError(f"{target}: is not empty; name another folder or pass --force to write into it")
        return
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / _EXAMPLES[form]}")
    if target.exists() and not force:
        raise InputError(f"{target}: exists; name another file or pass --force to replace it")


def _events(source: Source) -> list[tuple[str, Any, Trace, int]]:
    """Return name, events, Trace and time zero of every side; raise EvidenceError if nothing has a time."""
    sides = source.traces()
    found = [events(trace) for _, trace in sides]
    if not any(part.slices or part.counters for part in found):
        raise EvidenceError("it has no times, as in a summary; export its tables: --format csv, parquet or xlsx")
    zero = origins([trace for _, trace in sides], found)
    return [(name, part, trace, at) for (name, trace), part, at in zip(sides, found, zero, strict=True)]


def _untimed(sides: Sequence[tuple[str, Any, Trace, int]]) -> list[str]:
    return [f"{name}: {count:,} rows of {table} have no times and are left out" for name, part, *_ in sides
            for table, count in part.untimed.items()]  # fmt: skip


# Each returns a function that writes the file or folder. Errors in the input are raised before that.


def _perfetto(source: Source) -> Write:
    sides = _events(source)
    about = "; ".join(f"{name} {value}" for name, value in source.facts().items() if value is not None)

    def write(target: Path) -> list[str]:
        perfetto.write([(name, part, at) for name, part, _, at in sides], about, target)
        return _untimed(sides)

    return write


def _chrome(source: Source) -> Write:
    sides, facts = _events(source), source.facts()

    def write(target: Path) -> list[str]:
        chrome.write([(name, part, trace.memory, at) for name, part, trace, at in sides], facts, target)
        return _untimed(sides)

    return write


def _csv(source: Source) -> Write:
    return _tables(csv_files.write, source.sheets())


def _parquet(source: Source) -> Write:
    return _tables(parquet.write, source.sheets())


def _xlsx(source: Source) -> Write:
    try:
        from kernelscope.reports.export import excel  # an optional dependency
    except ModuleNotFoundError as error:
        raise UsageError(f"--format xlsx needs {error.name}: pip install 'kernelscope[excel]', or export csv") from error
    sheets = source.sheets()

    def write(target: Path) -> list[str]:
        with temporary.folder() as beside:  # if this command is killed, a later one removes the folder
            return excel.write(sheets, target, beside=beside)

    return write


def _markdown(source: Source) -> Write:
    content = source.markdown()

    def write(target: Path) -> list[str]:
        target.write_text(content, encoding="utf8")
        return []

    return write


def _tables(write: Callable[[Sequence[Sheet], Path], list[Path]], sheets: Sequence[Sheet]) -> Write:
    """Return a function that writes a file per table, and names files in the folder that are left from other exports."""

    def written(target: Path) -> list[str]:
        files = write(sheets, target)
        others = sorted(path.name for path in target.glob(f"*{files[0].suffix}") if path not in files)
        return [f"left in {target} from other exports: {', '.join(others)}"] if others else []

    return written


_WRITERS: dict[str, Callable[[Source], Write]] = {
    "perfetto": _perfetto, "chrome": _chrome, "csv": _csv, "parquet": _parquet, "xlsx": _xlsx, "markdown": _markdown,
}  # fmt: skip
