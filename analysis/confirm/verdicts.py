"""What trials show: how much shorter the step became, how certain that is, and whether the program still computes the same.

Trials take turns with the unchanged program, so whatever the machine does meanwhile affects both. The difference is taken in
each round, and its mean has an interval by Student's t. Several changes are tried at once, each with a chance to look right, so
their p values are corrected by Holm's method (Holm, A simple sequentially rejective multiple test procedure, Scandinavian
Journal of Statistics 6, 1979).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
CONFIRMED, PARTLY, UNSEEN, WORSE = "confirmed", "partly", "no effect seen", "made worse"
VERDICTS = (CONFIRMED, PARTLY, UNSEEN, WORSE)  # for trials that gave steps
FAILED, NOT_MET = "could not be tried", "nothing to change"
_HALF = 0.5  # of what was claimed: a smaller saving confirms it only partly
_LOOSE = 1e-3  # of a value: losses of equal programs may differ this much, as sums are taken in another order
# Of the spread of differences between any two rounds: the least assumed for differences within a round. In four rounds these are
# often more alike by chance: with a quarter, one of 30 changes that do nothing was confirmed
_PAIRED = 0.5
# Beside other processes' work p counts so many times: that work comes and goes in ways that are no chance of rounds. Beside a
# load of 4 to 8 on two cores a change that does nothing was confirmed
_BUSY = 5.0
_SPREAD = 3.0  # times the spread of the unchanged program's runs
_VARIES = 0.05  # of a value: if the unchanged program varies more, nothing can be compared

Rounds = Sequence[int]  # the median clean step of each round, ns


@dataclass(frozen=True)
class Seen:
    """How much shorter a step became, on average over the rounds, with its interval (95%); p is corrected (see `seen`)."""

    saved_ns: int
    interval_ns: tuple[int, int]
    p: float

    @property
    def sure(self) -> bool:
        """Whether it is more than chance."""
        return self.p < 1 - CONFIDENCE


def seen(base: Rounds, trials: Mapping[str, Rounds], busy: bool = False) -> dict[str, Seen]:
    """Return what each trial saved against the unchanged program of the same rounds; needs two rounds.

    busy: whether other processes kept cores busy meanwhile. p is corrected by Holm's method, and five times as large then.
    """
    found = {name: _paired(base, rounds) for name, rounds in trials.items()}
    corrected = _holm({name: p for name, (_, _, p) in found.items()})
    more = _BUSY if busy else 1.0
    return {name: Seen(saved, interval, min(1.0, more * corrected[name])) for name, (saved, interval, _) in found.items()}


def _paired(base: Rounds, rounds: Rounds) -> tuple[int, tuple[int, int], float]:
    from scipy import stats  # slow to import, and not needed by reports, which import the words of verdicts

    before, after = np.asarray(base, dtype=float), np.asarray(rounds, dtype=float)
    saved, count = before - after, len(before)
    apart = float(np.hypot(before.std(ddof=1), after.std(ddof=1)))  # the spread of differences of any two rounds
    mean, error = float(saved.mean()), max(float(saved.std(ddof=1)), _PAIRED * apart) / count**0.5
    if not error:
        return round(mean), (round(mean), round(mean)), 0.0 if mean else 1.0
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, count - 1))
    return round(mean), (round(mean - reach), round(mean + reach)), p


def _holm(p: Mapping[str, float]) -> dict[str, float]:
    order = sorted(p, key=lambda name: p[name])
    corrected, least = {}, 0.0
    for place, name in enumerate(order):
        least = max(least, min(1.0, (len(order) - place) * p[name]))
        corrected[name] = least
    return corrected


def verdict(result: Seen, claimed_ns: int | None) -> str:
    """Return the verdict in a word or two."""
    if not result.sure:
        return UNSEEN
    if result.saved_ns < 0:
        return WORSE
    return PARTLY if claimed_ns is not None and result.saved_ns < _HALF * claimed_ns else CONFIRMED


def same_results(base: Sequence[Sequence[float]], trial: Sequence[Sequence[float]]) -> bool | None:
    """Return whether a changed program's first losses or outputs are those of the unchanged one; None if that cannot be
    decided.

    base, trial: the values of each run in order. They may differ by three times the spread of the unchanged program's own runs.
    If these differ much because they draw other numbers, nothing can be decided.
    """
    count = min((len(values) for values in (*base, *trial)), default=0)
    if not count:
        return None
    before, after = (np.array([values[:count] for values in runs], dtype=float) for runs in (base, trial))
    size = np.maximum(np.abs(before.mean(axis=0)), np.finfo(float).tiny)
    spread = (before.max(axis=0) - before.min(axis=0)) / size
    if (spread > _VARIES).any() or not np.isfinite(before).all():
        return None
    apart = np.abs(after - before.mean(axis=0)).max(axis=0) / size
    return bool(np.isfinite(after).all() and (apart <= np.maximum(_LOOSE, _SPREAD * spread)).all())
