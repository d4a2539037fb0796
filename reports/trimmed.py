"""Output of rich without its trailing blanks, which are a nuisance in files and on the clipboard."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment


class Trimmed:
    """A renderable whose lines end where their text does."""

    def __init__(self, shown: RenderableType):
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        for line in console.render_lines(self._shown, options, pad=False):
            yield from _trimmed(line)
            yield Segment.line()


def _trimmed(line: list[Segment]) -> list[Segment]:
    """Return a line without trailing blanks, except those with a background colour."""
    kept = list(line)
    while kept and not (kept[-1].style and kept[-1].style.bgcolor):
        last = kept.pop()
        text = last.text.rstrip(" ")
        if text:
            return [*kept, Segment(text, last.style)]
    return kept
