"""A notebook as a page: its texts, its code, and what the code printed or drew when it was last run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def page(path: Path) -> str:
    """Return the Markdown of a notebook (nbformat 4)."""
    notebook = json.loads(path.read_text(encoding="utf8"))
    return "\n".join(line for one in notebook["cells"] for line in _cell(one)) + "\n"


def _cell(one: dict[str, Any]) -> Iterator[str]:
    source = "".join(one["source"])
    if one["cell_type"] != "code":
        yield from (source, "")
        return
    yield from ("````python", source, "````", "")
    for output in one["outputs"]:
        yield from _output(output)


def _output(output: dict[str, Any]) -> Iterator[str]:
    """Yield an output: HTML and pictures as they are, anything else as text."""
    data = output.get("data", {})
    if "text/html" in data:
        yield from ('<div class="notebook">', "".join(data["text/html"]), "</div>", "")
    elif "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        yield from (f'<img alt="what the code above drew" src="data:image/png;base64,{picture}">', "")
    else:
        yield from ("````text", "".join(output.get("text") or data.get("text/plain") or "").rstrip(), "````", "")
