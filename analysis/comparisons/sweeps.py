"""A sweep's folder as reports see it: sweep.json, one row per cell in results.parquet, and one run folder per cell in
cells/<key>.

A cell is one combination of framework, network, mode, batch and so on. Its numbers come from its run folder's clean pass, as in
`compare`, so both show the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from kernelscope.analysis import energy
from kernelscope.analysis.accounting.statistics import interval_of_median, median_step_ns
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import parquet_files
from kernelscope.analysis.recordings import archives, core_use
from kernelscope.analysis.recordings.run import PassData, Run
from kernelscope.analysis.trace.records import check_schema, read_object
from kernelscope.tracer.inside import durable

SCHEMA_NAME, SCHEMA_VERSION = "kernelscope/sweep", 1
SWEEP_FILE, RESULTS_FILE, CELLS = "sweep.json", "results.parquet", "cells"
DONE = "done"
STATUSES = (DONE, "failed", "out of memory", "timeout", "not available", "left out")
_MIB = 1 << 20


@dataclass(frozen=True)
class ResultColumn:
    """One column of results.parquet: type, unit and meaning. Only `required` columns are never null."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    required: bool = False


def _columns(*rows: tuple[Any, ...]) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(*row) for row in rows)


_NUMBERS = pa.list_(pa.float64())
COLUMNS = _columns(
    ("cell", pa.string(), "", "key of the cell, the name of its folder", True),
    ("experiment", pa.string(), "", "experiment of the literature that the sweep repeats; null for any other"),
    ("framework", pa.string(), "", "framework, as `run -f` takes it", True),
    ("version", pa.string(), "", "the framework's version; null if it is not set up"),
    ("network", pa.string(), "", "network, as `run` takes it", True),
    ("mode", pa.string(), "", "what a step is: train or infer", True),
    ("batch", pa.int64(), "", "samples of a step", True),
    ("threads", pa.int64(), "", "processor threads that the framework was given", True),
    ("device", pa.string(), "", "cpu or cuda", True),
    ("devices", pa.int64(), "", "how many devices share a step", True),
    ("precision", pa.string(), "", "float32, float16 or bfloat16; null is the framework's default"),
    ("layout", pa.string(), "", "channels_first or channels_last; null is the framework's default"),
    ("autotune", pa.bool_(), "", "whether convolution algorithms are tried out; null is the framework's default"),
    ("hardware", pa.string(), "", "processor and cores, or GPUs, that it ran on or would have run on"),
    ("status", pa.string(), "", "one of STATUSES", True),
    ("reason", pa.string(), "", "why it is not done; null if it is"),
    ("folder", pa.string(), "", "run folder, relative to the sweep's folder; null if nothing was recorded"),
    ("step_ns", pa.int64(), "ns", "median time of a step over the windows of all restarts"),
    ("step_low_ns", pa.int64(), "ns", "lower end of its 95% interval; null with a single restart"),
    ("step_high_ns", pa.int64(), "ns", "upper end of its 95% interval"),
    ("repeats", pa.int64(), "", "restarts of the clean pass"),
    ("samples_per_second", pa.float64(), "1/s", "batch divided by the median step"),
    ("samples_per_second_low", pa.float64(), "1/s", "the same for step_high_ns"),
    ("samples_per_second_high", pa.float64(), "1/s", "the same for step_low_ns"),
    ("repeat_samples_per_second", _NUMBERS, "1/s", "for each restart: batch divided by the median over its windows"),
    ("power_w", pa.float64(), "W", "mean power of what computes: of the GPUs in the clean windows, or from the energy pass"),
    ("gpu_memory_mib", pa.float64(), "MiB", "most GPU memory that the process held; if NVML does not report that, all processes"),
    ("host_memory_mib", pa.float64(), "MiB", "most resident memory of the process, over all restarts"),
    ("processor_utilisation", _NUMBERS, "", "mean share of the clean windows in which each core was busy"),
    ("foreign_cores", pa.float64(), "", "cores that other processes kept busy while its steps ran"),
    ("lines_of_code", pa.int64(), "", "lines that the workload takes in this framework for this network and mode"),
    ("energy_j_per_sample", pa.float64(), "J", "gross energy of a sample from the energy pass"),
    ("started", pa.string(), "", "when the cell started: ISO 8601, UTC"),
    ("seconds", pa.float64(), "s", "time of the cell, including start and end of its processes"),
)
SCHEMA = pa.schema([pa.field(column.name, column.type, nullable=not column.required) for column in COLUMNS])


