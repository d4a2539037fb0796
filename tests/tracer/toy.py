"""A script without a framework, recorded by `kernelscope profile`, and what it leaves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests import forked

TOY = Path(__file__).parent / "children" / "toy_adapter.py"
SHORT = ("--steps", "5", "--warmup", "2", "--quiet")


def profiled(
    folder: Path, *command: str, options: tuple[str, ...] = ("--quiet",), timeout: float = 60, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Record a command into a folder; more: what forked.run takes."""
    return forked.run("profile", "-o", str(folder), *options, "--", *command, timeout=timeout, **more)


def unrecorded(*command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as its user would without us."""
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)


def steps_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the steps that a pass recorded, warm-up included."""
    return [json.loads(line) for line in (folder / name / "1" / "steps.jsonl").read_text().splitlines()]


def measured(folder: Path, name: str) -> list[int]:
    """Return the numbers of the steps that a pass measured."""
    return [row["step"] for row in steps_of(folder, name) if not row["warmup"]]
