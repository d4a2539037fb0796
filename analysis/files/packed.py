"""A file's bytes, unpacked if they are gzip, zstd, xz or bzip2: all of them, block by block, or as a plain file for readers that
need one (SQLite). Data that unpacks out of all proportion is refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import pyarrow as pa
from isal import isal_zlib  # twice as fast as zlib, which dominates the time of reading a packed trace

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.magic import container, packing
from kernelscope.tracer.inside import temporary

_PACKED, _BLOCK = 1 << 17, 1 << 20  # bytes to read, and to unpack, at once: they stay in the processor's cache
PLAIN_SIZE = 256 << 20  # packed data may always unpack to this many bytes,
PACKING = 150  # or to this many times its own size: traces pack to a tenth or, with zstd or xz at their best, a sixtieth
_SIGNS = 16  # bytes by which a packed file is recognised
_XZ_MEMORY = 256 << 20  # bytes that a decoder may use: xz -9 needs 65 MiB
_SUFFIXES = (".gz", ".zst", ".zstd", ".xz", ".bz2")


def read_content(path: Path | str) -> bytes:
    """Return a file's bytes, unpacked if packed; raise EvidenceError if they cannot be read."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    return b"".join(blocks(io.BytesIO(content), path)) if packing(content[:_SIGNS]) else content


def blocks(file: BinaryIO, path: Path | str, allowed: int | None = None) -> Iterator[bytes]:
    """Yield a file's bytes in blocks, unpacked if packed.

    path: the file's name in errors. allowed: bytes to which it may always unpack, PLAIN_SIZE by default. Raise EvidenceError if
    the bytes cannot be read, or unpack out of all proportion to the file's size.
    """
    most = PLAIN_SIZE if allowed is None else allowed
    try:
        first = file.read(max(_PACKED, _SIGNS))
        kind = packing(first[:_SIGNS])
        unpack = _UNPACKING.get(kind or "")
        yield from unpack(file, first, path, most) if unpack else _as_it_is(file, first)
    except OSError as error:
        if error.strerror is None:  # from a decoder, not the system
            raise _damaged(path, error) from error
        raise EvidenceError(f"{path}: {error.strerror}") from error
    except (isal_zlib.error, lzma.LZMAError, EOFError) as error:  # type: ignore[misc]  # its stub takes the class for an instance
        raise _damaged(path, error) from error


@contextmanager
def plain_file(path: Path) -> Iterator[Path]:
    """Give the path of a file that can be read in place: its own, or, for a packed container, that of an unpacked copy.

    Containers are databases, reports and others of magic.CONTAINERS. The copy is deleted afterwards.

    Raise EvidenceError as `blocks` does; in the caller's EvidenceErrors, the packed file's name replaces the copy's.
    """
    if not _is_packed_container(path):
        yield path
        return
    with temporary.folder() as folder:
        copy = Path(folder) / (path.stem if path.suffix.lower() in _SUFFIXES and path.stem else path.name)
        try:
            with path.open("rb") as file, copy.open("wb") as out:
                out.writelines(blocks(file, path))
            yield copy
        except EvidenceError as error:
            if str(copy) not in str(error):
                raise
            raise EvidenceError(str(error).replace(str(copy), str(path))) from error
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be unpacked into {folder} ({error.strerror or error})") from error


