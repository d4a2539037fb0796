"""Shared by readers of printed tables (nsys stats, nvprof): names of copies, and remarks on oddities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.trace import Trace

_MOST_DEVICES = 256
LONGEST_DEVICE = 200  # characters of a device's name that are read
_SHOWN = 160  # characters of a row in a message
# An array is memory of the device, for textures
_SIDES = {"h": "host", "d": "device", "a": "device", "host": "host", "device": "device", "array": "device"}


class Remarks:
    """Counts and notes for a Trace that is being built; a repeated text is noted once."""

    def __init__(self, result: Trace) -> None:
        self.result = result

    def count(self, what: str, number: int) -> None:
        """Add to a diagnostic; one that stays 0 is not added."""
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
    """Remarks on a printed table, with its rows; columns that the table lacks are null.

    line: the line of the table's header, counted from 1. useless: why the rows yielded nothing, with their place. hint: what is
    wrong with all of them.
    """

    hint = ""

    def __init__(self, result: Trace, rows: pd.DataFrame, line: int) -> None:
        super().__init__(result)
        self.rows, self.line = rows, line
        self.useless: list[str] = []

    def none_of(self, lines: int) -> None:
        """Note that none of this many lines below the header is a row of the table."""
        if lines and self.rows.empty:
            self.useless.append(f"line {self.line}: none of {lines:,} lines below the table's titles is a row with numbers")

    def good(self, frame: pd.DataFrame, *needed: str) -> pd.Series:
        """Return which rows of a frame made from the table have the values that a row of the Trace needs; count the others."""
        good = frame[list(needed)].notna().all(axis=1)
        for column, least in (("duration_ns", 0), ("count", 1)):
            if column in needed:
                good &= (frame[column] >= least).fillna(False)
        if {"start_ns", "end_ns"} <= set(needed):
            good &= (frame["end_ns"] >= frame["start_ns"]).fillna(False)
        self.count("rows without usable time", int((~good).sum()))
        if len(frame) and not good.any():
            what = " and ".join(column.removesuffix("_ns") for column in needed)
            first = ", ".join(self.rows.loc[frame.index[0]].fillna("").astype(str))[:_SHOWN]
            self.useless.append(
                f"line {self.line}: none of the table's {len(frame):,} rows has a usable {what}{self.hint}; the first: {first}"
            )
        return good.astype(bool)

    def absent(self) -> pd.Series:
        """Return a column of nulls."""
        return pd.Series(pd.NA, index=self.rows.index, dtype="Int64")

    def numbers(self, column: str) -> pd.Series:
        """Return a column of whole numbers."""
        return text_tables.counts(self.rows[column]) if column in self.rows else self.absent()


def decimal_points(values: pd.Series) -> pd.Series:
    """Return times with a decimal point for the comma that some locales print; such times have no thousands separators."""
    return values.str.replace(r"^([^.,]*),([^.,]*)$", r"\1.\2", regex=True)


def refuse_nothing(path: Path, result: Trace, useless: Sequence[str]) -> None:
    """Raise EvidenceError if there are rows but the Trace got none; if only kernels are missing, note why as unavailable."""
    tables = (result.kernels, result.copies, result.calls, result.ranges, result.totals)
    if useless and not any(map(len, tables)):
        raise EvidenceError(f"{path}, {useless[0]}; print it again")
    if useless and not len(result.kernels):
        result.info["unavailable"]["kernels"] = useless[0]


def are_copies(names: pd.Series) -> pd.Series:
    """Return for each name of device work whether it is a copy or a memory set rather than a kernel."""
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
    """Return source and destination in the form "host to device"; None if the name lacks either."""
    match = re.search(r"\b(Host|Device|Array|[HDA])[- ]?[tT]o[- ]?(Host|Device|Array|[HDA])\b", name)
    return f"{_SIDES[match[1].lower()]} to {_SIDES[match[2].lower()]}" if match else None
