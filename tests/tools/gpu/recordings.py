"""Checks of recordings: made here by every framework and collector, or on another machine by the portable agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import counted
import numpy as np
from outcomes import Check, Findings, NotRun
from place import Place, Side

import kernelscope as ks
from kernelscope.analysis.accounting.breakdowns import BY, breakdown
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace
from kernelscope.tracer.outside import collectors

COVERED = 0.85  # of the step must be in known layers or named parts of it, where the processor computes
ON_GPU = 0.95  # of the kernels' time must be, where a GPU does; there a small network's step is mostly the host's
EDGE_NS = 50_000  # how far the ranges in a capture and our own steps may be apart: kernels at an edge may count or not
RECORD_S = 420.0
COMPILED = ("jax", "keras-jax")  # by XLA
FILES = ("nsys.sqlite", "nvprof.sqlite", "cupti.records", "operators.pt.trace.json.gz")


def made_here(place: Place) -> Iterator[Check]:
    """Every framework under every collector, and what was recorded; what cannot be used here is not run, with the reason."""
    for side in place.sides:
        for collector in collectors.NAMES:
            subject = f"{side.framework}, {collector}"
            yield Check("record", subject, partial(record, place=place, side=side, collector=collector), RECORD_S)
            if (side.framework, collector) in place.runs:
                yield from of_a_run(place.runs[side.framework, collector], subject, place.device == "cuda")
        mine = {collector: folder for (framework, collector), folder in place.runs.items() if framework == side.framework}
        if place.device == "cuda" and mine:
            yield Check("collectors agree", side.framework, partial(agree, folders=mine))


def of_a_run(folder: Path, subject: str, on_gpu: bool) -> Iterator[Check]:
    """What can be said of one recording."""
    yield Check("kernels recorded", subject, partial(kernels, folder=folder, on_gpu=on_gpu))
    yield Check("NVTX ranges arrived", subject, partial(ranges, folder=folder))
    if on_gpu:
        yield Check("sums as in the file", subject, partial(sums, folder=folder))
    yield Check("rows add up, layers covered", subject, partial(rows, folder=folder))


def record(found: Findings, place: Place, side: Side, collector: str) -> None:
    """Record; the run must come to its end."""
    if place.device == "cpu" and collector != "nsys":
        place.need_gpu()
    if side.environment is None:
        raise NotRun(side.missing or "not set up")
    reason = collectors.usable(collector, side.framework, place.device, side.environment)
    if reason is not None:
        raise NotRun(reason)
    folder = place.folder / "runs" / f"{side.framework}-{collector}"
    done = place.run(side, folder, "--collector", collector)
    found.expect(done.status == 0, done.last)
    found.measured["warnings"] = [line for line in done.err.splitlines() if "warning:" in line]
    run = Run(folder)
    found.measured |= {"version": run.record["version"], "collector": run.record["passes"].get("kernels", {}).get("collector")}
    found.expect(run.complete, f"not complete: {run.record.get('reason')}")
    if run.complete:
        place.runs[side.framework, collector] = folder


def _on_device(trace: Trace) -> np.ndarray:
    return (trace.kernels["device"].astype("string") != "cpu").to_numpy(dtype=bool)


def per_step(trace: Trace, library: str | None = None) -> list[int]:
    """Return how many kernels of a device, of a library only where one is named, each measured step launched, in order."""
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    mine = trace.kernels[_on_device(trace)]
    mine = mine if library is None else mine[(mine["library"] == library).to_numpy(bool)]
    launched = mine["launch_ns"].fillna(mine["start_ns"]).to_numpy(np.int64)
    place = np.searchsorted(steps["start_ns"].to_numpy(np.int64), launched, side="right") - 1
    inside = (place >= 0) & (launched < steps["end_ns"].to_numpy(np.int64)[np.maximum(place, 0)])
    return np.bincount(place[inside], minlength=len(steps)).tolist()


def kernels(found: Findings, folder: Path, on_gpu: bool) -> None:
    """There are kernels: of the GPU where it ran on one, else of the libraries."""
    run = Run(folder)
    trace = run.trace()
    found.measured |= {"steps": int((~trace.steps["warmup"]).sum()), "kernels": len(trace.kernels)}
    if not on_gpu:
        found.measured["calls"] = trace.calls["api"].astype("string").value_counts().to_dict()
        found.expect(len(trace.kernels) > 0, "no kernel was recorded")
        return
    counts = per_step(trace)
    attributed = trace.kernels[_on_device(trace)]
    busy = int(attributed["duration_ns"].sum())
    layered = int(attributed.loc[attributed["layer"].notna() | (attributed["phase"] == "optimizer"), "duration_ns"].sum())
    share = layered / busy if busy else 0.0
    found.measured |= {
        "kernels on the GPU": len(attributed), "kernels a step": sorted(set(counts)), "busy_ns": busy,
        "share of kernel time with a layer": round(share, 4), "copies": len(trace.copies),
        "graphs": len(trace.graphs), "unavailable": trace.info.get("unavailable", {}), "gpus": run.record.get("gpus"),
    }  # fmt: skip
    found.expect(len(attributed) > 0, f"no kernel of the GPU was recorded: {trace.info.get('unavailable', {}).get('kernels')}")
    found.expect(all(counts), "a step without kernels")
    if run.record["framework"] in COMPILED and not attributed["layer"].notna().any():
        found.measured["layers"] = "not known: only XLA's own profiler tells which operator a kernel is of"
        return
    found.expect(share >= ON_GPU, f"{share:.1%} of the kernels' time is in known layers, below {ON_GPU:.0%}")


def ranges(found: Findings, folder: Path) -> None:
    """Every NVTX range that was emitted is in the capture."""
    verified = Run(folder).record["passes"]["kernels"].get("verified")
    if verified is None:
        raise NotRun("this collector takes no NVTX ranges")
    nvtx = verified["nvtx"]
    found.measured |= {**nvtx, "kernels": verified["kernels"], "warnings": verified["warnings"]}
    found.expect(bool(nvtx["emitted"]), "no range was emitted")
    found.expect(nvtx["emitted"] == nvtx["recorded"], f"{nvtx['emitted']} ranges emitted, {nvtx['recorded']} recorded")
    for line in verified["missing"]:
        found.wrong.append(line)


def sums(found: Findings, folder: Path) -> None:
    """Counts and summed durations of every kernel's name are those of the file, and those in steps too."""
    data = Run(folder).kernels_pass()
    file = next((data.folder / name for name in FILES if (data.folder / name).is_file() and _of(folder, name)), None)
    expected = counted.groups(file) if file is not None else None
    if file is None or expected is None:
        raise NotRun("the collector's file can be counted by the project's own reader only")
    whole = ks.read(file)
    table = whole.kernels[_on_device(whole)]
    grouped = table.groupby(table["name"].astype("string"))["duration_ns"].agg(["count", "sum"])
    got = sorted((int(count), int(total)) for count, total in grouped.itertuples(index=False))
    found.measured |= {"file": file.name, "names": len(expected), "kernels": sum(count for count, _ in expected)}
    found.measured["duration_ns"] = sum(total for _, total in expected)
    # Kineto's times are decimal fractions of a microsecond: each kernel may be rounded the other way
    slack = found.measured["kernels"] if "json" in file.name else 0
    found.expect([count for count, _ in got] == [count for count, _ in expected], f"counts differ: {got[:5]}, {expected[:5]}")
    difference = sum(total for _, total in got) - found.measured["duration_ns"]
    found.expect(abs(difference) <= slack, f"durations differ by {difference} ns")
    found.expect(slack > 0 or got == expected, "sums of single names differ")
    if file.suffix == ".sqlite":
        _in_steps(found, folder, file)