@dataclass(frozen=True)
class Sweep:
    """A sweep as it is on disk. record: the content of sweep.json. cells: one row per cell with the COLUMNS, in the sweep's
    order.
    """

    folder: Path
    record: dict[str, Any]
    cells: pd.DataFrame

    @property
    def name(self) -> str:
        """What the sweep is called."""
        return str(self.record["name"])

    @property
    def experiment(self) -> str | None:
        """The literature's experiment that it repeats, by the name of its file; None for any other."""
        return self.record.get("experiment")

    def done(self) -> pd.DataFrame:
        """Return the cells that came to their end."""
        return self.cells[self.cells["status"] == DONE]


def read(path: Path | str) -> Sweep:
    """Return the sweep in a folder or an archive of one; raise EvidenceError when it is none, or damaged.

    Text columns hold None where they are null, integers are pandas' Int64, numbers float64 with NaN for null, and lists numpy
    arrays or None.
    """
    folder = archives.folder(Path(path))
    file = folder / SWEEP_FILE
    if not file.is_file():
        raise EvidenceError(f"{folder}: not a sweep (no {SWEEP_FILE}); name a folder that `sweep` wrote")
    record = read_object(file)
    check_schema(file, str(record.get("schema")), SCHEMA_NAME, SCHEMA_VERSION, "name a folder that `sweep` wrote")
    return Sweep(folder, record, _frame(_table(folder / RESULTS_FILE)))


def _table(file: Path) -> pa.Table:
    try:
        table = parquet_files.read(file)
    except FileNotFoundError:
        raise EvidenceError(f"{file}: missing; run `kernelscope sweep` again to rewrite it") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EvidenceError(f"{file}: damaged ({reason}); run `kernelscope sweep` again to rewrite it") from error
    missing = [column.name for column in COLUMNS if column.name not in table.column_names]
    if missing:
        raise EvidenceError(f"{file}: no column {missing[0]}; run `kernelscope sweep` again to rewrite it")
    try:
        table = table.select(SCHEMA.names).cast(SCHEMA)
    except (ValueError, pa.ArrowException) as error:
        raise EvidenceError(f"{file}: {str(error).splitlines()[0]}; run `kernelscope sweep` again to rewrite it") from error
    unknown = [status for status in table["status"].to_pylist() if status not in STATUSES]
    if unknown:
        raise EvidenceError(f"{file}: {unknown[0]!r} is not a status of a cell; upgrade kernelscope")
    return table


def _frame(table: pa.Table) -> pd.DataFrame:
    kinds = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=kinds.get)
    for column in COLUMNS:
        if column.type == pa.string():  # pandas would turn nulls into NaN
            frame[column.name] = pd.Series(table[column.name].to_pylist(), dtype=object, index=frame.index)
    return frame


