"""Marks of comments and of quotations before lines: people keep printed tables in scripts, and quote them in mails."""

from __future__ import annotations

import re

_MARKS = ("#", "//", ">")


def unquoted(text: str) -> str:
    """Return a text without a mark that three lines in succession begin with, on all lines that begin with it and a space."""
    for mark in _MARKS:
        if f"{mark} " in text and re.search(rf"(?:^{mark}(?: [^\n]*)?\r?\n){{2}}^{mark} ", text, re.MULTILINE):
            text = re.sub(rf"^{mark}(?: |(?=\r?$))", "", text, flags=re.MULTILINE)
    return text
