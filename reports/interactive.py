"""Interactive parts of a page, with the scripts and data that it embeds for them.

`templates/<kind>.js` draws a part with a function in `kernelscope.charts`; `templates/interactive.js` unpacks the data and calls
it. Only pages with such parts contain Apache ECharts (templates/vendor); every page contains TanStack Table and TanStack Virtual,
which tables.js and windowed.js use. Pages never access a network.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
# Scripts that the script of a kind of part uses
_BEFORE = {"timeline": ("timeline_events", "timeline_rows")}
TABLES, WINDOWS, CHARTS = "vendor/table-core.min.js", "vendor/virtual-core.min.js", "vendor/echarts.min.js"
LIBRARIES = {
    TABLES: "TanStack Table 8.21.3 (MIT License)",
    WINDOWS: "TanStack Virtual 3.19.11 (MIT License)",
    CHARTS: "Apache ECharts 6.1.0 (Apache License 2.0)",
}
_PACK = 20_000  # characters: longer JSON is packed
# so that no text can end the element of the data or begin another
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


@dataclass(frozen=True)
class Interactive:
    """One interactive part of a page.

    key: id of its element, unique in the page. title: its heading. kind: the script that draws it, templates/<kind>.js.
    data: plain JSON, its names passed through `text.printable`; empty if there is nothing to draw. alternative: a sentence with
    its content, for readers who cannot see it, and the table with the same numbers. note: a remark on what it covers, what was
    left out, or why it is empty. exported: whether `report --perfetto` writes all events of it.
    """

    key: str
    title: str
    kind: str
    data: Mapping[str, Any]
    alternative: str
    note: str | None = None
    exported: bool = False

    @property
    def embedded(self) -> Markup:
        """Return the data as text of a script element of type application/json.

        Long data is {"gzip": base64 of the compressed JSON}. Raises ValueError for infinite numbers and NaN, which JSON lacks.
        """
        text = json.dumps(self.data, allow_nan=False, separators=(",", ":"))
        text = packed(text) if len(text) > _PACK else text
        for character, escape in _ESCAPES.items():
            text = text.replace(character, escape)
        return Markup(text)  # noqa: S704 (holds no character with a meaning in HTML)


def packed(text: str) -> str:
    """Return {"gzip": base64 of the compressed text} as JSON for `unpacked.js`; the same text gives the same bytes."""
    compressed = gzip.compress(text.encode("utf8"), compresslevel=9, mtime=0)
    return json.dumps({"gzip": base64.b64encode(compressed).decode("ascii")})


@dataclass(frozen=True)
class Script:
    """A script of a page.

    digest: its SHA-256 in base64, by which the page's policy allows it. library: name, version and licence, if third-party.
    """

    text: Markup
    digest: str
    library: str | None = None


def scripts(parts: Sequence[Interactive]) -> list[Script]:
    """Return the scripts of a page in order: tables first, then those for its interactive parts, if it has any."""
    kinds = list(dict.fromkeys(part.kind for part in parts if part.data))
    names = [TABLES, WINDOWS, "unpacked.js", "windowed.js", "tables.js"]
    if kinds:
        names += [CHARTS, "interactive.js", *(f"{name}.js" for kind in kinds for name in (*_BEFORE.get(kind, ()), kind))]
    return [_script(name) for name in names]


def _script(name: str) -> Script:
    text = (TEMPLATES / name).read_text(encoding="utf8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Script(Markup(text), digest, LIBRARIES.get(name))  # noqa: S704 (ships with us)
