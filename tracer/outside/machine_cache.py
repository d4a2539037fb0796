"""Measurements of this machine, kept in the user's cache folder as JSON: <environments.home()>/<kind>/<name>.json.

A file's name ends with a hash of what its content depends on. A file of another schema or an unreadable one counts as missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside import durable
from kernelscope.tracer.outside import conditions, environments


def folder(kind: str) -> Path:
    """Return the folder of one kind of measurement."""
    return environments.home() / kind


def machine(names: Sequence[str]) -> dict[str, Any]:
    """Return those of the machine's facts that are known."""
    return {name: value for name, value in conditions.machine().items() if name in names}


def key(schema: int | str, about: Mapping[str, Any]) -> str:
    """Return the hash for a file's name."""
    return hashlib.sha256(json.dumps([schema, about], sort_keys=True).encode()).hexdigest()[:16]


def read(file: Path, schema: int | str) -> dict[str, Any] | None:
    """Return a file's content; None if it is missing, unreadable or of another schema."""
    try:
        content = json.loads(file.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("schema") == schema else None


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    durable.write_text(file, json.dumps(content, indent=1))
