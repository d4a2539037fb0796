"""A file's bytes, unpacked where they are gzip: all of them, or block by block. What unpacks out of all proportion is refused."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib  # in half the time that zlib takes, which is what reading a packed trace waits for

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.magic import GZIP_MAGIC

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
    except isal_zlib.error as error:  # type: ignore[misc]  # its stub takes the class for an instance
        raise EvidenceError(f"{path}: compressed data is damaged or cut short ({error}); record or copy it again") from error


def _as_it_is(file: BinaryIO, block: bytes) -> Iterator[bytes]:
    while block:
        yield block
        block = file.read(_BLOCK)


def _unpacked(file: BinaryIO, packed: bytes, path: Path | str, allowed: int) -> Iterator[bytes]:
    """Yield what gzip data holds: one member or several, with zeros behind, as some tools pad it."""
    size, read, member = 0, len(packed), isal_zlib.decompressobj(wbits=31)
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
            member = isal_zlib.decompressobj(wbits=31)
        elif not packed and not block:
            raise EvidenceError(f"{path}: compressed data is damaged or cut short; record or copy it again")
