"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def meant(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the most similar known name; "" if none is similar."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
