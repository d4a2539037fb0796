"""Reader of GPU samples as text: nvidia-smi's query CSV, dmon, pmon and plain table; DCGM's CSV and dcgmi dmon.

Each becomes one table of raw cells, one row per value, with these columns:

    sample   int64   the line (query, dmon) or table from which the value comes, in the file's order
    time_ns  Int64   ns since the epoch, taking the clock as UTC if the file gives no zone; null if it has no time
    device   Int64   the GPU's number; null if the file does not give it
    process  Int64   the process to which the value belongs; null for values of the whole GPU
    field    str     the column's name in the file, without its unit
    unit     str     the unit in the file; empty if it gives none
    value    str     the cell without its unit

Sources of the formats: `nvidia-smi --help-query-gpu`, its manual, and real files of drivers 390 to 580 and DCGM 3.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError

COLUMNS = ("sample", "time_ns", "device", "process", "field", "unit", "value")

_SEARCHED = 200  # lines at a file's start that must include a header
_HEADER_CELL = re.compile(r"[a-z][\w.]{0,80}(?: ?\[[^\]]{1,16}\])?", re.IGNORECASE)
_FIELD = re.compile(
    r"(?:utilization|memory|power|temperature|clocks|clocks_throttle_reasons|clocks_event_reasons|fan|pcie|ecc|encoder|enforced)"
    r"\.[a-z]|used_(?:gpu_)?memory\b"
)
_DEVICE_FIELDS = ("index", "gpu", "gpu_index", "gpu_id", "id")
_IDENTITY_FIELDS = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
_NAME_FIELDS = ("name", "gpu_name")
_TIME_FIELDS = ("timestamp", "time", "date", "datetime")

# Formats may be indented in a document. After gpu, a header of dmon or pmon has one of their columns, unlike other comments on
# GPUs.
_MONITOR = re.compile(
    r"^[ \t]{0,80}#[ ]*(?:Date[ ,]+)?(?:Time[ ,]+)?gpu[ ,]+"
    r"(?:pid|pwr|g?temp|mtemp|sm|mem|enc|dec|jpg|ofa|mclk|pclk|[pt]viol|fb|bar1|ccpm|[sd]becc|pci|[rt]xpci)\b",
    re.MULTILINE,
)
_DCGMI = re.compile(r"^[ \t]{0,80}#[ ]?Entity[ ]+[A-Z0-9_]+", re.MULTILINE)
_ENTITY = re.compile(r"[ \t]*GPU +(\d{1,9})((?: +\S+)+) *$")
DCGM_HEADER = "gpuid,timestampus,field,values"

_TABLE = re.compile(r"^[ \t#>]{0,80}\| NVIDIA-SMI +(\S+) ", re.MULTILINE)
_DRIVER = re.compile(r"Driver Version: (\S+)")
_DATE_LINE = re.compile(r"\b([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})\s*$")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_GPU_ROW = re.compile(r"^\| +(\d{1,9}) +(\S.*?) +(?:On|Off|N/A|WDDM|TCC|MCDM) +\| +[0-9A-Fa-f]+:[0-9A-Fa-f:.]+ ")
_STATE_ROW = re.compile(
    r"^\| *(?P<fan>\S+) +(?P<temp>\S+) +(?P<perf>\S+) +(?P<power>\S+) */ *(?P<limit>\S+) *\| *(?P<used>\S+) */ *(?P<total>\S+) *"
    r"\| *(?P<busy>\S+) "
)
_PROCESS_ROW = re.compile(r"^\| +(\d{1,9}) +(?:\S+ +\S+ +)?(\d{1,10}) +(?:C\+G|M\+C|C|G) .* (\S+) *\|$")
_WIDEST = 400  # characters of a line of the plain table; it has about 90
_STATE_FIELDS = {
    "fan": "fan.speed", "temp": "temperature.gpu", "perf": "pstate", "power": "power.draw", "limit": "power.limit",
    "used": "memory.used", "total": "memory.total", "busy": "utilization.gpu",
}  # fmt: skip

# Times of nvidia-smi, and of ISO 8601
_STAMP = (
    r"^(\d{4})[/-]?(\d\d)[/-]?(\d\d)[ T](\d\d):(\d\d):(\d\d)"
    r"(?:[.,](\d{1,9}))?(?: ?(Z|[+-]\d\d:?\d\d))?$"
)
_EPOCH = r"^(\d{9,19})(?:\.(\d{1,9}))?$"
_MEASURED = re.compile(r"\d{1,9}(?:\.\d{1,3})? (?:%|MiB|MB|W|MHz)")
_CELL = r"^(.*?) ?(%|[KMG]i?B(?:/s)?|m?W|[KMG]?Hz|[mu]?[Jsv]|C)?$"


@dataclass
class SmiReadings:
    """The content of a file. form: the format; names: of devices, by number; notes: remarks on the values.

    unreadable: lines that do not fit the format. dated: whether times have a date. zoned: whether times have a zone.
    """

    form: str
    rows: pd.DataFrame
    names: dict[int, str] = field(default_factory=dict)
    version: str | None = None
    driver: str | None = None
    unreadable: int = 0
    dated: bool = True
    zoned: bool = False
    notes: list[str] = field(default_factory=list)


def form_of(text: str) -> str | None:
    """Return the format of a text, None if it has none of these."""
    first = text.lstrip().split("\n", 1)[0].strip().lower().replace(" ", "")
    if first == DCGM_HEADER:
        return "DCGM CSV"
    if _MONITOR.search(text):
        return "dmon"
    if _DCGMI.search(text):
        return "dcgmi dmon"
    if _TABLE.search(text):
        return "table"
    return "query CSV" if _header_line(text) is not None else None


def is_headless(text: str) -> bool:
    """Return whether a text begins like query CSV without its header: with a time and a unit, or two units."""
    cells = [cell.strip() for cell in text.lstrip()[:_WIDEST].split("\n", 1)[0].split(",")]
    return bool(re.match(_STAMP, cells[0])) + sum(bool(_MEASURED.fullmatch(cell)) for cell in cells) > 1


def parse(text: str, place: str) -> SmiReadings:
    """Return the samples in a text; raise EvidenceError if it has none of the formats, or lacks its header."""
    form = form_of(text)
    if form is None:
        raise EvidenceError(
            f"{place}: no samples of nvidia-smi or DCGM with their header; record with nvidia-smi "
            "--query-gpu=timestamp,index,utilization.gpu,... --format=csv (not noheader)"
        )
    readers: dict[str, Callable[[str], SmiReadings]] = {
        "DCGM CSV": _dcgm, "dmon": _monitor, "dcgmi dmon": _dcgmi, "table": _tables, "query CSV": _query,
    }  # fmt: skip
    whole, end, rest = text.rpartition("\n")
    if form == "table" or not end or not rest.strip():
        return readers[form](text)
    readings = readers[form](whole + end)
    readings.unreadable += 1  # a line without its end may be cut within a number: 6 for 69.6 W
    return readings


def _lines(text: str) -> list[str]:
    return [line.rstrip("\r") for line in text.split("\n")]


def _is_header(line: str) -> bool:
    cells = [cell.strip() for cell in line.split(",")]
    return len(cells) < 1000 and any(_FIELD.match(cell) for cell in cells) and all(_HEADER_CELL.fullmatch(cell) for cell in cells)


def _header_line(text: str) -> str | None:
    """Return the first of the leading lines that names fields of a query."""
    start = text[: 1 << 16].split("\n", _SEARCHED)[:_SEARCHED]
    return next((line.rstrip("\r") for line in start if _is_header(line)), None)


def _query(text: str) -> SmiReadings:
    """Read --query-gpu and --query-compute-apps with --format=csv; the header may repeat, and may change."""
    tables: list[tuple[list[str], list[tuple[int, list[str]]]]] = []
    unreadable = 0
    for number, line in enumerate(_lines(text)):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if _FIELD.search(line) and _is_header(line):
            if not tables or tables[-1][0] != cells:
                tables.append((cells, []))
        elif tables and len(cells) == len(tables[-1][0]):
            tables[-1][1].append((number, cells))
        else:
            unreadable += 1
    readings = SmiReadings("query CSV", _nothing(), unreadable=unreadable)
    parts = [_query_table(header, rows, readings) for header, rows in tables if rows]
    readings.rows = _joined(parts)
    return readings


def _query_table(header: Sequence[str], rows: Sequence[tuple[int, list[str]]], readings: SmiReadings) -> pd.DataFrame:
    names = [re.sub(r" ?\[.*", "", cell) for cell in header]
    units = [cell.partition("[")[2].rstrip("]") for cell in header]
    names = [name if names.index(name) == place else f"{name}.{place}" for place, name in enumerate(names)]
    table = pd.DataFrame([cells for _, cells in rows], columns=names, dtype="str")
    lines = pd.DataFrame({"sample": np.array([number for number, _ in rows], dtype=np.int64), "device": _device(table, readings)})
    stamp = next((name for name in _TIME_FIELDS if name in names), None)
    if stamp:
        lines["time_ns"], zoned = _times(table[stamp])
        readings.zoned |= zoned
    if "pid" in names:
        lines["process"] = _whole(table["pid"])
    _note_names(table, lines["device"], readings)
    if "driver_version" in names and re.fullmatch(r"[\w.]{1,40}", table["driver_version"].iloc[0]):
        readings.driver = table["driver_version"].iloc[0]
    skipped = [stamp, "pid", "process_name", "driver_version", *_DEVICE_FIELDS, *_IDENTITY_FIELDS, *_NAME_FIELDS]
    return _cells(table, dict(zip(names, units, strict=True)), skipped, lines)


def _device(table: pd.DataFrame, readings: SmiReadings) -> pd.Series:
    """Return the devices' numbers: from the column that distinguishes most of them, else by the order of their identities."""
    numbers = {name: _whole(table[name]) for name in _DEVICE_FIELDS if name in table}
    numbers = {name: values for name, values in numbers.items() if values.notna().any()}
    if numbers:
        best = max(numbers, key=lambda name: numbers[name].nunique())
        if any(not values.equals(numbers[best]) for values in numbers.values()):
            readings.notes.append(f"the columns {' and '.join(numbers)} differ: the devices' numbers are those of {best}")
        return numbers[best]
    identity = next((name for name in _IDENTITY_FIELDS if name in table), None)
    if identity is None:
        readings.notes.append("the file does not say which GPU a sample belongs to")
        return pd.Series(pd.NA, index=table.index, dtype="Int64")
    readings.notes.append(f"no column has the devices' numbers: they are numbered by the first appearance of their {identity}")
    return pd.Series(pd.factorize(table[identity])[0], index=table.index, dtype="Int64")


