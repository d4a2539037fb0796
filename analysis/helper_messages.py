"""What a helper process tells the process that started it (see analysis.helper): one message a task, checked when it is read.

A message is JSON. What is decoded is told as helper_tables, helper_events and helper_ties describe it, its columns in shared
memory (see helper_values); besides there are

    {"task": ..., "failed": why it cannot be read}
    {"task": ..., "remarks": [[kind, line], ...]}
    {"task": ..., "names": {name of a kernel: [values of kernel_lookup.Told, in order], ...}}
    {"task": ..., "digest": the file's SHA-256 in hexadecimal}
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.helper_values import checked

if TYPE_CHECKING:
    from kernelscope.analysis.kernel_lookup import Told
    from kernelscope.analysis.readers.kineto_columns import Columns
    from kernelscope.analysis.readers.nsys_tables import Gathered
    from kernelscope.analysis.ties import Ties

    Content = Gathered | Columns | Ties | EvidenceError | list[tuple[str, str]] | dict[str, Told] | str

Remarks = list[tuple[str, str]]  # as secrets.remarks returns them


# --- in the helper ------------------------------------------------------------------------------------------------------------


def found(task: str, described: Mapping[str, Any]) -> bytes:
    """Return the message of what a task found, as helper_tables, helper_events or helper_ties describes it."""
    return _packed({"task": task, **described})


def failed(task: str, reason: str) -> bytes:
    """Return the message that what a task was to read cannot be read: an EvidenceError's text."""
    return _packed({"task": task, "failed": reason})


def searched(task: str, remarks: Remarks) -> bytes:
    """Return the message of what is to be said of secrets."""
    return _packed({"task": task, "remarks": remarks})


def looked_up(task: str, names: Mapping[str, Told]) -> bytes:
    """Return the message of what names of kernels tell."""
    return _packed({"task": task, "names": dict(names)})


def digested(task: str, digest: str) -> bytes:
    """Return the message of a file's digest."""
    return _packed({"task": task, "digest": digest})


def _packed(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


# --- in the process that started it -------------------------------------------------------------------------------------------


def unpacked(body: bytes | bytearray, memory: Sequence[mmap.mmap]) -> tuple[str, Content] | None:
    """Return a message's task and what came out of it, its columns in the memory that came along; None if it is not as agreed."""
    try:
        message = checked(dict, json.loads(body))
        return checked(str, message.pop("task")), _content(message, memory)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _content(message: dict[str, Any], memory: Sequence[mmap.mmap]) -> Content:
    keys = message.keys()
    if keys == {"failed"}:
        return EvidenceError(checked(str, message["failed"]))
    if keys == {"remarks"}:
        return [(checked(str, kind), checked(str, line)) for kind, line in checked(list, message["remarks"])]
    if keys == {"digest"}:
        return _hexadecimal(checked(str, message["digest"]))
    # late: what a capture is not made of is not imported
    if keys == {"names"}:
        return _names(checked(dict, message["names"]))
    if keys == {"ties"}:
        from kernelscope.analysis import helper_ties

        return helper_ties.content(checked(dict, message["ties"]), memory)
    if "tables" in keys:
        from kernelscope.analysis import helper_events

        return helper_events.content(message, memory)
    from kernelscope.analysis import helper_tables

    return helper_tables.content(message, memory)


def _names(told: dict[str, Any]) -> dict[str, Told]:
    from kernelscope.analysis.kernel_lookup import Told

    kinds = (str, int, str, str, str, bool, str)
    names = {}
    for name, values in told.items():
        spelling, *known = (None if value is None else checked(kind, value) for kind, value in zip(kinds, values, strict=True))
        names[name] = Told(checked(str, spelling), *known)
    return names


def _hexadecimal(digest: str) -> str:
    if len(bytes.fromhex(digest)) != 32:
        raise ValueError("not a SHA-256")
    return digest
