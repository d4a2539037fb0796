"""Events of torch.profiler's traces, decoded from JSON: pieces of the list of events, with each field as a column.

A piece is first decoded with one type per usual category; each type has only the fields that the groups ask for, so the rest is
skipped unparsed. If a piece has events of other categories or of none, one type for all events is used. A piece with values of
other types, or with times that a double cannot represent, is decoded again with every value as its text.
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


# Phases of the format. As literals they are the same string objects for all events, which compare faster than new ones
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
    """Return a decoder for events of the usual categories and of those that groups name."""
    named = [category for group in groups.values() for category in group.categories or () if category]
    types = [_event_type(category, groups.values()) for category in dict.fromkeys([*_UNWANTED, *named])]
    return msgspec.json.Decoder(list[reduce(or_, types)])  # type: ignore[misc]


def _event_type(category: str, groups: Iterable[EventGroup]) -> Any:
    """Return the type of a category's events: with the arguments that groups ask for, or empty if no group takes the category."""
    wanting = [group for group in groups if group.takes_category(category)]
    constants: dict[str, Any] = {"cat": category} if wanting else {"cat": category, "ts": _NAN, "dur": _NAN}
    fields: list[Any] = [("ph", _Phase, "")]
    if wanting:
        columns = dict.fromkeys(name for group in wanting for name in group.arguments)
        arguments = _arguments("_Wanted", _TYPES, columns)
        fields += [("name", str, ""), ("pid", int | str, ""), ("tid", int | str, ""), ("ts", float, _NAN), ("dur", float, _NAN)]
        fields += [("args", arguments, arguments()), ("id", int | str, "")]  # in the profilers' order, which is fastest
    return msgspec.defstruct("_Event", fields, tag_field="cat", tag=category, namespace=constants, gc=False)


_TYPED = msgspec.json.Decoder(list[_TypedEvent])
_UNTYPED = msgspec.json.Decoder(list[_UntypedEvent])


# --- distinct texts ------------------------------------------------------------------------------------------------------


class _ValueNumbers(dict[Any, int]):
    """Codes of the values seen so far; the code of a new value is computed on first access."""

    def __init__(self, number: Callable[[Any], int]) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, value: Any) -> int:
        number = self[value] = self._number(value)
        return number


class DistinctTexts:
    """Distinct texts by code, from 0 on; -1 stands for none."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._met: dict[Callable[[Any], str | None], _ValueNumbers] = {}

    def codes(self, values: Iterable[Any], text: Callable[[Any], str | None]) -> Codes:
        """Return the code of each value's text; `text` is called once for each distinct value."""
        met = self._met.get(text) or self._met.setdefault(text, _ValueNumbers(lambda value: self.number(text(value))))
        listed = list(values)
        if listed and listed.count(listed[0]) == len(listed):  # as phases and processes often are
            return np.full(len(listed), met[listed[0]], dtype=np.int32)
        return np.fromiter(map(met.__getitem__, listed), dtype=np.int32, count=len(listed))

    def number(self, text: str | None) -> int:
        """Return the code of a text, a new one if it has none yet."""
        return -1 if text is None else self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        """The texts by code."""
        return list(self._numbers)


def _plain(value: Any) -> str | None:
    return None if value is None else str(value) or None


def _of_raw(value: bytes) -> str | None:
    """Return JSON text as text: strings without quotes, null as None."""
    if value in (b"", b"null"):
        return None
    return str(msgspec.json.decode(value) if value.startswith(b'"') else value.decode("utf8", "replace")) or None


def _as_json(value: bytes) -> str | None:
    return value.decode("utf8", "replace") or None


# --- pieces --------------------------------------------------------------------------------------------------------------


class Inexact(Exception):
    """Doubles cannot represent the times as written."""


