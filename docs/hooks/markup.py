"""Plain texts of the code (help, docstrings, meanings of columns) as Markdown: only `code` in backquotes is markup in them."""

from __future__ import annotations

import html
import re

_MARKS = re.compile(r"([\\*_{}\[\]#])")


def prose(text: str) -> str:
    """Return a text whose every character is shown as it stands, and what is in backquotes as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backquote without its other
        return _plain(text.replace("`", "'"))
    return "".join(f"<code>{html.escape(part)}</code>" if number % 2 else _plain(part) for number, part in enumerate(parts))


def cell(text: str, code: bool = False) -> str:
    """Return a text for a cell of a table, in one line; `code`: the caller puts it between tags of code."""
    line = " ".join(text.split())
    return (html.escape(line) if code else prose(line)).replace("|", "&#124;")


def _plain(text: str) -> str:
    return _MARKS.sub(r"\\\1", html.escape(text, quote=False))
