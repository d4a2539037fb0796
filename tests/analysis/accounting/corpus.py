"""Captures that others recorded, for tests that hold for all of them; each content once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.places import CORPUS

FOLDERS = ("broken", "kineto", "mxnet", "nsys", "nvprof", "onednn", "pairs", "tf")
SUFFIXES = (".csv", ".gz", ".json", ".log", ".nvprof", ".nvvp", ".pb", ".sql", ".sqlite", ".txt")
# What is no capture, or of a tool that only others' readers know
NONE = (
    "truth.csv", "rocprof_908", "simple_add_et.json", "chakra__json_trace", "pyprof_lm.csv", "cfd_cpu-profiling", "dlprof_dldb",
    "input_pipeline.pb", "cut_in_line.csv",
)  # fmt: skip
SLOW = 700_000  # bytes, of captures that take long to read
LARGEST = {".gz": 1_100_000, "": 3_000_000}  # bytes above which a capture shows nothing that smaller ones of its format do not
NO_CORPUS = pytest.param(Path(), id="none", marks=pytest.mark.skip(reason="needs ../shared/corpus"))


def marks_of(path: Path) -> list[pytest.MarkDecorator]:
    """Return how a test on a capture is marked, by its size."""
    size = path.stat().st_size
    large = size > LARGEST.get(path.suffix, LARGEST[""])
    return [*([pytest.mark.slow] if size > SLOW else []), *([pytest.mark.long] if large else [])]


def captures() -> list[object]:
    """Return the parameters of a test on every capture."""
    seen, found = set(), []
    for path in sorted(path for name in FOLDERS for path in (CORPUS / name).glob("*") if path.is_file()) + sorted(
        (CORPUS / "pairs").glob("*/*")
    ):
        if path.suffix not in SUFFIXES or any(name in path.name for name in NONE):
            continue
        content = path.read_bytes()
        if (digest := hashlib.sha256(content).digest()) not in seen:
            seen.add(digest)
            marks = marks_of(path)
            found.append(pytest.param(path, id=str(path.relative_to(CORPUS)), marks=marks))
    return found or [NO_CORPUS]
