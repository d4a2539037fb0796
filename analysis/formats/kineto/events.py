"""Events of torch.profiler's traces out of JSON: pieces of the list of events, decoded, whose fields are columns.

Pieces are decoded with the types that profilers write: first with a type for each usual category that has what the groups ask
of it, which skips the rest unlooked at; if a piece has events of other categories or none, with one type for all. A piece that
has other types of values, or times that a double cannot hold, is decoded again with every value as its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, reduce
from itertools import compress
from operator import attrgetter, or_
from typing import Any, Literal, Self, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from kernelscope.analysis.files import json_numbers
from kernelscope.analysis.files.chrome_json import Buffer
from kernelscope.analysis.formats.kineto.groups import ARGUMENTS, INTEGER, JSON, TEXT, EventGroup

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]

# one field of the decoded arguments for each key
FIELDS = {name: [f"{name}_{number}" for number in range(len(argument.keys))] for name, argument in ARGUMENTS.items()}
_ARGUMENT_FIELDS = frozenset(field for fields in FIELDS.values() for field in fields)
_MISSING = -(1 << 63)  # stands for an absent integer while decoding
_NOTHING = msgspec.Raw()
_NAN = float("nan")
_NUL = b"\0"  # which JSON cannot hold
_LIMIT = 4_000_000_000_000_000  # microseconds, as in json_numbers


# --- types ---------------------------------------------------------------------------------------------------------------


def _arguments(name: str, types: Mapping[str, tuple[Any, Any]], columns: Iterable[str] = tuple(ARGUMENTS)) -> Any:
    fields = []
    for column in columns:
        argument = ARGUMENTS[column]
        kind, default = types[argument.kind]
        fields += [
            (f, kind, msgspec.field(name=key, default=default)) for f, key in zip(FIELDS[column], argument.keys, strict=True)
        ]
    return msgspec.defstruct(name, fields, gc=False, frozen=True)


_TYPES = {INTEGER: (int | str, _MISSING), TEXT: (str | None, None), JSON: (msgspec.Raw, _NOTHING)}
_Typed = _arguments("_Typed", _TYPES)
_Untyped = _arguments("_Untyped", dict.fromkeys((INTEGER, TEXT, JSON), (msgspec.Raw, _NOTHING)))
_NO_TYPED, _NO_UNTYPED = _Typed(), _Untyped()


class _TypedEvent(msgspec.Struct, gc=False):
    ph: str = ""
    ts: float = _NAN
    dur: float = _NAN
    name: str = ""
    cat: str = ""
    pid: int | str = ""
    tid: int | str = ""
    id: int | str = ""
    args: _Typed = _NO_TYPED  # type: ignore[valid-type]


class _UntypedEvent(msgspec.Struct, gc=False):
    ph: msgspec.Raw = _NOTHING
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    name: msgspec.Raw = _NOTHING
    cat: msgspec.Raw = _NOTHING
    pid: msgspec.Raw = _NOTHING
    tid: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _NOTHING
    args: _Untyped | list[Any] | str | float | int | bool | None = _NO_UNTYPED  # type: ignore[valid-type]


# Phases of the format: texts that are there once are compared faster than new ones for each event
_Phase = Literal[
    "X", "B", "E", "b", "e", "n", "S", "T", "p", "F", "s", "t", "f", "i", "I", "C", "M", "N", "O", "D", "P", "R", "V", "v", "c"
]  # fmt: skip
PHASES: tuple[str, ...] = get_args(_Phase)
_UNWANTED = (  # common in traces and large
    "python_function", "ac2g", "async_cpu_to_gpu", "async", "cpu_instant_event", "fwdbwd", "cuda_runtime", "cuda_driver",
    "cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "user_annotation", "gpu_user_annotation", "overhead", "Trace",
    "Operator", "Runtime", "Kernel", "Memcpy", "Memset",
)  # fmt: skip


def _decoder_of(groups: Mapping[str, EventGroup]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of events of usual categories and those that groups name."""
    named = [category for group in groups.values() for category in group.categories or () if category]
    types = [_event_type(category, groups.values()) for category in dict.fromkeys([*_UNWANTED, *named])]
    return msgspec.json.Decoder(list[reduce(or_, types)])  # type: ignore[misc]


