"""What is written to be passed on: without home folders and user names, unless --full-paths keeps them.

Run folders are so from the start (tracer.inside.scrubbing); captures of other tools hold what these wrote down.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from kernelscope.analysis.secrets import recorded
from kernelscope.analysis.trace import TABLES, Trace
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import printable
from kernelscope.tracer.inside.disclosure import Hiding

Plain = TypeVar("Plain")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    text = "keep home folders and user names in what is written (default: ~)"
    parser.add_argument("--full-paths", action="store_true", help=text)


def overwrite_secrets(folder: Path) -> None:
    """Overwrite what looks like a secret in what was just recorded, and say on stderr where that cannot be done."""
    for line in recorded.overwrite(folder):
        print(f"kernelscope: warning: {printable(line, None)}", file=sys.stderr)


def shareable(value: Plain, full_paths: bool) -> Plain:
    """Return plain data (text, numbers, lists, objects with names) as it may be passed on; as it is with full_paths."""
    hidden: Plain = value if full_paths else Hiding(shapes=False).of(value)
    return hidden


def shareable_trace(trace: Trace, full_paths: bool) -> Trace:
    """Return a Trace of which every text may be passed on; itself with full_paths. Different texts are looked at, not rows."""
    if full_paths:
        return trace
    hiding = Hiding(shapes=False)
    tables: dict[str, Any] = {name: _table(getattr(trace, name), hiding) for name in TABLES}
    return dataclasses.replace(trace, **tables, info=hiding.of(trace.info), diagnostics=hiding.of(trace.diagnostics))


def shareable_parts(parts: Sequence[Interactive], full_paths: bool) -> list[Interactive]:
    """Return a page's interactive parts as they may be passed on; see `shareable`."""
    return [
        dataclasses.replace(part, data=shareable(part.data, full_paths), note=shareable(part.note, full_paths)) for part in parts
    ]


def _table(rows: pd.DataFrame, hiding: Hiding) -> pd.DataFrame:
    """Return a table with its texts as they may be passed on."""
    changed = {}
    for name, column in rows.items():
        kind = column.dtype
        if isinstance(kind, pd.CategoricalDtype):
            shown = _category(column, hiding)
        elif len(rows) and pd.api.types.is_string_dtype(kind):
            shown = column.map(hiding.text, na_action="ignore").astype(kind)
        else:
            continue
        if shown is not column:
            changed[str(name)] = shown
    return rows.assign(**changed) if changed else rows


def _category(column: pd.Series, hiding: Hiding) -> pd.Series:
    """Return a column of texts of which many are equal; itself where nothing in it is hidden."""
    known = column.cat.categories.tolist()
    hidden = [hiding.of(text) for text in known]
    if hidden == known:
        return column
    if len(set(hidden)) == len(known):
        return column.cat.rename_categories(hidden)
    return column.map(dict(zip(known, hidden, strict=True))).astype("category")
