"""JSON from untrusted files."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """Return the content of a JSON text; raise ValueError if it is not JSON or nests too deep.

    Text that is not valid Unicode, as in some paths, is written with escapes, because no table can hold it.
    """
    try:
        content = json.loads(text)
        escape = "\\ud" if isinstance(text, str) else b"\\ud"
        return _encodable(content) if escape in text.lower() else content  # type: ignore[operator]
    except RecursionError:
        raise ValueError("nested too deep") from None


def listed(text: str) -> list[Any]:
    """Return the list in a JSON text; empty if the text is not a JSON list."""
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
