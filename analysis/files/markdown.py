"""Tables in Markdown, and what its marks leave in tables that people post: rows between bars, and cells in bold or as code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow.compute

pc: Any = pyarrow.compute  # pyarrow's type stubs do not allow large strings

# The line below the titles of a table of two or more columns, with bars around it or without
PIPES = r"\s*(?:\|\s*)?:?-+:?(?:\s*\|\s*:?-+:?)+\s*(?:\|\s*)?"
_BETWEEN = re.compile(r"(?<!\\)\|")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_STARS = ("***", "**", "*")
# In tables that spaces divide: a sign that a line has such marks, a marked number, and a marked name between its neighbours
_SIGN = r"(?:^|\s)(?:\*\*|`|(?:\*|__)\d)"
_NUMBER = r"(^|\s)(?:\*{1,3}|__|`)(\d[\d.,]*(?:%|[A-Za-z\x{B5}]{1,3})?)(?:\*{1,3}|__|`)(\s|$)"
_NAME = r"(^\s*|\s{2})(?:\*\*([^\s*](?:[^*]*[^\s*])?)\*\*|`([^`]+)`)(\s{2}|\s*$)"


def pipe_rows(lines: Sequence[str], width: int) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a Markdown table, and the lines that are not rows; empty cells are null."""
    split = [_filled(line, pipe_cells(line), width) for line in lines]
    rows = [[cell or None for cell in cells] for cells in split if len(cells) == width]
    return pd.DataFrame(rows, columns=range(width), dtype="str"), [
        line for line, cells in zip(lines, split, strict=True) if len(cells) != width
    ]


def _filled(line: str, cells: list[str], width: int) -> list[str]:
    """Return a row's cells, with an empty last one if only its bar is there: `a | b |` of three columns."""
    last_is_empty = len(cells) == width - 1 and line.rstrip().endswith("|") and not line.lstrip().startswith("|")
    return [*cells, ""] if last_is_empty else cells


def same_pipes(line: str, other: str) -> bool:
    """Return whether two rows of a Markdown table have the same number of cells."""
    return len(pipe_cells(line)) == len(pipe_cells(other))


def pipe_cells(line: str) -> list[str]:
    """Return the cells of a row of a Markdown table as displayed; none if the line is not a row.

    The bars before the first and behind the last cell may be missing.
    """
    parts = _BETWEEN.split(line.strip())
    if len(parts) == 1:
        return []
    first, last = not parts[0], len(parts) - (not parts[-1])
    return [_shown(cell.strip()) for cell in parts[first:last]]


def _shown(cell: str) -> str:
    """Return a cell without marks around all of it and, unless it is code, without backslashes before punctuation."""
    if cell.startswith("`"):
        return cell.strip("`").replace(r"\|", "|")
    plain = _plain(cell)
    return plain.strip("`") if plain != cell else _ESCAPED.sub(r"\1", cell).strip("`")


def _plain(cell: str) -> str:
    """Return a cell without the marks of emphasis around all of it; names may begin and end with underscores."""
    mark = next((mark for mark in (*_STARS, "__") if cell.startswith(mark)), "")
    inside = cell[len(mark) : -len(mark)] if mark and cell.endswith(mark) else ""
    whole = inside.strip() == inside and mark not in inside if inside else False
    return inside if whole and (mark in _STARS or inside[0].isdigit()) else cell


def without_marks(strings: Any) -> Any:
    """Return lines (an Arrow array) of a table that spaces divide without marks of emphasis or code around whole cells.

    Marks were put into rows of a table whose columns were aligned: without them these are aligned again.
    """
    if not pc.any(pc.match_substring_regex(strings, pattern=_SIGN)).as_py():
        return strings
    for _ in range(2):  # neighbours share the space between them
        strings = pc.replace_substring_regex(strings, pattern=_NUMBER, replacement=r"\1\2\3")
        strings = pc.replace_substring_regex(strings, pattern=_NAME, replacement=r"\1\2\3\4")
    return strings
