"""Overwrite what looks like a secret in a Trace, so that nothing stored or shown from it holds one.

Texts of a capture may hold tokens anywhere: in names of ranges and kernels, in operators' arguments, in metadata. What
`secrets` recognises is replaced by asterisks of the same length. A secret distinctive enough that another occurrence must be
the same one is overwritten everywhere.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from kernelscope.analysis.secrets.screens import spans_of
from kernelscope.analysis.trace.categories import translated
from kernelscope.analysis.trace.trace import TABLES, Trace
from kernelscope.tracer.inside.secret_values import telling


def hide(trace: Trace) -> int:
    """Overwrite in place; return how many distinct texts held a secret."""
    texts = sorted(_of_tables(trace) | set(_of_data(trace.info)))
    hidden = _hidden(texts)
    if not hidden:
        return 0
    for name in TABLES:
        table = getattr(trace, name)
        changes = {
            column: _replaced(values, hidden)
            for column, values in table.items()
            if _holds_text(values) and not hidden.keys().isdisjoint(_distinct(values))
        }
        if changes:
            setattr(trace, name, table.assign(**changes))
    trace.info = _of(trace.info, hidden)
    return len(hidden)


def _holds_text(values: pd.Series) -> bool:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return bool(len(values.cat.categories)) and isinstance(values.cat.categories[0], str)
    return isinstance(values.dtype, pd.StringDtype)


def _distinct(values: pd.Series) -> list[str]:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return [str(text) for text in values.cat.categories]
    return [str(text) for text in values.dropna().unique()]


def _of_tables(trace: Trace) -> set[str]:
    columns = (values for name in TABLES for _, values in getattr(trace, name).items() if _holds_text(values))
    return {text for values in columns for text in _distinct(values)}


def _of_data(value: Any) -> list[str]:
    """Return the texts in plain data."""
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (*_of_data(key), *_of_data(item))]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _of_data(item)]
    return [value] if isinstance(value, str) else []


def _hidden(texts: list[str]) -> dict[str, str]:
    """Return the texts that hold a secret, with their replacements."""
    values = [text.encode("utf8", "surrogatepass") for text in texts]
    found = spans_of(values, thorough=True)
    result = {
        place: _overwritten(values[place], [(span.start, span.end) for span in spans]) for place, spans in found.items() if spans
    }
    known = {values[place][span.start : span.end] for place, spans in found.items() for span in spans}
    for secret in (secret for secret in known if telling(secret)):
        for place, value in enumerate(values):
            if secret in result.get(place, value):
                result[place] = result.get(place, value).replace(secret, b"*" * len(secret))
    return {texts[place]: value.decode("utf8", "surrogatepass") for place, value in result.items()}


def _overwritten(value: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return a text with the characters of the spans replaced by asterisks."""
    result, at = b"", 0
    for start, end in spans:
        result += value[at:start] + b"*" * len(value[start:end].decode("utf8", "replace"))
        at = end
    return result + value[at:]


def _replaced(values: pd.Series, hidden: dict[str, str]) -> pd.Series:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return translated(values, lambda text: hidden.get(text, text))
    return values.map(lambda text: hidden.get(text, text) if isinstance(text, str) else text).astype(values.dtype)


def _of(value: Any, hidden: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_of(key, hidden): _of(item, hidden) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_of(item, hidden) for item in value]
    return hidden.get(value, value) if isinstance(value, str) else value
