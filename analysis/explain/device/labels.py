"""Short labels for two sides: A and B, with the words in which their paths differ."""

from __future__ import annotations

import re

_LONGEST = 24
_SEPARATORS = re.compile(r"[/\\_.\-+ ]+")


def labels(a: str, b: str) -> tuple[str, str]:
    """Return labels for two paths, such as "A (base)" and "B (gelu)"; "A" and "B" if no short words tell them apart."""
    words = [
        _SEPARATORS.split(re.sub(r"(\.pt)?(\.trace)?\.(json|sqlite|nvprof|nsys-rep|xplane\.pb|txt|csv|log)(\.\w+)?$", "", path))
        for path in (a, b)
    ]
    shared = _alike(*words)
    behind = _alike(*(list(reversed(one[shared:])) for one in words))
    own = [" ".join(one[shared : len(one) - behind]) for one in words]
    usable = [bool(text) and len(text) <= _LONGEST and text.lower() not in "ab" for text in own]
    if not all(usable):
        return "A", "B"
    return f"A ({own[0]})", f"B ({own[1]})"


def _alike(a: list[str], b: list[str]) -> int:
    """Return how many words at their beginning two lists share."""
    return next((place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))
