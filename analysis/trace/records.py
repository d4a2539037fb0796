"""Reader of what a pass's child writes itself: JSON Lines of steps and ranges, child.json and check.json."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.json

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text

_NO_OBJECT = re.compile(rb"\A\s*null|\n\s*null")


def read_table(path: Path, name: str) -> pd.DataFrame:
    """Read a JSON Lines file as the Trace's table `name`; a missing or empty file gives an empty table."""
    if not path.exists() or path.stat().st_size == 0:
        return trace.empty(name)
    try:
        content = path.read_bytes()
        if _NO_OBJECT.search(content):  # pyarrow would crash
            raise EvidenceError(f"{path}: not JSON Lines of a pass (a line is null); record the run again")
        table = pyarrow.json.read_json(io.BytesIO(content))
    except pa.ArrowInvalid as error:
        raise EvidenceError(f"{path}: not JSON Lines of a pass ({_first_line(error)}); record the run again") from error
    try:
        return trace.conform(name, table.to_pandas())
    except EvidenceError as error:
        raise EvidenceError(f"{path}: {error}; record the run again") from error


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that contains an object."""
    try:
        content = json_text.parsed(path.read_text(encoding="utf8"))
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}; is the run folder complete?") from error
    except ValueError as error:
        raise EvidenceError(f"{path}: not JSON ({_first_line(error)}); record the run again") from error
    if not isinstance(content, dict):
        raise EvidenceError(f"{path}: not a JSON object; record the run again")
    return content


def check_schema(file: Path, schema: str, name: str, newest: int, remedy: str) -> None:
    """Raise EvidenceError unless a record's schema is `name`, in a version up to `newest`. remedy: what to do instead."""
    stated, _, version = schema.rpartition("/")
    if stated != name or not version.isdigit():
        raise EvidenceError(f"{file}: schema {schema!r} is not {name}; {remedy}")
    if int(version) > newest:
        raise EvidenceError(f"{file}: written in schema {version}, this version reads up to {newest}; upgrade kernelscope")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
