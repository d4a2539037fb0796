"""GPU samples that nvidia-smi or DCGM wrote as text: power, use, memory, temperature, clocks and all their other counters.

Metrics have the names and units of our own sampler if it has them: watts, bytes, Hz, degrees Celsius, and shares from 0 to 1 in
place of percents. Values of a process have its id after a colon: gpu_process_memory_bytes:5997.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.formats.smi import tables as nvidia_smi
from kernelscope.analysis.formats.smi.tables import SmiReadings
from kernelscope.analysis.trace import Trace, conform

# Metric without the ending for its unit: the unit if the tool gives none, and the tools' names for it in lower case.
# dmon says MB and means MiB; its pclk is the clock of the SMs.
_FIELDS = {
    "gpu_power": ("W", "power.draw pwr power_usage power powr"),
    "gpu_power_instant": ("W", "power_usage_instant power.draw.instant"),
    "gpu_power_average": ("W", "power.draw.average"),
    "gpu_power_limit": ("W", "power.limit"),
    "gpu_power_limit_enforced": ("W", "enforced.power.limit"),
    "gpu_power_limit_max": ("W", "power.max_limit"),
    "gpu_power_limit_min": ("W", "power.min_limit"),
    "gpu_power_limit_default": ("W", "power.default_limit"),
    "gpu_energy": ("mJ", "total_energy_consumption totec"),
    "gpu_utilisation": ("%", "utilization.gpu sm gpu_utilization gputl"),
    "gpu_memory_utilisation": ("%", "utilization.memory mem mem_copy_utilization mcutl"),
    "gpu_encoder_utilisation": ("%", "utilization.encoder enc"),
    "gpu_decoder_utilisation": ("%", "utilization.decoder dec"),
    "gpu_jpeg_utilisation": ("%", "utilization.jpeg jpg"),
    "gpu_ofa_utilisation": ("%", "utilization.ofa ofa"),
    "gpu_memory": ("MiB", "memory.used fb fb_used fbusd used_gpu_memory used_memory"),
    "gpu_memory_total": ("MiB", "memory.total fb_total fbttl"),
    "gpu_memory_free": ("MiB", "memory.free fb_free fbfre"),
    "gpu_memory_reserved": ("MiB", "memory.reserved"),
    "gpu_bar1": ("MiB", "bar1"),
    "gpu_protected_memory": ("MiB", "ccpm"),
    "gpu_temperature": ("C", "temperature.gpu gtemp gpu_temp tmptr temp"),
    "gpu_memory_temperature": ("C", "temperature.memory mtemp memory_temp mmtmp"),
    "gpu_sm_clock": ("MHz", "clocks.sm clocks.current.sm pclk sm_clock smclk"),
    "gpu_memory_clock": ("MHz", "clocks.mem clocks.current.memory mclk mem_clock mmclk"),
    "gpu_graphics_clock": ("MHz", "clocks.gr clocks.current.graphics"),
    "gpu_video_clock": ("MHz", "clocks.video clocks.current.video"),
    "gpu_sm_clock_max": ("MHz", "clocks.max.sm"),
    "gpu_memory_clock_max": ("MHz", "clocks.max.mem clocks.max.memory"),
    "gpu_graphics_clock_max": ("MHz", "clocks.max.graphics"),
    "gpu_fan_speed": ("%", "fan.speed"),
    "gpu_pstate": ("", "pstate pstat"),
    "gpu_pcie_received": ("MB/s", "rxpci"),
    "gpu_pcie_sent": ("MB/s", "txpci"),
    "gpu_power_violation": ("%", "pviol"),
    "gpu_sm_active": ("", "smact sm_active"),
    "gpu_sm_occupancy": ("", "smocc sm_occupancy"),
    "gpu_tensor_active": ("", "tenso tensor_active"),
    "gpu_memory_active": ("", "drama dram_active"),
    "gpu_engine_active": ("", "gract gr_engine_active"),
}
_METRICS = {name: (metric, unit) for metric, (unit, names) in _FIELDS.items() for name in names.split()}
# Fields in which MB means MiB: dmon's columns, and memory in drivers before 331, which wrote the same numbers with the other unit
_MEBIBYTES = re.compile(r"fb|bar1|ccpm|memory\.\w+|used_(?:gpu_)?memory")
# Unit -> ending of the metric's name, factor, divisor (exact, where a factor such as 0.01 is not)
_UNITS = {
    "": ("", 1, 1), "%": ("", 1, 100), "W": ("_w", 1, 1), "mW": ("_w", 1, 1000), "C": ("_c", 1, 1),
    "J": ("_j", 1, 1), "mJ": ("_j", 1, 1000), "uJ": ("_j", 1, 10**6),
    "Hz": ("_hz", 1, 1), "KHz": ("_hz", 10**3, 1), "MHz": ("_hz", 10**6, 1), "GHz": ("_hz", 10**9, 1),
    "KB": ("_bytes", 10**3, 1), "MB": ("_bytes", 10**6, 1), "GB": ("_bytes", 10**9, 1),
    "KiB": ("_bytes", 2**10, 1), "MiB": ("_bytes", 2**20, 1), "GiB": ("_bytes", 2**30, 1),
    "KB/s": ("_bytes_per_s", 10**3, 1), "MB/s": ("_bytes_per_s", 10**6, 1), "GB/s": ("_bytes_per_s", 10**9, 1),
    "KiB/s": ("_bytes_per_s", 2**10, 1), "MiB/s": ("_bytes_per_s", 2**20, 1), "GiB/s": ("_bytes_per_s", 2**30, 1),
    "s": ("_s", 1, 1), "ms": ("_s", 1, 1000), "us": ("_s", 1, 10**6), "mv": ("_v", 1, 1000),
}  # fmt: skip
_ABSENT = (
    r"^\[?(?:N/A|Not Supported|Not Available|Unknown Error|Unknown|GPU requires reset|Insufficient Permissions|GPU is lost)\]?$"
    r"|^-$|^ERR!$|^$"
)
_SWITCHES = {"active": 1.0, "not active": 0.0, "enabled": 1.0, "disabled": 0.0, "yes": 1.0, "no": 0.0}
_NUMBER = re.compile(r"P?(-?\d{1,18}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?)")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")
_NUMBERS = "device numbers are those of {}, whatever CUDA_VISIBLE_DEVICES and CUDA's own order are"


def matches(head: Head) -> bool:
    """Return whether nvidia-smi or DCGM wrote the text; `read` refuses it without its header, which gives the numbers meaning."""
    return head.is_text and (nvidia_smi.form_of(head.text) is not None or nvidia_smi.is_headless(head.text))


def read(path: Path) -> Trace:
    """Return the Trace of one file of samples; raise EvidenceError if it has no header."""
    readings = nvidia_smi.parse(Head(path, read_content(path)).text, str(path))
    rows, diagnostics = _valued(readings.rows)
    rows, clock, untimed = _timed(rows, readings)
    diagnostics |= {"unreadable_lines": readings.unreadable, "values_without_time": untimed}
    device = "cuda:" + rows["device"].astype("string")
    frame = pd.DataFrame({"time_ns": rows["time_ns"], "device": device, "metric": rows["metric"], "value": rows["value"]})
    samples = conform("samples", frame.sort_values("time_ns", kind="stable", ignore_index=True))
    return Trace(
        samples=samples, info=_info(readings, clock, samples), diagnostics={name: n for name, n in diagnostics.items() if n}
    )


def _valued(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows that have a number, with metric and value in the metric's unit, and counts of the others."""
    cells = rows["value"]
    absent = cells.str.contains(_ABSENT, regex=True).to_numpy(dtype=bool)
    distinct = {cell: _number(cell) for cell in cells[~absent].unique()}
    number = cells.map(distinct).astype("float64")
    wordy = number.isna().to_numpy() & ~absent
    kept = rows[number.notna()]
    kinds = kept[["field", "unit"]].drop_duplicates().itertuples(index=False)
    known = pd.DataFrame([_metric(name, unit) for name, unit in kinds], columns=["metric", "factor", "divisor"])
    table = known.take(kept.groupby(["field", "unit"], sort=False).ngroup().to_numpy()).set_axis(kept.index)
    values = number[kept.index] * table["factor"].astype("float64") / table["divisor"].astype("float64")
    metric = table["metric"].astype("string")
    of_process = kept["process"].notna()
    named = metric.str.replace("gpu_", "gpu_process_", n=1) + ":" + kept["process"].astype("string")
    result = kept.assign(metric=metric.where(~of_process, named), value=values)
    return result, {"values_not_available": int(absent.sum()), "values_that_are_no_numbers": int(wordy.sum())}