def _event_type(category: str, groups: Iterable[EventGroup]) -> Any:
    """Return the type of a category's events: with the arguments that groups ask for, without anything if none takes it."""
    wanting = [group for group in groups if group.takes_category(category)]
    constants: dict[str, Any] = {"cat": category} if wanting else {"cat": category, "ts": _NAN, "dur": _NAN}
    fields: list[Any] = [("ph", _Phase, "")]
    if wanting:
        columns = dict.fromkeys(name for group in wanting for name in group.arguments)
        arguments = _arguments("_Wanted", _TYPES, columns)
        fields += [("name", str, ""), ("pid", int | str, ""), ("tid", int | str, ""), ("ts", float, _NAN), ("dur", float, _NAN)]
        fields += [("args", arguments, arguments()), ("id", int | str, "")]  # as profilers order them, which is fastest
    return msgspec.defstruct("_Event", fields, tag_field="cat", tag=category, namespace=constants, gc=False)


_TYPED = msgspec.json.Decoder(list[_TypedEvent])
_UNTYPED = msgspec.json.Decoder(list[_UntypedEvent])


# --- distinct texts ------------------------------------------------------------------------------------------------------


class _ValueNumbers(dict[Any, int]):
    """Numbers of the values met so far; that of a new one is asked for."""

    def __init__(self, number: Callable[[Any], int]) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, value: Any) -> int:
        number = self[value] = self._number(value)
        return number


class Texts:
    """Distinct texts by number, from 0 on; -1 stands for none."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._met: dict[Callable[[Any], str | None], _ValueNumbers] = {}

    def codes(self, values: Iterable[Any], text: Callable[[Any], str | None]) -> Codes:
        """Return the number of each value's text; `text` is asked once for each distinct value."""
        met = self._met.get(text) or self._met.setdefault(text, _ValueNumbers(lambda value: self.number(text(value))))
        listed = list(values)
        if listed and listed.count(listed[0]) == len(listed):  # as phases and processes often are
            return np.full(len(listed), met[listed[0]], dtype=np.int32)
        return np.fromiter(map(met.__getitem__, listed), dtype=np.int32, count=len(listed))

    def number(self, text: str | None) -> int:
        """Return the number of a text, a new one if it has none."""
        return -1 if text is None else self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        """The texts by number."""
        return list(self._numbers)


def _plain(value: Any) -> str | None:
    return None if value is None else str(value) or None


def _of_raw(value: bytes) -> str | None:
    """Return JSON text as text: strings without quotes, null as none."""
    if value in (b"", b"null"):
        return None
    return str(msgspec.json.decode(value) if value.startswith(b'"') else value.decode("utf8", "replace")) or None


def _as_json(value: bytes) -> str | None:
    return value.decode("utf8", "replace") or None


# --- pieces --------------------------------------------------------------------------------------------------------------


class Inexact(Exception):
    """Doubles do not hold the times as they are written."""


