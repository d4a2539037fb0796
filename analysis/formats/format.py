"""What describes a format. A package of this folder names its formats in FORMATS; nothing else has to know of it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.files.packed import plain_file
from kernelscope.analysis.trace import Trace

_SHORT = 4096  # bytes: a trace of an event or more has its signs before them

_ARCHIVED = (
    "unpack it and name the files inside (`breakdown`, `report` and `explain` read archives of runs and imports as they are)"
)
# Signs of files that no format reads, and what the file is
_FOREIGN_SIGNS = (
    (b'"schema": "1.', "PyTorch's execution trace, which has no times; name the Kineto trace of the same run"),
    (b"ustar", f"a tar archive; {_ARCHIVED}"),
    (b"PK\x03\x04", f"a zip archive; {_ARCHIVED}"),
    (b"\x7fELF", "a program; record it with a profiler first"),
)
# Lines of what Nsight Compute prints where it is not asked for CSV: of itself, and of a launch
_NCU_TEXT = re.compile(r"^==PROF== \w|^ {2,}\S.*, Context \d+, Stream \d+(?:, Device \d+, CC [\d.]+)?\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Format:
    """A format of captures.

    name: for --format. title: what it is, for people. module: full name of the module that reads it; it is imported when it is
    needed, and has two functions: matches(head: Head) -> bool tells the format from a file's beginning, and
    read(path: Path) -> Trace returns what the file says, without relating its tables. order: formats are tried from the lowest
    on; those with certain signs are below 100. container: what alone it can be: "folder" or one of files.magic.CONTAINERS;
    "file" is any other file.
    """

    name: str
    title: str
    module: str
    order: int
    container: str = "file"

    def matches(self, head: Head) -> bool:
        """Return whether a file of this beginning is of the format."""
        if self.container not in ("file", head.container):
            return False
        function: Callable[[Head], bool] = importlib.import_module(self.module).matches
        return function(head)

    def read(self, path: Path) -> Trace:
        """Return the Trace as the format's module reads it: its tables are not related yet."""
        function: Callable[[Path], Trace] = importlib.import_module(self.module).read
        with plain_file(path) as plain:
            return function(plain)


@cache
def all_formats() -> tuple[Format, ...]:
    """Return the formats of all packages in this folder, in the order of trying."""
    folder = importlib.import_module(__package__)
    packages = [info.name for info in pkgutil.iter_modules(folder.__path__) if info.ispkg]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in packages]
    return tuple(sorted((form for module in modules for form in getattr(module, "FORMATS", ())), key=lambda form: form.order))


def format_named(name: str) -> Format:
    """Return the format of this name; raise EvidenceError listing all of them when there is none."""
    for form in all_formats():
        if form.name == name:
            return form
    raise EvidenceError(f"unknown format {name!r}; known: {', '.join(form.name for form in all_formats())}")


def detect(path: Path) -> Format:
    """Return the format of a file or folder, from its content; raise EvidenceError when it is none that can be read."""
    head = read_head(path)
    for form in all_formats():
        if form.matches(head):
            return form
    if (path / "trace").is_dir() and any((path / "trace").glob("*.parquet")):
        if (path / "import.json").exists():
            raise EvidenceError(f"{path}: is an import already; name it itself, as in `kernelscope breakdown {path}`")
        raise EvidenceError(f"{path}: an import without its import.json; import the capture again")
    if path.is_dir():
        raise EvidenceError(f"{path}: a folder that is no recording by itself; name one of the files in it")
    remedy = f"; if `kernelscope import --list` tells it, `kernelscope import --from NAME {path} -o DIR` says what is wrong"
    raise EvidenceError(f"{path}: no capture of a known format{_likely(head) or remedy}")


def _likely(head: Head) -> str:
    """Return what a file seems to be, for the message, or nothing."""
    if "read_only_kernels" in head.tables or "kernel_iteration_node" in head.tables:
        return ": it is DLProf's database; name the Nsight Systems report that DLProf made it from"
    if head.tables:
        return f": it is a SQLite database with the tables {', '.join(sorted(head.tables)[:4])}, ..."
    result = next((what for sign, what in _FOREIGN_SIGNS if sign in head.content[:4096]), None)
    result = result or _ncu_text(head) or _cut_json(head) or _events(head)
    return f": it seems to be {result}" if result else ""


def _events(head: Head) -> str | None:
    """Return what to do with a trace of events of which nothing says who wrote it, or nothing."""
    if '"traceEvents"' not in head.text:
        return None
    if not head.is_utf16:
        return "a trace of events; `import --from kineto`, or another name that `import --list` tells, says what is wrong with it"
    return "a trace of events in UTF-16; turn it into UTF-8 (iconv -f UTF-16 -t UTF-8)"


def _ncu_text(head: Head) -> str | None:
    """Return what to do with metrics that Nsight Compute printed for people, or nothing."""
    if not head.is_text or not _NCU_TEXT.search(head.text):
        return None
    return "Nsight Compute's text; print it with ncu --csv --page raw (of a report: ncu --import FILE.ncu-rep --csv --page raw)"


def _cut_json(head: Head) -> str | None:
    """Return what is wrong with a short file that begins as JSON does, or nothing."""
    if head.content[:1] not in (b"{", b"[") or len(head.content) > _SHORT:
        return None
    try:
        told = json.loads(head.content)
    except (ValueError, RecursionError):
        return "JSON that is cut short or damaged; export or copy it again"
    empty = isinstance(told, dict) and told.get("traceEvents") == []
    return "a trace without any event; record it again, with something running" if empty else None
