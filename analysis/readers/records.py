"""Reader of what a pass's child writes itself: JSON Lines of steps and ranges, child.json and check.json."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.json

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.magic import GZIP_MAGIC

_PACKED, _BLOCK = 1 << 17, 1 << 20  # bytes that are read, and had of them, at once: they stay in the processor's cache
PLAIN_SIZE = 256 << 20  # packed data may always unpack to this much,
PACKING = 300  # and to this many times its own size: traces pack to a tenth or a thirtieth


def read_content(path: Path | str) -> bytes:
    """Return a file's bytes, unpacked where they are gzip; raise EvidenceError when they cannot be had."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    return b"".join(blocks(io.BytesIO(content), path)) if content.startswith(GZIP_MAGIC) else content


def blocks(file: BinaryIO, path: Path | str, allowed: int = PLAIN_SIZE) -> Iterator[bytes]:
    """Yield a file's bytes in blocks, unpacked where they are gzip.

    path names the file in errors. allowed: bytes that it may always unpack to. Raises EvidenceError when the bytes cannot be had,
    or turn out to be out of all proportion to the file's size.
    """
    try:
        first = file.read(_PACKED)
        yield from _unpacked(file, first, path, allowed) if first.startswith(GZIP_MAGIC) else _as_it_is(file, first)
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    except zlib.error as error:
        raise EvidenceError(f"{path}: compressed data is damaged or cut short ({error}); record or copy it again") from error


def _as_it_is(file: BinaryIO, block: bytes) -> Iterator[bytes]:
    while block:
        yield block
        block = file.read(_BLOCK)


def _unpacked(file: BinaryIO, packed: bytes, path: Path | str, allowed: int) -> Iterator[bytes]:
    """Yield what gzip data holds: one member or several, with zeros behind, as some tools pad it."""
    size, read, member = 0, len(packed), zlib.decompressobj(wbits=31)
    while True:
        block = member.decompress(packed, _BLOCK)
        packed = member.unused_data.lstrip(b"\0") if member.eof else member.unconsumed_tail
        size += len(block)
        if size > max(allowed, PACKING * (read - len(packed))):
            raise EvidenceError(f"{path}: unpacks to over {PACKING} times its size; unpack it by hand if you trust it")
        if block:
            yield block
        while not packed and (more := file.read(_PACKED)):
            packed, read = more.lstrip(b"\0") if member.eof else more, read + len(more)
        if member.eof:
            if not packed:
                return
            member = zlib.decompressobj(wbits=31)
        elif not packed and not block:
            raise EvidenceError(f"{path}: compressed data is damaged or cut short; record or copy it again")


def read_table(path: Path, name: str) -> pd.DataFrame:
    """Read a JSON Lines file as the Trace's table `name`; an absent or empty file is an empty table."""
    if not path.exists() or path.stat().st_size == 0:
        return trace.empty(name)
    try:
        table = pyarrow.json.read_json(path)
    except pa.ArrowInvalid as error:
        raise EvidenceError(f"{path}: not JSON Lines of a pass ({_first_line(error)}); record the run again") from error
    return trace.conform(name, table.to_pandas())


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    try:
        content = json.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}; is the run folder complete?") from error
    except ValueError as error:
        raise EvidenceError(f"{path}: not JSON ({_first_line(error)}); record the run again") from error
    if not isinstance(content, dict):
        raise EvidenceError(f"{path}: holds no JSON object; record the run again")
    return content


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
