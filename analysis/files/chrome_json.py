"""Chrome's trace format as JSON of any size: the list of events in pieces, and the keys beside the list.

A trace is an object whose key traceEvents holds the list, or the bare list (the "JSON Array Format"), plain or gzip. A file may
be many times larger than memory should hold, so it is unpacked and decoded in pieces. The end of a piece is guessed from the
text between two events and proven by decoding the piece as a whole list, so no guess can cut an event.

Source of the format: "Trace Event Format" of Chromium's catapult project.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.packed import blocks

Piece = TypeVar("Piece")
T = TypeVar("T")
Buffer = bytes | memoryview

SIZE = 2 << 20  # bytes of JSON decoded at once: some 8 thousand events, whose objects stay in the processor's cache
_AHEAD = 4  # blocks that are unpacked ahead
_SLACK = 16  # an error in the last bytes of a piece comes from the cut
_CANDIDATES = 4  # ends of a piece to try before a longer piece

ODD = "elements of traceEvents that are no events, left out"  # a diagnostic of all formats

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BOMB_SIZE = 64 << 20  # a trace may always unpack to this much
_MOST_SIFTED = 4 * SIZE  # bytes of text whose elements are checked one by one: small elements take many times as much memory

_LIST_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_LIKELY_BETWEEN = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|bp|s)"')
_BETWEEN = re.compile(rb"\}\s*(,)\s*\{")
_OPEN, _COMMA, _CLOSE = b"[,]"
_AT_BYTE = re.compile(r"\(byte (\d+)\)")
_OPENING = b'{"traceEvents":'

# Invalid JSON that profilers are known to write: bare words for values that are not numbers, single backslashes in paths.
_STRING_OR_WORD = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"|(?<=[\s:,\[])(?:-?(?:nan|inf|infinity)|N/A)(?=[\s,\]}])', re.IGNORECASE | re.DOTALL
)
_ESCAPE = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
# An escaped backslash, a surrogate pair, or half of one, which Python's json writes and reads but no other library accepts
_SURROGATES = re.compile(rb"(\\\\|\\u[dD][89aAbB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..")
_CONTROL = re.compile(rb"[\x00-\x1f]")
_LOST_QUOTE = re.compile(rb', tid": (?=\d+, "pid": )')  # in autograd's flows to CUDA, PyTorch 1.4 and 1.5


class _Beside(msgspec.Struct):
    events: msgspec.Raw = msgspec.field(name="traceEvents")


_BESIDE = msgspec.json.Decoder(_Beside)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class EventList(Generic[Piece]):
    """The events of a trace, to iterate once, in pieces of some thousands.

    path: the file. decode: converts the events of a whole JSON list, of which it must keep no view; it lets msgspec.DecodeError
    through if the text is not JSON, and is then called again with another cut. size: bytes of text in a piece. content: the
    file's content, if already read. open_ended: whether a bare list may end anywhere, as in files of programs that write events
    one by one: text after its last whole event is then left out. event: the type that `decode` needs elements to have.
    Iterating raises EvidenceError, naming file, place and remedy, if the file cannot be read.

    header: after the iteration, the JSON text of every other key of the top-level object. repaired: pieces of text that were
    invalid JSON (bare nan, single backslashes, stray bytes) and were repaired. odd: elements of the list that are not events
    (null, numbers) and are left out. bare: whether the file is the bare list. unclosed: whether that list has no end. cut:
    whether the file ends inside an event.
    """

    def __init__(
        self,
        path: Path | str,
        decode: Callable[[Buffer], Piece],
        size: int = SIZE,
        content: bytes | None = None,
        open_ended: bool = False,
        event: Any = dict[str, msgspec.Raw],
    ) -> None:
        self.path, self._content, self._open_ended = path, content, open_ended
        self.cut = self.unclosed = False
        self.odd = 0
        self.header: dict[str, bytes] = {}
        self.repaired = 0
        self.bare = False
        self._decode_list, self._event, self._size = decode, msgspec.json.Decoder(event), size
        # text not yet decoded, from the bracket or comma before the next event on, and its offset in the unpacked file
        self._buffer, self._offset = bytearray(), 0

    def __iter__(self) -> Iterator[Piece]:
        with _Blocks(self.path, self._content) as self._blocks:
            try:
                self._begin()
                wanted = self._size
                while self._fill(wanted):
                    events = self._next()
                    wanted = self._size if events is not None else max(2 * wanted, 2 * len(self._buffer))
                    if events is not None:
                        yield events
                yield self._rest()
            except RecursionError as error:
                raise EvidenceError(
                    f"{self.path}: nested too deeply near byte {self._offset}; no profiler writes that"
                ) from error

    def _fill(self, wanted: int) -> bool:
        """Fill the buffer beyond `wanted` bytes; return whether the file had enough for that."""
        while len(self._buffer) <= wanted and (block := self._blocks.read()):
            self._buffer += block
        return len(self._buffer) > wanted

    def _skip(self, count: int) -> None:
        del self._buffer[:count]
        self._offset += count

    def _begin(self) -> None:
        """Move to the bracket before the first event."""
        more = self._fill(self._size)
        if self._buffer.startswith(_BYTE_ORDER_MARK):
            self._skip(len(_BYTE_ORDER_MARK))
        self._skip(len(self._buffer) - len(self._buffer.lstrip(b" \t\r\n")))
        if self._buffer.startswith(b"["):
            self.bare = True
            return
        while not self._enter_list():
            if not more:
                self._refuse_without_list()
            more = self._fill(2 * len(self._buffer))

    def _enter_list(self) -> bool:
        """Move to the bracket that opens the list of the top-level object; return whether it is in the buffer."""
        for start, end in [match.span() for match in islice(_LIST_KEY.finditer(self._buffer), _CANDIDATES)]:
            before = bytes(self._buffer[:start]) + b'"traceEvents":[]}'  # valid only if the key is the object's own
            for text in (before, mend(before)):
                try:
                    result = _KEYS.decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
                self._keep(result)
                self._skip(end - 1)
                return True
        return False

    def _refuse_without_list(self) -> None:
        try:
            _KEYS.decode(self._buffer)
        except msgspec.ValidationError as error:
            raise EvidenceError(f"{self.path}: not a chrome trace ({error}); name its format if it has another") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._malformed(error, len(self._buffer), 0) from error
        raise EvidenceError(f"{self.path}: not a trace: its object has no list traceEvents; name its format if it has another")

    def _next(self) -> Piece | None:
        """Return the events of the next piece, or None if finding its end needs a longer buffer."""
        for comma in _commas(self._buffer):
            self._buffer[comma] = _CLOSE  # closes the list in the buffer, so it need not be copied
            events = self._decoded(memoryview(self._buffer)[: comma + 1])
            if events is not None:
                self._skip(comma)
                self._buffer[0] = _OPEN
                return events
            self._buffer[comma] = _COMMA
        self._decoded(memoryview(self._buffer))  # cannot succeed: raises if no longer piece can make it valid
        return None

    def _decode(self, text: Buffer) -> Piece:
        """Return the events of a whole list; other elements are left out, unless there are no events."""
        try:
            return self._decode_list(text)
        except msgspec.ValidationError:
            if len(text) > _MOST_SIFTED:
                raise
            elements = _ELEMENTS.decode(text)
            kept = [element for element in elements if self._is_event(element)]
            if not kept or len(kept) == len(elements):
                raise
        result = self._decode_list(b"[" + b",".join(kept) + b"]")
        self.odd += len(elements) - len(kept)
        return result

    def _is_event(self, element: msgspec.Raw) -> bool:
        try:
            self._event.decode(element)
        except msgspec.ValidationError:
            return False
        return True

    def _decoded(self, text: memoryview) -> Piece | None:
        """Return the events of a whole list, repaired if it is invalid JSON; None if it was cut at the wrong place."""
        try:
            return self._decode(text)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if not _is_inside(error, len(text)):
                return None
            mended = mend(bytes(text))
            try:
                events = self._decode(mended)
            except (msgspec.DecodeError, UnicodeDecodeError) as still:
                if _is_inside(still, len(mended)):
                    raise self._malformed(error, len(text), 0) from error
                return None
        self.repaired += 1
        return events

    def _rest(self) -> Piece:
        """Return the last events, and keep what follows the list."""
        opening = b"" if self.bare else _OPENING
        text, read = opening + self._buffer, self._decode if self.bare else self._split_off
        try:
            return read(text)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            try:
                events = read(mend(text)) if _is_inside(error, len(text)) else None
            except (msgspec.DecodeError, UnicodeDecodeError):
                events = None
            if events is None and self._open_ended and self.bare:
                return self._open_rest(error)
            if events is None:
                raise self._malformed(error, len(text), len(opening)) from error
        self.repaired += 1
        return events

    def _open_rest(self, error: Exception) -> Piece:
        """Return the last whole events of a list that does not end; if there are none, raise what is wrong with it."""
        whole = bytes(self._buffer).rstrip(b" \t\r\n,")
        between = [match.start(1) for match in _BETWEEN.finditer(whole, max(len(whole) - self._size, 0))]
        ends = [len(whole), *reversed(between[-_CANDIDATES:])]
        for number, end in enumerate(ends):
            text = whole[:end] + b"]"
            try:
                events = self._decode(text if len(text) > 1 else b"[]")
            except msgspec.ValidationError:
                raise
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            self.cut, self.unclosed = number > 0, True
            return events
        raise self._malformed(error, len(self._buffer), 0) from error

    def _split_off(self, text: bytes) -> Piece:
        """Return the events of an object that begins with their list, and keep its other keys."""
        at = len(_OPENING)
        events = bytes(_BESIDE.decode(text).events)
        behind: dict[str, Any] = {"traceEvents": None}  # kept if another list came last
        if text.startswith(events, at):
            behind = _KEYS.decode(b'{"":0' + text[at + len(events) :])
        if "traceEvents" in behind:
            raise EvidenceError(f"{self.path}: two lists traceEvents in one object; export the trace again")
        decoded = self._decode(events)
        self._keep(behind)
        return decoded

    def _keep(self, result: dict[str, Any]) -> None:
        self.header |= {key: bytes(value) for key, value in result.items() if key not in ("", "traceEvents")}

    def _malformed(self, error: Exception, length: int, prefix: int) -> EvidenceError:
        """Return the error for a text of this length, which begins `prefix` bytes before the buffer's offset in the file."""
        place, what = _AT_BYTE.search(str(error)), str(error).removeprefix("JSON is malformed: ")
        if isinstance(error, UnicodeDecodeError):
            at, what = 0, "and on: bytes that are not UTF-8"
        elif place is None:
            at, what = length - prefix, "where the file ends"
        else:
            at, what = int(place[1]) - prefix, _AT_BYTE.sub("", what).strip()
        at = max(self._offset + at, 0)
        return EvidenceError(f"{self.path}: not JSON, or cut short, at byte {at} ({what}); export or copy the trace again")


