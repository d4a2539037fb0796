"""Nsight Compute's CSV output: kernel launches with their metrics.

ncu runs a kernel once for every few counters, and before each run flushes caches and fixes clocks. So launches have durations
and an order, but no times: there is no timeline, and durations are not those of an undisturbed run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.ncu import rules, tables
from kernelscope.analysis.formats.ncu.tables import NcuOutput
from kernelscope.analysis.trace import Trace, conform

pc: Any = pyarrow.compute

_NUMBER = r"^[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d{1,3})?$"
_WORD = r"^(?:all|no data|[A-Z][A-Za-z]{4,}|[a-z]+[A-Z][A-Za-z]+)$"
# Values that only decimal commas, or only decimal points, can write
_COMMAS = r"^\d+,(?:\d{1,2}|\d{4,})$|^\d{1,3}(?:\.\d{3}){2,}$|^[\d.]+\.\d{3},"
_POINTS = r"^\d+\.(?:\d{1,2}|\d{4,})$|^\d{1,3}(?:,\d{3}){2,}$|^[\d,]+,\d{3}\."
_POWERS = {
    "": 0, "nano": -9, "n": -9, "micro": -6, "\u00b5": -6, "\u03bc": -6, "u": -6, "milli": -3, "m": -3, "K": 3, "k": 3, "M": 6,
    "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
# ncu writes both long and short names, with prefixes for powers of ten: Gbyte/second, Mbyte/block, usecond, Ghz, Kinst
_UNIT = re.compile(
    r"^(?P<power>nano|micro|milli|[nu\u00b5\u03bcmKkMGTPE]?)(?P<unit>second|sec|s|byte|hz|inst|sector|cycle|block|warp|thread|request|W|Hz)(?=$|/|s\b)"
)
_CLOCK = re.compile(r"^cycle/(?P<power>[num]?)s(?:ec(?:ond)?)?$")  # cycles per nanosecond are 10^9 Hz
_SECOND = re.compile(r"/(?:second|sec)$|^(?:second|sec)s?$")

DURATION = ("gpu__time_duration.sum", "gpu__time_duration.max", "gpu__time_duration.avg", "Duration", "GPU Time")
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_STATIC = ("launch__shared_mem_per_block_static", "Static Shared Memory Per Block")
_DYNAMIC = ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block")
_PROCESSORS = ("launch__sm_count", "# SMs", "device__attribute_multiprocessor_count")
_BLOCKS = ("launch__grid_size", "Grid Size")
_WAVES = ("launch__waves_per_multiprocessor", "Waves Per SM")
_OF_WAVES = 0.005  # waves are printed with two decimals
_RESIDENT = r"Block Limit .+|launch__occupancy_limit_(?:blocks|registers|shared_mem|warps|barriers)"
_DEVICE = "device__attribute_display_name"
_NAMES = (_DEVICE, "launch__func_cache_config")  # metrics that are texts
_REPLAY = (
    "Nsight Compute runs each kernel several times for its counters, with caches flushed and clocks fixed as configured: there "
    "is no timeline, and durations are those of these runs"
)


def matches(head: Head) -> bool:
    """Return whether a line at the beginning or the end is the header of ncu's table."""
    return head.is_text and any(tables.is_header(line) for line in head.tables_text.splitlines() if '"' in line)


def read(path: Path) -> Trace:
    """Read a table, alone or among other output; raise EvidenceError if it has no launch with a duration."""
    try:
        output = tables.parse(stream.table_lines(path))
    except EvidenceError as error:
        raise EvidenceError(f"{path}: {error}") from error
    if not output.header:
        raise EvidenceError(f"{path}: no table of ncu; print one with ncu --csv --page raw")
    if output.launches.empty:
        raise EvidenceError(f"{path}: ncu's table has a header but no launch; profile a kernel, or copy the whole file")
    return trace_of(path, output, "ncu-csv")