class Piece:
    """Events decoded with types: their columns. Names of columns: the events' keys, or FIELDS of arguments."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def of(self, rows: Bool) -> Self:
        """Return the piece of the rows of a mask."""
        return self if rows.all() else type(self)(list(compress(self.events, rows.view(np.uint8).tobytes())))

    def times(self, name: str) -> tuple[Int, Bool]:
        """Return times in ns, and which are valid; raise Inexact where the text has more digits than were kept."""
        values, valid, exact = _to_ns(np.fromiter(self._values(name), dtype=np.float64, count=len(self.events)))
        if not exact:
            raise Inexact
        return values, valid

    def texts(self, name: str, known: Texts) -> Codes:
        """Return the numbers of texts; those of integers are their digits."""
        return known.codes(self._values(name), _plain)

    def json(self, name: str, known: Texts) -> Codes:
        """Return the numbers of values kept as JSON."""
        values = _NUL.join(self._values(name)).split(_NUL) if self.events else []  # faster than to make bytes of each
        return known.codes(values, _as_json)

    def integers(self, name: str) -> tuple[Int, Bool]:
        """Return integers (0 where there is none), and which are there."""
        values = np.fromiter(self._values(name), dtype=np.int64, count=len(self.events))
        valid = values != _MISSING
        return np.where(valid, values, 0), valid

    def _values(self, name: str) -> Iterable[Any]:
        return map(attrgetter(name), self._args if name in _ARGUMENT_FIELDS else self.events)

    @cached_property
    def _args(self) -> list[Any]:
        return list(map(attrgetter("args"), self.events))


class _TaggedPiece(Piece):
    """Events decoded with a type for each category: the same columns."""

    def texts(self, name: str, known: Texts) -> Codes:
        return known.codes(map(type, self.events), _category) if name == "cat" else super().texts(name, known)


def _category(event_type: Any) -> str | None:
    return _plain(event_type.cat)


class _UntypedPiece(Piece):
    """Events decoded as text: the same columns."""

    def times(self, name: str) -> tuple[Int, Bool]:
        return json_numbers.thousandfold(self._bytes(name))

    def texts(self, name: str, known: Texts) -> Codes:
        return known.codes(self._bytes(name), _of_raw)

    def integers(self, name: str) -> tuple[Int, Bool]:
        return json_numbers.integers(self._bytes(name))

    def _bytes(self, name: str) -> list[bytes]:
        return list(map(bytes, self._values(name)))

    @cached_property
    def _args(self) -> list[Any]:
        result = map(attrgetter("args"), self.events)
        return [args if type(args) is _Untyped else _NO_UNTYPED for args in result]  # what is no object has none


def _to_ns(values: npt.NDArray[np.float64]) -> tuple[Int, Bool, bool]:
    """Return microseconds as integer nanoseconds, which are numbers, and whether all are exact.

    A double holds whole numbers up to 2**53 and three decimals up to 2**43 (101 days): if the nearest thousandth gives the same
    double again, it is what the text said. Kineto counts from the last quarter's beginning, which keeps to that.
    """
    valid = np.isfinite(values)
    filled = np.where(valid, values, 0.0)
    whole = np.floor(filled)
    thousandths = np.rint((filled - whole) * 1000)
    usable = np.abs(filled) < 2.0**43
    result = np.where(usable, whole, 0).astype(np.int64) * 1000 + thousandths.astype(np.int64)
    exact = np.where(usable, result / 1000.0 == filled, (filled == whole) & (np.abs(filled) < _LIMIT))
    result = np.where(usable, result, np.where(exact, filled, 0).astype(np.int64) * 1000)
    return result, valid, bool(exact.all())


class Decoding:
    """Decodes pieces of one file's list of events for some groups, and remembers what its events are like."""

    def __init__(self, groups: Mapping[str, EventGroup]) -> None:
        self._by_category, self._patience = _decoder_of(groups), 4  # pieces that it may fail for
        self._as_text = False

    def columns(self, text: Buffer, make: Callable[[Piece], Any]) -> Any:
        """Return what `make` makes of a piece's columns.

        Raises msgspec.DecodeError or UnicodeDecodeError for what is no list in JSON, msgspec.ValidationError for other values.
        """
        for decoder in () if self._as_text else (self._by_category, _TYPED) if self._patience else (_TYPED,):
            try:
                events = decoder.decode(text)
                return make(_TaggedPiece(events) if decoder is self._by_category else Piece(events))
            except msgspec.ValidationError:
                self._patience -= decoder is self._by_category
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise
            except Inexact:
                self._as_text = True  # the clock of a file is the same everywhere
                break
            except (ValueError, OverflowError):  # text where numbers are expected, numbers beyond 64 bits
                break
        return make(_UntypedPiece(_UNTYPED.decode(text)))
