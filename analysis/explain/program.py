"""The program that a side ran: its source files and command line, whether both sides ran the same, and which lines differ."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from kernelscope.analysis.explain import renames
from kernelscope.analysis.explain.causes import host_evidence
from kernelscope.analysis.explain.model import Case, Side

_MOST_CHANGES = 40
_NEAR, _LIKE, _STATEMENT = 3, 0.8, 8  # lines, likeness, and characters of statements that may have moved


@dataclass(frozen=True)
class LineChange:
    """Lines that one side has in place of the other's.

    a, b: (first line, texts); texts are empty if lines were only added or removed. a_file, b_file: their files; None if a side
    lacks the file.
    """

    a_file: str | None
    b_file: str | None
    a: tuple[int, list[str]]
    b: tuple[int, list[str]]

    @property
    def file(self) -> str:
        """The file's name in B; in A if the lines are only in A."""
        return str((self.b_file if self.b[1] else self.a_file) or self.b_file or self.a_file)


def same(case: Case) -> bool:
    """Return whether both sides ran the same program with the same settings, versions and arguments on the same machine.

    Comments, layout and the program's own names do not count. False if unknown, as without source files.
    """
    a, b = case.a, case.b
    if not a.sources or not b.sources or host_evidence.differing(case):
        return False
    facts = ("framework", "mode", "batch", "conditions")
    if any(a.facts.get(name) != b.facts.get(name) for name in facts) or arguments(a) != arguments(b):
        return False
    if _machine(a) != _machine(b):
        return False
    mine, other = (_named(side) for side in (a, b))
    return mine.keys() == other.keys() and all(_same_code(mine[name], other[name]) for name in mine)


def changes(case: Case) -> list[LineChange]:
    """Return which lines of the program differ, in the order of files and lines.

    Empty if sources are unknown, or if frameworks differ: these are two programs, not one that was changed.
    """
    a, b = case.a, case.b
    if not a.sources or not b.sources or a.facts.get("framework") != b.facts.get("framework"):
        return []
    mine, other = (_named(side) for side in (a, b))
    paths = [{_name(side, path): path for path in side.sources} for side in (a, b)]
    result = []
    for name in sorted(mine.keys() | other.keys()):
        before, after = mine.get(name, ""), other.get(name, "")
        texts = before.splitlines(), after.splitlines()
        plain = renames.plain_lines(before, renames.renamed(before, after)), renames.plain_lines(after, {})
        for first, last, begin, end in _hunks(*plain):
            sides = (first + 1, _unless_empty(texts[0][first:last])), (begin + 1, _unless_empty(texts[1][begin:end]))
            result.append(LineChange(paths[0].get(name), paths[1].get(name), *sides))
    return [change for change in result if change.a[1] or change.b[1]][:_MOST_CHANGES]


def _unless_empty(texts: list[str]) -> list[str]:
    """Return the lines; none if all are blank or comments."""
    return texts if any(text.strip() and not text.lstrip().startswith("#") for text in texts) else []


def _hunks(a: list[str], b: list[str]) -> list[tuple[int, int, int, int]]:
    """Return where texts differ, as (first, last, begin, end): a[first:last] became b[begin:end].

    A statement that moves over a few lines disappears in one place and appears in the next: that is one change.
    """
    result: list[tuple[int, int, int, int]] = []
    for tag, first, last, begin, end in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        before = result[-1] if result else (0, -_NEAR - 1, 0, 0)
        near = first - before[1] <= _NEAR
        if near and (_moves(a[before[0] : before[1]], b[begin:end]) or _moves(a[first:last], b[before[2] : before[3]])):
            result[-1] = (before[0], last, before[2], end)
        else:
            result.append((first, last, begin, end))
    return result


def _moves(gone: list[str], new: list[str]) -> bool:
    """Return whether a removed statement appears elsewhere, unchanged or nearly so."""
    texts = [text.strip() for text in new if len(text.strip()) >= _STATEMENT]
    return any(difflib.get_close_matches(text.strip(), texts, 1, _LIKE) for text in gone if len(text.strip()) >= _STATEMENT)


def enclosing(text: str, line: int) -> list[str]:
    """Return the names of the classes and functions around a line of a program, outermost first; empty if there are none."""
    try:
        inner: ast.AST | None = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    result = []
    while inner is not None:
        if isinstance(inner, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            result.append(inner.name)
        inside = [node for node in ast.iter_child_nodes(inner) if isinstance(node, ast.stmt)]
        inner = next((node for node in inside if node.lineno <= line <= (node.end_lineno or node.lineno)), None)
    return result


def _named(side: Side) -> dict[str, str]:
    """Return a side's sources by the names under which they are compared."""
    return {_name(side, path): text for path, text in side.sources.items()}


def _name(side: Side, path: str) -> str:
    """Return the name of a file; the main file is "main" on both sides, as scripts are copied and changed."""
    return "main" if path == side.facts.get("main_source") else path


def _machine(side: Side) -> dict[str, Any]:
    return {name: value for name, value in (side.facts.get("machine") or {}).items() if name != "load_before"}


def arguments(side: Side) -> list[str]:
    """Return the program's arguments: the command line without the interpreter and the script."""
    main = PurePosixPath(str(side.facts.get("main_source") or ""))
    words = [str(word) for word in side.facts.get("profiled") or []]
    return [word for word in words[1:] if PurePosixPath(word).name != main.name]


def _same_code(a: str, b: str) -> bool:
    if _code(a) == _code(b):
        return True
    names = renames.renamed(a, b)
    return bool(names) and _code("\n".join(renames.plain_lines(a, names))) == _code(b)


def _code(text: str) -> str:
    """Return a program's syntax tree, which is its meaning; its text if it cannot be parsed."""
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
