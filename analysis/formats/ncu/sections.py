"""Nsight Compute's printed pages: what `ncu` writes to the terminal without --csv.

A launch begins with a line that names the kernel, its grid and its block; before 2021.3 the line has the time of day in their
place. Below it are sections, each a table of metrics in columns that a line of dashes measures out, and advice of rules
(OPT, WRN, INF). The program's output may surround all that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.ncu import printed, rules
from kernelscope.analysis.formats.ncu.tables import NcuOutput
from kernelscope.analysis.trace import Trace

_LAUNCH = re.compile(
    r"^\s*(?P<name>\S.*?)(?: \((?P<grid>\d+, *\d+, *\d+)\)x\((?P<block>\d+, *\d+, *\d+)\)|, \d{4}-\w{3}-\d{2} [\d:]{7,8})?"
    r"(?:, Context \d+, Stream (?P<stream>\d+))?(?:, Device (?P<device>\d+))?(?:, CC (?P<capability>\d+\.\d+))?"
    r"(?:, Invocations (?P<executed>\d+))?$"  # of lines without spaces at their end: looking for these would take long
)
_IS_LAUNCH = re.compile(r", Context \d+, Stream \d+|, Device \d+, CC [\d.]+, Invocations \d+")
_PROCESS = re.compile(r"^\s*\[(?P<process>\d+)\] [^@]{1,4000}@\S{1,300}\s*$")
_SECTION = re.compile(r"^\s*Section: (?P<name>\S.*)$")
_DASHES = re.compile(r"^\s*-{3,}(?: -{3,}){2,}\s*$")
_MARK = re.compile(r"Section: |, Stream \d|, Invocations \d|---|^\s*\[\d+\] |^\s*(?:OPT|WRN|INF|ERR)  ")
_LONGEST = 4000  # characters of a line of dashes
_HEAD = re.compile(r"^\s*Metric Name +Metric Unit +(?:Metric Value|Minimum +Maximum +Average)\s*$")
UNNAMED = "(kernel without a name)"  # of a page that was copied without the line above its sections
_VALUES = ("Metric Value", "Average")
_FIELDS = {
    "name": "Kernel Name", "grid": "Grid Size", "block": "Block Size", "stream": "Stream", "device": "Device",
    "capability": "CC", "executed": "Invocations",
}  # fmt: skip


def matches(head: Head) -> bool:
    """Return whether the beginning or the end has a launch and a table of metrics."""
    if not head.is_text or not any(sign in head.text for sign in ("Section: ", ", Context ", ", Invocations ", "Metric Name ")):
        return False
    lines = [line.rstrip() for line in head.tables_text.splitlines()]
    begins = any(map(_launch, lines)) or any(map(_HEAD.match, lines))
    return begins and any(map(_DASHES.match, lines))


def read(path: Path) -> Trace:
    """Read printed pages, alone or among other output; raise EvidenceError if no launch has a duration."""
    output = parse(stream.table_lines(path))
    if output.launches.empty:
        raise EvidenceError(f"{path}: no launch with a table of metrics; print the page again, and copy the whole of it")
    return printed.trace_of(path, output, "ncu-text")


def parse(lines: Sequence[str]) -> NcuOutput:
    """Return all launches of a text with their metrics."""
    output = NcuOutput(header=True)
    pages = _Pages(output)
    table, rule = _Table(), None
    for line in map(str.rstrip, lines):
        marked = bool(_MARK.search(line))
        if not line or (not table.is_open and not marked):  # a rule's further lines, or what the program prints
            rule = rule if line and rule is not None and rule.takes(line) else None
            continue
        rule = None
        if found := _PROCESS.match(line):
            pages.process = found["process"]
        elif fields := _launch(line):
            pages.launch(fields)
            table = _Table()
        elif found := _SECTION.match(line):
            pages.begin_section(found["name"])
            table = _Table()
        elif _DASHES.match(line):
            table.dashes(line)
        elif found := rules.BEGINS.match(line):
            output.advice += 1
            table = _Table()
            rule = rules.Rule(len(pages.launches) - 1, found["type"], [found["text"]])
            output.rules.append(rule)
        elif table.is_open:
            if table.is_head(line):
                pages.begin_table()
            else:
                pages.metric(*table.row(line))
    pages.fill()
    return output


class _Pages:
    """The launches and metrics that were read so far. process: the last one named.

    People copy tables without the line of the launch, or of the section, too: a launch has each section once, and one duration.
    """

    def __init__(self, output: NcuOutput) -> None:
        self.launches: list[dict[str, str | None]] = []
        self.process: str | None = None
        self._output = output
        self._metrics: list[tuple[int, str | None, str, str, str]] = []
        self._section: str | None = None
        self._seen: set[str] = set()  # sections of the last launch, and durations outside of sections
        self._first = 0  # metric of the last table

    def launch(self, fields: dict[str, str | None]) -> None:
        """Begin a launch."""
        self.launches.append({**fields, "Process ID": self.process})
        self._section, self._seen = None, set()

    def begin_section(self, name: str) -> None:
        """Begin a section; it is of another launch, whose line is not there, if the last one has it already."""
        if not self.launches or name in self._seen:
            self._output.damaged += bool(self.launches) and self.launches[-1]["Kernel Name"] != UNNAMED
            self.launch({"Kernel Name": UNNAMED})
        self._section = name
        self._seen.add(name)

    def begin_table(self) -> None:
        """Begin a table; it is of a kernel without a name if no launch is above it."""
        self._first = len(self._metrics)
        if not self.launches:
            self.launch({"Kernel Name": UNNAMED})

    def metric(self, name: str, unit: str, value: str) -> None:
        """Add a metric of the last launch."""
        if not self.launches:
            return
        self._output.damaged += not (name and value)
        if not (name and value):
            return
        if self._section is None and name in printed.DURATION:
            self._take_duration(name)
        self._metrics.append((len(self.launches) - 1, self._section, name, unit, value))

    def _take_duration(self, name: str) -> None:
        """Begin another launch with the last table if the last launch, which has no name, has a duration already."""
        if name in self._seen and self.launches[-1]["Kernel Name"] == UNNAMED:
            self.launch({"Kernel Name": UNNAMED})
            begun = [metric[1:] for metric in self._metrics[self._first :]]
            self._metrics[self._first :] = [(len(self.launches) - 1, *metric) for metric in begun]
        self._seen.add(name)

    def fill(self) -> None:
        """Put launches and metrics into the output, if there are metrics."""
        if self._metrics:
            self._output.launches = pd.DataFrame(self.launches, dtype="str")
            self._output.metrics = pd.DataFrame(self._metrics, columns=["launch", "section", "name", "unit", "value"])


def _launch(line: str) -> dict[str, str | None] | None:
    """Return what a line says of a launch, by the names of ncu's own tables; None for other lines."""
    if not _IS_LAUNCH.search(line):
        return None
    found = _LAUNCH.match(line)
    return {_FIELDS[name]: text for name, text in found.groupdict().items()} if found else None