def _note_names(table: pd.DataFrame, device: pd.Series, readings: SmiReadings) -> None:
    column = next((name for name in _NAME_FIELDS if name in table), None)
    if column is not None:
        result = pd.DataFrame({"device": device, "name": table[column]}).dropna().drop_duplicates("device")[:1024]
        readings.names |= dict(zip(result["device"].tolist(), result["name"].tolist(), strict=True))


def _monitor(text: str) -> SmiReadings:
    """Read dmon and pmon: a line of names and one of units, both starting with #, repeated at intervals."""
    readings = SmiReadings("dmon", _nothing())
    parts = []
    names: list[str] = []
    units: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(_lines(text)):
        line = line.strip()
        cells = line.replace(",", " ").lstrip("# ").split(None, max(len(names) - 1, -1) if names else -1)
        if line.startswith("#"):
            words = line.replace(",", " ").lstrip("# ").split()
            if _MONITOR.match(line):
                if words != names:
                    parts.append(_monitor_table(names, units, rows, readings))
                    names, units, rows = words, [], []
            elif len(words) == len(names):
                units = words
            else:
                readings.unreadable += 1
        elif len(cells) == len(names) and names:
            rows.append((number, cells))
        elif cells:
            readings.unreadable += 1
    parts.append(_monitor_table(names, units, rows, readings))
    readings.rows = _joined(parts)
    return readings


