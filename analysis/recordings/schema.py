"""Of which types the parts of files are that are looked into: a run's run.json, child.json of each pass, and compare.json.

A folder can come from anywhere. What is of another type than its readers take it for is told in one line with its place;
what nobody looks into may be anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypedDict

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

    framework: str
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
    """Positions of the texts that a model was called with: all, those that are padding, those that no text of a call needs."""

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
    """Return what a file holds; raise EvidenceError where a part of it is of another type than the record's class says."""
    try:
        msgspec.convert(content, record)
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{file}: {str(error).replace('`', '')}; record it again") from error
    return content
