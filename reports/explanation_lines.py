"""An explanation in some LINES lines of text: the answer, the parts of the difference, the causes with evidence and remedies.

What must be read first is served first, and every sentence is whole: what has no room is left out, and it is said where it is.
Parts and causes without a line of their own are added up in one. Only long sentences make it longer than LINES.
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
_PARTS = 6  # lines of parts, the total included, that causes leave alone
_FEWEST = 4  # lines of parts where sentences are long
_ROOMY = 80  # columns from which on sentences take few lines
_LARGE = 8  # parts that have lines of their own, whatever causes take
_SETTINGS = 3  # lines of settings where no cause is named
_CAUSES = 3  # causes that are told with what to do, whatever the parts want
_BAR = 40  # columns of the longest bar
_FULL, _EIGHTHS, _FASTER = "█", " ▏▎▍▌▋▊▉", "▒"
_STYLES = {"high": "bold", "medium": "", "low": "dim"}


def lines(result: Result, width: int, most: int = LINES) -> list[Text]:
    """Return an explanation as lines of at most `width` columns (20 or more), some `most` (10 or more) of them."""
    ranked, unexplained = explanation.causes(result)
    told = _Told([_Block.of(cause, explanation.scale(result), width) for cause in ranked], most < LINES)
    head, foot = _head(result, width), _foot(result, width, most)
    wanted = len(explanation.parts(result)) + 1
    room = most - len(head) - len(foot) - told.height - (1 if ranked else _SETTINGS)
    # beside large ones a line for the others, and the total
    large = min(explanation.large_parts(result), _LARGE) + 2 if most >= LINES and width >= _ROOMY else 0
    for_parts = min(wanted, max(room - told.evidence, min(_PARTS, room), large, _FEWEST))
    whole = told.fill(room - for_parts)
    left = _left(result, told.untold, unexplained, width) if ranked else []
    body = [*head, *_parts(result, width, for_parts), *told.lines(), *left, *foot]
    if not whole and most >= LINES:
        body += _fold("all evidence: --format markdown, or the page that -o FILE.html writes", width, "dim")
    return [*body, *(_settings(result, width, most - len(body)) if most >= LINES else [])]


def _settings(result: Result, width: int, room: int) -> list[Text]:
    """Return what was set differently, as much of it as so many lines hold."""
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
    """Return what the numbers rest on, and what the captures are and lack."""
    said = [" \u00b7 ".join(explanation.facts(result)), *(explanation.gaps(result) if most >= LINES else [])]
    return [line for text in said for line in _fold(text, width, "dim")]


def _parts(result: Result, width: int, room: int) -> list[Text]:
    """Return the parts with bars, and below them the difference that they add up to."""
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
    """Return a bar to an eighth of a column; where B is faster it is shaded, so that colours are not needed."""
    if share < 0:
        return _FASTER * max(round(-share * width), 1)
    eighths = round(share * width * 8)
    return _FULL * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


@dataclass
class _Block:
    """The lines of one cause: its title, each sentence of its evidence, and its remedy. evidence: how many of them are told."""

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
        """Return what is told of it."""
        told = [line for sentence in self.sentences[: self.evidence] for line in sentence]
        return [*self.title, *told, *self.remedy]


class _Told:
    """The causes that are told: the first ones with their remedies, then evidence and further causes as far as there is room."""

    def __init__(self, blocks: Sequence[_Block], brief: bool):
        self._blocks, self._count = blocks, min(len(blocks), _CAUSES)
        for block in blocks[1:] if brief else blocks[_CAUSES:]:
            block.remedy = []
        told: dict[str, int] = {}  # remedies, and of which cause each was told first
        for block in blocks:
            remedy = "\n".join(line.plain for line in block.remedy)
            if remedy and told.setdefault(remedy, block.cause.number) != block.cause.number:
                block.remedy = [Text(f"   try: as for {told[remedy]}")]
        for block in blocks[:1]:
            block.evidence = min(1, len(block.sentences))

    @property
    def height(self) -> int:
        """Lines of what is told by now."""
        return len(self.lines())

    @property
    def evidence(self) -> int:
        """Lines that the evidence of the first causes takes beyond that."""
        return sum(len(text) for block in self._blocks[: self._count] for text in block.sentences[block.evidence :])

    @property
    def untold(self) -> list[RankedCause]:
        """The causes that have no line."""
        return [block.cause for block in self._blocks[self._count :]]

    def fill(self, room: int) -> bool:
        """Tell what fits into so many lines: a sentence of each cause, then the next, then further causes; say if all did."""
        whole = True
        for number in range(max((len(block.sentences) for block in self._blocks), default=0)):
            for block in self._blocks[: self._count]:
                if block.evidence == number < len(block.sentences):
                    fits = len(block.sentences[number]) <= room
                    whole &= fits
                    if fits:
                        room -= len(block.sentences[number])
                        block.evidence += 1
        while self.untold and len(self._blocks[self._count].title) <= room:
            room -= len(self._blocks[self._count].title)
            self._count += 1
        return whole and not self.untold

    def lines(self) -> list[Text]:
        """Return them."""
        return [line for block in self._blocks[: self._count] for line in block.lines()]


def _left(result: Result, rest: Sequence[RankedCause], unexplained: int, width: int) -> list[Text]:
    """Return the causes that have no line of their own, added up, and what is not explained."""
    shown = explanation.scale(result)
    more = f"and {len(rest)} more: {shown.signed(sum(cause.delta_ns for cause in rest))} {shown.unit}; " if rest else ""
    return _fold(more + explanation.unexplained(result, unexplained), width)


def _fold(text: str, width: int, style: str = "") -> list[Text]:
    """Return a sentence on as many lines as it needs, all but the first indented; nothing for no text."""
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
    """Return text of at most `width` columns, the rest replaced by an ellipsis; padded to it if wanted."""
    if cell_len(text) > width:
        text = set_cell_size(text, max(width - 1, 0)).rstrip() + "…"
    return set_cell_size(text, width) if pad else text
