"""Tables that ROCm's profilers write as CSV: one per file, with the titles in the first line.

Titles are compared without case, spaces, underscores and hyphens: versions write LDS_Block_Size, Lds_Block_Size, gpu-id, GPU_ID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.formats import unlisted

_LONGEST = 20_000  # characters of a header: counters make it long
_NAMES = ("kernelname", "function", "name", "direction", "operation")
_SHOWN = 40  # characters of a cell in an error


@dataclass
class CsvTable:
    """rows: texts by plain title, empty cells null. unreadable: lines that are not rows; cut: how many of them are dots."""

    path: Path
    rows: pd.DataFrame
    unreadable: int
    cut: int = 0

    def column(self, *titles: str) -> pd.Series:
        """Return the first of these columns that the table has; all null if it has none."""
        result = next((title for title in titles if title in self.rows), None)
        return pd.Series(None, index=self.rows.index, dtype="str") if result is None else self.rows[result]

    def numbers(self, *titles: str) -> pd.Series:
        """Return the first of these columns that the table has as whole numbers; raise EvidenceError for other texts."""
        texts = self.column(*titles)
        numbers = text_tables.counts(texts)
        self._refuse(texts, numbers, titles)
        return numbers

    def durations(self, *titles: str) -> pd.Series:
        """Return a column of times in ns, which may have fractions; raise EvidenceError for texts that are not numbers."""
        texts = self.column(*titles)
        numbers = text_tables.nanoseconds(texts, "ns")
        self._refuse(texts, numbers, titles)
        return numbers

    def _refuse(self, texts: pd.Series, numbers: pd.Series, titles: tuple[str, ...]) -> None:
        wrong = (texts.notna() & numbers.isna()).to_numpy(bool)
        if wrong.any():
            row = int(wrong.argmax())
            title = next(title for title in titles if title in self.rows)
            text = str(texts.iloc[row])[:_SHOWN]
            place = f"{self.path}, row {row + 1}: column {title}"
            raise EvidenceError(f"{place} holds {text!r}, not a number; record or copy it again")

    def require(self, *titles: str) -> None:
        """Raise EvidenceError if a column is missing."""
        missing = [title for title in titles if title not in self.rows]
        if missing:
            raise EvidenceError(f"{self.path}, line 1: no column {missing[0]}; record it again with all its columns")


def titles_of(line: str) -> list[str]:
    """Return the plain titles in a header line."""
    if len(line) > _LONGEST:
        return []
    return [re.sub(r"[\s_-]", "", title).lower() for title in text_tables.cells(line.strip().removeprefix("\ufeff"))]


def head_titles(text: str) -> frozenset[str]:
    """Return the plain titles in the first non-empty line of a text, looking at five lines at most."""
    line = next((line for line in text.split("\n", 5)[:5] if line.strip()), "")
    return frozenset(titles_of(line))


def read(path: Path) -> CsvTable:
    """Return the table of a file; raise EvidenceError if it has no header, or if none of its lines is a row."""
    lines = stream.lines(path)
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise EvidenceError(f"{path}: empty; record or copy it again")
    titles = titles_of(lines[first])
    if len(titles) < 2 or len(set(titles)) < len(titles):
        raise EvidenceError(f"{path}, line {first + 1}: no header with distinct titles; copy it again")
    below = [line for line in lines[first + 1 :] if line != lines[first]]  # concatenated files repeat the titles
    free = next((titles.index(name) for name in _NAMES if name in titles), len(titles) - 1)
    try:
        rows, unread = text_tables.delimited(below, len(titles), free)
    except ValueError as error:
        raise EvidenceError(f"{path}: cannot be split into columns ({error}); copy it again") from error
    if rows.empty and unread:
        raise EvidenceError(f"{path}, line {first + 2}: no row of {len(titles)} columns; copy it again")
    return CsvTable(path, rows.set_axis(titles, axis=1), len(unread), sum(map(unlisted.is_cut, unread)))
