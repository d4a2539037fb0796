"""Search files without tables for values that look like secrets: text, JSON, logs and any others, packed or not."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.magic import UTF16_MARKS, packing
from kernelscope.analysis.secrets import screens as secret_screens
from kernelscope.analysis.secrets.escapes import views
from kernelscope.tracer.inside import secret_values

_BLOCK = 1 << 23
_OVERLAP = secret_values.LONGEST + 1024
_MOST_BYTES = 1 << 29  # of a file; in larger ones, half of this is searched at each end
_MOST_UNPACKED = 1 << 31  # bytes to which packed files may always unpack: callers have limits of their own
_MOST_SECOND_LOOKS = 1 << 23  # suspicious bytes that are checked again with slower patterns
_MOST_VIEWS = 1 << 22  # bytes that are also read without their escapes


class Hit(NamedTuple):
    """A finding in a file: bytes start to end of the content (unpacked, as UTF-8)."""

    start: int
    end: int
    what: str
    value: bytes


class Budget:
    """How much of a file to search, so that this costs a fraction of reading it. unread: the parts left out, in words."""

    def __init__(self, size: int, packed: bool) -> None:
        self.skip = (_MOST_BYTES // 2, size - _MOST_BYTES // 2) if size > _MOST_BYTES and not packed else None
        self.bytes = _MOST_BYTES if packed else size
        self.second_looks, self.views = _MOST_SECOND_LOOKS, _MOST_VIEWS
        self.views_spent = False
        self.spent = False
        self.unread = [f"bytes {self.skip[0]} to {self.skip[1]}"] if self.skip else []

    def exceeded(self, at: int, second_looks: int) -> bool:
        """Count bytes that are checked again; return whether to stop at byte `at` or before."""
        self.second_looks -= second_looks
        if not self.spent and (self.second_looks < 0 or at > self.bytes):
            self.spent = True
            why = ", as too much of it looks suspicious" if self.second_looks < 0 else " of the unpacked content"
            self.unread.append(f"everything after byte {at}{why}")
        return self.spent

    def read_without_escapes(self, at: int, size: int) -> int:
        """Return how many of the bytes from byte `at` may also be read without their escapes, and count them."""
        most = min(size, self.views)
        if most < size and not self.views_spent:
            self.views_spent = True
            self.unread.append(f"texts within texts after byte {at + most}")
        self.views -= most
        return most


def opened(path: Path, head: bytes) -> IO[bytes]:
    """Open a file, unpacking it while it is read; UTF-16 is converted to UTF-8."""
    if packing(head):
        return packed.opened(path, _MOST_UNPACKED)
    if not head.startswith(UTF16_MARKS):
        return path.open("rb")
    if path.stat().st_size > _MOST_BYTES:
        raise EvidenceError(f"{path}: too large for UTF-16 text; convert it to UTF-8")
    try:
        return io.BytesIO(path.read_bytes().decode("utf-16", "surrogatepass").encode("utf8", "surrogatepass"))
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path}: damaged UTF-16 text (byte {error.start}); copy it again") from error


def hits(file: IO[bytes], path: Path, budget: Budget | None = None) -> Iterator[Hit]:
    """Yield possible secrets in a file's content, in order, as far as the budget goes.

    Without a budget all of the content is searched, and rather too much is found than too little. Raise EvidenceError as `blocks`
    does.
    """
    reached = 0
    for start, data, own in blocks(file, path, budget.skip if budget else None):
        if budget and budget.exceeded(start, 0):
            return
        for span in _in_block(data, start, budget):
            if span.start < own and start + span.start >= reached:
                reached = start + span.end
                yield Hit(start + span.start, start + span.end, span.what, data[span.start : span.end])


def _in_block(data: bytes, start: int, budget: Budget | None) -> list[secret_values.Span]:
    """Return the findings in a block that begins at this byte, in order.

    This includes findings that appear only when the block's JSON escapes are removed; with a budget, only around escaped quotes
    and numbered characters, as in JSON within JSON.
    """
    result = list(_as_written(data, start, budget, thorough=budget is None))
    for low, high in secret_screens.suspicious(data, [secret_screens.ESCAPED]) if budget else [(0, len(data))]:
        most = budget.read_without_escapes(start + low, high - low) if budget else high - low
        for view in views(data[low : low + most]):
            spans = secret_screens.in_view(_as_written(view.text, start, None, thorough=budget is None), view)
            result += [span._replace(start=low + span.start, end=low + span.end) for span in spans]
    return sorted(result, key=lambda span: (span.start, -span.end))


def _as_written(data: bytes, start: int, budget: Budget | None, thorough: bool = False) -> Iterator[secret_values.Span]:
    for low, high in secret_screens.suspicious(data):
        if budget and budget.exceeded(start + low, high - low):
            return
        for span in secret_values.spans(data[low:high], thorough):
            yield span._replace(start=low + span.start, end=low + span.end)


def blocks(file: IO[bytes], path: Path, skip: tuple[int, int] | None = None) -> Iterator[tuple[int, bytes, int]]:
    """Yield a file's content in blocks: where each begins, its bytes, and how many of them are its own.

    The other bytes also begin the next block, as findings there may continue. skip: bytes to leave out. Raise EvidenceError if
    packed content is damaged.
    """
    before, start = b"", 0
    while True:
        try:
            block = file.read(_BLOCK)
        except OSError as error:
            raise EvidenceError(f"{path}: {error.strerror or error}") from error
        data = before + block
        last = len(block) < _BLOCK
        own = len(data) if last else len(data) - _OVERLAP
        yield start, data, own
        if last:
            return
        before, start = data[own:], start + own
        if skip and skip[0] <= start < skip[1]:
            before, start = b"", skip[1]
            file.seek(start)


def places(file: IO[bytes], path: Path, offsets: list[int]) -> list[str]:
    """Return the places of the bytes at these ascending offsets: their lines, or the offsets if lines are long."""
    result: list[str] = []
    lines = 1
    for start, data, own in blocks(file, path):
        counted = 0
        while len(result) < len(offsets) and offsets[len(result)] < start + own:
            offset = offsets[len(result)]
            lines += data.count(b"\n", counted, offset - start)
            counted = offset - start
            result.append(f"line {lines}" if offset < 1000 * lines else f"byte {offset}")
        if len(result) == len(offsets):
            break
        lines += data.count(b"\n", counted, own)
    return result
