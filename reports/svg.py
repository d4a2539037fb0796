"""A matplotlib Figure as inline SVG: without metadata, with unique identifiers, and with colours that follow the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from kernelscope.reports.figures import Style

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_PICTURE = "data:image/png;base64,"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def inline(figure: Figure, key: str, alternative: str, style: Style) -> Markup:
    """Return the figure as an <svg> element for HTML.

    key: prefix of all identifiers in it, unique on the page. alternative: its content in words, for readers who cannot see it.
    Text and lines in the style's colours become currentColor and var(--line), so dark pages get light text.
    """
    buffer = io.StringIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": key, "text.parse_math": False}
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has other fonts
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 (what matplotlib has just written)
    _clean(root, key, style)
    body = "".join(_text(child) for child in root)
    box = root.get("viewBox", "0 0 100 100")
    head = f'<svg role="img" aria-labelledby="{key}-alt" viewBox="{escape(box)}" preserveAspectRatio="xMinYMin meet">'
    title = f'<title id="{key}-alt">{escape(alternative)}</title>'
    return Markup(f"{head}{title}{body}</svg>")  # noqa: S704 (built of XML that was parsed and written again, and of escaped text)


def sized(draw: Callable[[Style], Figure], key: str, alternative: str, styles: Mapping[str, Style]) -> Markup:
    """Return a figure in several sizes, "wide" and "narrow"; the style sheet shows the one that fits the page.

    draw: draws it in a style. key, alternative: see `inline`.
    """
    return Markup("").join(
        Markup('<div class="{}">{}</div>').format(size, inline(draw(style), f"{key}-{size}", alternative, style))
        for size, style in styles.items()
    )


def _clean(root: ElementTree.Element, key: str, style: Style) -> None:
    for child in list(root):
        if child.tag == f"{{{_SVG}}}metadata":
            root.remove(child)
    for parent in root.iter():
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}style":
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        _attributes(element, key, style)


def _attributes(element: ElementTree.Element, key: str, style: Style) -> None:
    if "id" in element.attrib:
        element.set("id", f"{key}-{element.attrib['id']}")
    link = element.attrib.pop(_LINK, None)
    if link is not None:  # the link contains pictures that matplotlib rasterised
        element.set("href", link if link.startswith(_PICTURE) else f"#{key}-{link.lstrip('#')}")
    for name, value in list(element.attrib.items()):
        if name in ("style", "clip-path", "fill", "stroke"):
            element.set(name, _restyled(value, key, style))


def _restyled(value: str, key: str, style: Style) -> str:
    value = _REFERENCE.sub(lambda match: f"url(#{key}-{match.group(1)})", value)
    value = value.replace(style.ink, "currentColor").replace(style.faint, "var(--line)")
    parts = [part.strip() for part in value.split(";")]
    return "; ".join(_own_font(part) for part in parts if part)


def _own_font(declaration: str) -> str:
    """Return a declaration with the page's font: matplotlib names its own, which most machines lack."""
    name, _, value = declaration.partition(":")
    if name == "font-family":
        return "font-family: inherit"
    if name == "font":
        weight_and_size = value.split("'")[0].split("sans-serif")[0].strip()
        return f"font: {weight_and_size} var(--font)"
    return declaration


def _text(element: ElementTree.Element) -> str:
    return ElementTree.tostring(element, encoding="unicode", short_empty_elements=True)
