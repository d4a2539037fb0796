"""How busy the cores were during a run's clean pass, reading by reading, and how much of it was other processes' work."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import PassData, Run

COLUMNS = ("core", "start_ns", "end_ns", "busy")
FOREIGN_CORES = 0.25  # least cores' worth of others' work that counts: sampling costs a few percent of one
OTHERS = 0.5  # cores kept busy by other processes: from here on, steps sometimes wait for a core
_LEAST_SAMPLES = 10  # per core: fewer give no reliable mean


def foreign(samples: pd.DataFrame, steps: pd.DataFrame) -> float | None:
    """Return how many cores other processes kept busy during steps; None if not sampled, or not often enough.

    samples, steps: the Trace's tables of these names, steps without warm-up. The result is the cores' busy share minus the
    process's own processor time per wall time.
    """
    cores = samples[(samples["metric"] == "core_busy").to_numpy(bool)]
    used = (steps["user_ns"] + steps["system_ns"]).dropna()
    wall = float((steps["end_ns"] - steps["start_ns"]).sum())
    if len(cores) < _LEAST_SAMPLES * cores["core"].nunique() or cores.empty or len(used) < len(steps) or wall <= 0:
        return None
    busy = float(cores.groupby("core")["value"].mean().sum())
    return max(0.0, busy - float(used.sum()) / wall)


def foreign_of_clean(run: Run) -> float | None:
    """Return how many cores others kept busy over all restarts of the clean pass, from its samples; None if unknown."""
    restarts = run.passes("clean")
    return foreign_of_restarts(restarts, pd.concat([data.samples() for data in restarts])) if restarts else None


def foreign_of_restarts(restarts: Sequence[PassData], samples: pd.DataFrame) -> float | None:
    """Return the same for restarts whose samples were read already."""
    return foreign(samples, pd.concat([data.measured for data in restarts]))


def foreign_of_run(run: Run) -> float | None:
    """Return how many cores other processes kept busy while a run's passes were recorded; None if not recorded."""
    noted = [
        (float(data.report["foreign_cores"]), float((data.steps["end_ns"] - data.steps["start_ns"]).sum()))
        for name in ("clean", "layers", "kernels", "lines")
        for data in run.passes(name)
        if isinstance(data.report.get("foreign_cores"), (int, float))
    ]
    wall = sum(lasted for _, lasted in noted)
    return sum(cores * lasted for cores, lasted in noted) / wall if wall > 0 else None


def others(foreign_cores: float | None, cores: float | None) -> dict[str, float] | None:
    """Return {"cores", "others"} for sentences; None if unknown, or too little to affect a step."""
    if foreign_cores is None or not cores or foreign_cores < OTHERS:
        return None
    return {"cores": cores, "others": round(foreign_cores, 2)}


def timeline(run: Run, repeat: int = 0) -> pd.DataFrame:
    """Return one row for each reading: core, start_ns, end_ns since the first measured window began, and busy share, 0 to 1.

    The clock runs only during the run's turns: time between windows and warm-up are left out. A reading covers the time since
    the previous one in the same window, or since the window's first step. Raises EvidenceError if nothing was sampled.
    """
    restarts = run.passes("clean")
    if repeat >= len(restarts):
        raise EvidenceError(f"{run.path}: its clean pass has no restart {repeat + 1}; record it again")
    data = restarts[repeat]
    samples = data.samples()
    samples = samples[(samples["metric"] == "core_busy") & samples["core"].notna()]
    windows = data.measured.groupby("window")["start_ns"].min().sort_index()
    rows: list[tuple[int, int, int, float]] = []
    elapsed = 0
    for window, begin in windows.items():
        mine = samples[(samples["window"] == window) & (samples["time_ns"] > begin)].sort_values("time_ns")
        before: dict[int, int] = {}
        for core, at, busy in zip(mine["core"], mine["time_ns"], mine["value"], strict=True):
            rows.append((int(core), elapsed + before.get(core, 0), elapsed + int(at - begin), float(busy)))
            before[core] = int(at - begin)
        elapsed += max(before.values(), default=0)
    if not rows:
        raise EvidenceError(f"{run.path}: the use of cores was not sampled; record it again")
    return pd.DataFrame(rows, columns=list(COLUMNS))


def binned(readings: pd.DataFrame, bins: int) -> pd.DataFrame:
    """Return the mean busy share by core (rows) and equal parts of the time (columns: start_ns); NaN without readings."""
    width = max(int(readings["end_ns"].max()), 1) / bins
    shares: dict[tuple[int, int], list[float]] = {}
    for core, start, end, busy in readings[list(COLUMNS)].itertuples(index=False):
        for place in range(int(start // width), min(int(end // width) + 1, bins)):
            covered = min(end, (place + 1) * width) - max(start, place * width)
            if covered > 0:
                weight = shares.setdefault((core, place), [0.0, 0.0])
                weight[0] += busy * covered
                weight[1] += covered
    means = {key: total / covered for key, (total, covered) in shares.items()}
    table = pd.Series(means).unstack()
    table = table.reindex(index=sorted(readings["core"].unique()), columns=range(bins))
    table.columns = pd.Index([round(place * width) for place in range(bins)], name="start_ns")
    table.index.name = "core"
    return table