class _Table:
    """The table that is being read: the widths of its columns, and which of them has the values."""

    def __init__(self) -> None:
        self._widths: list[int] = []
        self._place, self._headed = 2, False

    @property
    def is_open(self) -> bool:
        """Whether rows may follow."""
        return bool(self._widths)

    def dashes(self, line: str) -> None:
        """Begin the table, or its rows below the head, or end it."""
        begins = (self._headed or not self.is_open) and len(line) <= _LONGEST
        self._widths = [len(dashes) for dashes in line.split()] if begins else []
        self._headed = False

    def is_head(self, line: str) -> bool:
        """Return whether a line is the table's head; remember which column has the values."""
        if not line.lstrip().startswith("Metric Name "):
            return False
        cells = self._cells(line)
        self._place = next((cells.index(name) for name in _VALUES if name in cells), 2)
        self._headed = True
        return True

    def row(self, line: str) -> tuple[str, str, str]:
        """Return the name, unit and value of a row."""
        cells = self._cells(line)
        return cells[0], cells[1], cells[min(self._place, len(cells) - 1)]

    def _cells(self, line: str) -> list[str]:
        """Cut a line at the columns; the last one may be wider than its dashes."""
        text, cells = line.strip("\r\n").lstrip(), []
        for width in self._widths[:-1]:
            cells.append(text[:width].strip())
            text = text[width + 1 :]
        return [*cells, text.strip()]
