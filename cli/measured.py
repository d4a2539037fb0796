"""What was measured of a run's device: its roofline and its energy, as its page and figures show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelscope.analysis import energy
from kernelscope.analysis.device import ceilings
from kernelscope.analysis.device.roofline import roofline
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli.roofline import best_known
from kernelscope.reports import measured
from kernelscope.reports.measured import Part


def of_run(run: Run) -> list[Part]:
    """Return the roofline and the energy of a run, as far as it has what they take."""
    found = []
    record = run.record.get("ceilings") or {}
    if isinstance(record, dict) and (record.get("copies") or record.get("products")):
        found.append(_part("Roofline", lambda: _roofline(run, record)))
    if "energy" in run.record.get("passes", {}):
        found.append(_part("Energy", lambda: _energy(run)))
    return found


def _part(title: str, make: Callable[[], Part]) -> Part:
    try:
        return make()
    except EvidenceError as error:
        return measured.unavailable(title, str(error))


def _roofline(run: Run, record: dict[str, Any]) -> Part:
    known = ceilings.of_record(best_known(record), str(run.path / "run.json"))
    return measured.roofline(roofline(run.trace(), "kernel", known).as_dict())


def _energy(run: Run) -> Part:
    steps = [summary.as_dict() for summary in energy.steps(run)]
    try:
        split = energy.layers(run)
    except EvidenceError as error:
        return measured.energies(steps, [], None, str(error))
    plain = split.rows.astype(object).where(split.rows.notna(), None).to_dict("records")
    return measured.energies(steps, [{str(key): value for key, value in row.items()} for row in plain], split.facts, None)
