"""Which profiled functions of two results of line_profiler correspond, and which of them make up the whole of each side.

A function that another one calls is within it and does not count again. line_profiler does not tell who calls whom, so this
follows from texts, executions and times; a function is taken to be within another unless one side shows that it cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from kernelscope.analysis.explain.line_profiles import kinds
from kernelscope.analysis.explain.model import SIDES
from kernelscope.analysis.trace import Trace

_TOLD_APART = re.compile(r"( at line \d+)?( of \w+)?( \(\d+\))?$")  # what the reader adds to names that occur twice
_IMPLICIT = re.compile(r"__\w+__|forward|backward|call|hybrid_forward|step|<.*>")  # called by other names than their own
_CALL = re.compile(r"(?<!def )(?<!\w)(\w+)\(")
_LOOP = re.compile(r"(?:async )?(?:for|while|with|try)\b")  # such a first line does not count calls
_NEAR = 0.99  # of a function's time: printed times are rounded
_AT_LEAST = 1_000_000  # ns of time, and share of a side's time, that a function needs to be told of
_PART = 0.01


@dataclass(frozen=True)
class Function:
    """One function of one side. label: unique in the recording; name: as in the program, without its class."""

    label: str
    lines: pd.DataFrame

    @cached_property
    def qualified(self) -> str:
        """The name with its class, if that was recorded."""
        return _TOLD_APART.sub("", self.label)

    @property
    def name(self) -> str:
        """The name as in the program, without its class."""
        return self.qualified.rpartition(".")[2]

    @property
    def shown(self) -> str:
        """The name in sentences: unique, without the class."""
        return self.label.rpartition(".")[2]

    @property
    def file(self) -> str:
        """The file; empty if unknown."""
        file = self.lines["file"].iloc[0]
        return "" if pd.isna(file) else str(file)

    @cached_property
    def time_ns(self) -> int:
        """The sum over the lines."""
        return int(self.lines["time_ns"].sum())

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its lines."""
        return frozenset(word for text in self.lines["text"].dropna() for word in re.findall(r"\w+", str(text)))

    @cached_property
    def calls(self) -> int | None:
        """How often it was called: the executions of its first line; None if that begins a loop."""
        numbered = self.lines[(self.lines["line"] > 0).to_numpy(bool)]
        if numbered.empty:
            return None
        first = numbered.iloc[int(numbered["line"].to_numpy().argmin())]
        text = first["text"]
        return None if isinstance(text, str) and _LOOP.match(text.strip()) else int(first["hits"])

    @cached_property
    def calling_ns(self) -> dict[str, int]:
        """The time of the lines that call a function of each name."""
        result: dict[str, int] = {}
        for text, time_ns in zip(self.lines["text"], self.lines["time_ns"], strict=True):
            for name in set(_CALL.findall(kinds.code(text))) if isinstance(text, str) else ():
                result[name] = result.get(name, 0) + int(time_ns)
        return result

    @cached_property
    def executions(self) -> list[tuple[int, int]]:
        """The executions and the time of each line."""
        return list(zip(map(int, self.lines["hits"]), map(int, self.lines["time_ns"]), strict=True))


@dataclass(frozen=True)
class FunctionPair:
    """A function in A and in B; None on a side without a counterpart."""

    a: Function | None
    b: Function | None

    @property
    def sides(self) -> tuple[Function | None, Function | None]:
        """Both sides."""
        return self.a, self.b

    @property
    def time_ns(self) -> int:
        """The longer time of both."""
        return max(one.time_ns for one in self.sides if one is not None)

    @property
    def shown(self) -> str:
        """The name in sentences: both names if they differ."""
        first, second = (one.shown if one is not None else "" for one in self.sides)
        if self.a is None or self.b is None or first == second:
            return first or second
        if self.differs:
            return f"{first} of A and {second} of B"
        name = self.a.name
        return f"{name} ({first.removeprefix(name).strip()} in A, {second.removeprefix(name).strip() or 'alone'} in B)"

    @property
    def differs(self) -> bool:
        """Whether two functions of different names are compared."""
        return self.a is not None and self.b is not None and self.a.name != self.b.name


@dataclass(frozen=True)
class Functions:
    """The pairs that make up the whole, longest first, and those that are within these."""

    whole: list[FunctionPair]
    within: list[FunctionPair]

    @property
    def unmatched(self) -> list[FunctionPair]:
        """The pairs of the whole that one side lacks."""
        return [pair for pair in self.whole if None in pair.sides]

    def twice(self) -> tuple[int, int]:
        """Return how much time of A and of B may count twice: lines of the whole that call other functions of it by name."""
        sums = [0, 0]
        for side in range(2):
            mine = [one for pair in self.whole if (one := pair.sides[side]) is not None]
            for name in dict.fromkeys(one.name for one in mine):
                callers = sum(one.calling_ns.get(name, 0) for one in mine if one.name != name)
                sums[side] += min(callers, sum(one.time_ns for one in mine if one.name == name))
        return sums[0], sums[1]


