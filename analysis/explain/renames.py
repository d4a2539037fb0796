"""Programs without what does not change their meaning: comments, and own names that were changed throughout."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

_FORMATTED = re.compile(r"[rR]?[fF]")  # how a string with fields begins
_FIELD, _WORD = re.compile(r"\{[^{}]*\}"), re.compile(r"[A-Za-z_]\w*")
_NO_PROGRAM = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)


def renamed(a: str, b: str) -> dict[str, str]:
    """Return A's own names that B calls differently: old to new.

    A name counts if A binds it and B does not have it, if B binds the new one and A does not have it, and if it became only
    that one in all lines that are otherwise the same.
    """
    own, theirs = _bound(a), _bound(b)
    old, new = (_names(text) for text in (a, b))
    found: dict[str, set[str]] = {}
    for before, after in _alike(a, b):
        found.setdefault(before, set()).add(after)
    single = {name: next(iter(others)) for name, others in found.items() if len(others) == 1}
    return {
        name: other for name, other in single.items()
        if name in own and name not in new and other in theirs and other not in old and list(single.values()).count(other) == 1
    }  # fmt: skip


def plain_lines(text: str, names: Mapping[str, str]) -> list[str]:
    """Return the lines of a program without comments and with names replaced; unchanged if the text is not a program."""
    lines = text.splitlines()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except _NO_PROGRAM:
        return lines
    for token in reversed(tokens):  # from the end, so that earlier positions stay valid
        row, first, last = token.start[0] - 1, token.start[1], token.end[1]
        if token.type == tokenize.COMMENT:
            lines[row] = lines[row][:first].rstrip()
        elif token.type == tokenize.NAME and token.string in names:
            lines[row] = lines[row][:first] + names[token.string] + lines[row][last:]
        elif token.type == tokenize.STRING and _FORMATTED.match(token.string) and token.start[0] == token.end[0]:
            lines[row] = (
                lines[row][:first] + _FIELD.sub(lambda field: _replaced(field[0], names), token.string) + lines[row][last:]
            )
    return lines


def _replaced(text: str, names: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


def _alike(a: str, b: str) -> Iterator[tuple[str, str]]:
    """Yield the names that replace one another in lines that differ only in names."""
    before, after = a.splitlines(), b.splitlines()
    for tag, first, last, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "replace" and last - first == end - begin:
            for one, other in zip(before[first:last], after[begin:end], strict=True):
                yield from _of_line(one, other)


def _of_line(one: str, other: str) -> Iterator[tuple[str, str]]:
    mine, others = _tokens(one), _tokens(other)
    pairs = list(zip(mine, others, strict=False))
    if len(mine) == len(others) and all(x == y or (_is_name(x) and _is_name(y)) for x, y in pairs):
        yield from (pair for pair in pairs if _is_name(pair[0]))


def _tokens(line: str) -> list[str]:
    """Return the words and signs of a line, as far as it can be read without the rest of its statement."""
    result = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER):
                result.append(token.string)
    except _NO_PROGRAM:
        pass  # a bracket is closed further down: what was read so far suffices
    return result


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _names(text: str) -> set[str]:
    """Return all names in a program."""
    try:
        return {token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.NAME}
    except _NO_PROGRAM:
        return set()


def _bound(text: str) -> set[str]:
    """Return the names that a program itself binds: functions, classes, arguments, variables, attributes."""
    try:
        tree = ast.parse(text)
    except _NO_PROGRAM:
        return set()
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            result.add(node.name)
        elif isinstance(node, ast.arg):
            result.add(node.arg)
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            result.add(node.id if isinstance(node, ast.Name) else node.attr)
    return result