class TypedEvents:
    """Columns of typed events. Names of columns: the events' keys, or FIELDS of arguments."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def of(self, rows: Bool) -> Self:
        """Return the piece with only the rows of a mask."""
        return self if rows.all() else type(self)(list(compress(self.events, rows.view(np.uint8).tobytes())))

    def times(self, name: str) -> tuple[Int, Bool]:
        """Return times in ns, and which are valid; raise Inexact if the text has more digits than were kept."""
        values, valid, exact = _to_ns(np.fromiter(self._values(name), dtype=np.float64, count=len(self.events)))
        if not exact:
            raise Inexact
        return values, valid

    def texts(self, name: str, known: DistinctTexts) -> Codes:
        """Return the codes of texts; the text of an integer is its digits."""
        return known.codes(self._values(name), _plain)

    def json(self, name: str, known: DistinctTexts) -> Codes:
        """Return the codes of values kept as JSON."""
        values = _NUL.join(self._values(name)).split(_NUL) if self.events else []  # faster than making bytes of each
        return known.codes(values, _as_json)

    def integers(self, name: str) -> tuple[Int, Bool]:
        """Return integers (0 where missing), and which are there."""
        values = np.fromiter(self._values(name), dtype=np.int64, count=len(self.events))
        valid = values != _MISSING
        return np.where(valid, values, 0), valid

    def _values(self, name: str) -> Iterable[Any]:
        return map(attrgetter(name), self._args if name in _ARGUMENT_FIELDS else self.events)

    @cached_property
    def _args(self) -> list[Any]:
        return list(map(attrgetter("args"), self.events))


class _TaggedPiece(TypedEvents):
    """Columns of events decoded with one type per category."""

    def texts(self, name: str, known: DistinctTexts) -> Codes:
        return known.codes(map(type, self.events), _category) if name == "cat" else super().texts(name, known)


def _category(event_type: Any) -> str | None:
    return _plain(event_type.cat)


class _UntypedPiece(TypedEvents):
    """Columns of events decoded as text."""

    def times(self, name: str) -> tuple[Int, Bool]:
        return json_numbers.thousandfold(self._bytes(name))

    def texts(self, name: str, known: DistinctTexts) -> Codes:
        return known.codes(self._bytes(name), _of_raw)

    def integers(self, name: str) -> tuple[Int, Bool]:
        return json_numbers.integers(self._bytes(name))

    def _bytes(self, name: str) -> list[bytes]:
        return list(map(bytes, self._values(name)))

    @cached_property
    def _args(self) -> list[Any]:
        result = map(attrgetter("args"), self.events)
        return [args if type(args) is _Untyped else _NO_UNTYPED for args in result]  # other JSON than an object has no arguments


def _to_ns(values: npt.NDArray[np.float64]) -> tuple[Int, Bool, bool]:
    """Return microseconds as integer nanoseconds, which of them are finite numbers, and whether all are exact.

    A double represents whole numbers up to 2**53, and three decimals up to 2**43 (101 days): if the nearest thousandth gives the
    same double again, it is the number in the text. Kineto counts from the beginning of the quarter, which stays in this range.
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
    """Decodes pieces of one file's list of events for some groups, and remembers which decoder fits its events."""

    def __init__(self, groups: Mapping[str, EventGroup]) -> None:
        self._by_category, self._patience = _decoder_of(groups), 4  # pieces on which it may fail before it is dropped
        self._as_text = False

    def columns(self, text: Buffer, make: Callable[[TypedEvents], Any]) -> Any:
        """Return the result of `make` for a piece's columns.

        Raise msgspec.DecodeError or UnicodeDecodeError if the text is not a JSON list, msgspec.ValidationError if its elements
        are not events.
        """
        for decoder in () if self._as_text else (self._by_category, _TYPED) if self._patience else (_TYPED,):
            try:
                events = decoder.decode(text)
                return make(_TaggedPiece(events) if decoder is self._by_category else TypedEvents(events))
            except msgspec.ValidationError:
                self._patience -= decoder is self._by_category
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise
            except Inexact:
                self._as_text = True  # all times of a file are on the same clock
                break
            except (ValueError, OverflowError):  # text where numbers are expected, numbers beyond 64 bits
                break
        return make(_UntypedPiece(_UNTYPED.decode(text)))
