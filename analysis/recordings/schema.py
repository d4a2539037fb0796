"""The types of those parts of files that are read: a run's run.json, child.json of each pass, and compare.json.

A folder can come from anywhere. A part of another type than its readers expect is reported in one line with its place; parts
that no one reads may be anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Required, TypedDict

import msgspec

from kernelscope.analysis.errors import EvidenceError

Object = dict[str, Any]


class _Pass(TypedDict, total=False):
    status: str
    folders: list[str]
    reason: str | None
    collector: Object
    sampling: Object


class _Network(TypedDict, total=False):
    name: str
    title: str | None
    parameters: int | None
    layers: list[Object]


class _Anchor(TypedDict):
    monotonic_ns: int
    wall_ns: int


class RunRecord(TypedDict, total=False):
    """run.json."""

    framework: Required[str]
    label: str | None
    passes: dict[str, _Pass]
    options: Object
    machine: Object
    noise: Object
    variables: Object
    unavailable: Object
    versions: Object | None
    settings: Object | None
    network: _Network | None
    profiled: list[str] | None
    distributed: Object | None
    gpus: list[Object] | None


class Padding(TypedDict):
    """Positions of the texts in a model's calls: all, padding, and those beyond the longest text of their call."""

    positions: Annotated[int, msgspec.Meta(ge=1)]
    padded: int
    beyond_longest: int


class PassReport(TypedDict, total=False):
    """child.json."""

    anchors: Annotated[list[_Anchor], msgspec.Meta(min_length=1)]
    threads: dict[str, str]
    operator_files: list[str]
    rank_files: list[str]
    methods: Object
    versions: Object
    settings: Object | None
    network: _Network | None
    memory: Object
    warmup: Object
    compiled: Object | None
    padding: Padding | None
    left_out: Object | None
    device_ends_ns: list[int] | None
    foreign_cores: float | None


class _ComparedRow(TypedDict):
    time_ns: dict[str, float | None]


class _SummaryRow(TypedDict):
    framework: str
    step_median_ns: float


class _Fairness(TypedDict, total=False):
    failed: Any
    rows: list[Object]


class ComparisonRecord(TypedDict, total=False):
    """compare.json."""

    frameworks: list[str]
    framework_of: dict[str, str]
    network: Object
    machine: Object
    busy: Object | None
    left_out: list[Object]
    summary: list[_SummaryRow]
    layers: list[_ComparedRow]
    kinds: list[_ComparedRow]
    cells: list[_ComparedRow]
    kernels: dict[str, list[Object]]
    lines: dict[str, Object]
    passes: list[Object]
    fairness: _Fairness
    explanations: list[Object]
    diagnostics: Object
    methods: Object
    settings: Object
    versions: Object


def checked(file: Path, content: Object, record: Any) -> Object:
    """Return a file's content; raise EvidenceError if a part of it has another type than the record's class says."""
    try:
        msgspec.convert(content, record)
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{file}: {str(error).replace('`', '')}; record it again") from error
    return content
