"""The energy pass of a run folder: its windows and steps, and the counters and power readings polled meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.json

from kernelscope.analysis.energy.counter import Counter
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import parquet_files
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import PROFILE
from kernelscope.analysis.trace.records import read_table

NAME = "energy"
COUNTERS = {"gpu_energy_j": "GPU", "cpu_energy_j": "processor", "dram_energy_j": "memory"}
_COLUMNS = ("time_ns", "core", "device", "metric", "value")


@dataclass(frozen=True)
class Consumer:
    """A consumer of energy: a GPU (device "cuda:0"), or a processor's package or its memory (device "cpu")."""

    name: str
    device: str
    counter: Counter


@dataclass(frozen=True)
class EnergyRepeat:
    """One repeat of the energy pass.

    windows: kind (idle, warmup, window, replay), window, start_ns, end_ns, as tracer.outside.energy wrote them. steps: the
    Trace's table. samples: time_ns, core, device, metric, value. sampling: the sources' description of themselves.
    """

    folder: Path
    windows: pd.DataFrame
    steps: pd.DataFrame
    samples: pd.DataFrame
    batch: int
    sampling: dict[str, Any]

    def sources(self) -> list[Consumer]:
        """Return every polled energy counter, GPUs first; raise EvidenceError if there is none."""
        result = []
        for metric, what in COUNTERS.items():
            mine = self.samples[self.samples["metric"] == metric]
            for _, rows in mine.groupby(["device", "core"], dropna=False, sort=True):
                device = str(rows["device"].iloc[0]) if metric == "gpu_energy_j" else "cpu"
                name = f"{what} {int(rows['core'].iloc[0])}" if device == "cpu" else device
                counter = Counter(f"{self.folder}: {name}", rows["time_ns"].to_numpy(np.int64), rows["value"].to_numpy(float))
                result.append(Consumer(name, device, counter))
        if not result:
            raise EvidenceError(
                f"{self.folder}: no energy counter in samples.parquet; run again with --energy where one can be read"
            )
        return result

    def readings(self, metric: str, device: str) -> pd.DataFrame:
        """Return the readings of one GPU's metric in order of time."""
        mine = self.samples[(self.samples["metric"] == metric) & (self.samples["device"] == device)]
        return mine.sort_values("time_ns", ignore_index=True)

    def spans(self, kind: str) -> list[tuple[int, int]]:
        """Return (start_ns, end_ns) of the windows of one kind, in order."""
        rows = self.windows[self.windows["kind"] == kind]
        return [(int(start), int(end)) for start, end in zip(rows["start_ns"], rows["end_ns"], strict=True)]

    def measured(self) -> list[pd.DataFrame]:
        """Return the steps of each measured window, in order of time; raise EvidenceError if there is none."""
        numbers = self.windows.loc[self.windows["kind"] == "window", "window"]
        steps = [self.steps[self.steps["window"] == number].sort_values("start_ns") for number in numbers]
        result = [table for table in steps if len(table)]
        if not result:
            raise EvidenceError(f"{self.folder}: no measured window; the energy pass ended before its first")
        return result


def recording(run: Run) -> EnergyRepeat:
    """Return the energy pass of a run folder; raise EvidenceError, with the run's own reason, if it has none."""
    entry = run.record.get("passes", {}).get(NAME, {})
    folders = [run.path / relative for relative in entry.get("folders", [])]
    whole = [folder for folder in folders if (folder / "windows.jsonl").is_file() and (folder / "samples.parquet").is_file()]
    if not whole:
        profiled = run.record.get("recorder") == PROFILE
        usual = "it is not recorded for scripts" if profiled else "it was not recorded; run again with --energy"
        raise EvidenceError(
            f"{run.path}: no energy: {entry.get('reason') or run.record.get('unavailable', {}).get(NAME) or usual}"
        )
    folder = whole[-1]
    steps = read_table(folder / "steps.jsonl", "steps")
    sampling = entry.get("sampling") or {}
    batch = int(run.record["options"]["batch"])
    return EnergyRepeat(folder, _windows(folder / "windows.jsonl"), steps, _samples(folder / "samples.parquet"), batch, sampling)


def _windows(path: Path) -> pd.DataFrame:
    try:
        table = pyarrow.json.read_json(path).to_pandas()
    except pa.ArrowInvalid as error:
        raise EvidenceError(f"{path}: not JSON Lines ({str(error).splitlines()[0]}); record the run again") from error
    missing = {"kind", "window", "start_ns", "end_ns"} - set(table)
    if missing or table[["start_ns", "end_ns"]].isna().any(axis=None):
        raise EvidenceError(f"{path}: lacks {', '.join(sorted(missing)) or 'times'}; record the run again")
    return table


def _samples(path: Path) -> pd.DataFrame:
    try:
        table = parquet_files.frame(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise EvidenceError(f"{path}: not a parquet file ({str(error).splitlines()[0]}); record the run again") from error
    missing = set(_COLUMNS) - set(table)
    if missing:
        raise EvidenceError(f"{path}: lacks the column {sorted(missing)[0]}; record the run again")
    return table.astype({"device": "string", "metric": "string", "value": "float64", "time_ns": "int64"})
