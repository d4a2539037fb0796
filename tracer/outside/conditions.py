"""The machine and the settings that a measurement was made under, and what of the environment may be written down."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from kernelscope.tracer.inside.plan import RECORDED_VARIABLES

_SECRET_NAME = re.compile(r"[\w-]*(?:TOKEN|SECRET|PASS|PWD|CREDENTIAL|KEY|AUTH|COOKIE)[\w-]*", re.IGNORECASE)
_SECRET_OPTION = re.compile(_SECRET_NAME.pattern + "=", re.IGNORECASE)  # NAME=VALUE, LABEL:NAME=VALUE, --name=value
HIDDEN = "(not recorded)"


def recorded(variables: Mapping[str, str], chosen: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that may be written down and are set, and those that the user chose for this run.

    Of a chosen variable whose name looks like that of a secret only the name is written down.
    """
    found = {name: variables[name] for name in RECORDED_VARIABLES if name in variables}
    for name, value in (chosen or {}).items():
        found[name] = HIDDEN if _SECRET_NAME.search(name) else without_home(value)
    return found


def command(parts: Sequence[str]) -> list[str]:
    """Return a command line as it may be written down: without the home folder and the values of secrets."""
    return [without_home(_without_secret(part, before)) for before, part in zip(("", *parts), parts, strict=False)]


def _without_secret(part: str, before: str) -> str:
    """Return an argument without its value if it is --SECRET=VALUE, or SECRET=VALUE behind --env."""
    match = _SECRET_OPTION.search(part) if part.startswith("--") or before.startswith("--e") else None
    return part[: match.end()] + HIDDEN if match else part


def machine() -> dict[str, Any]:
    """Return what the machine is: processor, cores, memory, operating system; no host or user name."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "allowed_threads": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


def without_home(text: str) -> str:
    """Return the text with the home folder written as ~: run folders are passed on, user names are not."""
    home = str(Path.home())
    return text.replace(home + os.sep, "~" + os.sep) if home not in ("/", "") else text
