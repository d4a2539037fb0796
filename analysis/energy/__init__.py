"""Energy of a step: in total (`steps`), and by layer and kind of kernel (`layers`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import layer_labels
from kernelscope.analysis.attribution.device_steps import step_at
from kernelscope.analysis.energy.counter import Counter
from kernelscope.analysis.energy.layers import Layers, PowerSamples, by_class, from_counter, from_power
from kernelscope.analysis.energy.profile import profile
from kernelscope.analysis.energy.recording import Consumer, EnergyRepeat, recording
from kernelscope.analysis.energy.replay import Replay, beside
from kernelscope.analysis.energy.replay import replays as replays_of
from kernelscope.analysis.energy.summary import Summary, summarise
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace

KEYS = {"layer": ["layer"], "kind": ["kind"], "both": ["layer", "kind"]}
RAPL_LAG_NS = 1_000_000
_LONGEST_AVERAGE_NS = 500_000_000  # power averaged over more time says less than differences of the energy counter
_LATE = 0.05  # share of device work that may run in another step than the one that launched it


def steps(run: Run) -> list[Summary]:
    """Return the energy per step of each source (GPU, processor, memory); raise EvidenceError if there is no energy pass."""
    result = recording(run)
    return [summarise(result, source) for source in result.sources()]


def of_step(run: Run) -> dict[str, Any]:
    """Return the energy per step of the device that computes, for a table of runs; null if it was not recorded.

    energy_uj, energy_interval_uj and net_energy_uj as in Summary; energy_unavailable: why a recorded pass does not give it.
    """
    nothing = dict.fromkeys(("energy_uj", "energy_interval_uj", "net_energy_uj", "energy_unavailable"))
    if "energy" not in run.record.get("passes", {}):
        return nothing
    try:
        result = recording(run)
        summary = summarise(result, _computing(result, run.record["options"]["device"]))
    except EvidenceError as error:
        return {**nothing, "energy_unavailable": str(error)}
    interval = None if summary.low_uj is None else [summary.low_uj, summary.high_uj]
    return {**nothing, "energy_uj": summary.energy_uj, "energy_interval_uj": interval, "net_energy_uj": summary.net_uj}


def layers(run: Run, by: str = "layer") -> Layers:
    """Split the energy per step of the device that computes by layer, by kind of kernel, or by both (a key of KEYS).

    By layer, the rows also have the energy of each layer that ran alone (see replay), else null. Raises EvidenceError if there is
    no energy pass or no kernels pass, or if their evidence is not good enough.
    """
    result = recording(run)
    source = _computing(result, run.record["options"]["device"])
    summary = summarise(result, source)
    trace = run.trace()
    kernels = trace.kernels[(trace.kernels["device"] == source.device).fillna(False)]
    measured = trace.steps[~trace.steps["warmup"]]
    _check_places(kernels, trace)
    labelled = kernels.assign(layer=layer_labels(kernels.assign(cause=None)), kind=kernels["kind"].astype("string"))
    place = profile(labelled, measured, KEYS[by])
    readings = _readings(result, source, run.record)
    split = by_class(place, readings, result.measured(), source.counter, summary.energy_uj, summary.idle_w)
    return replace(split, rows=beside(split.rows, replays_of(result, source, summary))) if by == "layer" else split


def replays(run: Run) -> list[Replay]:
    """Return the energy of layers that ran alone; needs no kernels pass. Raises EvidenceError if there is no energy pass."""
    result = recording(run)
    source = _computing(result, run.record["options"]["device"])
    return replays_of(result, source, summarise(result, source))


def _computing(repeat: EnergyRepeat, device: str) -> Consumer:
    """Return the source on which the kernels run: the GPU, or all of the processor's packages together."""
    sources = repeat.sources()
    if device != "cpu":
        gpus = [source for source in sources if source.device.startswith("cuda")]
        if not gpus:
            raise EvidenceError(f"{repeat.folder}: no energy counter of a GPU; its energy by layer is unknown")
        return gpus[0]
    packages = [source for source in sources if source.name.startswith("processor")]
    if not packages:
        raise EvidenceError(f"{repeat.folder}: no energy counter of a processor; its energy by layer is unknown")
    if len(packages) == 1:
        return packages[0]
    count = min(len(source.counter.time_ns) for source in packages)  # they are polled together
    joules = np.sum([source.counter.joules[:count] for source in packages], axis=0)
    return Consumer("processors", "cpu", Counter(f"{repeat.folder}: processors", packages[0].counter.time_ns[:count], joules))


def _readings(repeat: EnergyRepeat, source: Consumer, record: dict[str, Any]) -> PowerSamples:
    """Return the power samples of a source: from a GPU's power field if it is fast, else from the energy counter."""
    if source.device == "cpu":
        return from_counter(source.counter, RAPL_LAG_NS)
    power = repeat.readings("gpu_power_w", source.device)
    windows = _averaged(repeat.sampling, source.device, record)
    if len(power) and max(windows, default=0) <= _LONGEST_AVERAGE_NS:
        return from_power(power["time_ns"].to_numpy(np.int64), power["value"].to_numpy(float), windows)
    return from_counter(source.counter)


def _averaged(sampling: dict[str, Any], device: str, record: dict[str, Any]) -> list[int]:
    """Return the times (ns) over which the GPU's power may be averaged, from the sampler; empty: one update period."""
    index = next((gpu.get("index") for gpu in record.get("gpus", []) if gpu.get("device") == device), None)
    for source in sampling.get("sources", []):
        for gpu in source.get("gpus", []):
            if gpu.get("index") == index:
                return [int(value) for value in gpu.get("power", {}).get("windows_ns", [])]
    return []


def _check_places(kernels: pd.DataFrame, trace: Trace) -> None:
    """Raise EvidenceError if much of the device's work runs in a later step than the one that launched it.

    The energy pass knows only the host's steps, and these do not say then what the device does.
    """
    timed = kernels[kernels["launch_ns"].notna() & kernels["start_ns"].notna()]
    if timed.empty:
        return
    launched, ran = (step_at(timed[name], trace.steps) for name in ("launch_ns", "start_ns"))
    late = (launched != ran).fillna(False).to_numpy(bool)
    share = float(timed["duration_ns"][late].sum()) / max(float(timed["duration_ns"].sum()), 1.0)
    if share > _LATE:
        raise EvidenceError(
            f"{share:.0%} of the device's work runs in a later step than the one that launched it: where in a step its layers run"
            " is unknown, and so is their energy"
        )
