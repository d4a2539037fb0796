"""Reader of what a pass's child writes itself: JSON Lines of steps and ranges, child.json and check.json."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.json

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError

GZIP_MAGIC = b"\x1f\x8b"
_PIECE = 16 << 20
PLAIN_SIZE = 256 << 20  # packed data may always unpack to this much,
PACKING = 300  # and to this many times its own size: traces pack to a tenth or a thirtieth


def read_content(path: Path | str) -> bytes:
    """Return a file's bytes, unpacked where they are gzip; raise EvidenceError when they cannot be had."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    return _unpacked(content, path) if content.startswith(GZIP_MAGIC) else content


def _unpacked(content: bytes, path: Path | str) -> bytes:
    """Return what gzip data (one member or several) holds, unless it turns out to be out of all proportion to its size."""
    parts, size, rest = [], 0, content
    try:
        while rest:
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                piece = member.decompress(rest, _PIECE)
                rest = member.unconsumed_tail
                parts.append(piece)
                size += len(piece)
                if size > max(PLAIN_SIZE, PACKING * (len(content) - len(rest))):
                    raise EvidenceError(f"{path}: unpacks to over {PACKING} times its size; unpack it by hand if you trust it")
                if not rest and not piece:
                    raise EvidenceError(f"{path}: compressed data is cut short; record or copy it again")
            rest = member.unused_data.lstrip(b"\0")  # some tools pad the end with zeros
    except zlib.error as error:
        raise EvidenceError(f"{path}: compressed data is damaged ({error}); record or copy it again") from error
    return b"".join(parts)


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