def listed(path: Path | str, content: bytes, whole: Callable[[bytes], list[T]], event: type[T]) -> tuple[list[T], int]:
    """Return the events of a trace that is read whole, and how many elements of its list do not have this type.

    whole: decodes the file; only if it rejects the list are elements checked one by one. Raise EvidenceError if the file cannot
    be read, and errors of msgspec if all elements have other types or the text is not JSON.
    """
    try:
        return whole(content), 0
    except msgspec.ValidationError:
        pieces = EventList(path, msgspec.json.Decoder(list[event]).decode, content=content, event=event)  # type: ignore[valid-type]
        return [one for piece in pieces for one in piece], pieces.odd


def _is_inside(error: Exception, length: int) -> bool:
    """Return whether a text is invalid JSON before its end, wherever it was cut."""
    place = _AT_BYTE.search(str(error))
    return isinstance(error, UnicodeDecodeError) or (
        place is not None and int(place[1]) < length - _SLACK and "trailing" not in str(error)
    )


def _commas(buffer: bytearray) -> Iterator[int]:
    """Yield likely positions of the comma after the last whole event in the buffer, the likeliest first."""
    for pattern in (_LIKELY_BETWEEN, _BETWEEN):
        window = 1 << 16
        result: list[int] = []
        while not result and window < 16 * len(buffer):
            result = [match.start(1) for match in pattern.finditer(buffer, max(len(buffer) - window, 0))]
            window *= 16
        yield from reversed(result[-_CANDIDATES:])


