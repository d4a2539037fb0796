"""Names of layers: which are the same on both sides, and the file in which users state which correspond."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.model import Layer

JOINT = " + "  # between the names of several layers that correspond to one
LARGEST_MAP = 16 << 20  # bytes; a larger file is not a list of layers
_SEPARATORS = re.compile(r"[/.]+")
_WRAPPERS = {"module", "_orig_mod", "model", "network", "net", "sequential"}  # scopes around a whole model that say nothing
_AGAIN = re.compile(r"remat|checkpoint|recompute", re.IGNORECASE)  # scopes in which frameworks compute a layer again
_CALL = re.compile(r" \(\d+[^)]*\)$")  # a module's further call within one call of the model


def module_of(layer: str) -> str:
    """Return the module that a layer is a call of: cell for cell (2) and cell (9 and later)."""
    return _CALL.sub("", layer)


@dataclass(frozen=True)
class SameName:
    """Layers, by position, with the same name on both sides; exact: to the letter, not only up to wrappers."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    exact: bool


def same_names(a: Sequence[str], b: Sequence[str]) -> list[SameName]:
    """Return which names are the same: to the letter first, then up to separators, case and wrappers of the whole model.

    A name that occurs several times (a module that is called again) is one entry with all its positions. A shortened name that
    several different names of a side share is not used.
    """
    sides = [_by_key(names) for names in (a, b)]
    result = []
    for key in sides[0].keys() & sides[1].keys():
        first, second = sides[0][key], sides[1][key]
        pairs = [(name, name) for name in first.keys() & second.keys()]
        if not pairs and len(first) == len(second) == 1:
            pairs = [(next(iter(first)), next(iter(second)))]
        result += [SameName(tuple(first[x]), tuple(second[y]), x == y) for x, y in pairs]
    return sorted(result, key=lambda same: same.a)


def _by_key(names: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Return shortened name -> name -> positions."""
    parts = [_parts(name) for name in names]
    shared = _shared_front([own for own in parts if own])
    result: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for position, (name, own) in enumerate(zip(names, parts, strict=True)):
        kept = own[shared:]
        while len(kept) > 1 and kept[0] in _WRAPPERS:
            kept = kept[1:]
        result["/".join(_plain(kept))].setdefault(name, []).append(position)
    return result


def _parts(name: str) -> list[str]:
    return [part for part in _SEPARATORS.split(name.lower()) if part]


def _plain(parts: Sequence[str]) -> list[str]:
    """Return a path without scopes of recomputation, unless there is nothing else."""
    return [part for part in parts if not _AGAIN.search(part)] or list(parts)


def recomputed(layers: Sequence[Layer]) -> dict[int, int]:
    """Return which layers, by position, are others' forward work repeated in the backward pass: position -> that layer's.

    The sign is a scope of JAX and others, or a path that is the end of exactly one other layer's path: PyTorch's checkpoint
    calls modules again outside the modules around them. Such layers have no forward work of their own.
    """
    paths = [_parts(layer.name) for layer in layers]
    whole: dict[tuple[str, ...], list[int]] = defaultdict(list)
    ends: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, path in enumerate(paths):
        if not any(map(_AGAIN.search, path)):
            whole[tuple(path)].append(position)
        plain = _plain(path)
        for start in range(1, len(plain) - 1):
            ends[tuple(plain[start:])].append(position)
    result = {}
    for position, (layer, path) in enumerate(zip(layers, paths, strict=True)):
        kept = tuple(_plain(path))
        inside = len(kept) < len(path) and path[-1] == kept[-1]  # the scope itself is an ordinary module
        marked = whole.get(kept, []) if inside else []
        unknown = layer.flops is None and layer.output_shape is None
        ending = [other for other in ends.get(tuple(path), []) if layers[other].order < layer.order] if unknown else []
        others = marked or ending
        if len(others) == 1:
            result[position] = others[0]
    return {position: other for position, other in result.items() if other not in result}


def _shared_front(parts: Sequence[Sequence[str]]) -> int:
    """Return how many leading parts all names of a side share; the last part is always the layer's own."""
    if len(parts) < 2:
        return 0
    shortest = min(map(len, parts)) - 1
    first = parts[0]
    return next((n for n in range(shortest) if any(p[n] != first[n] for p in parts)), max(shortest, 0))


# --- the file of --map --------------------------------------------------------------------------------------------------------


def read_map(path: str | Path) -> dict[str, str]:
    """Return A's name -> B's name from the file of `--map`.

    Lines are `A-name = B-name`; `#` begins a comment, blank lines are skipped. Several layers for one are joined with " + ":
    `conv1 + relu1 = conv1_relu`; nothing on the right means that B has no such layer. A JSON object of the same names also
    works. Raises EvidenceError naming the file and the line.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_MAP:
            raise EvidenceError(f"{path}: too large for a list of layers; write one `A-name = B-name` a line")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path}: not UTF-8 text at byte {error.start}; save it as UTF-8") from error
    entries = _of_json(path, text) if text.lstrip().startswith("{") else _of_lines(path, text)
    result: dict[str, str] = {}
    for place, left, right in entries:
        for name in left.split(JOINT):
            if name.strip() in result:
                raise EvidenceError(f"{path}: {place}: {name.strip()!r} appears twice; keep one")
            result[name.strip()] = right
    return result


def _of_lines(path: Path, text: str) -> list[tuple[str, str, str]]:
    result = []
    for number, line in enumerate(text.split("\n"), 1):
        content = re.sub(r"(^|\s)#.*", "", line).strip()
        if not content:
            continue
        left, sign, right = content.partition(" = ") if " = " in f"{content} " else content.partition("=")
        if not sign and content.endswith(" ="):
            left, sign, right = content[:-2], "=", ""
        if not sign or not left.strip():
            raise EvidenceError(f"{path}: line {number}: not of the form `A-name = B-name`: {content[:80]!r}")
        result.append((f"line {number}", left.strip(), right.strip()))
    return result


def _of_json(path: Path, text: str) -> list[tuple[str, str, str]]:
    repeated: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in items]
        repeated.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(items)

    try:
        data = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise EvidenceError(f"{path}: line {error.lineno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise EvidenceError(f"{path}: line 1: nested too deeply; expected an object of names") from error
    if repeated:
        raise EvidenceError(f"{path}: key {repeated[0]!r} appears twice; keep one")
    wrong = [name for name, value in data.items() if not isinstance(value, str) or not name.strip()]
    if wrong:
        raise EvidenceError(f"{path}: key {wrong[0]!r}: expected a layer's name on both sides")
    return [(f"key {name!r}", name.strip(), value.strip()) for name, value in data.items()]
