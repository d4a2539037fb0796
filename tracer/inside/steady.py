"""When is a loop warm? When its step time no longer falls: caches filled, code compiled, allocators grown, autotuning done."""

from typing import Sequence

GROUP = 5  # steps whose median is compared with that of the group before
TOLERANCE = 0.10  # medians of two neighbouring groups may differ by this share: such machines drift by as much
WAVERING = 0.15  # of the middle median: if windows' medians differ by more, other programs interfered
LIMIT = 60  # after this many steps the loop is measured anyway, and the run says that it did not settle


def median(values: Sequence[float]) -> float:
    """Return the middle value (the lower one of two)."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def group(step_ns: Sequence[int], minimum: int, left_s: float) -> int:
    """Return how many steps to run before checking again: a few, or one if a few may take longer than the time left."""
    if not step_ns:
        return GROUP if minimum >= GROUP else 1
    return GROUP if GROUP * step_ns[-1] <= left_s * 1e9 else 1


def wavers(step_ns: Sequence[int], count: int) -> bool:
    """Return whether the medians of windows of `count` steps differ by more than they do on an otherwise idle machine."""
    middles = [median(step_ns[first : first + count]) for first in range(0, len(step_ns) - count + 1, count)]
    return len(middles) > 1 and max(middles) - min(middles) > WAVERING * median(middles)


def settled(step_ns: Sequence[int], minimum: int) -> bool:
    """Return whether these step times, oldest first, have settled: at least `minimum` steps, last two groups alike."""
    if len(step_ns) < max(minimum, 2 * GROUP if minimum > 0 else 0):
        return False
    if minimum == 0:
        return True
    last, before = median(step_ns[-GROUP:]), median(step_ns[-2 * GROUP : -GROUP])
    return abs(last - before) <= TOLERANCE * before