def _number(cell: str) -> float | None:
    """Return a cell's number: P2 is 2, 0x4 is 4, Active is 1; None for other words."""
    if match := _NUMBER.fullmatch(cell):
        return float(match[1])
    if _HEXADECIMAL.fullmatch(cell):
        return float(int(cell, 16))
    return _SWITCHES.get(cell.lower())


def _metric(name: str, unit: str) -> tuple[str, int, int]:
    """Return the metric of a field, and the factor and divisor that convert to its unit."""
    key = name.lower()
    plain = re.sub(r"[^a-z0-9]+", "_", key).strip("_")[:80]
    metric, default = _METRICS.get(key, (plain if plain.startswith("gpu_") else f"gpu_{plain}", ""))
    if unit == "MB" and _MEBIBYTES.fullmatch(key):
        unit = "MiB"
    ending, factor, divisor = _UNITS.get(unit, _UNITS[default]) if unit else _UNITS[default]
    return metric + ending, factor, divisor


def _timed(rows: pd.DataFrame, readings: SmiReadings) -> tuple[pd.DataFrame, str, int]:
    """Return the rows with a time, the clock, and how many rows have no time. Without any time, a GPU's samples are numbered."""
    known = rows["time_ns"].notna()
    if known.any():
        return rows[known], "wall" if readings.dated else "relative", int((~known).sum())
    lines = rows[["sample", "device"]].drop_duplicates()
    turn = lines.groupby(lines["device"].fillna(-1)).cumcount() if readings.form != "pmon" else lines["sample"]
    numbered = rows.drop(columns="time_ns").merge(lines.assign(time_ns=turn), on=["sample", "device"], how="left")
    return numbered, "none", 0


