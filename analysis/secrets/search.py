"""Find values that look like secrets in a capture, and report where they are: the place, never the value.

Profilers record the environment and the command line of the program: Nsight Systems' exports in TARGET_INFO_SYSTEM_ENV
(DeviceEnvironment: variables joined by semicolons), META_DATA_CAPTURE (one variable per row) and StringIds (environments of all
processes, joined by zero bytes); PyTorch's traces in any added metadata; logs anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from pyarrow import types

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import parquet_files
from kernelscope.analysis.files.magic import SQLITE_MAGIC, packing
from kernelscope.analysis.files.packed import plain_file
from kernelscope.analysis.secrets import cells as secret_cells
from kernelscope.analysis.secrets import screens as secret_screens
from kernelscope.analysis.secrets import texts as secret_texts
from kernelscope.tracer.inside import secret_values
from kernelscope.tracer.inside.secret_values import shown

REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
LISTED = 20
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that texts do not have


class Secret(NamedTuple):
    """A value that looks like a secret: its kind (`what`: GitHub token, value of HF_TOKEN, ...) and its place."""

    place: str
    what: str


class SearchResult(NamedTuple):
    """The result of a search.

    listed: the first LISTED findings; total: the number of findings; unread: which parts were not searched, if any. redactable:
    whether `redact` accepts the file.
    """

    listed: tuple[Secret, ...] = ()
    total: int = 0
    unread: str | None = None
    redactable: bool = True

    def warning(self, path: Path) -> str | None:
        """Return one line that warns of the findings, or None if there are none."""
        if not self.total:
            return None
        first = self.listed[0]
        more = f" and {self.total - 1} more" if self.total > 1 else ""
        return f"{path}: holds what looks like a secret: {first.what} in {first.place}{more}; " + (
            "before you share it: kernelscope redact FILE -o OUT"
            if self.redactable
            else "do not share it: the folder that kernelscope import FILE -o DIR writes holds none"
        )


def find(path: Path) -> SearchResult:
    """Return the values in a capture (a file or a folder of files) that look like secrets, and where they are.

    Cheap: files are screened at several hundred MB/s; in databases, only text columns are searched, in the first and last
    100,000 rows of each table. `unread` names the parts that were not searched. Raise EvidenceError if the file cannot be read.
    """
    try:
        if path.is_dir():
            return _find_in_folder(path)
        with plain_file(path) as plain:
            with plain.open("rb") as file:
                head = file.read(64)
            return _find_in_database(plain) if head.startswith(SQLITE_MAGIC) else _find_in_file(plain, head)
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error


def remarks(path: Path, unpacked: bytes | memoryview = b"", shown: Path | None = None) -> list[tuple[str, str]]:
    """Return remarks on secrets in a capture: (warnings or notes, a line).

    shown: the file to name, if `path` is a copy of it. unpacked: the content of a packed file, if known: mostly nothing in it is
    suspicious, and then the file need not be read.
    """
    named = _in_name((shown or path).name)
    if unpacked and not secret_screens.suspicious(unpacked) and not secret_screens.suspicious(unpacked, [secret_screens.ESCAPED]):
        return named
    try:
        result = find(path)
    except EvidenceError as error:
        return [*named, ("notes", f"not searched for secrets: {error}".replace(str(path), str(shown or path)))]
    warning = result.warning(Path((shown or path).name))
    remarks = [*named, ("warnings", warning)] if warning else named
    return [*remarks, ("notes", f"not searched for secrets: {result.unread}")] if result.unread else remarks


def _in_name(name: str) -> list[tuple[str, str]]:
    """Return a warning if a file's name, which reports and imports show, holds what looks like a secret."""
    spans = secret_values.spans(os.fsencode(name))
    if not spans:
        return []
    what = f"{shown(name)}: the file's name holds what looks like a secret: {spans[0].what}"
    return [("warnings", f"{what}; rename the file before you share anything made from it")]


def _find_in_file(path: Path, head: bytes) -> SearchResult:
    budget = secret_texts.Budget(path.stat().st_size, packing(head) is not None)
    result: list[secret_texts.Hit] = []
    total = 0
    with secret_texts.opened(path, head) as file:
        for hit in secret_texts.hits(file, path, budget):
            total += 1
            result += [hit] if total <= LISTED else []
    if result:
        with secret_texts.opened(path, head) as file:
            places = secret_texts.places(file, path, [hit.start for hit in result])
    if head.startswith(REPORT_MAGIC):
        budget.unread.append("parts that the profiler compressed itself")
    listed = tuple(Secret(place, hit.what) for place, hit in zip(places, result, strict=True)) if result else ()
    with secret_texts.opened(path, head) as file:
        is_text = not _BINARY.search(file.read(1 << 16))
    return SearchResult(listed, total, "; ".join(budget.unread) or None, is_text)


def _find_in_database(path: Path) -> SearchResult:
    """Search text columns; in large tables, only the first and last rows."""
    result: list[Secret] = []
    total = 0
    partly: list[str] = []
    with secret_cells.open_database(path) as database:
        for hit in secret_cells.screened(secret_cells.partial_cells(database, partly), path):
            total += 1
            if len(result) < LISTED:
                result.append(Secret(hit.place, hit.what))
    names = ", ".join(partly[:3]) + (f" and {len(partly) - 3} more" if len(partly) > 3 else "")
    return SearchResult(tuple(result), total, f"parts of table {names}" if partly else None)


def _find_in_folder(path: Path) -> SearchResult:
    """Search the files of a folder: exports of one table each, or any others."""
    result: list[Secret] = []
    total = 0
    unread: list[str] = []
    for entry in sorted(item for item in path.iterdir() if item.is_file()):
        with entry.open("rb") as file:
            head = file.read(8)
        inner = _find_in_columns(entry, head) if head.startswith((b"PAR1", b"ARROW1")) else find(entry)
        total += inner.total
        result += [Secret(f"{shown(entry.name)}, {item.place}", item.what) for item in inner.listed]
        if inner.unread:
            unread.append(f"{inner.unread} of {shown(entry.name)}")
    return SearchResult(tuple(result[:LISTED]), total, "; ".join(unread[:3]) or None, redactable=False)


def _find_in_columns(path: Path, head: bytes) -> SearchResult:
    """Search the distinct texts in a Parquet or Arrow file's columns."""
    result: list[Secret] = []
    try:
        for name, column in _text_columns(path, head):
            values = [value for value in pc.unique(column.cast(pa.large_binary())).to_pylist() if value is not None]
            for spans in secret_screens.spans_of(values).values():
                result += [Secret(f"column {shown(name)}", span.what) for span in spans]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise EvidenceError(f"{path}: damaged ({shown(str(error), 200)}); export it again") from error
    return SearchResult(tuple(result[:LISTED]), len(result))


def _text_columns(path: Path, head: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the text columns of a Parquet or Arrow file, with their names."""
    if head.startswith(b"PAR1"):
        names = [field.name for field in parquet_files.schema(path) if _is_text(field.type)]
        for name in names:
            yield name, parquet_files.read(path, [name])[name]
        return
    encoded: Any = os.fsencode(path)  # may not be UTF-8
    with pa.memory_map(encoded) as source:
        table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)  # offsets in a damaged file may point anywhere
        yield from ((field.name, table[field.name]) for field in table.schema if _is_text(field.type))


def _is_text(kind: Any) -> bool:
    """Return whether a column holds text or blobs, plain or dictionary-encoded."""
    inner = kind.value_type if types.is_dictionary(kind) else kind
    return any(test(inner) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))