def _of(folder: Path, name: str) -> bool:
    used = Run(folder).record["passes"]["kernels"].get("collector", {}).get("used", "framework")
    return name.partition(".")[0] == {"framework": "operators"}.get(used, used)


def _in_steps(found: Findings, folder: Path, file: Path) -> None:
    trace = Run(folder).trace()
    steps = trace.steps.loc[~trace.steps["warmup"], "step"].tolist()
    low, high = (counted.in_steps(file, steps, margin) for margin in (-EDGE_NS, EDGE_NS))
    if low is None or high is None:
        found.wrong.append("the capture has no ranges of steps")
        return
    mine = trace.kernels[_on_device(trace)]
    count, total = len(mine), int(mine["duration_ns"].sum())
    found.measured |= {
        "kernels in steps": count,
        "by SQL": [low[0], high[0]],
        "ns in steps": total,
        "ns by SQL": [low[1], high[1]],
    }
    found.expect(low[0] <= count <= high[0], f"{count} kernels in steps, by SQL {low[0]} to {high[0]}")
    found.expect(low[1] <= total <= high[1], f"{total} ns in steps, by SQL {low[1]} to {high[1]}")


def rows(found: Findings, folder: Path) -> None:
    """The rows of every breakdown add up to the step exactly, and known layers cover it."""
    trace = Run(folder).trace()
    for by in BY:
        try:
            table = breakdown(trace, by)
        except EvidenceError as error:
            found.measured[f"by {by}"] = str(error)
            continue
        total = int(table.table["time_ns"].sum())
        found.expect(total == table.step_ns, f"by {by}: rows add up to {total} ns, the step is {table.step_ns} ns")
        if by == "layer":
            found.measured |= {"step_ns": table.step_ns, "coverage": round(table.coverage, 4), **table.totals}
            if not _on_device(trace).any():
                found.expect(table.coverage >= COVERED, f"coverage by layer is {table.coverage:.1%}, below {COVERED:.0%}")


def agree(found: Findings, folders: Mapping[str, Path]) -> None:
    """Collectors that recorded the same steps counted the same kernels in each.

    XLA chooses the algorithms of libraries by measuring, anew in each process: there its own kernels are counted.
    """
    if len(folders) < 2:
        raise NotRun(f"only {', '.join(folders)} recorded it")
    for collector, folder in folders.items():
        run = Run(folder)
        counts = per_step(run.trace(), "xla" if run.record["framework"] in COMPILED else None)
        found.measured[collector] = max(set(counts), key=counts.count) if counts else None
    told = set(found.measured.values())
    found.expect(len(told) == 1, f"kernels a step: {', '.join(f'{name} {count}' for name, count in found.measured.items())}")
