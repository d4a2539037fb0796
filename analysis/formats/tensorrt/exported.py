"""What trtexec --exportProfile=FILE writes: a list of objects, first the number of iterations, then one for each layer.

    [
      { "count" : 50 }
    , { "name" : "conv", "timeMs" : 12.5, "averageMs" : 0.25, "medianMs" : 0.25, "percentage" : 60 }
    ]

Before TensorRT 8.2 there are no medians. trtexec does not escape names, and people quote parts of such files: text that is not
JSON is read object by object.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.tensorrt.layers import Profile, trace_of
from kernelscope.analysis.trace import Trace

_KEYS = {"name": "name", "timeMs": "total", "averageMs": "average", "medianMs": "median", "percentage": "share"}
_SIGN = re.compile(r'"timeMs"\s*:\s*[^{},]{1,40},\s*"averageMs"\s*:')
_BETWEEN = r"\s*,\s*"
_LAYER = re.compile(
    r'"name"\s*:\s*"(?P<name>[^\n]{0,4000}?)"' + _BETWEEN + r'"timeMs"\s*:\s*(?P<total>[^\s,{}]+)'
    + _BETWEEN + r'"averageMs"\s*:\s*(?P<average>[^\s,{}]+)(?:' + _BETWEEN + r'"medianMs"\s*:\s*(?P<median>[^\s,{}]+))?'
    + _BETWEEN + r'"percentage"\s*:\s*(?P<share>[^\s,{}]+)\s*\}'
)  # fmt: skip
_COUNT = re.compile(r'\{\s*"count"\s*:\s*(\d{1,18})\s*\}')
_OTHERS = "objects that are no layers"


def matches(head: Head) -> bool:
    """Return whether the text has times of a layer as trtexec exports them."""
    return head.is_text and _SIGN.search(head.text) is not None


def read(path: Path) -> Trace:
    """Return the mean iteration; raise EvidenceError if the file has no usable layer, or several profiles."""
    text = "\n".join(stream.lines(path))
    profile = _decoded(text) or _found(text)
    if isinstance(profile, str):
        raise EvidenceError(f"{path}: {profile}")
    return trace_of(path, "tensorrt-profile", profile, {})


def _decoded(text: str) -> Profile | str | None:
    """Return the profile of a list in JSON, or why there is none; None if it is not such a list."""
    try:
        content = json.loads(text, parse_float=str, parse_int=str, parse_constant=str, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, list):
        return None
    objects = [one for one in content if isinstance(one, dict)]
    layers = [one for one in objects if "timeMs" in one]
    counts = [one["count"] for one in objects if "count" in one and "timeMs" not in one]
    cells = pd.DataFrame({column: [_text(one.get(key)) for one in layers] for key, column in _KEYS.items()}, dtype="string")
    return _profile(cells, counts, len(content) - len(layers) - len(counts))


def _text(value: Any) -> str | None:
    """Return a text, without halves of surrogate pairs, which no table can hold; None for other values."""
    return value.encode("utf8", "replace").decode("utf8") if isinstance(value, str) else None


def _found(text: str) -> Profile | str:
    """Return the profile of the objects that are whole in a text, or why there is none."""
    found = _LAYER.findall(text)
    cells = pd.DataFrame(found, columns=list(_LAYER.groupindex), dtype="string").replace("", pd.NA)
    return _profile(cells, _COUNT.findall(text), max(text.count('"timeMs"') - len(found), 0))


def _profile(cells: pd.DataFrame, counts: list[Any], others: int) -> Profile | str:
    if len(counts) > 1:
        return f"it holds {len(counts)} profiles; put each into a file of its own"
    number = int(counts[0]) if counts and isinstance(counts[0], str) and counts[0].isdecimal() and len(counts[0]) < 18 else None
    return Profile(cells, number, left_out={_OTHERS: others} if others else {})
