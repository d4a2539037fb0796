"""Make untrusted names from traces safe: they may contain terminal escapes, formulas, markup or a megabyte of spaces.

Each destination has its own rules and so its own function. Jinja2 escapes HTML, after `printable`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelscope.reports.units import UNKNOWN

LIMIT = 200  # characters of a name for reading; files for programs hold all of them
WHOLE = 4000  # of a name that is asked for or copied: C++ templates are long and may differ anywhere
SENTENCE = 500  # of one of our sentences: only foreign names can make it longer

# Control characters, unpaired surrogates, and format characters that reorder or hide text (bidirectional overrides, zero width)
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufe00-\ufe0f\ufeff"
    "\ufff0-\uffff\U000e0000-\U000e0fff]"
)
_FORMULA = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_MENTION = re.compile(r"([@#])(?=\w)")  # code hosts notify @somebody and link #1, wherever the shown text has them
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~<>&-])")


def printable(value: object, limit: int | None = LIMIT) -> str:
    """Return a value as one line of visible text: hidden characters become escapes such as \\x1b, long text is cut."""
    if value is None:
        return UNKNOWN
    text = _escape_hidden(str(value))
    if limit is None or len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} … {text[-tail:]} ({len(text):,} characters)"


def _escape_hidden(text: str) -> str:
    return _HIDDEN.sub(lambda match: _escape(match.group()), text)


def _escape(character: str) -> str:
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def spreadsheet(value: object) -> object:
    """Return a value for a CSV cell: numbers unchanged, null empty, and text that no spreadsheet takes for a formula.

    A cell that starts like a formula gets a leading apostrophe, which spreadsheets hide (OWASP, CSV injection).
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = _escape_hidden(str(value))
    return f"'{text}" if text.lstrip(" \xa0\"'").startswith(_FORMULA) else text


def markdown(value: object, limit: int | None = LIMIT) -> str:
    """Return a value for a cell of a Markdown table: nothing in it is taken for markup or HTML.

    An invisible word joiner after @ and # keeps code hosts from notifying anybody or linking anything.
    """
    text = _MENTION.sub("\\1\u2060", printable(value, limit))
    return _MARKDOWN.sub(lambda match: _entity(match.group()), text)


def sentences(texts: Iterable[object], limit: int) -> str:
    """Return several texts, cut to `limit` characters each, as one in which the end of each is visible."""
    *before, last = [printable(text, limit) for text in texts] or [""]
    return " ".join([*(one if one.endswith((".", ";")) else f"{one};" for one in before), last])


def _entity(character: str) -> str:
    """Return a character escaped for Markdown: as an entity if a backslash would not work in a table or in HTML."""
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;", "|": "&#124;", "`": "&#96;"}.get(character, "\\" + character)
