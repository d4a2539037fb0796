"""Measure by how much processes of one program differ on this machine: what single recordings cannot tell by themselves."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# A small step, which the host bounds, and one that moves much memory: processes differ by other things in each
PROGRAMS = (("lenet", "train", 64), ("cnn", "train", 8))
PROCESSES = 6  # of each program: with fewer the interval is as wide as what is told
STEPS = 30


def measure(asked: str) -> None:
    """Measure of the frameworks asked for (names between commas; empty: all that are ready), and keep what was found."""
    from kernelscope.tracer.outside import environments, process_noise

    ready = [str(row["framework"]) for row in environments.list_all() if row["ready"]]
    for framework in [name.strip() for name in asked.split(",") if name.strip()] or ready:
        found = _of_framework(framework)
        if found is None:
            print(f"kernelscope: noise of {framework}: none of its programs could be measured", file=sys.stderr)
            continue
        process_noise.keep(framework, found)
        print(f"kernelscope: noise of {framework}: {in_words(found)}", file=sys.stderr)


def in_words(found: Mapping[str, Any]) -> str:
    """Return what was measured, for people."""
    shares = [
        f"{found[clock]:.1%} of {of}"
        for clock, of in (("wall", "a step"), ("processor", "its processor time"))
        if found.get(clock) is not None
    ]
    return f"processes of one program differ by up to {' and '.join(shares)} (of {', '.join(found['programs'])})"


def _of_framework(framework: str) -> dict[str, Any] | None:
    """Return what was measured of one framework; None where it can run none of the programs."""
    from kernelscope.analysis.explain.noise import between_processes
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.cli import capture
    from kernelscope.tracer.outside import environments
    from kernelscope.tracer.outside.options import RunOptions
    from kernelscope.tracer.outside.session import Session
    from kernelscope.tracer.outside.variants import Variant

    variant = Variant("noise", environments.resolve(framework))
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as temporary:
        folders = {}
        for network, mode, batch in PROGRAMS:
            options = RunOptions(network, mode, batch, steps=STEPS, repeats=PROCESSES, passes=("clean",))
            session = Session([variant], options, [Path(temporary, network)], ["kernelscope", "doctor", "--noise"])
            print(f"kernelscope: {framework}: {PROCESSES} processes of {network}", file=sys.stderr)
            capture.record(session)
            if session.sides[0].failure is None:
                folders[network] = Path(temporary, network)
        shares = between_processes([Run(folder) for folder in folders.values()])
    if shares["wall"] is None:
        return None
    measured = datetime.now(UTC).isoformat(timespec="seconds")
    return {**shares, "programs": list(folders), "processes": PROCESSES, "measured": measured}
