"""Check that captures are from one job: ranks recorded by another tool, framework, kind of device or time are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks.recording import RankRecording

_HOUR_NS = 3_600_000_000_000  # unsynchronised clocks of hosts are minutes apart
_MINUTE_NS = 60_000_000_000
_REMEDY = "name captures of one job"


def check(ranks: Sequence[RankRecording]) -> list[str]:
    """Return notes on oddities of one job's ranks; raise EvidenceError if two captures are from different jobs."""
    _refuse_unlike(ranks, lambda one: one.framework, "runs {}, and {} runs {}")
    _refuse_unlike(ranks, lambda one: one.tool, "was recorded with {}, and {} with {}")
    _refuse_unlike(ranks, _accelerator, "computes on {} devices, and {} on {} devices")
    return [*_hardware(ranks), *_times(ranks)]


def _accelerator(one: RankRecording) -> str | None:
    """Return the kind of device that a rank computes on (cuda, rocm); None for processors, which any job may use."""
    return None if one.device == "cpu" else one.device.partition(":")[0]


def _refuse_unlike(ranks: Sequence[RankRecording], asked: Callable[[RankRecording], str | None], said: str) -> None:
    """Refuse ranks that give different answers, if both are known."""
    known = [(one.path, answer) for one in ranks if (answer := asked(one))]
    for path, answer in known[1:]:
        if answer != known[0][1]:
            what = said.format(answer, *known[0])
            raise EvidenceError(f"{path}: {what}: they are not from one job; {_REMEDY}")


def _hardware(ranks: Sequence[RankRecording]) -> list[str]:
    counts = Counter(one.hardware for one in ranks if one.hardware)
    if len(counts) < 2:
        return []
    listed = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    return [f"ranks compute on different hardware: {listed}; unless the job is mixed, their captures are from different runs"]


def _times(ranks: Sequence[RankRecording]) -> list[str]:
    """Return a note on ranks that are minutes apart; refuse ranks that are hours apart. Only wall clocks count."""
    spans = sorted((one.window_ns, one.path) for one in ranks if one.clock == "wall")
    found: list[str] = []
    reached, last = spans[0][0][1] if spans else 0, spans[0][1] if spans else ""
    for (start, end), path in spans[1:]:
        if start - reached > _HOUR_NS:
            hours = (start - reached) / _HOUR_NS
            raise EvidenceError(f"{path}: begins {hours:,.1f} hours after {last} ends: they are not from one job; {_REMEDY}")
        if start - reached > _MINUTE_NS and not found:
            minutes = (start - reached) / _MINUTE_NS
            found = [
                f"{path} begins {minutes:.0f} minutes after {last} ends: clocks differ, or the captures are from different runs"
            ]
        if end > reached:
            reached, last = end, path
    return found
