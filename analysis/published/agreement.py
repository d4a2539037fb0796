"""Whether our measurements rank frameworks as published results do.

Values from other hardware and other versions cannot be compared directly. What can be compared is how frameworks relate to each
other under the same conditions: their ratios to one of them, and their order. A group pairs the results published under one set
of conditions with those measured under one set of conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from kernelscope.analysis.published.sources import Value, values

FEWEST = 3  # frameworks for a rank correlation: the order of two may be right by chance
_EXACT = 7  # frameworks up to which Spearman's p is computed from every order
_REFERENCE = "pytorch"  # ratios are to this framework if it is in the group
_CONDITIONS = ("sweep", "hardware", "network", "mode", "batch", "threads", "device", "devices", "precision", "layout", "autotune")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PublishedPair:
    """One framework of a group. Ratios are to the group's reference, in the direction of the published metric."""

    framework: str
    published_name: str
    published: float
    published_ratio: float
    measured: float
    measured_ratio: float


@dataclass(frozen=True)
class ConditionGroup:
    """Frameworks that were published under one set of conditions and measured under one set.

    dataset, network, hardware, metric, unit: as published. here: conditions of the measurement (see recordings.sweeps).
    same_kind: whether both ran on the same kind and number of devices. spearman, kendall: rank correlations with their
    two-sided p, None with fewer than FEWEST frameworks, or if all are equal.
    """

    source: str
    dataset: str
    network: str
    hardware: str
    metric: str
    unit: str
    here: dict[str, Any]
    same_kind: bool
    reference: str
    pairs: list[PublishedPair]
    spearman: float | None
    spearman_p: float | None
    kendall: float | None
    kendall_p: float | None

    @property
    def n(self) -> int:
        """The number of frameworks in both."""
        return len(self.pairs)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {**asdict(self), "n": self.n}


def compare(cells: Iterable[Row], published: Iterable[Value] | None = None) -> list[ConditionGroup]:
    """Return every group of at least two frameworks, in order of published conditions, groups on the same kind of device first.

    cells: rows of results.parquet (see recordings.sweeps), with None for null; only those that are done count. `sweep` may name
    where each comes from. published: the values to compare with, all by default.
    """
    here: dict[tuple[Any, ...], list[Row]] = {}
    for row in cells:
        if row["status"] == "done":
            here.setdefault(tuple(row.get(key) for key in _CONDITIONS), []).append(row)
    there: dict[tuple[Any, ...], list[Value]] = {}
    for value in values() if published is None else published:
        if value.comparable and value.our_framework is not None:
            key = (value.source, value.dataset, value.network, value.hardware, value.metric)
            there.setdefault(key, []).append(value)
    groups = []
    for stated in there.values():
        for key, rows in here.items():
            if (stated[0].our_network, stated[0].our_mode) == (rows[0]["network"], rows[0]["mode"]):
                group = _group(stated, rows, dict(zip(_CONDITIONS, key, strict=True)))
                groups += [group] if group is not None else []
    return sorted(groups, key=lambda group: not group.same_kind)


def _group(stated: Sequence[Value], rows: Sequence[Row], here: dict[str, Any]) -> ConditionGroup | None:
    """Return the group of these values and cells; None if fewer than two frameworks have numbers in both."""
    first = stated[0]
    measure = _MEASURED[first.metric]
    measured = {row["framework"]: measure(row) for row in reversed(rows)}  # the first row of a framework counts
    both = [value for value in stated if (measured.get(str(value.our_framework)) or 0) > 0 and (value.value or 0) > 0]
    if len(both) < 2:
        return None
    names = [str(value.our_framework) for value in both]
    published = np.array([value.value for value in both], dtype=float)
    result = np.array([measured[name] for name in names], dtype=float)
    reference = names.index(_REFERENCE) if _REFERENCE in names else 0
    pairs = [
        PublishedPair(name, value.framework, float(p), float(p / published[reference]), float(m), float(m / result[reference]))
        for name, value, p, m in zip(names, both, published, result, strict=True)
    ]
    same_kind = (first.device, first.devices) == (here["device"], here["devices"] or 1)
    return ConditionGroup(
        first.source, first.dataset, first.network, first.hardware, first.metric, first.unit, here, same_kind, names[reference],
        pairs, *_spearman(published, result), *_kendall(published, result),
    )  # fmt: skip


def _per_sample(row: Row) -> float | None:
    rate: float | None = row["samples_per_second"]
    return 1.0 / rate if rate else None


def _of_gpu(column: str) -> Callable[[Row], float | None]:
    return lambda row: row[column] if row["device"] == "cuda" else None


# metric as published -> our counterpart. Times are per sample: times for the same work are proportional to it.
_MEASURED: dict[str, Callable[[Row], float | None]] = {
    "throughput": lambda row: row["samples_per_second"],
    "gpu_memory": _of_gpu("gpu_memory_mib"),
    "gpu_power": _of_gpu("power_w"),
    "training_time": _per_sample,
    "inference_time": _per_sample,
    "fit_time": _per_sample,
}
Float = npt.NDArray[np.float64]


def _rankable(one: Float, other: Float) -> bool:
    return len(one) >= FEWEST and len(set(one)) > 1 and len(set(other)) > 1


def _spearman(one: Float, other: Float) -> tuple[float | None, float | None]:
    """Return Spearman's coefficient and its p: from all orders if they are few, else from Student's t, as in scipy."""
    if not _rankable(one, other):
        return None, None
    result = stats.spearmanr(one, other)
    if len(one) > _EXACT:
        return float(result.statistic), float(result.pvalue)
    ranks = stats.rankdata(other)
    exact = stats.permutation_test(
        (stats.rankdata(one),), lambda order: abs(np.corrcoef(order, ranks)[0, 1]), permutation_type="pairings",
        n_resamples=np.inf, vectorized=False, alternative="greater",
    )  # fmt: skip
    return float(result.statistic), float(exact.pvalue)


def _kendall(one: Float, other: Float) -> tuple[float | None, float | None]:
    """Return Kendall's tau-b and its p: exact without ties, else by the normal approximation, as in scipy."""
    if not _rankable(one, other):
        return None, None
    result = stats.kendalltau(one, other)
    return float(result.statistic), float(result.pvalue)
