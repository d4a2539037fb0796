"""Checks of what commands make of recordings: doctor, roofline, device, compare and explain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from outcomes import Check, Findings, NotRun
from place import INFERENCE_ONLY, KERNELSCOPE, Place

from kernelscope.analysis.device.ceilings import REFUSED
from kernelscope.tracer.outside import collectors

COMPARE_S = 600.0
OF_SMALL = 0.75  # of the step, in known layers or named parts: the step of a small network on a GPU is mostly the host's


def doctor(found: Findings, place: Place) -> None:
    """The table of collectors names each, and a reason for each that cannot be had."""
    done = place.command([*KERNELSCOPE, "doctor", "--format", "json"])
    found.expect(done.status == 0, done.last)
    rows = [row for row in json.loads(done.out)["rows"] if row["section"] in ("GPUs", "collectors")]
    for row in rows:
        said = row["value"] if row["available"] else f"no: {row['reason']}"
        before = found.measured.get(row["item"])
        found.measured[row["item"]] = f"{before}; {said}" if before else said
        found.expect(row["available"] or bool(row["reason"]), f"{row['item']}: no reason is given")
    missing = set(collectors.NAMES) - set(found.measured)
    found.expect(not missing, f"not in the table: {', '.join(sorted(missing))}")


def of_runs(place: Place) -> Iterator[Check]:
    """Roofline and device of one recording a framework, and one comparison."""
    done = set()
    for (framework, collector), folder in list(place.runs.items()):
        if framework not in done:
            done.add(framework)
            yield from of_a_run(place, folder, f"{framework}, {collector}", place.device == "cuda")
    yield Check("compare and explain", "two frameworks", partial(compared, place=place), COMPARE_S)


def of_a_run(place: Place, folder: Path, subject: str, on_gpu: bool) -> Iterator[Check]:
    """Roofline and device of one recording; ceilings of a processor are only as good as it was idle, and not asked for here."""
    if on_gpu:
        yield Check("roofline", subject, partial(roofline, place=place, folder=folder))
    yield Check("device", subject, partial(device, place=place, folder=folder))


def roofline(found: Findings, place: Place, folder: Path) -> None:
    """No kernel is above the ceilings that were measured beside it."""
    done = place.command([*KERNELSCOPE, "roofline", folder, "--format", "json"])
    if done.status:
        found.wrong.append(done.last)
        return
    result = json.loads(done.out)
    kernels = result["rows"]
    shares = [row[key] for row in kernels for key in ("of_product", "of_copy") if row[key] is not None]
    withheld = [row for row in kernels if "not possible" in (row["reason"] or "")]
    found.measured |= {
        "rows": len(kernels), "kernel_ns": result["kernel_ns"], "known_ns": result["known_ns"],
        "ceilings": result["ceilings"], "largest share": max(shares, default=None),
    }  # fmt: skip
    found.expect(bool(kernels), "no rows")
    found.expect(all(share <= REFUSED for share in shares), f"a share of {max(shares, default=0):.2f} of a ceiling is shown")
    for row in withheld:
        share = row["duration_ns"] / max(result["kernel_ns"], 1)
        found.wrong.append(f"{row['name'][:80]} ({share:.1%} of kernel time): {row['reason']}")


def device(found: Findings, place: Place, folder: Path) -> None:
    """Every table is there or says why not; no share is above one."""
    done = place.command([*KERNELSCOPE, "device", folder, "--format", "json"])
    if done.status:
        found.wrong.append(done.last)
        return
    result = json.loads(done.out)
    found.measured |= result["unavailable"]
    for name, table in result["tables"].items():
        found.measured[name] = f"{len(table)} rows"
        for row in table:
            over = [key for key, value in row.items() if ("occupancy" in key or key == "share") and _above_one(value)]
            found.expect(not over, f"{name}: {', '.join(over)} above 1 in {row}")


def _above_one(value: object) -> bool:
    return isinstance(value, int | float) and value > 1 + 1e-9


def compared(found: Findings, place: Place) -> None:
    """Two frameworks side by side on the GPU, explained: covered, and adding up to the difference exactly."""
    place.need_gpu()
    sides = [side for side in place.ready() if side.framework not in INFERENCE_ONLY][:2]
    if len(sides) < 2:
        raise NotRun(f"fewer than two frameworks run here ({', '.join(side.framework for side in sides) or 'none'})")
    folder = place.folder / "runs" / "compared"
    names = ",".join(side.framework for side in sides)
    options = ["--device", "cuda", "--steps", str(place.steps), "--repeats", "2", "-o", str(folder)]
    for side in sides:
        if side.given and side.environment:
            options += ["--python", f"{side.framework}={side.environment.python}"]
    done = place.command([*KERNELSCOPE, "compare", "lenet", "-f", names, *options])
    found.expect(done.status == 0, done.last)
    explained = place.command([*KERNELSCOPE, "explain", folder, "--format", "json"])
    if explained.status:
        found.wrong.append(explained.last)
        return
    result = json.loads(explained.out)
    total = sum(row["delta_ns"] for row in result["rows"]) + result["instrumentation_ns"]
    found.measured |= {key: result[key] for key in ("wall_delta_ns", "wall_interval_ns", "significant", "unexplained_ns")}
    found.measured["causes"] = [finding.get("rule") or finding.get("cause") for finding in result["findings"]]
    found.expect(total == result["wall_delta_ns"], f"rows add up to {total} ns, the difference is {result['wall_delta_ns']} ns")
    for key in ("a", "b"):
        side = result[key]
        found.measured[side["name"]] = {name: side[name] for name in ("version", "step_ns", "coverage")}
        found.expect(side["coverage"] >= OF_SMALL, f"{side['name']}: coverage {side['coverage']:.1%}")
