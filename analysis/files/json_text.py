"""JSON of files that anybody may have written or changed."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """Return the content of a JSON text; raise ValueError for all that is none, or that nests too deep to be read.

    What is no Unicode, as the bytes of a path need not be, is written as escapes: no table takes it.
    """
    try:
        content = json.loads(text)
        escape = "\\ud" if isinstance(text, str) else b"\\ud"
        return _encodable(content) if escape in text.lower() else content  # type: ignore[operator]
    except RecursionError:
        raise ValueError("it nests too deep") from None


def listed(text: str) -> list[Any]:
    """Return the list that a text is in JSON; an empty one where it is none."""
    try:
        result = parsed(text)
    except ValueError:
        return []
    return result if isinstance(result, list) else []


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf8", "backslashreplace").decode("utf8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value
