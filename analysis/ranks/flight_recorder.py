"""Dumps of PyTorch's Flight Recorder: which collectives each rank of a job had begun when it hung.

A dump is a pickle of plain values, or the same as JSON. It is read without an unpickler (see files.pickles), so a dump cannot run
code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text, pickles

_MOST = 1 << 30  # bytes of a dump
_PICKLE = b"\x80"  # the first byte of pickles of protocol 2 and later
_KEYS = {"entries", "pg_config"}
_RANK = re.compile(r"(\d+)\D*$")
_DONE = ("completed", "retired")


@dataclass(frozen=True)
class Group:
    """A process group: the name that the program gives it, and the numbers of its ranks."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Outstanding:
    """A collective that a rank has begun and not ended: its number within the group, its operation, and its begin (ns)."""

    group: Group
    sequence: int
    operation: str
    created_ns: int


@dataclass(frozen=True)
class RankDump:
    """One rank's dump. outstanding: in order of their begin. begun: the last number that was begun in each group, if known.

    numbers: the same by PyTorch's own number of the group. named: these numbers' names, as far as entries have them. groups: all
    groups of the rank.
    """

    path: str
    rank: int
    groups: tuple[Group, ...]
    outstanding: tuple[Outstanding, ...]
    begun: Mapping[Group, int]
    numbers: Mapping[str, int]
    named: Mapping[str, str]


def is_dump(path: Path) -> bool:
    """Return whether a file looks like a dump: by its first byte, or as JSON by its keys."""
    if not path.is_file():
        return False  # and do not read it: a pipe never ends
    try:
        with path.open("rb") as file:
            first = file.read(4096)
    except OSError:
        return False
    # a trace has distributedInfo
    as_json = first.lstrip().startswith(b"{") and b'"pg_config"' in first and b'"distributedInfo"' not in first
    return first.startswith(_PICKLE) or as_json


def read(path: Path) -> RankDump:
    """Return a rank's dump; raise EvidenceError if it is no dump or does not give its rank."""
    if not is_dump(path):
        empty = "empty, " if path.is_file() and not path.stat().st_size else ""
        raise EvidenceError(f"{path}: {empty}not a dump of PyTorch's Flight Recorder")
    found = _RANK.search(path.stem if path.suffix in (".json", ".pickle", ".pkl") else path.name)
    content = _content(path)
    rank = content.get("rank")
    if not isinstance(rank, int):
        if found is None:
            raise EvidenceError(f"{path}: neither its content nor the end of its name gives the rank; rename it to dump_RANK")
        rank = int(found[1])
    try:
        return _dump(path, rank, content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EvidenceError(f"{path}: not a known form of a dump of PyTorch's Flight Recorder ({error!r})") from error


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST:
            raise EvidenceError(f"{path}: more than 1 GB, and dumps are small; is it a dump?")
        data = path.read_bytes()
        content = pickles.read(data) if data.startswith(_PICKLE) else json_text.parsed(data)
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise EvidenceError(f"{path}: not a dump of PyTorch's Flight Recorder: {error}") from error
    if not isinstance(content, dict) or not content.keys() >= _KEYS:
        keys = " and ".join(sorted(_KEYS))
        raise EvidenceError(f"{path}: not a dump of PyTorch's Flight Recorder: it does not have the keys {keys}")
    return content


def _text(value: Any) -> str:
    """Return a name; raise ValueError for other values: nested ones can be short in a file and endless as a text."""
    if not isinstance(value, str | int):
        raise ValueError(f"a name is a {type(value).__name__}")
    return str(value)


def _dump(path: Path, rank: int, content: Mapping[str, Any]) -> RankDump:
    groups = {_text(name): _group(one) for name, one in content["pg_config"].items()}
    begun: dict[Group, int] = {}
    outstanding, named = [], {}
    status = {_text(number): int(one["last_enqueued_collective"]) for number, one in (content.get("pg_status") or {}).items()}
    for entry in content["entries"]:
        group = groups.get(_text(entry["process_group"][0]))
        if group is None or entry.get("is_p2p"):
            continue
        number, sequence = _text(entry["pg_id"]), int(entry["collective_seq_id"])
        named[number] = group.name
        begun[group] = max(begun.get(group, -1), sequence, status.get(number, -1))
        if _text(entry["state"]) not in _DONE:
            name = _text(entry["profiling_name"]).removeprefix("nccl:").lstrip("_")
            outstanding.append(Outstanding(group, sequence, name, int(entry.get("time_created_ns") or 0)))
    ordered = tuple(sorted(outstanding, key=lambda one: (one.created_ns, one.sequence, one.group.name)))
    return RankDump(str(path), rank, tuple(groups.values()), ordered, begun, status, named)


def _group(one: Mapping[str, Any]) -> Group:
    ranks = one["ranks"]
    numbers = json_text.parsed(ranks) if isinstance(ranks, str) else ranks
    return Group(_text(one.get("desc") or one["name"]), tuple(sorted(int(rank) for rank in numbers)))