def _monitor_table(
    names: list[str], units: list[str], rows: Sequence[tuple[int, list[str]]], readings: SmiReadings
) -> pd.DataFrame:
    if not rows or len(set(names)) < len(names):
        readings.unreadable += len(rows)
        return _nothing()
    table = pd.DataFrame([cells for _, cells in rows], columns=names, dtype="str")
    lines = pd.DataFrame({"sample": np.array([number for number, _ in rows], dtype=np.int64), "device": _whole(table["gpu"])})
    if "Time" in table:
        lines["time_ns"], _ = _times(table.get("Date", "1970-01-01") + " " + table["Time"])
    if "Time" in table and "Date" not in table:
        lines["time_ns"] = _unwrapped(lines["time_ns"])
        readings.dated = False
        readings.notes.append("the file has times of day without a date: times count from the first day's midnight")
    if "pid" in table:
        readings.form = "pmon"
        lines["process"] = _whole(table["pid"])
    known = lines["device"].notna()
    readings.unreadable += int((~known).sum())
    named = dict(zip(names, units, strict=True)) if units else {}
    return _cells(table[known], named, ("Date", "Time", "gpu", "pid", "type", "command"), lines[known])


def _unwrapped(times: pd.Series) -> pd.Series:
    """Return times of day, adding a day whenever they fall back by more than half a day."""
    day = 86_400 * 10**9
    return times + (times.diff() < -day // 2).fillna(False).cumsum() * day


def _dcgmi(text: str) -> SmiReadings:
    """Read dcgmi dmon: a line of names starting with #Entity, one with Id and possibly units, then lines starting with GPU N."""
    readings = SmiReadings("dcgmi dmon", _nothing())
    names: list[str] = []
    parts: list[list[Any]] = []
    for number, line in enumerate(_lines(text)):
        if _DCGMI.match(line):
            names = line.lstrip("# \t").split()[1:]
            continue
        match = _ENTITY.match(line)
        cells = match[2].split() if match else []
        if match and len(cells) == len(names):
            parts += [[number, None, int(match[1]), None, name, "", cell] for name, cell in zip(names, cells, strict=True)]
        elif line.strip() and line.split()[0].lower() != "id":
            readings.unreadable += 1
    readings.rows = _frame(parts)
    return readings


def _dcgm(text: str) -> SmiReadings:
    """Read DCGM's long CSV: GPUId,TimeStampUs,Field,Values."""
    lines = _lines(text)
    start = next(number for number, line in enumerate(lines) if line.strip()) + 1
    rows = [(number, line.split(",")) for number, line in enumerate(lines[start:], start) if line.strip()]
    whole = [(number, cells) for number, cells in rows if len(cells) == 4]
    table = pd.DataFrame([cells for _, cells in whole], columns=["device", "time_ns", "field", "value"], dtype="str")
    times, _ = _times(table["time_ns"])
    rows_read = table.assign(
        sample=np.array([number for number, _ in whole], dtype=np.int64),
        time_ns=times,
        device=_whole(table["device"]),
        process=pd.Series(pd.NA, index=table.index, dtype="Int64"),
        unit="",
        value=table["value"].str.strip(),
    )
    return SmiReadings("DCGM CSV", rows_read[list(COLUMNS)], unreadable=len(rows) - len(whole), zoned=True)


def _tables(text: str) -> SmiReadings:
    """Read nvidia-smi's plain table, once or repeated; names of processes are left out, as they may be paths."""
    starts = list(_TABLE.finditer(text))
    driver = _DRIVER.search(text)
    readings = SmiReadings("table", _nothing(), version=starts[0][1], driver=driver[1] if driver else None)
    rows: list[list[Any]] = []
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        before = text[max(0, start.start() - 400) : start.start()].rstrip("\r\n").split("\n")
        date = next((match for line in before[-2:] if (match := _DATE_LINE.search(line.rstrip("\r")))), None)
        rows += _table(number, _date(date) if date else None, _lines(text[start.start() : end]), readings)
    readings.rows = _frame(rows)
    if _header_line(text) is not None:
        readings.notes.append("the file also holds query CSV, which is not read; put it into a separate file")
    return readings


def _table(number: int, time_ns: int | None, lines: Sequence[str], readings: SmiReadings) -> Iterator[list[Any]]:
    device = None
    for line in (line.strip(" \t#>") for line in lines if len(line) <= _WIDEST):
        gpu, state, process = _GPU_ROW.match(line), _STATE_ROW.match(line), _PROCESS_ROW.match(line)
        if gpu:
            device = int(gpu[1])
            if len(readings.names) < 1024:
                readings.names[device] = gpu[2]
        elif state and device is not None:
            for group, name in _STATE_FIELDS.items():
                yield [number, time_ns, device, None, name, *_split(state[group])]
            device = None
        elif process:
            yield [number, time_ns, int(process[1]), int(process[2]), "used_gpu_memory", *_split(process[3])]


def _date(match: re.Match[str]) -> int | None:
    """Return the time of a line such as Sun May 24 14:08:41 2026."""
    if match[1] not in _MONTHS:
        return None
    month = _MONTHS.index(match[1]) + 1
    times, _ = _times(pd.Series([f"{match[4]}-{month:02}-{int(match[2]):02} {match[3]}"], dtype="str"))
    return None if pd.isna(times.iloc[0]) else int(times.iloc[0])


def _split(cell: str) -> tuple[str, str]:
    """Return a cell's unit and its value."""
    match = re.fullmatch(_CELL, cell)
    return (match[2] or "", match[1]) if match else ("", cell)


def _cells(table: pd.DataFrame, units: dict[str, str], skipped: Iterable[str | None], lines: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of a table's columns, one per row; a unit in a cell takes precedence over the heading's.

    lines: sample, device and other known columns of each row.
    """
    parts = []
    for name in table.columns.difference([name for name in skipped if name], sort=False):
        result = _extract(table[name], _CELL)
        parts.append(lines.assign(field=name, unit=result[1].fillna(units.get(name, "")), value=result[0]))
    return _joined(parts)


def _frame(rows: list[list[Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    whole = dict.fromkeys(("time_ns", "device", "process"), "Int64")
    return frame.astype({"sample": "int64", **whole, "field": "str", "unit": "str", "value": "str"})


def _nothing() -> pd.DataFrame:
    return _frame([])


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the parts as one table with all columns."""
    some = [part for part in parts if len(part)]
    if not some:
        return _nothing()
    table = pd.concat(some, ignore_index=True)
    for name in ("time_ns", "device", "process"):
        if name not in table:
            table[name] = pd.Series(pd.NA, index=table.index, dtype="Int64")
    return table[list(COLUMNS)].sort_values("sample", kind="stable", ignore_index=True)


def _whole(values: pd.Series) -> pd.Series:
    """Return the whole numbers in a column of text, null for anything else."""
    return pd.to_numeric(_extract(values, r"^ *([0-9]{1,9}) *$")[0]).astype("Int64")


def _extract(values: pd.Series, pattern: str) -> pd.DataFrame:
    """Return the groups of a pattern as columns, matching each distinct text once: samples repeat few values."""
    codes, distinct = pd.factorize(values)
    return pd.Series(distinct, dtype="str").str.extract(pattern).take(codes).set_axis(values.index)


def _times(values: pd.Series) -> tuple[pd.Series, bool]:
    """Return times in ns since the epoch, null unless from 1970 to 2261, and whether the texts give the zone."""
    text = values.str.strip()
    stamp, epoch = _extract(text, _STAMP), _extract(text, _EPOCH)
    dates = stamp[0] + stamp[1] + stamp[2]
    days = dates.map({date: _days(date) for date in dates.dropna().unique()}).astype("Int64")
    hours, minutes, seconds = (pd.to_numeric(stamp[place]).astype("Int64") for place in (3, 4, 5))
    fraction = pd.to_numeric(stamp[6].fillna("0").str.pad(9, "right", "0")).astype("Int64")
    offset = stamp[7].map({zone: _offset(zone) for zone in stamp[7].dropna().unique()}).astype("Int64").fillna(0)
    calendar = (((days * 24 + hours) * 60 + minutes) * 60 + seconds - offset) * 10**9 + fraction
    # seconds have 9 to 11 digits in these centuries, ms 12 to 14, us 15 to 17
    scale = epoch[0].str.len().map(lambda size: 9 if size < 12 else 6 if size < 15 else 3 if size < 18 else 0)
    rest = epoch[1].fillna("").str.slice(0, 9)
    counted = [
        int(whole + (part + "0" * 9)[: int(zeros)]) if isinstance(whole, str) else None
        for whole, part, zeros in zip(epoch[0], rest, scale, strict=True)
    ]
    since = pd.Series(
        [None if value is None or value >= 2**63 else value for value in counted], index=values.index, dtype="Int64"
    )
    return calendar.fillna(since), bool(stamp[7].notna().any() or epoch[0].notna().any())


def _days(date: str) -> int | None:
    """Return the days from the epoch to a date such as 20201112; None if there is no such day, or not from 1970 to 2261."""
    try:
        result = datetime.date(int(date[:4]), int(date[4:6]), int(date[6:]))
    except ValueError:
        return None
    return result.toordinal() - datetime.date(1970, 1, 1).toordinal() if 1970 <= result.year < 2262 else None


def _offset(zone: str) -> int:
    """Return the seconds that a zone such as +08:00 is ahead of UTC."""
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (-60 if zone[0] == "-" else 60) * minutes
