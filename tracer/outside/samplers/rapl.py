"""Energy of the CPU's packages and their memory, from the kernel's power capping interface (RAPL), if it is readable.

Source: Linux, Documentation/power/powercap; David et al., RAPL: memory power estimation and capping, ISLPED 2010. Counters
change about every millisecond and wrap around after max_energy_range_uj: after minutes at full load, so no reading misses a
wrap.
"""

from __future__ import annotations

import time
from typing import Any

from kernelscope.tracer.outside.counters import POWERCAP, EnergyDomain, energy_domains
from kernelscope.tracer.outside.samplers.sampler import Sample

UPDATE_NS = 1_000_000  # Intel SDM, volume 3B, section 15.10: energy status is updated about every millisecond


class RaplSource:
    """Samples cpu_energy_j and dram_energy_j, joules since the source was made; `core` is the package.

    `unavailable` says why there is nothing to sample. root: where the kernel's counters are.
    """

    name = "rapl"

    def __init__(self, root: str = POWERCAP) -> None:
        domains, reason = energy_domains(root)
        self._counters = [_Counter(domain) for domain in domains if domain.name.startswith("package") or domain.name == "dram"]
        self._reason = reason
        self.unavailable = None if self._counters else reason or "RAPL offers neither package nor memory here"

    def sample(self, pid: int | None) -> list[Sample]:
        """Return the current counters; one that can no longer be read is left out and noted in `describe`."""
        del pid
        return [sample for counter in self._counters for sample in counter.sample()]

    def describe(self) -> dict[str, Any]:
        """Describe the sampled domains, or why there are none or not all."""
        if self.unavailable:
            return {"source": "rapl", "unavailable": self.unavailable}
        domains = [{"name": counter.domain.name, "package": counter.domain.package} for counter in self._counters]
        notes = [counter.note for counter in self._counters if counter.note]
        return {"source": "rapl", "domains": domains, "not_offered": self._reason, "update_ns": UPDATE_NS, "notes": notes}


class _Counter:
    """One domain's counter, continued when it wraps around."""

    def __init__(self, domain: EnergyDomain):
        self.domain = domain
        self.note: str | None = None
        self._metric = "dram_energy_j" if domain.name == "dram" else "cpu_energy_j"
        self._last: int | None = None
        self._sum = 0

    def sample(self) -> list[Sample]:
        before = time.monotonic_ns()
        try:
            now = int(self.domain.file.read_text())
        except (OSError, ValueError) as error:
            self.note = f"{self.domain.name}: can no longer be read: {getattr(error, 'strerror', None) or error}"
            return []
        after = time.monotonic_ns()
        if self._last is not None:
            self._sum += now - self._last if now >= self._last else now + self.domain.range_uj - self._last
        self._last = now
        at, spread = (before + after) // 2, after - before
        return [Sample(self._metric, self._sum / 1e6, core=self.domain.package, time_ns=at, spread_ns=spread)]
