"""Each step's time on the device, the device's busy time, and its kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelscope.analysis.accounting.device_account import ALL, IDLE, account
from kernelscope.analysis.attribution import device_steps, steps
from kernelscope.analysis.attribution.steps import DetectedSteps
from kernelscope.analysis.trace import Trace


def step_times(trace: Trace, found: DetectedSteps, device: str | None) -> list[dict[str, Any]]:
    """Return a row for each step: its time on the device, the device's busy time, the number of its kernels, and its start."""
    applied = steps.applied(trace, found)
    done = account(applied, device)
    ordered = applied.steps[~applied.steps["warmup"]].sort_values("start_ns")
    begun, _ = device_steps.bounds(ordered)
    zero = steps.first_work(trace)
    busy = done.by_window[(done.rows["part"] != IDLE).to_numpy(bool)].sum(axis=0)
    kernels = applied.kernels
    if done.device != ALL:
        kernels = kernels[(kernels["device"] == done.device).fillna(False).to_numpy(bool)]
    counts = kernels["step"].value_counts()
    usual = float(np.median(done.lengths))
    return [
        {
            "step": int(step), "step_ms": length / 1e6, "of_usual": length / max(usual, 1.0), "busy_ms": busy_ns / 1e6,
            "kernels": int(counts.get(step, 0)), "start_ms": (start - zero) / 1e6,
        }
        for step, length, busy_ns, start in zip(ordered["step"], done.lengths, busy, begun, strict=True)
    ]  # fmt: skip
