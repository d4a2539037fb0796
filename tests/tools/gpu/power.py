"""Checks of NVML, of which device a process sees, and of energy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from outcomes import Check, Findings, NotRun
from place import KERNELSCOPE, Place

from kernelscope.analysis.energy.recording import recording
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import energy, gpu
from kernelscope.tracer.outside.samplers.nvml import NvmlSource

CRUDE = 0.25  # how far the counter and a plain integral of power samples may be apart
SAMPLES = 10
ENERGY_S = 900.0
_SEEN = "import json; from kernelscope.tracer.inside import cuda_devices; print(json.dumps(cuda_devices.seen()))"


def checks(place: Place) -> Iterator[Check]:
    """NVML's fields and periods, visible devices, and the energy of one framework's run; none needs a recording."""
    yield Check("NVML fields", "all GPUs", partial(fields, place=place))
    yield Check("NVML update periods", "all GPUs", partial(periods, place=place))
    yield Check("visible devices", "CUDA_VISIBLE_DEVICES", partial(visible, place=place))
    yield Check("MIG", "all GPUs", partial(mig, place=place))
    yield Check("energy", "first framework", partial(joules, place=place), ENERGY_S)


def fields(found: Findings, place: Place) -> None:
    """What NVML offers of each GPU is stated; power is needed."""
    place.need_gpu()
    source = NvmlSource()
    found.expect(source.unavailable is None, str(source.unavailable))
    values: dict[str, list[float]] = {}
    for _ in range(SAMPLES):
        for sample in source.sample(None):
            values.setdefault(f"{sample.gpu} {sample.metric}", []).append(sample.value)
    for about in source.describe().get("gpus", []):
        found.measured |= {f"{about['index']} {key}": about[key] for key in ("power", "not_offered", "notes")}
        found.expect("gpu_power_w" not in about["not_offered"], f"GPU {about['index']} tells no power")
    found.measured |= {name: [min(numbers), max(numbers)] for name, numbers in values.items()}


def periods(found: Findings, place: Place) -> None:
    """How often power and the energy counter change, as measured."""
    place.need_gpu()
    for about in NvmlSource(measure=True).describe().get("gpus", []):
        told = about["update_periods"] or {}
        found.measured |= {f"{about['index']} {key}": value for key, value in told.items()}
        if "gpu_energy_j" not in about["not_offered"]:
            found.expect(told.get("gpu_energy_j_ns") is not None, f"GPU {about['index']}: the counter's period is not known")


def visible(found: Findings, place: Place) -> None:
    """What CUDA shows a process is what `gpu.visible` says beforehand, and is found again among NVML's by UUID."""
    place.need_gpu()
    devices = place.gpus
    numbers = ",".join(str(number) for number in reversed(range(len(devices))))
    asked = [None, "0", "-1", numbers, *(device.uuid for device in devices), *(m.uuid for d in devices for m in d.mig)]
    for text in dict.fromkeys(asked):
        variables = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if text is not None:
            variables["CUDA_VISIBLE_DEVICES"] = text
        done = place.inside(place.first(), "-c", _SEEN, variables=variables)
        if done.status:
            found.wrong.append(f"{text}: {done.last}")
            continue
        told = json.loads(done.out.splitlines()[-1])
        matched = _identities(gpu.reported(told, devices))
        found.measured[f"shown for {text}"] = matched
        found.expect(len(matched) == len(told), f"{text}: CUDA shows {told}, of which NVML knows {len(matched)}")
        expected = _identities(gpu.visible(variables, devices))
        found.expect(matched == expected, f"{text}: CUDA shows {matched}, foretold was {expected}")


def _identities(seen: list[gpu.Seen]) -> list[str | None]:
    return [entry.mig.uuid if entry.mig else entry.gpu.uuid for entry in seen]


def reported(found: Findings, place: Place) -> None:
    """Every recording says by UUID which GPU its process used."""
    place.need_gpu()
    if not place.runs:
        raise NotRun("nothing was recorded")
    for (framework, collector), folder in place.runs.items():
        told = Run(folder).record.get("gpus") or []
        found.measured[f"{framework}, {collector}"] = [[entry["device"], entry["uuid"], entry["method"]] for entry in told]
        found.expect(bool(told) and "told" in told[0]["method"], f"{framework}, {collector}: not told by its process")