def _info(readings: SmiReadings, clock: str, samples: pd.DataFrame) -> dict[str, Any]:
    tool = "DCGM" if "dcgm" in readings.form.lower() else "nvidia-smi"
    source = {"format": "gpu-samples", "tool": tool, "version": readings.version, "schema": readings.form}
    notes = [_NUMBERS.format(tool)] if samples["device"].notna().any() else []
    if clock == "none":
        notes.append("the file has no times: samples are numbered 0, 1, 2, ... in place of ns")
    elif clock == "wall" and not readings.zoned:
        notes.append("times are in the machine's time zone, which the file does not give: they are read as UTC")
    devices = [{"device": f"cuda:{number}", "name": name} for number, name in sorted(readings.names.items())]
    others = [device for device in samples["device"].dropna().unique() if device not in {entry["device"] for entry in devices}]
    info: dict[str, Any] = {
        "source": source | ({"driver": readings.driver} if readings.driver else {}),
        "clock": clock,
        "devices": devices + [{"device": str(device)} for device in sorted(others)[:1024]],
        "unavailable": {"kernels": f"{tool} samples whole GPUs and sees no kernels"},
        "notes": notes + list(dict.fromkeys(readings.notes)),
    }
    if samples.empty:
        info["unavailable"]["samples"] = "the file has a header but no readable sample"
    return info