def mend(text: bytes) -> bytes:
    """Repair JSON that is invalid in ways that profilers are known for.

    Bare nan, inf and N/A become null; a backslash that begins no escape is doubled; control characters inside strings, halves of
    surrogate pairs and invalid UTF-8 are replaced; a quote that PyTorch forgot before tid is inserted. Other text is returned
    unchanged.
    """
    try:
        text.decode("utf8")
    except UnicodeDecodeError:
        text = text.decode("utf8", errors="replace").encode()
    return _STRING_OR_WORD.sub(_mended, _LOST_QUOTE.sub(b', "tid": ', text))


def _mended(match: re.Match[bytes]) -> bytes:
    result = match[0]
    if not result.startswith(b'"'):
        return b"null"
    if b"\\" in result:
        result = _ESCAPE.sub(lambda escape: escape[0] if escape[1] else rb"\\", result)
        result = _SURROGATES.sub(lambda escape: escape[1] or rb"\ufffd", result)
    return _CONTROL.sub(b" ", result)


class _Blocks:
    """The unpacked bytes of a file, block by block; the next blocks are unpacked while the caller works on the current one."""

    def __init__(self, path: Path | str, content: bytes | None = None) -> None:
        self._path, self._content = path, content

    def __enter__(self) -> _Blocks:
        try:
            self._file: BinaryIO = Path(self._path).open("rb") if self._content is None else io.BytesIO(self._content)
        except OSError as error:
            raise EvidenceError(f"{self._path}: {error.strerror or error}") from error
        self._blocks = blocks(self._file, self._path, _BOMB_SIZE)
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._ahead = deque(self._pool.submit(self._block) for _ in range(_AHEAD))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._file.close()

    def read(self) -> bytes:
        """Return the next block, empty at the end; raise EvidenceError if it cannot be read."""
        block = self._ahead.popleft().result()
        self._ahead.append(self._pool.submit(self._block))
        return block

    def _block(self) -> bytes:
        return next(self._blocks, b"")
