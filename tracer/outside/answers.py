"""What a child writes into its pipe: one JSON object a line, whose event says what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 64_000_000  # bytes of a line
EVENTS: Mapping[str, tuple[str, ...]] = {  # that answer a command
    "warmup": ("warm",), "window": ("window",), "replay": ("replay", "cannot replay"), "finish": ("finished",),
}  # fmt: skip
_SHOWN = 120  # characters of what is no answer
_LARGEST = 2**63


class NoAnswerError(ValueError):
    """A line is no answer of a child; the message says what it is instead, in visible characters."""


def parse(line: bytes) -> dict[str, Any]:
    """Return the answer that a line holds; raise NoAnswerError if it holds none."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise NoAnswerError(shown(line)) from None
    fields = _FIELDS.get(str(answer.get("event")), {}) if isinstance(answer, dict) else None
    if fields is None or not isinstance(answer.get("event"), str):
        raise NoAnswerError(shown(line))
    wrong = next((name for name, fits in fields.items() if not fits(answer.get(name))), None)
    if wrong is None and "pid" in answer and not _is_number(answer["pid"]):
        wrong = "pid"
    if wrong is not None:
        raise NoAnswerError(f"{shown(line)} ({wrong} is missing, or of another type)")
    return dict(answer)


def shown(text: bytes | str) -> str:
    """Return the beginning of a text as one line of visible characters."""
    start = text[: 4 * _SHOWN].decode("utf8", "replace") if isinstance(text, bytes) else text[: _SHOWN + 1]
    return visible(start[:_SHOWN]).strip() + ("..." if len(start) > _SHOWN else "") or "an empty line"


def visible(text: str) -> str:
    """Return a text with spaces in place of line ends, and other characters that cannot be seen as escapes."""
    characters = (
        one if one.isprintable() else " " if one in "\n\r\t" else one.encode("unicode_escape").decode("ascii") for one in text
    )
    return "".join(characters)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_FIELDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "error": {"kind": _is_text, "message": _is_text},
    "window": {"step_ns": _are_numbers},
    "replay": {"start_ns": _is_number, "end_ns": _is_number, "step_ns": _are_numbers},
    "cannot replay": {"reason": _is_text},
}
