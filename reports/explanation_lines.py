"""An explanation in at most LINES lines of text, whatever it holds: the answer, the parts of the difference, the causes.

Each piece says how many lines it wants; what must be read first is served first, and what is cut ends in an ellipsis. Nothing is
dropped silently: parts and causes without a line of their own are added up in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from kernelscope.reports import explanation
from kernelscope.reports.explanation import Cause, Part, Result, Scale
from kernelscope.reports.text import printable, sentences

LINES = 20
_PARTS = 6  # lines of parts, the total included, that causes leave alone
_CAUSES = 3  # causes that get a line whatever the parts want
_BAR = 40  # columns of the longest bar
_FULL, _EIGHTHS, _FASTER = "█", " ▏▎▍▌▋▊▉", "▒"
_STYLES = {"high": "bold", "medium": "", "low": "dim"}


def lines(result: Result, width: int, most: int = LINES) -> list[Text]:
    """Return an explanation as lines of at most `width` columns (20 or more), no more than `most` (10 or more) of them."""
    head = _head(result, width, most)
    foot = _foot(result, width, most)
    ranked, unexplained = explanation.causes(result)
    blocks = [_Block.of(cause, explanation.scale(result), width) for cause in ranked]
    room = most - len(head) - len(foot)
    wanted = len(explanation.parts(result)) + 1
    causes_wanted = sum(block.wanted for block in blocks) + (2 if blocks else 1)
    least = min(causes_wanted, _CAUSES + 2)
    for_parts = min(wanted, max(room - causes_wanted, min(_PARTS, room - least), 2))
    parts = _parts(result, width, for_parts)
    body = [*head, *parts, *_causes(result, blocks, unexplained, width, room - len(parts))]
    spare = most - len(body) - len(foot)
    return [*body, *(_foot(result, width, most, spare) if spare > 0 else foot)][:most]


def _head(result: Result, width: int, most: int) -> list[Text]:
    """Return how the work differs, the answer, and why no cause is named."""
    before = len(explanation.premises(result))
    warnings = explanation.warnings(result)
    found = [_fold(text, width, 2, "bold yellow") for text in warnings[:before]]
    found.append(_fold(explanation.answer(result), width, 4, "bold"))
    found += [_fold(text, width, 3 if most >= LINES else 2, "yellow") for text in warnings[before:]]
    nothing = explanation.nothing_found(result)
    found += [_fold(nothing, width, 2)] if nothing else []
    return [line for part in found for line in part][: most - 4]


def _foot(result: Result, width: int, most: int, spare: int = 0) -> list[Text]:
    """Return what the numbers rest on and what the captures lack; on `spare` more lines all of it, and the settings."""
    facts, gaps = " · ".join(explanation.facts(result)), " · ".join(explanation.gaps(result))
    found = _fold(facts, width, 2 if most >= LINES else 1, "dim") if facts else []
    before = len(found)
    found += _fold(gaps, width, 1 + spare, "dim") if gaps else []
    left = spare - max(len(found) - before - 1, 0)
    settings = explanation.settings(result) if left > 0 else ""
    return [*found, *(_fold(settings, width, left, "dim") if settings else [])]


def _parts(result: Result, width: int, room: int) -> list[Text]:
    """Return the parts with bars, and below them the difference that they add up to."""
    if room < 2:
        return []
    shown = explanation.scale(result)
    parts = explanation.parts(result, room - 1)
    whole = Part(f"difference, {shown.unit}", explanation.total(result))
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
    """The lines that one cause could have: those of its title, its evidence and its remedy."""

    cause: Cause
    pieces: tuple[list[Text], list[Text], list[Text]]

    @classmethod
    def of(cls, cause: Cause, shown: Scale, width: int) -> _Block:
        head = f"{cause.number}. {shown.signed(cause.delta_ns)} {shown.unit} {cause.share} {cause.confidence}: "
        title = Text(head, style="bold" if cause.delta_ns > 0 else "bold green")
        title.append(cause.title, style=f"not bold {_STYLES.get(cause.confidence, '')} default".replace("  ", " "))
        said = sentences(cause.finding.get("evidence") or [], 300)
        remedy = printable(cause.finding.get("remedy") or "", 300)
        below = [Text(said, style="dim"), Text(f"try: {remedy}" if remedy else "")]
        evidence, advice = (_wrap(text, width, "   ", "   ") if text.plain else [] for text in below)
        return cls(cause, (_wrap(title, width, "   "), evidence, advice))

    @property
    def wanted(self) -> int:
        """Lines that show all of it."""
        return sum(map(len, self.pieces))

    def lines(self, sizes: Sequence[int], width: int) -> list[Text]:
        """Return so many lines of each piece."""
        return [line for piece, size in zip(self.pieces, sizes, strict=True) for line in _ended(piece, size, width)]


def _causes(result: Result, blocks: Sequence[_Block], unexplained: int, width: int, room: int) -> list[Text]:
    """Return as many causes as there is room for, each with what fits of its evidence and remedy, and what is not explained."""
    if not blocks or room < 2:
        return []
    for reserved in (1, 2):  # lines for what is not explained: a number is never cut
        count = min(len(blocks), room - reserved, max(_CAUSES, (room - reserved) // 3))
        left = _fold(_left(result, [block.cause for block in blocks[count:]], unexplained), width, 2)
        if len(left) <= reserved:
            break
    given = _given(blocks[:count], room - reserved)
    found = [line for block, sizes in zip(blocks, given, strict=False) for line in block.lines(sizes, width)]
    return [*found, *left]


def _left(result: Result, rest: Sequence[Cause], unexplained: int) -> str:
    """Return the causes that have no line of their own, added up, and what is not explained."""
    shown = explanation.scale(result)
    more = f"and {len(rest)} more: {shown.signed(sum(cause.delta_ns for cause in rest))} {shown.unit}; " if rest else ""
    exact = int(result["wall_delta_ns"]) - sum(int(finding["explains_ns"]) for finding in result["findings"])
    return f"{more}{explanation.UNEXPLAINED}: {shown.signed(unexplained)} {shown.unit} ({explanation.share(result, exact)})"


def _given(blocks: Sequence[_Block], room: int) -> list[list[int]]:
    """Deal `room` lines: each cause's title first, then a line each of evidence and remedy, then what they want beyond that."""
    given = [[0, 0, 0] for _ in blocks]
    title, evidence, remedy = range(3)
    rounds = (
        ((title, 1),), ((title, 2),), ((evidence, 1), (remedy, 1)), ((remedy, 2), (evidence, 2)),
        ((remedy, 9), (evidence, 9), (title, 9)),
    )  # fmt: skip
    for pieces in rounds:
        for block, sizes in zip(blocks, given, strict=True):
            for piece, most in pieces:
                more = min(min(most, len(block.pieces[piece])) - sizes[piece], room)
                if more > 0:
                    sizes[piece] += more
                    room -= more
    return given


