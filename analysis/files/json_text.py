"""JSON of files that anybody may have written or changed."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """Return the content of a JSON text; raise ValueError for all that is none, or that nests too deep to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deep") from None
