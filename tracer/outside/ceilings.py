"""The most that a device reaches in a framework: measured once by `tracer.inside.ceilings`, kept in the user's cache folder.

    <environments.home()>/ceilings/<framework>-<device>-<key>.json

The key is a hash of the machine, the device, the framework's version and the number of threads. Ceilings that were measured on
a busy machine are measured again once the machine is quiet, or after an hour at the latest, when they are next needed. The best
of several measurements counts, as a ceiling is what can be reached; "history" says when they were made.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from kernelscope.tracer.inside import temporary
from kernelscope.tracer.inside.ceilings import MACHINE, SCHEMA, TIMEOUT_S
from kernelscope.tracer.inside.plan import child_variables
from kernelscope.tracer.outside import conditions, gpu, locks, machine_cache
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import InputError
from kernelscope.tracer.outside.staging import stage

AGAIN_S = 3600.0  # ceilings from a busy machine are measured again after this time
DISTURBED = 0.1  # largest share of time that the measuring thread waited, or of the machine that others used
LOOK_S = 0.3  # how long the machine's load is observed
REMEMBERED = 20  # measurements kept in the history

_ABOUT = ("framework", "version", "device", "threads", "machine", "gpu")  # the facts that ceilings depend on
_STATE = ("measured", "waited", "others")

Ceilings = dict[str, Any]


def of(environment: Environment, device: str, threads: int, again: bool = False) -> Ceilings:
    """Return the ceilings of a framework on a device, from the cache if they were measured undisturbed.

    device: cpu or cuda. again: measure in any case. "unavailable" gives reasons for what cannot be measured. If that is
    everything, copies and products are empty. Nothing is raised: a run must not fail for lack of ceilings.
    """
    about = {
        "framework": environment.framework, "version": environment.version, "device": device, "threads": threads,
        "machine": machine_cache.machine(MACHINE),
        "gpu": _gpu() if device == "cuda" else None,
    }  # fmt: skip
    try:
        file = _file(about)
        file.parent.mkdir(parents=True, exist_ok=True)
        known = machine_cache.read(file, SCHEMA)
        if known is not None and not again and not _worth_another(known, file):
            return known
        with locks.exclusive(file.with_suffix(".lock"), lambda: None):
            result = {"schema": SCHEMA, "source": "measured", **about, **_measured(environment, device, threads)}
            result = merged(machine_cache.read(file, SCHEMA), result)
            machine_cache.write(file, result)
            return result
    except (OSError, InputError) as error:
        return _none(about, f"{type(error).__name__}: {error}")
    except subprocess.TimeoutExpired:
        return _none(about, f"not measured within {TIMEOUT_S:.0f} s")
    except (subprocess.CalledProcessError, ValueError) as error:
        return _none(about, _last_line(error))


def disturbed(ceilings: Mapping[str, Any]) -> bool:
    """Return whether the machine was busy with other work during the measurement."""
    return _disturbance(ceilings) > DISTURBED


def _disturbance(measurement: Mapping[str, Any]) -> float:
    """Return how disturbed a measurement was: the larger of its two shares, 0 if neither is known."""
    shares = [measurement.get(name) for name in ("waited", "others")]
    return max((float(share) for share in shares if isinstance(share, int | float)), default=0.0)


def _worth_another(known: Ceilings, file: Path) -> bool:
    """Return whether a new measurement may find higher ceilings."""
    if not disturbed(known):
        return False
    return time.time() - file.stat().st_mtime > AGAIN_S or _busy() <= DISTURBED


def _busy() -> float:
    """Return the share of the machine's processors that is in use now."""
    return psutil.cpu_percent(interval=LOOK_S) / 100


def known(record: Mapping[str, Any]) -> Ceilings | None:
    """Return the ceilings measured so far for the device and framework of a run's record; None if there are none here."""
    return machine_cache.read(_file({name: record.get(name) for name in _ABOUT}), SCHEMA)


def merged(before: Ceilings | None, after: Ceilings) -> Ceilings:
    """Return the better of two measurements of each copy and product, with its date, and the smaller disturbance."""
    if before is None:
        return {**after, "history": _history(after)}
    result = dict(after)
    for name, key, rate in (("copies", "bytes", "bytes_per_s"), ("products", "dtype", "flops_per_s")):
        best: dict[Any, Any] = {}
        for entry in [*_dated(before, name), *_dated(after, name)]:
            if entry[key] not in best or entry[rate] > best[entry[key]][rate]:
                best[entry[key]] = entry
        result[name] = list(best.values())
    known = {entry["dtype"] for entry in result["products"]}
    result["unavailable"] = {name: why for name, why in after.get("unavailable", {}).items() if name not in known}
    quieter = min(before, after, key=_disturbance)
    history = {entry["measured"]: entry for entry in [*_history(before), *_history(after)]}
    return {**result, **{name: quieter.get(name) for name in _STATE}, "history": list(history.values())[-REMEMBERED:]}


def _dated(result: Ceilings, name: str) -> list[dict[str, Any]]:
    return [{"measured": result.get("measured"), **entry} for entry in result.get(name, [])]


def _history(result: Ceilings) -> list[dict[str, Any]]:
    """Return when measurements were made, and how disturbed they were, from first to last."""
    return list(result.get("history") or [{name: result.get(name) for name in _STATE}])


def _none(about: Mapping[str, Any], reason: str) -> Ceilings:
    return {"schema": SCHEMA, "source": "measured", **about, "copies": [], "products": [], "unavailable": {"all": reason}}


def _last_line(error: subprocess.CalledProcessError | ValueError) -> str:
    output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    text = output.decode("utf8", "replace") if isinstance(output, bytes) else str(output)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return conditions.without_home(lines[-1])[:300] if lines else f"the measuring process failed: {error}"


def _gpu() -> dict[str, Any] | None:
    """Return the identity of the GPU that a child sees first; None if NVML does not know."""
    seen = gpu.visible(os.environ, gpu.find().devices)
    return seen[0].as_dict() if seen else None


def _file(about: Mapping[str, Any]) -> Path:
    name = f"{about['framework']}-{about['device']}-{machine_cache.key(SCHEMA, about)}.json"
    return machine_cache.folder("ceilings") / name


def _measured(environment: Environment, device: str, threads: int) -> dict[str, Any]:
    """Measure in the framework's own interpreter, in a separate process."""
    with temporary.folder() as made:
        folder = Path(made)
        staged = stage(folder / "staged")
        spec, out = folder / "spec.json", folder / "ceilings.json"
        spec.write_text(json.dumps({"framework": environment.framework, "device": device, "threads": threads}), encoding="utf8")
        command = [str(environment.python), "-m", "kernelscope.tracer.inside.ceilings", str(spec), str(out)]
        subprocess.run(
            command, env=_variables(environment, device, threads, staged), cwd=folder, check=True, timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf8"))
    return {"measured": datetime.now(UTC).isoformat(timespec="seconds"), **result}


def _variables(environment: Environment, device: str, threads: int, staged: Path) -> dict[str, str]:
    """Return the environment of the measuring process: that of a run, without the user's choices for the run."""
    variables: dict[str, str] = child_variables(os.environ, threads, device)
    variables.update(environment.variables)
    variables["PYTHONPATH"] = str(staged)
    return variables