def _fold(text: str, width: int, most: int, style: str = "") -> list[Text]:
    """Return a sentence on at most `most` lines, all but the first indented."""
    return _ended(_wrap(Text(text, style=style), width, "  "), most, width)


def _wrap(text: Text, width: int, indent: str, first: str = "") -> list[Text]:
    """Break a text into lines that fit the width; words that are too long are broken."""
    wrapped = text.wrap(Console(width=width), max(width - len(indent), 1), overflow="fold")
    for line in wrapped:
        line.rstrip()
    return [Text(indent if number else first).append_text(line) for number, line in enumerate(wrapped)]


def _ended(found: Sequence[Text], most: int, width: int) -> list[Text]:
    """Return the first `most` lines; where more are left the last one ends in an ellipsis."""
    kept = [line.copy() for line in found[:most]]
    if kept and len(found) > most:
        kept[-1].truncate(width - 2)
        kept[-1].rstrip()
        kept[-1].append(" …", style="dim")
    return kept


def _fit(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


def _cut(text: str, width: int, pad: bool = False) -> str:
    """Return text of at most `width` columns, the rest replaced by an ellipsis; padded to it if wanted."""
    if cell_len(text) > width:
        text = set_cell_size(text, max(width - 1, 0)).rstrip() + "…"
    return set_cell_size(text, width) if pad else text
