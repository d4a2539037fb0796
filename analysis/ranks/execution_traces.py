"""PyTorch's execution traces, from which Chakra traces are made. They have no times, but the sizes that older captures lack.

The nodes record_param_comms hold a collective's tensors and its name among their inputs; a tensor is [id, storage, offset,
elements, bytes of one, device] (torch/csrc/profiler/standalone/execution_trace_observer.cpp). Nodes are in the order in which a
rank issues its collectives. A trace holds one iteration, and may begin elsewhere in it than a capture: it is rotated until
operations, and sizes that both know, agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.attribution.messages import OPERATOR
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text, packed
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.ranks.recording import RankRecording, rank_in

Collective = tuple[str, int | None]  # operation and bytes
SIGN = re.compile(rb'"schema":\s*"1\.')
_MOST = 1 << 31  # bytes of a trace, unpacked
_TENSOR = 6  # parts of a tensor
_ELEMENTS, _SIZE = 3, 4  # their places
_OPERATIONS = {
    "allreduce": "all-reduce", "all_reduce": "all-reduce", "allreduce_coalesced": "all-reduce",
    "allgather": "all-gather", "all_gather": "all-gather", "_allgather_base": "all-gather", "_all_gather_base": "all-gather",
    "reduce_scatter": "reduce-scatter", "_reduce_scatter_base": "reduce-scatter", "broadcast": "broadcast", "reduce": "reduce",
    "all_to_all": "send and receive", "all_to_allv": "send and receive", "alltoall_base": "send and receive",
    "alltoall": "send and receive",
}  # fmt: skip


def is_trace(path: Path) -> bool:
    """Return whether a file is an execution trace, by its beginning; False if it cannot be read."""
    try:
        content = read_head(path).content if path.is_file() else b""
    except EvidenceError:
        return False
    return content.lstrip().startswith(b"{") and bool(SIGN.search(content))


def with_sizes(ranks: Sequence[RankRecording], paths: Sequence[Path]) -> tuple[list[RankRecording], list[str]]:
    """Return ranks with collectives' unknown sizes filled in from execution traces, and notes about that.

    paths: traces, each with its rank in its name.
    """
    notes: list[str] = []
    by_rank = {}
    for path in paths:
        try:
            by_rank[rank_in(path.name.split(".", maxsplit=1)[0])] = collectives(path)
        except (EvidenceError, OSError, ValueError) as error:
            notes.append(f"left out: {error}")
    result, told = [], 0
    for place, one in enumerate(ranks):
        sizes = _aligned(one.collectives, by_rank.get(one.rank if one.rank is not None else place, []))
        unknown = int(one.collectives["bytes"].isna().sum())
        result.append(one if sizes is None or not unknown else _with(one, sizes))
        told += unknown if sizes is not None else 0
    notes.append(
        f"execution traces give the sizes of {told} collectives" if told else "execution traces give no size that was unknown"
    )
    return result, notes


def collectives(path: Path) -> list[Collective]:
    """Return the collectives of an execution trace in the order of issue. Raises EvidenceError if it is no such trace."""
    with packed.opened(path, _MOST) as file:
        content = json_text.parsed(file.read())
    nodes = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(nodes, list):
        raise EvidenceError(f"{path}: not an execution trace of PyTorch: it has no nodes")
    communicating = [node for node in nodes if isinstance(node, dict) and node.get("name") == OPERATOR]
    return [found for found in map(_collective, communicating) if found is not None]


def _collective(node: Mapping[str, Any]) -> Collective | None:
    """Return a node's operation and size; None for nodes that only wait for a collective."""
    given = _values(node.get("inputs"))
    operation = next((_OPERATIONS[one] for one in given if isinstance(one, str) and one in _OPERATIONS), None)
    if operation is None:
        return None
    # an all-gather's size is that of all ranks together afterwards
    return operation, _bytes(_values(node.get("outputs")) if operation == "all-gather" else given) or None


def _values(part: Any) -> list[Any]:
    """Return inputs or outputs of a node: a list, since schema 1.0.2 inside an object."""
    values = part.get("values") if isinstance(part, dict) else part
    return values if isinstance(values, list) else []


def _bytes(values: Any) -> int:
    """Return the bytes of the tensors in a value."""
    if not isinstance(values, list):
        return 0
    if len(values) == _TENSOR and all(isinstance(one, int) for one in values[:-1]) and isinstance(values[-1], str):
        return int(values[_ELEMENTS]) * int(values[_SIZE])
    return sum(map(_bytes, values))


def _aligned(table: pd.DataFrame, told: Sequence[Collective]) -> list[int | None] | None:
    """Return the size of each of a rank's collectives from its execution trace; None unless just one result agrees."""
    if not told or table.empty:
        return None
    known = list(zip(table["operation"], table["bytes"].astype(object).where(table["bytes"].notna(), None), strict=True))
    turns = [
        turn for turn in range(len(told))
        if all(_agree(own, told[(place + turn) % len(told)]) for place, own in enumerate(known))
    ]  # fmt: skip
    sizes = {tuple(told[(place + turn) % len(told)][1] for place in range(len(known))) for turn in turns}
    return list(sizes.pop()) if len(sizes) == 1 else None


def _agree(own: Collective, told: Collective) -> bool:
    return own[0] == told[0] and (own[1] == told[1] or None in (own[1], told[1]))


def _with(one: RankRecording, sizes: Sequence[int | None]) -> RankRecording:
    """Return a rank with these sizes for collectives whose own are unknown."""
    own = one.collectives
    more = pd.Series(pd.array(list(sizes), dtype="Int64"), index=own.index)
    table = own.assign(bytes=own["bytes"].astype("Int64").fillna(more))
    return replace(one, table=lambda name: table if name == "collectives" else one.table(name))
