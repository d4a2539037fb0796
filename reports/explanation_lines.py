"""An explanation in about LINES lines of text: the answer, the parts of the difference, the causes with evidence and remedies.

What to read first comes first, and sentences are never cut: what has no room is left out, with a hint where to find it. Parts
and causes without their own line are added up. Only long sentences make it longer than LINES.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from kernelscope.reports import explanation
from kernelscope.reports.explanation import RankedCause, RankedPart, Result, Scale
from kernelscope.reports.text import SENTENCE, printable

LINES = 24
_PARTS = 6  # lines of parts, including the total, that causes never take
_FEWEST = 4  # lines of parts if sentences are long
_ROOMY = 80  # columns: at this width sentences take few lines
_LARGE = 8  # large parts that keep their own lines, whatever causes need
_SETTINGS = 3  # lines of settings if no cause is named
_CAUSES = 3  # causes that keep their remedies, whatever parts need
_BAR = 40  # columns of the longest bar
_FULL, _EIGHTHS, _FASTER = "█", " ▏▎▍▌▋▊▉", "▒"
_STYLES = {"high": "bold", "medium": "", "low": "dim"}


def lines(result: Result, width: int, most: int = LINES) -> list[Text]:
    """Return an explanation as about `most` (10 or more) lines of at most `width` (20 or more) columns."""
    ranked, unexplained = explanation.causes(result)
    causes = _Shown([_Block.of(cause, explanation.scale(result), width) for cause in ranked], most < LINES)
    head, foot = _head(result, width), _foot(result, width, most)
    wanted = len(explanation.parts(result)) + 1
    room = most - len(head) - len(foot) - causes.height - (1 if ranked else _SETTINGS)
    # besides the large ones, a line for the others and one for the total
    large = min(explanation.large_parts(result), _LARGE) + 2 if most >= LINES and width >= _ROOMY else 0
    for_parts = min(wanted, max(room - causes.evidence, min(_PARTS, room), large, _FEWEST))
    whole = causes.fill(room - for_parts)
    left = _left(result, causes.omitted, unexplained, width) if ranked else []
    body = [*head, *_parts(result, width, for_parts), *causes.lines(), *left, *foot]
    if not whole and most >= LINES:
        body += _fold("for all evidence: --format markdown, or a page with -o FILE.html", width, "dim")
    return [*body, *(_settings(result, width, most - len(body)) if most >= LINES else [])]


def _settings(result: Result, width: int, room: int) -> list[Text]:
    """Return the settings that differ, as many as fit into `room` lines."""
    for count in range(len(result.get("differences") or []), 0, -1):
        found = _fold(explanation.settings(result, count), width, "dim")
        if len(found) <= room:
            return found
    return []


def _head(result: Result, width: int) -> list[Text]:
    """Return how the work differs, the answer, and why no cause is named."""
    before = len(explanation.premises(result))
    warnings = explanation.warnings(result)
    found = [_fold(text, width, "bold yellow") for text in warnings[:before]]
    found.append(_fold(explanation.answer(result), width, "bold"))
    found += [_fold(text, width, "yellow") for text in warnings[before:]]
    found.append(_fold(explanation.nothing_found(result), width))
    return [line for part in found for line in part]


def _foot(result: Result, width: int, most: int) -> list[Text]:
    """Return facts about the numbers, and what the captures are and lack."""
    said = [" \u00b7 ".join(explanation.facts(result)), *(explanation.gaps(result) if most >= LINES else [])]
    return [line for text in said for line in _fold(text, width, "dim")]


def _parts(result: Result, width: int, room: int) -> list[Text]:
    """Return the parts with bars, and below them the difference, which is their sum."""
    if room < 2:
        return []
    shown = explanation.scale(result)
    parts = explanation.parts(result, room - 1)
    whole = RankedPart(f"difference, {shown.unit}", explanation.total(result))
    numbers = [shown.signed(part.delta_ns) for part in (*parts, whole)]
    size = max(map(len, numbers))
    label = min(max(cell_len(part.label) for part in (*parts, whole)), max(width - size - 12, width // 3))
    room_for_bar = max(min(width - label - size - 2, _BAR), 0)
    longest = max((abs(part.delta_ns) for part in parts), default=1) or 1
    found = []
    for part, number in zip((*parts, whole), numbers, strict=True):
        last = part is whole
        line = Text(_cut(part.label, label, pad=True), style="bold" if last else "")
        line.append(f" {number:>{size}}", style="bold" if last else "")
        if not last:
            style = "red" if part.delta_ns > 0 else "green"
            line.append(f" {_bar(part.delta_ns / longest, room_for_bar)}".rstrip(), style=style)
        found.append(_fit(line, width))
    return found


def _bar(share: float, width: int) -> str:
    """Return a bar to an eighth of a column; shaded if B is faster, so it works without colours."""
    if share < 0:
        return _FASTER * max(round(-share * width), 1)
    eighths = round(share * width * 8)
    return _FULL * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


@dataclass
class _Block:
    """The lines of one cause: its title, each sentence of its evidence, and its remedy. evidence: sentences shown."""

    cause: RankedCause
    title: list[Text]
    sentences: list[list[Text]]
    remedy: list[Text]
    evidence: int = 0

    @classmethod
    def of(cls, cause: RankedCause, shown: Scale, width: int) -> _Block:
        said = ", ".join(filter(None, (cause.share, f"confidence {cause.confidence}")))
        head = f"{cause.number}. {shown.signed(cause.delta_ns)} {shown.unit} ({said}): "
        title = Text(head, style="bold" if cause.delta_ns > 0 else "bold green")
        title.append(cause.title, style=f"not bold {_STYLES.get(cause.confidence, '')} default".replace("  ", " "))
        evidence = [printable(text, SENTENCE) for text in cause.finding.get("evidence") or []]
        remedy = printable(cause.finding.get("remedy") or "", SENTENCE)
        return cls(
            cause, _wrap(title, width, "   "), [_below(Text(text, style="dim"), width) for text in evidence],
            _below(Text(f"try: {remedy}"), width) if remedy else [],
        )  # fmt: skip

    def lines(self) -> list[Text]:
        """Return the lines to show."""
        evidence = [line for sentence in self.sentences[: self.evidence] for line in sentence]
        return [*self.title, *evidence, *self.remedy]


class _Shown:
    """The causes to show: the first with their remedies, then evidence and further causes as far as there is room."""

    def __init__(self, blocks: Sequence[_Block], brief: bool):
        self._blocks, self._count = blocks, min(len(blocks), _CAUSES)
        for block in blocks[1:] if brief else blocks[_CAUSES:]:
            block.remedy = []
        first: dict[str, int] = {}  # remedies, and the first cause that has each
        for block in blocks:
            remedy = "\n".join(line.plain for line in block.remedy)
            if remedy and first.setdefault(remedy, block.cause.number) != block.cause.number:
                block.remedy = [Text(f"   try: as for {first[remedy]}")]
        for block in blocks[:1]:
            block.evidence = min(1, len(block.sentences))

    @property
    def height(self) -> int:
        """Number of lines so far."""
        return len(self.lines())

    @property
    def evidence(self) -> int:
        """Number of lines for the remaining evidence of the first causes."""
        return sum(len(text) for block in self._blocks[: self._count] for text in block.sentences[block.evidence :])

    @property
    def omitted(self) -> list[RankedCause]:
        """The causes without a line."""
        return [block.cause for block in self._blocks[self._count :]]

    def fill(self, room: int) -> bool:
        """Add what fits into `room` lines: a sentence of each cause, the next ones, further causes; return whether all fit."""
        whole = True
        for number in range(max((len(block.sentences) for block in self._blocks), default=0)):
            for block in self._blocks[: self._count]:
                if block.evidence == number < len(block.sentences):
                    fits = len(block.sentences[number]) <= room
                    whole &= fits
                    if fits:
                        room -= len(block.sentences[number])
                        block.evidence += 1
        while self.omitted and len(self._blocks[self._count].title) <= room:
            room -= len(self._blocks[self._count].title)
            self._count += 1
        return whole and not self.omitted

    def lines(self) -> list[Text]:
        """Return the lines of all shown causes."""
        return [line for block in self._blocks[: self._count] for line in block.lines()]


def _left(result: Result, rest: Sequence[RankedCause], unexplained: int, width: int) -> list[Text]:
    """Return the sum of the causes without their own line, and the unexplained rest."""
    shown = explanation.scale(result)
    more = f"and {len(rest)} more: {shown.signed(sum(cause.delta_ns for cause in rest))} {shown.unit}; " if rest else ""
    return _fold(more + explanation.unexplained(result, unexplained), width)


def _fold(text: str, width: int, style: str = "") -> list[Text]:
    """Return a sentence on as many lines as it needs, all but the first indented; none for an empty text."""
    return _wrap(Text(text, style=style), width, "  ") if text else []


def _below(text: Text, width: int) -> list[Text]:
    """Return a sentence below a title."""
    return _wrap(text, width, "   ", "   ")


def _wrap(text: Text, width: int, indent: str, first: str = "") -> list[Text]:
    """Break a text into lines that fit the width; words that are too long are broken."""
    wrapped = text.wrap(Console(width=width), max(width - len(indent), 1), overflow="fold")
    for line in wrapped:
        line.rstrip()
    return [Text(indent if number else first).append_text(line) for number, line in enumerate(wrapped)]


def _fit(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


def _cut(text: str, width: int, pad: bool = False) -> str:
    """Return text of at most `width` columns, cut with an ellipsis; padded to `width` if wanted."""
    if cell_len(text) > width:
        text = set_cell_size(text, max(width - 1, 0)).rstrip() + "…"
    return set_cell_size(text, width) if pad else text
