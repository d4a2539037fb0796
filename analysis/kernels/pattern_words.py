"""Find the first of many patterns that occurs in a text, without trying most of them.

Nearly every pattern has words without which it cannot match. A text is searched for these once, which is far faster than
regular expressions. Only patterns whose words occur are compiled and tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

# A run of plain characters; or one character, class or bracket of a pattern, with its quantifier
_ATOM = re.compile(
    r"((?:[\w:<> ,=-](?![?*+{]))+|\(\?[a-zA-Z]+\)|\((?:\?(?:<?[=!]|[a-zA-Z]*:))?|\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.)"
    r"((?:[?*+]|\{\d*,?\d*\})[?+]?)?",
    re.DOTALL,
)
_SPECIAL = frozenset(".^$|()[\\")
_SHORTEST = 3  # least characters of a word that is searched for, and its key's length (see _codes)
_MOST = 12  # clauses made from alternatives, at most

_Clause = frozenset[str]  # a text must contain one of these words


class Patterns:
    """Patterns in the syntax of `re`, without verbose mode, named groups, references and conditions."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._compiled: dict[int, re.Pattern[str]] = {}

    def first(self, text: str) -> int | None:
        """Return the position of the first pattern that matches in a text; None if none does."""
        result = self.first_match(text)
        return result[0] if result else None

    def first_match(self, text: str) -> tuple[int, re.Match[str]] | None:
        """Return the position of the first pattern that matches in a text, and the match; None if none does."""
        likely = self._likely(text) if text.isascii() else range(len(self._patterns))  # some other letters have two lower cases
        matches = ((number, self._pattern(number).search(text)) for number in likely)
        return next(((number, match) for number, match in matches if match), None)

    def _likely(self, text: str) -> Iterator[int]:
        """Yield the positions of patterns whose words are in an ASCII text."""
        words, needed = self._words
        lower = text.lower()
        codes = _codes(lower)
        met: set[_Clause] = set()
        for code in set(codes[self._begun[codes]].tolist()):
            met.update(*(fulfilled for word, fulfilled in words[code].items() if word in lower))
        return (number for number, clauses in enumerate(needed) if clauses <= met)

    def _pattern(self, number: int) -> re.Pattern[str]:
        result = self._compiled.get(number)
        return result or self._compiled.setdefault(number, re.compile(self._patterns[number]))

    @cached_property
    def _words(self) -> tuple[dict[int, dict[str, set[_Clause]]], list[frozenset[_Clause]]]:
        """The clauses that each word satisfies, by the code of the word's beginning; and the clauses of each pattern."""
        needed = [frozenset(clauses(pattern)) for pattern in self._patterns]
        every = frozenset().union(*needed)
        distinct = list(frozenset().union(*every))
        beginnings = _codes("".join(word[:_SHORTEST] for word in distinct))[::_SHORTEST]
        begun = dict(zip(distinct, beginnings.tolist(), strict=True))
        words: dict[int, dict[str, set[_Clause]]] = {}
        for clause in every:
            for word in clause:
                words.setdefault(begun[word], {}).setdefault(word, set()).add(clause)
        return words, needed

    @cached_property
    def _begun(self) -> npt.NDArray[np.bool_]:
        """Whether a word begins with these characters, by code."""
        begun = np.zeros(1 << 7 * _SHORTEST, dtype=np.bool_)
        begun[list(self._words[0])] = True
        return begun


def _codes(text: str) -> npt.NDArray[np.int32]:
    """Return a number for each run of _SHORTEST characters of an ASCII text."""
    letters = np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(np.int32)
    return np.asarray(letters[:-2] << 14 | letters[1:-1] << 7 | letters[2:])


def clauses(pattern: str) -> list[_Clause]:
    """Return sets of lower-case words; any text that the pattern matches contains, in lower case, a word of each set."""
    return _read(iter([*_ATOM.findall(pattern), (")", "")]))[0]


def _read(atoms: Iterator[tuple[str, str]]) -> tuple[list[_Clause], str]:
    """Read atoms up to the closing bracket; return the clauses inside, and the bracket's quantifier."""
    alternatives: list[list[_Clause]] = [[]]
    word = ""
    for atom, times in atoms:
        if not times and atom[0] not in _SPECIAL:
            word += atom.lower()
            continue
        if not times and atom[0] == "\\" and not atom[1].isalnum():
            word += atom[1]
            continue
        if len(word) >= _SHORTEST:
            alternatives[-1].append(frozenset([word]))
        word = ""
        if atom == ")":
            return _either(alternatives), times
        if atom == "|":
            alternatives.append([])
        elif atom.startswith("(") and not atom.endswith(")"):
            inside, repeated = _read(atoms)
            if "!" not in atom and not repeated.startswith(("?", "*", "{0", "{,")):
                alternatives[-1] += inside
    raise ValueError("a bracket of a pattern is not closed")


def _either(alternatives: list[list[_Clause]]) -> list[_Clause]:
    """Return clauses that a text satisfies if it satisfies one of the alternatives."""
    if prod(map(len, alternatives)) > _MOST:
        alternatives = [[max(one, key=lambda clause: (min(map(len, clause)), -len(clause)))] for one in alternatives]
    return [frozenset().union(*chosen) for chosen in product(*alternatives)]
