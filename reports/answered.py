"""Render the result on a job for a terminal and as Markdown: its answer, then tables, then notes on the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Group
from rich.text import Text

from kernelscope.reports import text
from kernelscope.reports.fitted import Fitted
from kernelscope.reports.renderers import Markdown
from kernelscope.reports.table import Table
from kernelscope.reports.trimmed import Trimmed


def shown(answer: str, tables: Iterable[Table], notes: Iterable[str]) -> Trimmed:
    """Return it for a terminal."""
    parts: list[Any] = [Text(text.printable(answer, None), style="bold"), Text()]
    for table in tables:
        parts += [Fitted(table), Text()]
    return Trimmed(Group(*parts, *(Text(text.printable(note, None), style="dim") for note in notes)))


def markdown(answer: str, tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Return it as Markdown."""
    lines = [f"### {text.markdown(answer, None)}", "", *(Markdown().render(table) for table in tables)]
    return "\n".join([*lines, *(f"- {text.markdown(note, None)}" for note in notes)]).rstrip() + "\n"