def write(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace results.parquet with these rows, missing columns as null; a reader sees either the old or the new file."""
    table = pa.Table.from_pylist([{name: row.get(name) for name in SCHEMA.names} for row in rows], schema=SCHEMA)
    new = folder / (RESULTS_FILE + ".new")
    parquet_files.write(table, new)
    durable.replace(new, folder / RESULTS_FILE)


def measured(path: Path) -> dict[str, Any]:
    """Return the values from a cell's run folder: the known columns from step_ns to energy_j_per_sample, and the version.

    Raises EvidenceError if no restart of the clean pass finished.
    """
    run = Run(path)
    restarts = run.passes("clean")
    if not restarts:
        raise EvidenceError(f"{path}: no clean pass finished; run it again")
    batch = int(run.record["options"]["batch"])
    repeats = [data.measured for data in restarts]
    step_ns, interval = median_step_ns(repeats), interval_of_median(repeats)
    peaks = [data.report.get("memory", {}).get("peak_resident_bytes") for data in restarts]
    lines = [data.report.get("lines_of_code") for data in restarts]
    samples = pd.concat([data.samples() for data in restarts], ignore_index=True)
    return {
        "version": run.record.get("version"),
        "step_ns": step_ns,
        **_interval(batch, interval),
        "repeats": len(repeats),
        "samples_per_second": _rate(batch, step_ns),
        "repeat_samples_per_second": [_rate(batch, median_step_ns([steps])) for steps in repeats],
        "power_w": _power(samples),
        "gpu_memory_mib": _gpu_memory(samples),
        "host_memory_mib": max((peak / _MIB for peak in peaks if peak), default=None),
        "processor_utilisation": _utilisation(samples),
        "foreign_cores": _foreign_cores(run, samples, restarts),
        "lines_of_code": next((count for count in lines if count is not None), None),
        **_energy(run),
    }


def _rate(batch: int, step_ns: int) -> float:
    return batch / (step_ns / 1e9)


def _interval(batch: int, interval: tuple[int, int] | None) -> dict[str, Any]:
    if interval is None:
        return {}
    low, high = interval
    rates = {"samples_per_second_low": _rate(batch, high), "samples_per_second_high": _rate(batch, low)}
    return {"step_low_ns": low, "step_high_ns": high, **rates}


def _of(samples: pd.DataFrame, metric: str) -> pd.DataFrame:
    return samples[samples["metric"] == metric]


def _power(samples: pd.DataFrame) -> float | None:
    """Return the mean power in W of all GPUs together; None without a GPU."""
    by_gpu = _of(samples, "gpu_power_w").groupby("device", observed=True)["value"].mean()
    return float(by_gpu.sum()) if len(by_gpu) else None


def _gpu_memory(samples: pd.DataFrame) -> float | None:
    """Return the most memory in MiB held on all GPUs together: by the process if NVML reports that, else by all processes."""
    for metric in ("gpu_process_memory_bytes", "gpu_memory_bytes"):
        by_gpu = _of(samples, metric).groupby("device", observed=True)["value"].max()
        if len(by_gpu):
            return float(by_gpu.sum()) / _MIB
    return None


def _utilisation(samples: pd.DataFrame) -> list[float] | None:
    by_core = _of(samples, "core_busy").groupby("core")["value"].mean()
    return [float(share) for share in by_core] or None


def _foreign_cores(run: Run, samples: pd.DataFrame, restarts: Sequence[PassData]) -> float | None:
    """Return how many cores other processes kept busy over all restarts; None if unknown, as with several ranks."""
    if (run.record["options"].get("devices") or 1) > 1:
        return None
    return core_use.foreign_of_restarts(restarts, samples)


def disturbed(cells: Iterable[Mapping[str, Any]]) -> str | None:
    """Say during how many of these cells other processes worked; None if no cell is known to be affected.

    Their numbers are affected, too: threads that wait for one another also wait for those processes.
    """
    result = [float(cell["foreign_cores"]) for cell in cells if cell["foreign_cores"] is not None]
    busy = sorted(cores for cores in result if cores >= core_use.FOREIGN_CORES)
    if not busy:
        return None
    most = f"{busy[0]:.1f} to {busy[-1]:.1f} cores" if len(busy) > 1 else f"{busy[0]:.1f} cores"
    return (
        f"other processes kept {most} busy during {len(busy)} of {len(result)} cells for which this is known: their numbers "
        "include that load; measure them again on an otherwise idle machine"
    )


def _energy(run: Run) -> dict[str, Any]:
    """Return energy and power from the energy pass; empty if there is none, or its counter does not cover what computes."""
    computing = "cuda" if run.record["options"]["device"] == "cuda" else "processor"
    try:
        result = [summary for summary in energy.steps(run) if summary.source.startswith(computing)]
    except EvidenceError:
        return {}
    if not result:
        return {}
    joules = sum(summary.sample_uj for summary in result) / 1e6
    return {"power_w": sum(summary.power_w for summary in result), "energy_j_per_sample": joules}
