"""What a kernel's name alone says: the rule of `analysis.kernels.rules` that it matches, library, type, tensor cores."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from kernelscope.analysis.kernels import known_names, mangled_names
from kernelscope.analysis.kernels import types as kernel_types
from kernelscope.analysis.kernels.pattern_words import Patterns
from kernelscope.analysis.kernels.rules import NAMESPACES, RULES, Rule

# Characters of a name that are read: the beginning decides the kind, and a hostile name must not cost more
LONGEST = 1024

PATTERNS = Patterns([rule.pattern for rule in RULES])

ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>|_GLOBAL__N_\w{0,200})::")
_NOISE = re.compile(
    r"^(?:void|std::enable_if<.{0,300}?>::type) (?=\S)"  # the return type
    rf"|{ANONYMOUS.pattern}"
    r"|\((?:int|bool|unsigned int|unsigned long|long)\)(?=-?\d)"  # nsys writes values so: (int)4
    r"|\b(?:int|bool|unsigned int|unsigned long)=(?=-?\d)"  # nvprof writes them so: int=4
    r"|(?:\.kd| \[clone [^\]]{0,20}\]| \[\d+\])+$"  # AMD's suffix, and the number of the launch in nvprof's traces
)

_CUTS = ("...", "\u2026")  # end of a name that a tool cut
_LEAST = 16  # characters of a cut name: a shorter beginning is ambiguous

_PARTS = re.compile(r"(?<!-)[<>(,]")  # what template arguments and parameters are between; no arrow
_OWN_NAME = re.compile(r"[^<(,]+")  # without template arguments and parameters


class KernelName(NamedTuple):
    """What a kernel's name alone says; None is unknown.

    spelling: the name as the rules see it. position: that of the matching rule in RULES, if any. tile: the part of a product's
    result that a block computes.
    """

    spelling: str
    position: int | None
    library: str | None
    dtype: str | None
    transpose: str | None
    tensor_core: bool | None
    tile: str | None

    @property
    def rule(self) -> Rule | None:
        """The matching rule."""
        return None if self.position is None else RULES[self.position]


def spell(name: str) -> str:
    """Return a name as the rules see it, at most LONGEST characters."""
    text = name[: 2 * LONGEST].strip()
    if mangled_names.is_mangled(text):
        text = mangled_names.readable(text)
    return _NOISE.sub("", text)[:LONGEST]


@lru_cache(maxsize=65536)
def look(name: str) -> KernelName:
    """Return what a kernel's name says."""
    spelled = spell(name)
    position = _position(spelled)
    rule = None if position is None else RULES[position]
    library, kind = _library(spelled, rule), rule.kind if rule else None
    return KernelName(
        spelling=spelled,
        position=position,
        library=library,
        dtype=kernel_types.dtype(spelled, kind),
        transpose=kernel_types.transpose(spelled) if kind == "gemm" else None,
        tensor_core=kernel_types.tensor_core(spelled, kind, library),
        tile=kernel_types.tile(spelled) if kind == "gemm" or (rule and rule.algorithm == "implicit gemm") else None,
    )


def _position(spelled: str) -> int | None:
    """Return the position of the rule that a name matches; None if there is none.

    Types of parameters tell only what the name and its template arguments leave open: a convolution that takes a
    cudnn::reduced_divisor reduces nothing.
    """
    found = PATTERNS.first_match(spelled)
    if found is None:
        return _of_cut(spelled.rstrip(".\u2026")) if spelled.endswith(_CUTS) else None
    position, match = found
    own = _without_parameters(spelled)
    if match.end() <= len(own):
        return position
    alone = PATTERNS.first(own)
    if alone is None or RULES[alone].kind in (None, RULES[position].kind):
        return position
    return alone


def _without_parameters(spelled: str) -> str:
    """Return a name up to the types of its parameters: those after the first bracket or comma outside of template arguments."""
    depth = 0
    for match in _PARTS.finditer(spelled):
        if match[0] in "<>":
            depth += 1 if match[0] == "<" else -1
        elif depth <= 0:
            return spelled[: match.start()]
    return spelled


def _of_cut(beginning: str) -> int | None:
    """Return a rule's position if all known names with this beginning have its kind and algorithm; None if they differ."""
    if len(beginning) < _LEAST:
        return None
    fitting = [position for name, position in _known() if name.startswith(beginning)]
    told = {(RULES[position].kind, RULES[position].algorithm) for position in fitting}
    return fitting[0] if len(told) == 1 else None


@cache
def _known() -> tuple[tuple[str, int], ...]:
    """Return known names as the rules see them, with the positions of the rules that they match."""
    examples = [(spell(rule.example).split("\u2026")[0], position) for position, rule in enumerate(RULES)]
    functions = [(name, PATTERNS.first(name)) for name in map("at::native::{}".format, known_names.ATEN)]
    return (*examples, *((name, position) for name, position in functions if position is not None))


def _library(spelled: str, rule: Rule | None) -> str | None:
    if rule is not None and rule.library:
        return rule.library
    own = _OWN_NAME.match(spelled)
    return next((library for namespace, library in NAMESPACES if own and namespace in own[0]), None)