def trace_of(path: Path, output: NcuOutput, form: str) -> Trace:
    """Return the launches that have a duration, with their metrics; raise EvidenceError if none has. form: the format's name."""
    diagnostics = {"lines of ncu's table that cannot be read": output.damaged}
    metrics = _metrics(output, diagnostics)
    kernels = _kernels(output, metrics)
    diagnostics["launches whose number of executions cannot be read: taken as one"] = _unread_numbers(output.launches)
    timed, told = kernels["duration_ns"].notna().to_numpy(), rules.kept(output.rules, kernels)
    if not timed.any():
        raise EvidenceError(f"{path}: none of {len(output.launches):,} launches has a duration{_without_duration(output)}")
    diagnostics["launches without a duration, left out with their metrics"] = int((~timed).sum())
    place = np.where(timed, np.cumsum(timed) - 1, -1)
    metrics["kernel"] = place[metrics["launch"].to_numpy(np.int64)]
    kernels = kernels[timed].reset_index(drop=True)
    return Trace(
        kernels=conform("kernels", kernels),
        metrics=conform("metrics", metrics[metrics["kernel"] >= 0].sort_values("kernel", kind="stable", ignore_index=True)),
        info=_info(output, metrics, form, told),
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _without_duration(output: NcuOutput) -> str:
    """Return why no launch has a duration, and what to do."""
    names = output.metrics["name"].astype("string").str.strip()
    rows = output.metrics.loc[names.isin(DURATION).to_numpy(dtype=bool), ["value", "unit"]].astype("string").fillna("")
    if rows.empty:
        return "; record with the section SpeedOfLight or --metrics gpu__time_duration.sum too"
    value, unit = rows.iloc[0]
    return f": the first is {value!r} with the unit {unit!r}; print the table again with LC_ALL=C and --print-units base"


def _metrics(output: NcuOutput, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return launch, section, metric, unit and value (float64, in units without powers of ten) of metrics that are numbers."""
    rows = output.metrics
    text = _english(stream.strings_of(rows["value"].astype("string").fillna("").str.strip()))
    valid = np.asarray(pc.match_substring_regex(text, pattern=_NUMBER)) & np.asarray(pc.greater(pc.utf8_length(text), 0))
    plain = pc.if_else(pa.array(valid), pc.replace_substring(text, ",", ""), None)
    try:
        value = np.array(pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid as error:
        raise EvidenceError(f"a metric's value cannot be read ({error}); print the table again") from error
    valid &= np.isfinite(value)
    words = np.asarray(pc.match_substring_regex(text, pattern=_WORD))  # settings, such as CachePreferNone
    words |= rows["name"].isin(_NAMES).to_numpy(dtype=bool)
    diagnostics["metrics whose values are no numbers"] = int((~valid & ~words).sum())
    unit = rows["unit"].astype("string").fillna("").str.strip()
    split = {text: _split(text) for text in unit.unique().tolist()}
    factor = unit.map({text: power for text, (power, _) in split.items()}).to_numpy(np.int64)
    result = pd.DataFrame(
        {
            "launch": rows["launch"].to_numpy(np.int64),
            "section": rows["section"].astype("string").str.strip().array,
            "metric": rows["name"].astype("string").str.strip().array,
            "unit": unit.map({text: base or None for text, (_, base) in split.items()}).array,
            "value": _scaled(value, factor),
        }
    )[valid]
    keys = ["launch", "section", "metric", "unit"]
    again = result.duplicated(keys)
    diagnostics["metrics that are given twice with other values, of which the first counts"] = int(
        (again & ~result.duplicated([*keys, "value"])).sum()
    )
    once: pd.DataFrame = result[~again].reset_index(drop=True)
    return once


def _english(text: Any) -> Any:
    """Return numbers as English writes them if some show decimal commas: 27.595.520, 4,78, 23 982. Takes an Arrow array."""
    plain = pc.replace_substring_regex(text, pattern=r"(\d)[ \x{A0}\x{202F}](\d{3})", replacement=r"\1\2")
    plain = pc.replace_substring_regex(plain, pattern=r"(\d)[ \x{A0}\x{202F}](\d{3})", replacement=r"\1\2")
    commas, points = (pc.any(pc.match_substring_regex(plain, pattern=pattern)).as_py() for pattern in (_COMMAS, _POINTS))
    if not commas or points:
        return plain
    return pc.replace_substring(pc.replace_substring(plain, ".", ""), ",", ".")


def _scaled(value: np.ndarray[Any, Any], power: np.ndarray[Any, Any]) -> Any:
    """Return values times powers of ten; negative powers divide, as a factor below one would add rounding."""
    up, down = np.power(10.0, np.maximum(power, 0)), np.power(10.0, np.maximum(-power, 0))
    return value * up / down


def _split(unit: str) -> tuple[int, str]:
    """Return the power of ten of a unit, and the unit without it: Gbyte/second is 9 and byte/s, nsecond is -9 and s."""
    if clock := _CLOCK.match(unit):
        return -_POWERS[clock["power"]], "Hz"
    result = _UNIT.match(unit)
    power, base = (_POWERS[result["power"]], unit[len(result["power"]) :]) if result else (0, unit)
    base = _SECOND.sub(lambda match: "/s" if match[0].startswith("/") else "s", base)
    return power, base.replace("hz", "Hz")


def _of_launches(metrics: pd.DataFrame, names: tuple[str, ...], count: int) -> pd.Series:
    """Return for each launch the first of these metrics that it has; NaN if it has none."""
    result = pd.Series(np.nan, index=range(count))
    for name in names:
        rows = metrics[metrics["metric"] == name].drop_duplicates("launch").set_index("launch")["value"]
        result = result.fillna(rows)
    return result


def _kernels(output: NcuOutput, metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the launches as kernels without times; the duration is null if it was not measured."""
    launches, count = output.launches, len(output.launches)
    nothing = pd.Series(None, index=launches.index, dtype="str")
    executed = _whole(launches.get("Invocations", nothing)).fillna(1)
    device = _whole(launches.get("Device", nothing)).astype("string")
    shared = _of_launches(metrics, _STATIC, count) + _of_launches(metrics, _DYNAMIC, count)
    in_seconds = metrics["unit"].astype("string").eq("s").fillna(False).to_numpy(dtype=bool)
    duration = _of_launches(metrics[in_seconds], DURATION, count)
    return pd.DataFrame(
        {
            "duration_ns": _rounded(duration * 1e9 * executed.to_numpy(np.float64), 2.0**62),
            "count": executed.astype("int64").clip(lower=1),
            "device": ("cuda:" + device).fillna("cuda"),
            "thread": _whole(launches.get("Stream", nothing)),
            "name": launches["Kernel Name"].astype("string").str.strip(),
            "process": _whole(launches.get("Process ID", nothing)),
            "grid": _extent(launches.get("Grid Size", nothing)),
            "block": _extent(launches.get("Block Size", nothing)),
            "registers": _rounded(_of_launches(metrics, _REGISTERS, count), 2.0**31).astype("Int32"),
            "shared_memory": _rounded(shared, 2.0**62),
        }
    )


def _rounded(values: pd.Series, limit: float) -> pd.Series:
    """Return numbers rounded to whole ones (Int64); null if negative or not below the limit."""
    return values.round().where((values >= 0) & (values < limit)).astype("Int64")


def _unread_numbers(launches: pd.DataFrame) -> int:
    """Return how many launches give a number of executions that is no whole number."""
    texts = launches.get("Invocations", pd.Series(dtype="str"))
    return int((texts.notna() & (texts.astype("string").fillna("").str.strip() != "") & _whole(texts).isna()).sum())


def _whole(texts: pd.Series) -> pd.Series:
    """Return whole numbers (Int64), null for other texts."""
    result = texts.astype("string").fillna("").str.replace(",", "", regex=False).str.extract(r"^\s*(\d{1,18})\s*$")[0]
    return pd.to_numeric(result, errors="coerce").astype("Int64")


def _extent(texts: pd.Series) -> pd.Series:
    """Return (1024, 1, 1) as 1024,1,1."""
    parts = texts.astype("string").fillna("").str.extract(r"^\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?$")
    return parts[0] + "," + parts[1] + "," + parts[2]


def _processors(output: NcuOutput, metrics: pd.DataFrame) -> pd.Series:
    """Return each launch's number of multiprocessors: as printed, by a rule, or what its waves fit alone; NaN if unknown."""
    count = len(output.launches)
    stated = _of_launches(metrics, _PROCESSORS, count).fillna(rules.processors(output.rules, count))
    limits = metrics[metrics["metric"].astype("string").str.fullmatch(_RESIDENT).fillna(False).to_numpy(bool)]
    resident = limits.groupby("launch")["value"].min().reindex(range(count))
    waves = _of_launches(metrics, _WAVES, count)
    filled = _of_launches(metrics, _BLOCKS, count) / resident.where(resident > 0)
    least = (filled / (waves + _OF_WAVES)).apply(np.ceil)
    most = (filled / (waves - _OF_WAVES).where(waves > _OF_WAVES)).apply(np.floor)
    return stated.fillna(least.where((least == most) & (least > 0)))


def _info(output: NcuOutput, metrics: pd.DataFrame, form: str, told: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is known about the capture, without the names of hosts and programs that every row of the table repeats.

    told: what Nsight Compute's rules say.
    """
    capability = output.launches.get("CC", pd.Series(None, index=output.launches.index, dtype="str")).fillna("")
    processors = _processors(output, metrics)
    number = _whole(output.launches.get("Device", pd.Series(None, index=output.launches.index, dtype="str"))).astype("string")
    texts = output.metrics[output.metrics["name"] == _DEVICE].drop_duplicates("launch").set_index("launch")["value"]
    name = texts.reindex(range(len(number))).fillna("")
    columns = {"capability": capability, "processors": processors, "name": name}
    named = pd.DataFrame({"device": ("cuda:" + number).fillna("cuda"), **columns})
    devices: list[dict[str, Any]] = []
    for device, rows in named.groupby("device", sort=True):
        entry: dict[str, Any] = {"device": str(device)}
        if told_name := rows["name"].iloc[0].strip():
            entry["name"] = told_name
        stated = rows["capability"].iloc[0].strip()
        if re.fullmatch(r"\d{1,2}\.\d", stated):
            entry["compute_capability"] = stated
        if rows["processors"].notna().any():
            entry["multiprocessors"] = int(rows["processors"].dropna().iloc[0])
        devices.append(entry)
    info: dict[str, Any] = {
        "source": {"format": form, "tool": "Nsight Compute", "version": None},
        "clock": "none",
        "devices": devices,
        "unavailable": {"times": "Nsight Compute runs each kernel several times: it has durations, but no times"},
        "notes": [_REPLAY],
    }
    if told:
        info["rules"] = told
    if output.advice > len(told):
        info["not_read"] = {"advice of rules": output.advice - len(told)}
    return info