def functions(a: Trace, b: Trace) -> Functions:
    """Return the functions of both sides. The longest function of each side is in the whole."""
    sides = [[Function(str(label), lines) for label, lines in trace.lines.groupby("function", sort=False)] for trace in (a, b)]
    longest = [max(side, key=lambda one: one.time_ns) for side in sides]
    pairs = sorted(_matched(*sides), key=lambda pair: -pair.time_ns)
    whole = [
        pair
        for place, pair in enumerate(pairs)
        if not any(_within(pair, other) for other in pairs[:place]) and not _called(pair, pairs)
    ]
    if any(all(pair.sides[side] is not longest[side] for pair in whole) for side in range(2)):
        whole = []
    alone = [next((pair for pair in whole if pair.sides[side] is longest[side]), None) for side in range(2)]
    if not whole or all(pair is not None and None in pair.sides for pair in alone):
        first = FunctionPair(longest[0], longest[1])
        rest = [pair for pair in whole if not any(pair is one for one in alone)]
        whole = [first, *rest]
    kept = {id(one) for pair in whole for one in pair.sides}
    return Functions(whole, [pair for pair in pairs if not any(id(one) in kept for one in pair.sides if one is not None)])


def _matched(a: Sequence[Function], b: Sequence[Function]) -> Iterator[FunctionPair]:
    """Pair functions of one name: those with the most words in common, then in their order."""
    left = list(b)
    names = dict.fromkeys(one.name for one in a)
    for name in names:
        mine, its = [one for one in a if one.name == name], [one for one in b if one.name == name]
        ranked = sorted(
            ((first, second) for first in range(len(mine)) for second in range(len(its))),
            key=lambda both: (-_likeness(mine[both[0]], its[both[1]]), abs(both[0] - both[1])),
        )
        taken: tuple[set[int], set[int]] = (set(), set())
        for first, second in ranked:
            if first not in taken[0] and second not in taken[1]:
                taken[0].add(first)
                taken[1].add(second)
                left = [one for one in left if one is not its[second]]
                yield FunctionPair(mine[first], its[second])
        yield from (FunctionPair(one, None) for place, one in enumerate(mine) if place not in taken[0])
    yield from (FunctionPair(None, one) for one in left)


def _likeness(a: Function, b: Function) -> float:
    """Return how much two functions of one name have in common: their words, their classes and their files."""
    words = len(a.words & b.words) / max(len(a.words | b.words), 1)
    return words + (a.qualified == b.qualified) + (bool(a.file) and a.file == b.file)


def _within(pair: FunctionPair, other: FunctionPair) -> bool:
    """Return whether a function may be called within another one, as far as each side that has both tells."""
    both = [(one, outer) for one, outer in zip(pair.sides, other.sides, strict=True) if one is not None and outer is not None]
    return bool(both) and all(_may_call(outer, one) for one, outer in both)


def _called(pair: FunctionPair, pairs: Sequence[FunctionPair]) -> bool:
    """Return whether lines of other functions call a function by name for all of its time, on each side."""
    for side, one in enumerate(pair.sides):
        others = [other.sides[side] for other in pairs if other is not pair]
        callers = [other.calling_ns.get(one.name, 0) for other in others if other is not None and one is not None]
        if one is not None and (not callers or sum(callers) < _NEAR * one.time_ns):
            return False
    return True


def _may_call(outer: Function, one: Function) -> bool:
    """Return whether a function can contain all calls of another one, by name, or by executions and times of a line."""
    if outer.time_ns < _NEAR * one.time_ns:
        return False
    if _IMPLICIT.fullmatch(one.name) or outer.calling_ns.get(one.name, 0) >= _NEAR * one.time_ns:
        return True
    long = [hits for hits, time_ns in outer.executions if time_ns >= _NEAR * one.time_ns]
    return any(one.calls is None or (hits > 0 and one.calls % hits == 0) for hits in long)


def told(pairs: Functions, totals: Sequence[int]) -> list[str]:
    """Say which functions have no counterpart, leaving out those that hardly take time."""
    result = []
    for pair in pairs.unmatched:
        side = 0 if pair.b is None else 1
        one = pair.sides[side]
        if one is not None and one.time_ns >= max(_AT_LEAST, _PART * totals[side]):
            result.append(f"{one.shown} of {SIDES[side].upper()} has no counterpart")
    return result