def mig(found: Findings, place: Place) -> None:
    """On a divided GPU one framework runs on an instance, and the record says so."""
    place.need_gpu()
    instances = [instance for device in place.gpus for instance in device.mig]
    if not instances:
        raise NotRun("no GPU here is divided (MIG)")
    folder = place.folder / "runs" / "mig"
    done = place.run(place.first(), folder, "--steps", "5", variables={"CUDA_VISIBLE_DEVICES": instances[0].uuid})
    found.expect(done.status == 0, done.last)
    told = Run(folder).record.get("gpus") or []
    found.measured |= {"instance": instances[0].uuid, "recorded": told}
    found.expect(bool(told) and told[0].get("mig") == instances[0].uuid, "the recording does not name the instance")


def joules(found: Findings, place: Place) -> None:
    """Joules per step by the counter, above zero and above net, against a plain integral of the power samples."""
    place.need_gpu()
    reason = energy.sources("cuda")[1]
    if reason is not None:
        raise NotRun(reason)
    folder = place.folder / "runs" / "energy"
    done = place.run(place.first(), folder, "--energy")
    found.expect(done.status == 0, done.last)
    shown = place.command([*KERNELSCOPE, "energy", folder, "--format", "json"])
    if shown.status:
        found.wrong.append(shown.last)
        return
    integral = crude_microjoules(folder)
    for row in json.loads(shown.out)["rows"]:
        source = row["source"]
        keys = ("energy_uj", "low_uj", "high_uj", "net_uj", "idle_w", "power_w", "step_ns", "update_ns", "steady")
        found.measured |= {f"{source} {key}": row[key] for key in keys}
        found.expect(row["energy_uj"] > 0, f"{source}: a step takes no energy")
        if row["net_uj"] is not None:
            found.expect(row["net_uj"] < row["energy_uj"], f"{source}: net energy is not below gross")
        if source in integral:
            ratio = row["energy_uj"] / integral[source]
            found.measured |= {f"{source} integral_uj": round(integral[source]), f"{source} counter by integral": round(ratio, 4)}
            found.expect(abs(ratio - 1) <= CRUDE, f"{source}: the counter says {ratio:.2f} times the integral of power")
    layers = place.command([*KERNELSCOPE, "energy", folder, "--by", "layer", "--format", "json"])
    found.measured["by layer"] = layers.last if layers.status else f"{len(json.loads(layers.out)['rows'])} rows"


def crude_microjoules(folder: Path) -> dict[str, float]:
    """Return uJ per step of each GPU: the trapezoids of its power samples in the measured windows, by their steps."""
    energy_folder = recording(Run(folder)).folder
    windows = [json.loads(line) for line in (energy_folder / "windows.jsonl").read_text().splitlines()]
    steps = [json.loads(line) for line in (energy_folder / "steps.jsonl").read_text().splitlines()]
    samples = [row for row in pq.read_table(energy_folder / "samples.parquet").to_pylist() if row["metric"] == "gpu_power_w"]
    found: dict[str, float] = {}
    for device in {row["device"] for row in samples}:
        mine = sorted((row["time_ns"], row["value"]) for row in samples if row["device"] == device)
        spans = [_span(steps, window) for window in windows if window["kind"] == "window"]
        total = sum(_integral(mine, start, end) for start, end, _ in spans)
        found[device] = total / sum(count for *_, count in spans) * 1e6
    return found


def _span(steps: list[Mapping[str, Any]], window: Mapping[str, Any]) -> tuple[int, int, int]:
    mine = [step for step in steps if step["window"] == window["window"]]
    return min(step["start_ns"] for step in mine), max(step["end_ns"] for step in mine), len(mine)


def _integral(samples: list[tuple[int, float]], start: int, end: int) -> float:
    """Return joules between two times; the power at the edges is interpolated."""
    times, watts = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    inside = (times > start) & (times < end)
    at = np.concatenate([[start], times[inside], [end]])
    power = np.interp(at, times, watts)
    return sum((a + b) / 2 * (y - x) for (x, a), (y, b) in itertools.pairwise(zip(at, power, strict=True))) / 1e9
