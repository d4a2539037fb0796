"""What pinned copies between host and device can reach: by the device's data sheet, or by what its name tells of its link."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelscope.analysis.device import datasheets

_REACHED = 0.9  # of the data sheet's host link: pinned copies reach 57.2 of 63.0 GB/s (H100, PCIe 5) and 27.7 of 31.5 (PCIe 4)
_REACHED_BY_3 = 0.8  # of PCIe 3: 12 to 13 of 15.8 GB/s
_PCIE_3 = 16e9
_BY_GENERATION = {3: 12.5e9, 4: 25e9, 5: 55e9}  # bytes/s that pinned copies reach on 16 lanes
_FASTER = 1.1  # times that: a link that was measured to be faster is of a later generation
# Names of NVIDIA's devices, also cut ones; of others, data sheets tell
_NAMES = {
    3: r"GTX|RTX 20|TITAN|Tesla|Quadro (?!RTX A)|\bT4\b|\bT\d00\b|\b[KMP]\d{2,4}\b|\bV100|\bGV100",
    4: r"RTX [34]0|\bA(?:2|10|16|30|40|100|800)G?\b|RTX A\d|\bL(?:4|20|40)S?\b|Ada Generation",
    5: r"RTX 50|\b[HB](?:20|100|200|300|800)\b|RTX PRO",
}


@dataclass(frozen=True)
class Limit:
    """rate: bytes/s that pinned copies reach in one direction. of: what it follows from, in words. certain: from a data sheet."""

    rate: float
    of: str
    certain: bool = False


def limit(hardware: str | None, measured: float) -> Limit:
    """Return what pinned copies reach; measured: bytes/s of the capture's own fastest copies, which the link allows at least."""
    sheet = datasheets.lookup(hardware)
    if sheet and sheet.host_bandwidth:
        reached = _REACHED_BY_3 if sheet.host_bandwidth < _PCIE_3 else _REACHED
        peak = f"{sheet.host_bandwidth / 1e9:.1f} GB/s of {sheet.host_link}"
        of = f"{reached:.0%} of the {peak} (data sheet; a slower slot gives less)"
        return Limit(reached * sheet.host_bandwidth, of, certain=True)
    named = next((one for one, names in _NAMES.items() if re.search(names, hardware or "")), None)
    found = named or next((one for one, rate in _BY_GENERATION.items() if measured <= _FASTER * rate), max(_BY_GENERATION))
    rate = max(_BY_GENERATION[found], measured)
    return Limit(rate, f"some {rate / 1e9:.3g} GB/s of PCIe {found} with 16 lanes{'' if named else _may_have(hardware, found)}")


def _may_have(hardware: str | None, generation: int) -> str:
    """Say that the link is a guess: neither a data sheet nor the device's name tells it."""
    device = f"the link of {hardware} is not known" if hardware else "the recording does not name the device"
    return f" ({device}{'' if generation == min(_BY_GENERATION) else '; its copies are too fast for less'})"
