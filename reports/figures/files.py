"""Figures as files: each as PNG for slides and pages, SVG for editing, PDF for papers."""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from kernelscope.analysis.files import whole
from kernelscope.reports.figures.drawing import Style
from kernelscope.reports.figures.gathered import Draw

FORMS = ("png", "svg", "pdf")
_EDGE_IN = 0.06  # margin around everything
_DPI = 300  # for printers; a slide is 2,000 pixels wide
# Text stays text in SVG, and in PDF it has fonts that publishers accept (TrueType, not Type 3). Without dates and random
# identifiers, the same numbers give the same files.
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "kernelscope", "pdf.fonttype": 42, "text.parse_math": False}
_ABOUT: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}


def names(figures: Iterable[str]) -> list[str]:
    """Return the names of the files of these figures."""
    return [f"{stem}.{form}" for stem in _stems(figures).values() for form in FORMS]


def write(figures: Mapping[str, Draw], folder: Path, style: Style) -> list[Path]:
    """Draw every figure in a style and write it as folder/<name>.png, .svg and .pdf; return the files.

    Raises OSError if a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    stems = _stems(figures)
    for name, draw in figures.items():
        for form, content in rendered(draw(style), style).items():
            written.append(folder / f"{stems[name]}.{form}")
            with whole.growing(written[-1]) as path:
                path.write_bytes(content)
    return written


def rendered(figure: Figure, style: Style) -> dict[str, bytes]:
    """Return a figure in all FORMS: {form: content}. It is laid out once, so all look the same."""
    found = {}
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names in scripts that the font lacks show as boxes
        engine = figure.get_layout_engine()
        if isinstance(engine, ConstrainedLayoutEngine):
            engine.set(w_pad=_EDGE_IN, h_pad=_EDGE_IN)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for form in FORMS:
            data = io.BytesIO()
            figure.savefig(data, format=form, dpi=_DPI, facecolor=style.background, metadata=_ABOUT[form])
            found[form] = data.getvalue()
    return found


def _stems(figures: Iterable[str]) -> dict[str, str]:
    """Return a unique file name for each figure: at most 100 ASCII letters, digits, dots, dashes and underscores."""
    found: dict[str, str] = {}
    for name in figures:
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).lstrip(".")[:100] or "figure"
        tried = itertools.chain([plain], (f"{plain}-{number}" for number in itertools.count(2)))
        found[name] = next(stem for stem in tried if stem not in found.values())
    return found
