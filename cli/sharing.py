"""Make results shareable: hide home folders and user names, unless --full-paths keeps them.

Run folders never hold them (tracer.inside.scrubbing); captures of other tools may.
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
    text = "keep home folders and user names in the output (default: write ~)"
    parser.add_argument("--full-paths", action="store_true", help=text)


def overwrite_secrets(folder: Path) -> None:
    """Overwrite what looks like a secret in a new recording, and warn on stderr where that is impossible."""
    for line in recorded.overwrite(folder):
        print(f"kernelscope: warning: {printable(line, None)}", file=sys.stderr)


def shareable(value: Plain, full_paths: bool) -> Plain:
    """Return plain data (text, numbers, lists, dictionaries) in shareable form; unchanged with full_paths."""
    hidden: Plain = value if full_paths else Hiding(shapes=False).of(value)
    return hidden


def shareable_trace(trace: Trace, full_paths: bool) -> Trace:
    """Return a Trace with shareable texts; unchanged with full_paths. Each distinct text is examined once."""
    if full_paths:
        return trace
    hiding = Hiding(shapes=False)
    tables: dict[str, Any] = {name: _table(getattr(trace, name), hiding) for name in TABLES}
    return dataclasses.replace(trace, **tables, info=hiding.of(trace.info), diagnostics=hiding.of(trace.diagnostics))


def shareable_parts(parts: Sequence[Interactive], full_paths: bool) -> list[Interactive]:
    """Return a page's interactive parts in shareable form; see `shareable`."""
    return [
        dataclasses.replace(part, data=shareable(part.data, full_paths), note=shareable(part.note, full_paths)) for part in parts
    ]


def _table(rows: pd.DataFrame, hiding: Hiding) -> pd.DataFrame:
    """Return a table with shareable texts."""
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
    """Return a categorical column with shareable texts; itself if nothing in it is hidden."""
    known = column.cat.categories.tolist()
    hidden = [hiding.of(text) for text in known]
    if hidden == known:
        return column
    if len(set(hidden)) == len(known):
        return column.cat.rename_categories(hidden)
    return column.map(dict(zip(known, hidden, strict=True))).astype("category")
