"""Damage to JSON that stays JSON, or nearly: values of other types, missing keys, huge numbers, deep nesting."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

_BIG, _DEEP = "@big@", "@deep@"  # placeholders for what json.dumps cannot write

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 0.5, -0.0, 1e308,
    -1e308, 1e-320, float("nan"), float("inf"), float("-inf"), "", " ", "x", "-1", "NaN", "1e999", "12345678901234567890123",
    "\x00", "\ud800", "\x1b[31m", "<script>", "\u00e9\U0001f600", "x" * 100_000, [], [None], [[]], [1, "a"], {}, {"a": []},
    {"": None}, _BIG, _DEEP,
)  # fmt: skip


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _dump(rng: Random, document: Any) -> bytes:
    text = json.dumps(document, indent=rng.choice((None, None, 1)))
    depth = rng.choice((100, 1000, 100_000))
    text = text.replace(f'"{_BIG}"', "9" * rng.choice((30, 5000))).replace(f'"{_DEEP}"', "[" * depth + "]" * depth)
    return text.encode("utf8", "surrogatepass")


def _containers(document: Any, limit: int = 20_000) -> list[Any]:
    """Return the document's lists and objects that are not empty, outer ones first."""
    found, queue = [], [document]
    for node in queue:
        if isinstance(node, list | dict) and node:
            found.append(node)
            queue.extend(node.values() if isinstance(node, dict) else node)
        if len(queue) > limit:
            break
    return found


def change_values(rng: Random, data: bytes) -> bytes:
    """Change, drop, add, rename or exchange values anywhere in the document."""
    document = _parse(data)
    containers = _containers(document)
    if not containers:
        return data
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        # outer containers are few and matter most: let them be chosen as often as all the inner ones
        node = containers[min(rng.randrange(len(containers)), rng.randrange(len(containers)))]
        if not node:
            continue
        key = rng.choice(sorted(node)) if isinstance(node, dict) else rng.randrange(len(node))
        action = rng.randrange(6)
        if action == 0:
            del node[key]
        elif action == 1 and isinstance(node, dict):
            node[rng.choice(("", "ts", "dur", "name", "args", "ph", "x"))] = node.pop(key)
        elif action == 2:
            other = rng.choice(containers)
            node[key] = json.loads(json.dumps(other))
        elif action == 3:
            node[key] = json.dumps(node[key])
        else:
            node[key] = rng.choice(VALUES)
    return _dump(rng, document)


def change_column(rng: Random, data: bytes) -> bytes:
    """Give one key another value in all objects, or in some, or take it away: readers make columns of keys."""
    document = _parse(data)
    containers = [node for node in _containers(document) if isinstance(node, dict)]
    if not containers:
        return data
    key = rng.choice(sorted(rng.choice(containers)))
    values, share = rng.choices(VALUES[:-2], k=rng.choice((1, 3))), rng.choice((1.0, 0.5, 0.05))
    drop = rng.random() < 0.3
    for node in containers:
        if key in node and rng.random() < share:
            if drop:
                del node[key]
            else:
                node[key] = rng.choice(values)
    return _dump(rng, document)


def change_text(rng: Random, data: bytes) -> bytes:
    """Write what no JSON writer writes: doubled keys, NaN, single quotes, trailing commas, comments, cut escapes."""
    places = [match.start() for match in re.finditer(rb"[,:\[{]", data[: 1 << 20])]
    if not places:
        return data
    at = rng.choice(places) + 1
    piece = rng.choice(
        (b",", b"NaN", b"-Infinity", b"'a'", b"//", b'"\\u12"', b'"\\ud800"', b"[" * 200_000, b'{"a":' * 100_000, b"\x00",
         b'"ts":1,"ts":"a",', b"1e99999", b"1" * 5000, b"-", b"01", b"{}", b"[]", b"null", b'"\xff"', b"]", b"}"),
    )  # fmt: skip
    return data[:at] + piece + data[at:]
