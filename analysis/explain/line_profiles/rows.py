"""Lines of both results of line_profiler, paired by their text; without texts, by their numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernelscope.analysis.explain.line_profiles.functions import FunctionPair
from kernelscope.analysis.explain.line_profiles.kinds import beginnings
from kernelscope.analysis.explain.model import SIDES

_LONGEST = 60
_OFTEN = 1000  # executions: the shortest of such lines shows how much line_profiler itself may take of each
_MOST_COST_NS = 1000.0
_CHANGED = 0.6  # of two lines' characters that are the same: with fewer, one is not the other
_SAME_LOOP = 0.5  # of the time: if lines with this share execute more often by one factor, the loop ran more often


# A statement that assigns the result of one call
_CALL = re.compile(r"[\w., \[\]]+ = (?:\w+\.)*(?P<name>\w+)\((?P<arguments>.*)\)$")
_EXCHANGED = "exchanged"
_Operation = tuple[str, int, int, int, int]  # as difflib.SequenceMatcher's opcodes


class Line(NamedTuple):
    """A line of one side. number, text: None if the side lacks it, and text if the recording has none.

    statement: the text of the whole statement that the line is in.
    """

    number: int | None
    text: str | None
    hits: int
    time_ns: int
    statement: str | None = None

    @classmethod
    def of(cls, lines: Sequence[Any], place: int, end: int, statements: Sequence[str | None]) -> Line:
        """Return the line at a place before `end`, else one that is not there."""
        if place >= end:
            return cls(None, None, 0, 0)
        line = lines[place]
        return cls(int(line.line), _spaced(line.text), int(line.hits), int(line.time_ns), statements[place])


_NONE = Line(None, None, 0, 0)


def _alike(a: Line, b: Line) -> bool:
    """Return whether one line may be the other, changed."""
    if a.number is None or b.number is None or a.text is None or b.text is None:
        return True
    return difflib.SequenceMatcher(None, a.text, b.text, autojunk=False).ratio() >= _CHANGED


def _spaced(text: object) -> str | None:
    """Return a line's text without its indentation; None if it is unknown."""
    return " ".join(text.split()) if isinstance(text, str) else None


@dataclass(frozen=True)
class Row:
    """A line of both sides, or of one: the function it is in, and the line in A and in B.

    block: which lines stand at one place of the function in A and in B, so that some may replace others; None for lines that both
    sides have, or that were only added or removed. by_call: whether they are one line only because both call
    the same function.
    """

    function: str
    a: Line
    b: Line
    files: tuple[str, str]
    block: int | None = None
    by_call: bool = False

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """The line's number in A and in B; None on a side that lacks it."""
        return self.a.number, self.b.number

    @property
    def texts(self) -> tuple[str | None, str | None]:
        """The line's text in A and in B; None on a side that lacks it, and if it is unknown."""
        return self.a.text, self.b.text

    @property
    def statements(self) -> tuple[str | None, str | None]:
        """The text of the statement that the line is in, in A and in B."""
        return self.a.statement, self.b.statement

    @property
    def hits(self) -> tuple[int, int]:
        """How often the line executes in A and in B."""
        return self.a.hits, self.b.hits

    @property
    def times_ns(self) -> tuple[int, int]:
        """The line's time in A and in B, with what it calls (ns)."""
        return self.a.time_ns, self.b.time_ns

    @property
    def delta_ns(self) -> int:
        """The difference, B minus A."""
        return self.times_ns[1] - self.times_ns[0]

    @property
    def only(self) -> str | None:
        """The side that has the line; None if both do."""
        there = [side for side, number in zip(SIDES, self.numbers, strict=True) if number is not None]
        return there[0] if len(there) == 1 else None

    @property
    def is_rest(self) -> bool:
        """Whether it is no line, but the rest of a function's stated time."""
        return 0 in self.numbers

    @property
    def replaced(self) -> bool:
        """Whether another line stands in its place on the other side."""
        return self.only is None and self.texts[0] != self.texts[1]

    @property
    def place(self) -> str:
        """Name the line: line 12, or line 12 (14 in B)."""
        a, b = self.numbers
        if a is None:
            return f"line {b} of B"
        return f"line {a} of A" if b is None else f"line {a}" + (f" ({b} in B)" if a != b else "")


def times_of(rows: Sequence[Row]) -> tuple[int, int]:
    """Return the time of these lines in A and in B (ns)."""
    return sum(row.times_ns[0] for row in rows), sum(row.times_ns[1] for row in rows)


def own_cost(rows: Sequence[Row]) -> tuple[float, float]:
    """Return what line_profiler itself takes of these lines' time in A and in B at most (ns).

    It adds about the same to each execution: less than a microsecond, and no more than the shortest of many takes.
    """
    return _own_cost(rows, 0), _own_cost(rows, 1)


def _own_cost(rows: Sequence[Row], side: int) -> float:
    each = [row.times_ns[side] / row.hits[side] for row in rows if row.hits[side] >= _OFTEN]
    return (min(*each, _MOST_COST_NS) if each else 0.0) * sum(row.hits[side] for row in rows)


