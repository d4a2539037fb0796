"""Names of threads, as systems, Python and frameworks give them; in words where these are known."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

MAIN = "main thread"

# The program's own name, which its threads have unless they are renamed, and plain numbers mean nothing
_NOTHING = re.compile(r"(python|pypy)[\d.]*|thread \d+|\d*", re.IGNORECASE)
_NUMBERED = re.compile(r"/\d+$")
_WORDS = (
    (re.compile(r"MainThread|pt_main_thread"), MAIN),
    (re.compile(r"pt_autograd_(\d+)"), r"autograd thread \1"),
    (re.compile(r"pt_data_pin|.*\(_pin_memory_loop\)"), "data loader, pinning memory"),
    (re.compile(r"pt_data_worker"), "data loader"),
)


def readable(name: str) -> str | None:
    """Return a thread's readable name; None if the name means nothing."""
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
    """Return thread names by number, for a Trace's info; of several names of a thread, the last one that means something."""
    result = ((str(number), readable(name)) for number, name in threads)
    return {number: name for number, name in result if name is not None}
