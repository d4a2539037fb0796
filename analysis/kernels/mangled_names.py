"""Read mangled C++ names (Itanium C++ ABI, chapter 5.1), as stored in nvprof's files and by AMD's profilers.

This is not a demangler: back references (S0_, T_) are left out. So one pass without recursion suffices, and no name, however
made, costs more than its length. The result has what matters: identifiers with their namespaces, template arguments, and the
types of a function's parameters.
"""

from __future__ import annotations

import re

_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short",
    "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "f": "float", "d": "double", "e": "long double",
}  # fmt: skip
_LONG = {"DF16_": "_Float16", "DF16b": "std::bfloat16_t", "Dh": "__half", "Dn": "nullptr_t", "Dp": ""}
_OPENING = "NIXZJFU"
_IDENTIFIER = re.compile(r"([1-9]\d{0,4})")
_VALUE = re.compile(r"L([a-z])(n?\d*)E")  # such as Li512E or Lb0E
_REFERENCE = re.compile(r"S(?:[0-9A-Z]*_|[tabsiod])|T[0-9A-Z]*_|A\d+_")
_LAMBDA_END = re.compile(r"\d*_")
_ENUMERATOR = re.compile(r"n?\d*E")


def is_mangled(name: str) -> bool:
    """Return whether a name is mangled."""
    return name.startswith(("_ZN", "_ZL")) or (name.startswith("_Z") and name[2:3].isdigit())


def readable(name: str) -> str:
    """Return a mangled name as text, such as at::native::reduce_kernel<512, ReduceOp<float>>, void.

    Never raises: parts that break the rules are left out.
    """
    reader = _NameReader(name)
    position = 2
    while position < len(name):
        position = reader.step(position)
    return "".join(reader.parts)


class _NameReader:
    """One pass over a name. `open` holds what E closes: N a nested name, I template arguments, U a lambda, others.

    L is a value whose type comes next; = is a value whose type has been read and whose number follows.
    """

    def __init__(self, name: str):
        self.name = name
        self.parts: list[str] = []
        self.open: list[str] = []
        self.joins = False  # whether the next identifier continues a nested name

    def step(self, at: int) -> int:
        """Read the item at a position; return the next position."""
        name, letter = self.name, self.name[at]
        if self._inside("=") and (match := _ENUMERATOR.match(name, at)):
            self.open.pop()
            self.joins = self._inside("N")
            return match.end()
        if match := _IDENTIFIER.match(name, at):
            end = match.end() + int(match[1])
            self._identifier(name[match.end() : end])
            return end
        if match := _VALUE.match(name, at):
            self._add({"b0": "false", "b1": "true"}.get(match[1] + match[2], match[2]))
            return match.end()
        if match := _REFERENCE.match(name, at):
            self._type_of_value()
            return match.end()
        if letter == "E":
            return self._close(at)
        if letter in _OPENING or (letter == "L" and not self._inside("N")):
            return self._start(at)
        if self._inside("N") and letter.islower():
            return at + 2  # an operator's name, such as cl
        for code, text in _LONG.items():
            if name.startswith(code, at):
                self._add(text)
                return at + len(code)
        if letter in _BUILTIN:
            self._add(_BUILTIN[letter])
        return at + 1

    def _start(self, at: int) -> int:
        letter = self.name[at]
        if letter == "U" and self.name[at + 1 : at + 2] != "l":
            return at + 2  # an unnamed type
        self.open.append(letter)
        if letter == "I":
            self.parts.append("<")
        self.joins = letter == "Z" and self.joins
        return at + 1 + (letter == "U")

    def _close(self, at: int) -> int:
        closed = self.open.pop() if self.open else ""
        if closed == "I":
            self.parts.append(">")
        self.joins = self._inside("N")
        if closed == "N":
            self._type_of_value()
        match = _LAMBDA_END.match(self.name, at + 1) if closed == "U" else None
        return match.end() if match else at + 1

    def _identifier(self, text: str) -> None:
        if text.startswith(("_GLOBAL__N_", "_INTERNAL_")):
            return
        self._add(text)
        self.joins = self._inside("N")
        self._type_of_value()

    def _inside(self, opening: str) -> bool:
        return bool(self.open) and self.open[-1] == opening

    def _type_of_value(self) -> None:
        if self._inside("L"):
            self.open[-1] = "="

    def _add(self, text: str) -> None:
        if self.parts and self.parts[-1] != "<":
            self.parts.append("::" if self.joins else ", ")
        self.parts.append(text)
        self.joins = False