def pair_lines(pair: FunctionPair) -> Iterator[Row]:
    """Pair the lines of a function in both recordings: by text, or by number if a side has no texts."""
    lines = [
        list(one.lines.sort_values("line", kind="stable").itertuples(index=False)) if one is not None else []
        for one in pair.sides
    ]
    texts = [[_spaced(line.text) for line in side] for side in lines]
    statements = [_statements(side) for side in lines]
    known = all(text is not None for side in texts for text in side)
    keys = texts if known else [[line.line for line in side] for side in lines]
    matcher = difflib.SequenceMatcher(None, list(map(str, keys[0])), list(map(str, keys[1])), autojunk=False)
    names = [one.shown if one is not None else "" for one in pair.sides]
    files = (pair.a.file if pair.a is not None else "", pair.b.file if pair.b is not None else "")
    for block, (kind, first, last, other, end) in enumerate(_with_exchanged(matcher.get_opcodes(), lines)):
        replaced = block if kind in ("replace", _EXCHANGED) else None
        mine_left, its_left = list(range(first, last)), list(range(other, end))
        for one, counterpart in _same_calls(lines, statements, mine_left, its_left) if kind == "replace" and known else []:
            mine_left.remove(one)
            its_left.remove(counterpart)
            mine, its = Line.of(lines[0], one, last, statements[0]), Line.of(lines[1], counterpart, end, statements[1])
            yield Row(names[0], mine, its, files, by_call=one - first != counterpart - other or not _alike(mine, its))
        for place in range(max(len(mine_left), len(its_left))):
            mine = _line_at(lines[0], mine_left, place, statements[0])
            its = _line_at(lines[1], its_left, place, statements[1])
            both = mine.number is not None and its.number is not None
            if both and (kind == _EXCHANGED or (kind == "replace" and not _alike(mine, its))):
                yield from (Row(names[0], mine, _NONE, files, replaced), Row(names[1], _NONE, its, files, replaced))
            else:
                yield Row(names[mine.number is None], mine, its, files, replaced)


def _line_at(lines: Sequence[Any], places: Sequence[int], number: int, statements: Sequence[str | None]) -> Line:
    """Return the line at the place of this number among `places`; one that is not there if they are fewer."""
    return Line.of(lines, places[number], len(lines), statements) if number < len(places) else _NONE


def _same_calls(
    lines: Sequence[Sequence[Any]], statements: Sequence[Sequence[str | None]], mine: Sequence[int], its: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the lines of two sides, by place, that alone call a function of one name and execute equally often, in one order."""
    a, b = (
        {place: _called(said[place]) for place in places if side[place].hits}
        for side, said, places in zip(lines, statements, (mine, its), strict=True)
    )
    once = {name for name in a.values() if name and all(list(named.values()).count(name) == 1 for named in (a, b))}
    pairs = [(place, other) for place, name in a.items() for other, its_name in b.items() if name in once and name == its_name]
    pairs = [pair for pair in pairs if lines[0][pair[0]].hits == lines[1][pair[1]].hits]
    places = [other for _, other in pairs]
    return pairs if places == sorted(places) else []


def _called(statement: str | None) -> str | None:
    """Return the name, in lower case, of the one function or method whose result a statement assigns; None of any other."""
    found = _CALL.match(statement or "")
    return found["name"].lower() if found and "(" not in found["arguments"] else None


def _with_exchanged(operations: Sequence[_Operation], lines: Sequence[Sequence[Any]]) -> list[_Operation]:
    """Return how lines became others. Where loops were exchanged, all lines there replace each other, though one stayed."""
    exchanged = [_is_exchanged(operations, number, lines) for number in range(len(operations))]
    result: list[_Operation] = []
    for number, (kind, first, last, other, end) in enumerate(operations):
        if number and (exchanged[number] or exchanged[number - 1]):
            _, begin, _, its_begin, _ = result.pop()
            result.append((_EXCHANGED, begin, last, its_begin, end))
        else:
            result.append((kind, first, last, other, end))
    return result


def _is_exchanged(operations: Sequence[_Operation], number: int, lines: Sequence[Sequence[Any]]) -> bool:
    """Return whether lines with one text are a loop that went outwards or inwards: each executes as another one did beside it."""
    kind, first, last, other, _ = operations[number]
    if kind != "equal" or not 0 < number < len(operations) - 1:
        return False
    beside = [operations[number - 1], operations[number + 1]]
    a, b = (
        {line.hits for begin, end in spans for line in side[begin:end]}
        for side, spans in zip(lines, ([one[1:3] for one in beside], [one[3:5] for one in beside]), strict=True)
    )
    pairs = zip(lines[0][first:last], lines[1][other:], strict=False)
    return all(mine.hits != its.hits and (its.hits in a or mine.hits in b) for mine, its in pairs)


def _statements(lines: Sequence[Any]) -> list[str | None]:
    """Return the text of the statement that each line is in; None if it is unknown."""
    texts = [_spaced(line.text) for line in lines]
    begins = beginnings(zip((int(line.line) for line in lines), texts, strict=True))
    whole: dict[int, list[str]] = {}
    for begin, text in zip(begins, texts, strict=True):
        whole.setdefault(begin, []).append(text or "")
    return [" ".join(whole[begin]) or None for begin in begins]


def loop_counts(rows: Sequence[Row]) -> tuple[int, int] | None:
    """Return how often the loop ran on each side if that differs: as often as the lines that take most of the time execute."""
    sums: dict[tuple[int, int], int] = {}
    for row in rows:
        if row.only is None and min(row.hits) > 1:
            sums[row.hits] = sums.get(row.hits, 0) + max(row.times_ns)
    if not sums:
        return None
    times = max(sums, key=sums.__getitem__)
    enough = sums[times] >= _SAME_LOOP * sum(max(row.times_ns) for row in rows)
    return times if enough and times[0] != times[1] else None


def shortened(text: str | None) -> str:
    """Return a line's text as titles show it; empty if it is unknown."""
    return "" if not text else text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
