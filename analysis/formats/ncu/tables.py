"""Tables of `ncu --csv` in text: launches, and their metrics in long form.

The page "details" (the default) has a row for each metric of each launch, and rows of advice without a metric. The page "raw"
has a row for each launch and a column for each metric, with units in the row below the header. With --print-summary (per-kernel
and others) a row stands for several launches and has their minimum, maximum and mean. The program's output may surround the
tables.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.formats.ncu.rules import Rule, of_rows

ID = "ID"
KEYS = (
    ID, "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Invocations", "NVTX Domain", "NVTX Range",
)  # fmt: skip
_LONG = ("Metric Name", "Metric Value", "Metric Average", "Average")
_VALUES = ("Metric Value", "Metric Average", "Average")
_ADVICE = re.compile(r"Rule (?:Name|Type|Description)|Estimated Speedup(?: Type)?")
_METRIC = re.compile(r"^[a-z]\w*(?:__|\.|:)\w+")
_NVTX = re.compile(r"Push/Pop|thread Domain|Start/Stop|Domain:", re.IGNORECASE)


@dataclass
class NcuOutput:
    """The content of a file: launches (columns KEYS, as text) and metrics (launch, section, name, unit, value as text).

    advice: rows of rules. rules: what these say. damaged: lines of tables that cannot be parsed. header: whether there is a table
    at all.
    """

    launches: pd.DataFrame = field(default_factory=pd.DataFrame)
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    advice: int = 0
    rules: list[Rule] = field(default_factory=list)
    damaged: int = 0
    header: bool = False


def is_header(line: str) -> bool:
    """Return whether a line is the header of a table, of either page."""
    if "Kernel Name" not in line or ("Metric Name" not in line and "__" not in line):
        return False
    cells = text_tables.cells(line.strip())
    long = "Metric Name" in cells and any(name in cells for name in _VALUES)
    return "Kernel Name" in cells and (long or any(_METRIC.match(cell) for cell in cells))


def parse(lines: Sequence[str]) -> NcuOutput:
    """Return all tables of a text as one; each table's launches are separate."""
    places = [number for number, line in enumerate(lines) if is_header(line)]
    output = NcuOutput(header=bool(places))
    if not places:
        return output
    launches, metrics, first = [], [], 0
    for at, end in zip(places, [*places[1:], len(lines)], strict=True):
        header = text_tables.cells(lines[at].strip())
        rows = _rows(lines[at + 1 : end], header, output)
        if rows.empty:
            continue
        result = _long(rows, header, output, first) if "Metric Name" in header else _wide(rows)
        launches.append(result[0])
        metrics.append(result[1].assign(launch=result[1]["launch"] + first))
        first += len(result[0])
    if launches:
        output.launches = pd.concat(launches, ignore_index=True)
        output.metrics = pd.concat(metrics, ignore_index=True)
    return output


def _rows(lines: Sequence[str], header: Sequence[str], output: NcuOutput) -> pd.DataFrame:
    """Return the rows below a header as text. Rows of metrics lack the columns of rules; other lines are the program's."""
    quoted = [line for line in lines if line.startswith('"')]
    try:
        rows = list(csv.reader(quoted))
    except csv.Error as error:
        raise EvidenceError(f"a table cannot be parsed ({error}); print it again") from error
    least = max(header.index(name) for name in header if name in KEYS or name in _LONG) + 1
    whole = [row for row in rows if least <= len(row) <= len(header) + 1]
    output.damaged += len(rows) - len(whole)
    width = len(header)
    frame = pd.DataFrame([(*row, *[None] * width)[:width] for row in whole], columns=range(width), dtype="str")
    # names may repeat; the first one counts
    return frame.set_axis(list(header), axis=1).loc[:, lambda table: ~table.columns.duplicated()]


def _long(rows: pd.DataFrame, header: Sequence[str], output: NcuOutput, first: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return launches and metrics of a page with a row for each metric. first: the number of its first launch in the file."""
    keys = [name for name in rows.columns if name in KEYS]
    by = [ID, "Process ID", "Kernel Name"] if ID in header else keys
    number = rows.groupby([name for name in by if name in rows], sort=False, dropna=False).ngroup()
    value = next(name for name in _VALUES if name in header)
    is_metric = (rows["Metric Name"].fillna("").str.strip() != "").to_numpy(dtype=bool)
    output.advice += int((~is_metric).sum())
    output.rules += of_rows(rows[~is_metric], (number[~is_metric] + first).tolist())
    launches = rows[keys].groupby(number.to_numpy(), sort=True).first()
    nothing = pd.Series(None, index=rows.index, dtype="str")
    metrics = pd.DataFrame(
        {
            "launch": number,
            "section": rows.get("Section Name", nothing),
            "name": rows["Metric Name"],
            "unit": rows.get("Metric Unit", nothing),
            "value": rows[value],
        }
    )
    return launches, metrics[is_metric]


def _wide(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return launches and metrics of a page with a column for each metric; its first row has the units."""
    keys = [name for name in rows.columns if name in KEYS]
    names = [
        name for name in rows.columns
        if name not in KEYS and not _ADVICE.fullmatch(name) and not _NVTX.search(name) and name != "Section Name" and name
    ]  # fmt: skip
    is_unit = rows["Kernel Name"].fillna("").str.strip() == ""
    units = rows[is_unit][names].iloc[0] if is_unit.any() else pd.Series(None, index=names, dtype="str")
    launches = rows[~is_unit].reset_index(drop=True)
    metrics = launches[names].assign(launch=launches.index).melt(id_vars="launch", var_name="name", value_name="value")
    metrics = metrics[metrics["value"].fillna("").str.strip() != ""]
    nothing = pd.Series(None, index=metrics.index, dtype="str")
    return launches[keys], metrics.assign(section=nothing, unit=metrics["name"].map(units).astype("str"))
