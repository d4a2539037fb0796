"""How a kernel with hardware counters was launched, how much of the device that fills, and what the profiler says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.device import occupancy
from kernelscope.analysis.trace import Trace

FEW_BLOCKS = 8  # every GPU has more multiprocessors
_MANY_BLOCKS = 256  # no GPU has more multiprocessors
_RARELY = 0.7  # of the cycles: a grid of few blocks whose multiprocessors are active more rarely is too small
_BLOCKS, _THREADS = ("Grid Size", "launch__grid_size"), ("Block Size", "launch__block_size")
_WAVES = re.compile(r"resulting in only (\d{1,4}(?:\.\d{1,4})?) full waves")
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
_QUOTED = 320  # characters: later sentences of a rule are left out


@dataclass(frozen=True)
class Launch:
    """A kernel's longest launch. blocks, threads (of a block), processors: 0 if unknown.

    grid, block: sizes such as 4,2,1. library: whose kernel it is. waves: blocks over those that the device holds at once. active:
    the share of all cycles in which multiprocessors were active. occupancy: theoretical. All of these are None if unknown.
    """

    grid: str | None
    block: str | None
    blocks: int
    threads: int
    processors: int
    library: str | None
    waves: float | None
    active: float | None
    occupancy: occupancy.Occupancy | None

    @property
    def idle_processors(self) -> int:
        """The multiprocessors that get no block; 0 if none, or if unknown."""
        return max(self.processors - self.blocks, 0) if self.blocks else 0

    @property
    def is_too_small(self) -> bool:
        """Whether the grid has too few blocks to fill the device."""
        few = 0 < self.blocks < FEW_BLOCKS or self.idle_processors > 0
        if few or self.waves is not None:
            return few or (self.waves is not None and self.waves < 1)
        rarely = self.active is not None and self.active < _RARELY
        return rarely and not self.processors and 0 < self.blocks < _MANY_BLOCKS

    @property
    def is_uneven(self) -> bool:
        """Whether a grid that is large enough leaves multiprocessors idle: some blocks take longer than others."""
        return not self.is_too_small and self.blocks >= FEW_BLOCKS and self.active is not None and self.active < _RARELY

    @property
    def sizes(self) -> str:
        """The number of blocks and of their threads in words; "" if unknown."""
        return f"{many(self.blocks, 'block')} of {many(self.threads, 'thread')}" if self.blocks and self.threads else ""


def of(trace: Trace, row: Mapping[str, Any]) -> Launch:
    """Return the longest launch of a kernel, given its row of `counters.over_elapsed`."""
    kernels = trace.kernels
    same = ((kernels["name"] == row["kernel"]) & (kernels["device"] == row["device"])).fillna(False).to_numpy(bool)
    places = np.flatnonzero(same)
    place = int(places[int(kernels["duration_ns"].to_numpy(float)[places].argmax())])
    longest = kernels.iloc[place]
    fields = ("device", "grid", "block", "registers", "shared_memory", "library")
    known = {name: None if pd.isna(longest[name]) else longest[name] for name in fields}
    devices = {str(entry["device"]): entry for entry in trace.info.get("devices") or []}
    device = devices.get(str(row["device"]), {})
    found = occupancy.of_row(known, device)
    theoretical = found if isinstance(found, occupancy.Occupancy) else None
    return Launch(
        known["grid"],
        known["block"],
        _size(known["grid"]) or _counted(trace, place, _BLOCKS),
        _size(known["block"]) or _counted(trace, place, _THREADS),
        int(device.get("multiprocessors") or 0),
        known["library"],
        _waves(trace, row, theoretical),
        row.get("active"),
        theoretical,
    )


def rules(trace: Trace, kernel: str, most: int = 1) -> list[str]:
    """Return what Nsight Compute's own rules say of a kernel, those with the largest saving first, each as a sentence."""
    said = [rule for rule in _rules(trace, kernel) if rule["text"]]
    said.sort(key=lambda rule: -(rule["saving"] or 0.0))
    return [f'Nsight Compute: "{_beginning(rule["text"])}"{_saving(rule["saving"])}' for rule in said[:most]]


def many(number: int, what: str) -> str:
    """Return a number with its noun: 1 block, 4,096 blocks."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _rules(trace: Trace, kernel: str) -> list[dict[str, Any]]:
    return [rule for rule in trace.info.get("rules") or [] if rule["kernel"] == kernel]


def _beginning(text: str) -> str:
    """Return as many sentences of a text as are short enough; at least the first one, cut if need be."""
    sentences = _SENTENCE.split(text)
    kept = sentences[0] if len(sentences[0]) <= _QUOTED else f"{sentences[0][:_QUOTED]} ..."
    for sentence in sentences[1:]:
        if len(kept) + len(sentence) > _QUOTED:
            break
        kept += f" {sentence}"
    return kept


def _saving(share: float | None) -> str:
    return f" (its estimate: {share:.0%} less time)" if share else ""


def _waves(trace: Trace, row: Mapping[str, Any], theoretical: occupancy.Occupancy | None) -> float | None:
    """Return the launch's waves: as measured, as computed, or as a rule of Nsight Compute says; None if unknown."""
    if not pd.isna(row["waves"]):
        return float(row["waves"])
    if theoretical and theoretical.waves is not None:
        return theoretical.waves
    found = [match for rule in _rules(trace, str(row["kernel"])) if (match := _WAVES.search(rule["text"]))]
    return float(found[0][1]) if found else None


def _counted(trace: Trace, place: int, names: tuple[str, ...]) -> int:
    """Return a whole number among a kernel's metrics; 0 if it is not there."""
    rows = trace.metrics[(trace.metrics["kernel"] == place).to_numpy(bool)]
    values = rows.loc[rows["metric"].isin(names).to_numpy(bool), "value"].dropna()
    return int(values.iloc[0]) if len(values) and 0 < values.iloc[0] < 2**53 else 0


def _size(extent: str | None) -> int:
    """Return the product of sizes such as 4,2,1; 0 if unknown."""
    result = 1
    for size in extent.split(",") if extent else ["0"]:
        result *= int(size)
    return result
