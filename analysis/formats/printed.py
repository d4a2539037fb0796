"""What captures of printed tables (nsys stats, nvprof) share: names of copies, and remarks on oddities."""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis import trace
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.trace import Trace

_MOST_DEVICES = 256
LONGEST_DEVICE = 200  # characters of a device's name that are looked at
_SIDES = {"h": "host", "d": "device", "host": "host", "device": "device"}


class Remarks:
    """Counts and notes for a Trace that is being filled; text that repeats is noted once."""

    def __init__(self, result: Trace) -> None:
        self.result = result

    def count(self, what: str, number: int) -> None:
        """Add to a diagnostic; it is not there while it is 0."""
        if number:
            self.result.diagnostics[what] = self.result.diagnostics.get(what, 0) + int(number)

    def note(self, text: str) -> None:
        """Add a line to info["notes"]."""
        notes = self.result.info.setdefault("notes", [])
        if text not in notes:
            notes.append(text)

    def device(self, device: str, name: str) -> None:
        """Add a device to info["devices"], once."""
        entry = {"device": device, "name": name}
        devices = self.result.info.setdefault("devices", [])
        if len(devices) < _MOST_DEVICES and entry not in devices:
            devices.append(entry)


class TableRemarks(Remarks):
    """The same with the rows of a printed table; columns that the table does not have are null."""

    def __init__(self, result: Trace, rows: pd.DataFrame) -> None:
        super().__init__(result)
        self.rows = rows

    def absent(self) -> pd.Series:
        """Return a column of nulls."""
        return pd.Series(pd.NA, index=self.rows.index, dtype="Int64")

    def numbers(self, column: str) -> pd.Series:
        """Return a column of whole numbers."""
        return text_tables.counts(self.rows[column]) if column in self.rows else self.absent()


def are_copies(names: pd.Series) -> pd.Series:
    """Return for each name of device work whether it is a copy or a memory set and no kernel."""
    return names.str.startswith(("[CUDA ", "[Unified Memory ")).fillna(False).astype(bool)


def operation(name: str) -> str:
    """Return one of COPY_OPERATIONS for a name such as [CUDA memcpy HtoD], [CUDA memcpy Host-to-Device] or [CUDA memset]."""
    if "Unified" in name:
        return "unified memory"
    if "memset" in name.lower():
        return "set"
    if re.search(r"\b(?:PtoP|P2P|Peer-to-Peer)\b", name):
        return "peer to peer"
    result = direction(name)
    return result if result in trace.COPY_OPERATIONS else "other"


def direction(name: str) -> str | None:
    """Return source and destination as "host to device" where a name has both."""
    match = re.search(r"\b(Host|Device|[HD])[- ]?[tT]o[- ]?(Host|Device|[HD])\b", name)
    return f"{_SIDES[match[1].lower()]} to {_SIDES[match[2].lower()]}" if match else None
