"""The structure of import.json, on which everything that shows an import relies: the file may come from anywhere."""

from __future__ import annotations

from typing import Any

_NONE = type(None)
_NUMBER, _ANY = (int, float), object
# A type or several; a list of one; a dict by name, "?" marks optional names, "*" stands for all other names
_RECORD: dict[str, Any] = {
    "schema": str,
    "sources": [{"name": str, "bytes": int}],
    "info": {
        "?source": {},
        "?devices": [{"device": str, "?name": (str, _NONE)}],
        "?warnings": [_ANY],
        "?notes": [_ANY],
        "?unavailable": {},
    },
    "diagnostics": {"*": _NUMBER},
    "?samples": [{"device": _ANY, "metric": _ANY, **dict.fromkeys(("count", "mean", "min", "max"), (*_NUMBER, _NONE))}],
    "?devices": [{"device": str, "kernels": int, "kernel_sum_ns": int, "kernel_busy_ns": (int, _NONE)}],
    "tables": {"*": int},
}


def wrong(record: Any) -> str:
    """Return which part of a record is missing or of a wrong type; "" if all is well."""
    return _wrong(record, _RECORD, "it")


def _wrong(value: Any, shape: Any, place: str) -> str:
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place} is not a list"
        return next(filter(None, (_wrong(one, shape[0], f"an entry of {place}") for one in value)), "")
    if not isinstance(shape, dict):
        return "" if isinstance(value, shape) else f"{place} is {type(value).__name__}"
    if not isinstance(value, dict):
        return f"{place} is not an object"
    named = {name.removeprefix("?") for name in shape}
    missing = [name for name in shape if name[0] not in "?*" and name not in value]
    if missing:
        return f"{place} has no {missing[0]!r}"
    parts = [(name, shape.get(name, shape.get(f"?{name}"))) for name in value if name in named]
    parts += [(name, shape["*"]) for name in value if name not in named] if "*" in shape else []
    return next(filter(None, (_wrong(value[name], inner, f"{name!r}") for name, inner in parts)), "")
