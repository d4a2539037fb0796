"""What threads are called: names that systems, Python and frameworks give them, in words where these are known."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

MAIN = "main thread"

# The program's own name, which all of its threads bear unless they are renamed, and numbers, say nothing
_NOTHING = re.compile(r"(python|pypy)[\d.]*|thread \d+|\d*", re.IGNORECASE)
_NUMBERED = re.compile(r"/\d+$")
_WORDS = (
    (re.compile(r"MainThread|pt_main_thread"), MAIN),
    (re.compile(r"pt_autograd_(\d+)"), r"autograd thread \1"),
    (re.compile(r"pt_data_pin|.*\(_pin_memory_loop\)"), "data loader, pinning memory"),
    (re.compile(r"pt_data_worker"), "data loader"),
)


def readable(name: str) -> str | None:
    """Return what people call a thread of this name; None where the name tells nothing."""
    name = name.strip()
    for pattern, words in _WORDS:
        if pattern.fullmatch(name):
            return pattern.sub(words, name)
    return None if _NOTHING.fullmatch(name) else name


def of_lines(events: pd.DataFrame) -> dict[str, str]:
    """Return the names of the threads of an XSpace's events (thread and line), whose lines are called NAME or NAME/NUMBER."""
    lines = events[["thread", "line"]].drop_duplicates().dropna()
    return named((int(thread), _NUMBERED.sub("", str(line))) for thread, line in zip(lines["thread"], lines["line"], strict=True))


def named(threads: Iterable[tuple[int, str]]) -> dict[str, str]:
    """Return the names of threads by number as a Trace's info has them: of several names of a thread the last that tells any."""
    result = ((str(number), readable(name)) for number, name in threads)
    return {number: name for number, name in result if name is not None}
