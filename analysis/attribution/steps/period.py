"""Steps from the period of the kernel sequence: the same kernels, equally often, between two occurrences of one kernel.

Any kernel that occurs several times may begin a step. The best one cuts the sequence into the most similar parts. Among equally
good ones the shortest period wins, so that ten steps are not taken for one. Layers that repeat within a step are not taken for
steps if whole steps are exactly alike: work that occurs once a step (embedding, loss) is in one layer only. If no kernel occurs
once a step, the distance at which the sequence equals itself is the step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.attribution.steps.judging import judged
from kernelscope.analysis.attribution.steps.model import LEAST, MOSTLY, DetectedSteps, Int, StreamWork, commonest

_MOST = 40  # counts of occurrences that are tried
_AS_GOOD = 0.01  # differences of likeness up to this do not count, unless parts are exactly alike
_SAME = 0.9995
_COVERED = 0.6  # least share of the device's time in exactly alike parts
_LONGEST = 12_000  # kernels: length of the sequence that is compared with itself
_SHORTEST = 8  # kernels: shortest step that is found this way
_NAME = 60  # characters of a kernel's name in a sentence


def find(work: StreamWork) -> Iterator[DetectedSteps]:
    """Yield the steps that repeat in the kernel sequence, the best first."""
    counts = np.bincount(work.name, minlength=len(work.names))
    distinct = np.unique(counts[counts > LEAST])
    tried = distinct if len(distinct) <= _MOST else distinct[np.linspace(0, len(distinct) - 1, _MOST).astype(int)]
    result = [steps for count in tried if (steps := _of_count(work, counts, int(count))) is not None]
    result += [steps for steps in (_of_distance(work),) if steps is not None]
    result = [_beside(steps) for steps in result if steps.confidence != "low"]
    if result:
        same = any(map(is_exact, result))
        least = _SAME if same else max(steps.likeness for steps in result) - _AS_GOOD
        result.sort(key=lambda steps: (steps.likeness < least, -len(steps.table)))
    yield from result


def _beside(steps: DetectedSteps) -> DetectedSteps:
    """Lower the confidence of steps that leave out much other work: a model's layers also repeat like this."""
    return replace(steps, confidence="medium") if steps.covered < MOSTLY else steps


def is_exact(steps: DetectedSteps) -> bool:
    """Return whether steps are exactly alike and hold most of the device's time."""
    return steps.likeness >= _SAME and steps.covered >= _COVERED


def of_kernel(work: StreamWork, pattern: str) -> Iterator[DetectedSteps]:
    """Yield the steps that begin with kernels whose names match a regular expression."""
    result = _beginning(work, _fitting(work, pattern), f"kernel:{pattern}")
    if result is not None:
        yield result


def matching(work: StreamWork, pattern: str) -> int:
    """Return how many kernels have names that match a regular expression."""
    return int(_fitting(work, pattern).sum())


def _fitting(work: StreamWork, pattern: str) -> npt.NDArray[np.bool_]:
    return np.isin(work.name, [number for number, name in enumerate(work.names) if re.search(pattern, name)])


def _of_distance(work: StreamWork) -> DetectedSteps | None:
    """Return steps at the shortest distance at which the kernel sequence repeats; each begins after the longest wait."""
    sequence = work.name[len(work) // 4 :][:_LONGEST]  # the first quarter may be warm-up
    if len(sequence) < 2 * _SHORTEST:
        return None
    distances = np.arange(_SHORTEST, len(sequence) // 2)
    same = np.array([np.count_nonzero(sequence[:-distance] == sequence[distance:]) for distance in distances])
    share = same / (len(sequence) - distances)
    good = np.flatnonzero(share >= max(_SAME, float(share.max(initial=0.0)) - 1e-6))
    if not len(good):
        return None
    distance = int(distances[good[0]])
    rows = np.arange(len(work)) % distance
    waits = np.array([float(np.median(work.gaps[rows == place])) for place in range(distance)])
    begins = np.zeros(len(work), dtype=bool)
    begins[int(np.argmax(waits)) :: distance] = True
    return _beginning(work, begins, f"every {distance} kernels")


def _of_count(work: StreamWork, counts: Int, count: int) -> DetectedSteps | None:
    """Return the steps that begin with a kernel that occurs this often: the one before which the device waits longest."""
    names = np.flatnonzero(counts == count)
    waits = [float(np.median(work.gaps[work.name == name])) for name in names[:50]]
    name = int(names[int(np.argmax(waits))])
    short = work.names[name].removeprefix("void ")
    source = f"each begins with {short if len(short) <= _NAME else short[:_NAME].rsplit('<')[0]}"
    return _beginning(work, work.name == name, source)


def _beginning(work: StreamWork, rows: npt.NDArray[np.bool_], source: str) -> DetectedSteps | None:
    """Return the steps that begin with these pieces of work."""
    return judged(work, "period", source, np.unique(work.at[rows]), thread=commonest(work.launcher[rows]))