def _is_packed_container(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return bool(packing(file.read(_SIGNS)) and container(beginning(path)))
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error


def beginning(path: Path) -> bytes:
    """Return the first bytes of a packed file's content, at most a block."""
    with path.open("rb") as file:
        return next(blocks(file, path), b"")


def opened(path: Path, allowed: int | None = None) -> IO[bytes]:
    """Open a file to read once from its beginning, unpacked if packed; errors and `allowed` are as in `blocks`."""
    return io.BufferedReader(_Unpacked(path, allowed), _BLOCK)


def pack(source: IO[bytes], target: IO[bytes], kind: str) -> None:
    """Write the source's content to target, packed as `kind` (see magic.packing), without a file name or time."""
    openers: dict[str, Callable[[], Any]] = {
        "gzip": lambda: gzip.GzipFile("", "wb", 6, target, mtime=0),
        "zstd": lambda: pa.CompressedOutputStream(pa.PythonFile(_Kept(target), mode="w"), "zstd"),
        "xz": lambda: lzma.LZMAFile(target, "wb", preset=6),  # noqa: SIM115  # it is closed below
        "bzip2": lambda: bz2.BZ2File(target, "wb"),
    }
    with openers[kind]() as out:
        while piece := source.read(_BLOCK):
            out.write(piece)


class _Kept(io.RawIOBase):
    """A writable file that stays open when pyarrow closes it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return self._file.write(content)


class _Unpacked(io.RawIOBase):
    """The bytes that `blocks` yields, as a stream."""

    def __init__(self, path: Path, allowed: int | None) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._blocks = blocks(self._file, path, allowed)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(next(self._blocks, b""))
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _as_it_is(file: BinaryIO, block: bytes) -> Iterator[bytes]:
    while block:
        yield block
        block = file.read(_BLOCK)


def _damaged(path: Path | str, reason: object = None) -> EvidenceError:
    shown = " ".join(str(reason).split())[:200] if reason else ""
    return EvidenceError(
        f"{path}: compressed data is damaged or cut short{f' ({shown})' if shown else ''}; record or copy it again"
    )


def _check_size(path: Path | str, size: int, used: int, allowed: int) -> None:
    """Raise EvidenceError if `used` bytes unpacked to more than any capture's would."""
    if size > max(allowed, PACKING * used):
        raise EvidenceError(f"{path}: unpacks to over {PACKING} times its size; unpack it by hand if you trust it")


def _of_gzip(file: BinaryIO, packed: bytes, path: Path | str, allowed: int) -> Iterator[bytes]:
    """Yield the content of gzip data: one or more members, possibly padded with zeros, as some tools do."""
    size, read, member = 0, len(packed), isal_zlib.decompressobj(wbits=31)
    while True:
        block = member.decompress(packed, _BLOCK)
        packed = member.unused_data.lstrip(b"\0") if member.eof else member.unconsumed_tail
        size += len(block)
        _check_size(path, size, read - len(packed), allowed)
        if block:
            yield block
        while not packed and (more := file.read(_PACKED)):
            packed, read = more.lstrip(b"\0") if member.eof else more, read + len(more)
        if member.eof:
            if not packed:
                return
            member = isal_zlib.decompressobj(wbits=31)
        elif not packed and not block:
            raise _damaged(path)


def _of_streams(new: Callable[[], Any]) -> Callable[[BinaryIO, bytes, Path | str, int], Iterator[bytes]]:
    """Return a function that yields the content of one or more streams, possibly padded with zeros; new: makes a decoder."""

    def unpack(file: BinaryIO, packed: bytes, path: Path | str, allowed: int) -> Iterator[bytes]:
        size, read, stream = 0, len(packed), new()
        while True:
            block = stream.decompress(packed, _BLOCK)
            packed = stream.unused_data.lstrip(b"\0") if stream.eof else b""
            size += len(block)
            _check_size(path, size, read - len(packed), allowed)
            if block:
                yield block
            while not packed and (stream.eof or stream.needs_input) and (more := file.read(_PACKED)):
                packed, read = more.lstrip(b"\0") if stream.eof else more, read + len(more)
            if stream.eof:
                if not packed:
                    return
                stream = new()
            elif stream.needs_input and not packed:
                raise _damaged(path)

    return unpack


def _of_zstd(file: BinaryIO, packed: bytes, path: Path | str, allowed: int) -> Iterator[bytes]:
    """Yield the content of zstd data: one or more frames."""
    source, size = _CountingFile(file, packed), 0
    try:
        with pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd") as stream:
            while block := stream.read(_BLOCK):
                size += len(block)
                _check_size(path, size, source.read_size, allowed)
                yield block
    except pa.ArrowException as error:
        raise _damaged(path, error) from error


class _CountingFile(io.RawIOBase):
    """A file whose first bytes were already read; it counts the bytes that it returns."""

    def __init__(self, file: BinaryIO, first: bytes) -> None:
        super().__init__()
        self._file, self._first, self.read_size = file, first, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = size if size >= 0 else _PACKED
        block, self._first = self._first[:wanted], self._first[wanted:]
        block = block or self._file.read(wanted)
        self.read_size += len(block)
        return block


_UNPACKING = {
    "gzip": _of_gzip,
    "zstd": _of_zstd,
    "xz": _of_streams(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)),
    "bzip2": _of_streams(bz2.BZ2Decompressor),
}
