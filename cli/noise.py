"""Measure how much processes of one program differ on this machine, which single recordings cannot show."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelscope.analysis.explain.noise import between_processes
from kernelscope.analysis.recordings import core_use
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import capture
from kernelscope.tracer.inside import temporary
from kernelscope.tracer.outside import environments, process_noise
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.variants import Variant

# A small, host-bound step and one that moves much memory: processes differ for other reasons in each
PROGRAMS = (("lenet", "train", 64), ("cnn", "train", 8))
PROCESSES = 6  # of each program: with fewer, the interval is as wide as the result
STEPS = 30


def measure(asked: str) -> None:
    """Measure these frameworks (names separated by commas; empty: all that are ready), and store the results."""
    ready = [str(row["framework"]) for row in environments.list_all() if row["ready"]]
    for framework in [name.strip() for name in asked.split(",") if name.strip()] or ready:
        found = _of_framework(framework)
        if isinstance(found, str):
            print(f"kernelscope: noise of {framework}: not kept: {found}", file=sys.stderr)
            continue
        process_noise.keep(framework, found)
        print(f"kernelscope: noise of {framework}: {in_words(found)}", file=sys.stderr)


def in_words(found: Mapping[str, Any]) -> str:
    """Return the result in words."""
    shares = [
        f"{found[clock]:.1%} of {of}"
        for clock, of in (("wall", "a step"), ("processor", "its processor time"))
        if found.get(clock) is not None
    ]
    return f"processes of one program differ by up to {' and '.join(shares)} (of {', '.join(found['programs'])})"


def _of_framework(framework: str) -> dict[str, Any] | str:
    """Return the result for one framework, or why there is none."""
    variant = Variant("noise", environments.resolve(framework))
    with temporary.folder() as made:
        folders = {}
        for network, mode, batch in PROGRAMS:
            options = RunOptions(network, mode, batch, steps=STEPS, repeats=PROCESSES, passes=("clean",))
            session = Session([variant], options, [Path(made, network)], ["kernelscope", "doctor", "--noise"])
            print(f"kernelscope: {framework}: {PROCESSES} processes of {network}", file=sys.stderr)
            capture.record(session)
            if session.sides[0].failure is None:
                folders[network] = Path(made, network)
        runs = [Run(folder) for folder in folders.values()]
        shares = between_processes(runs)
        beside = [cores for cores in map(core_use.foreign_of_clean, runs) if cores is not None]
    if shares["wall"] is None:
        return "none of the programs for this measurement ran"
    if max(beside, default=0.0) >= core_use.FOREIGN_CORES:
        return f"other processes kept {max(beside):.1f} cores busy meanwhile; measure again when the machine is idle"
    measured = datetime.now(UTC).isoformat(timespec="seconds")
    return {**shares, "programs": list(folders), "processes": PROCESSES, "measured": measured}
