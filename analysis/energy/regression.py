"""Watts of each class of work from power samples, by non-negative regression, with intervals.

A sample is the mean power over some time, and so the mean of the classes' powers weighted by their shares of that time. Steps
repeat and samples fall on different phases of them, so many samples together resolve classes that no single one does.

Sources: folding by phase: Lang and Rünger, High-resolution power profiling of GPU functions, Euro-Par 2013; non-negative least
squares: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23 (scipy.optimize.nnls); equality by weighting: its
chapter 22.

Intervals come from the windows, which are independent where samples within one are not: the union of the bootstrap over windows
and of Student's t over the jackknife of the regression without the sign constraint (cluster-robust variance CR3; Bell and
McCaffrey, Survey Methodology 28, 2002), because five windows are few for a bootstrap and zero is a boundary for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.accounting.statistics import CONFIDENCE, student_t

Float = npt.NDArray[np.float64]

RESAMPLES = 400
_COUNTER_WEIGHT = 100.0  # the weight of the counter's mean power, squared and times the number of the window's samples
_SMALLEST = 1e-12  # of the largest eigenvalue: below it a combination of classes was never seen
_SEEN = 1e-3  # a class is distinguished from the others if no more of it than this lies in combinations never seen


@dataclass(frozen=True)
class Window:
    """Samples of one window: shares [samples, classes], watts [samples]; and of the whole window: whole [classes], mean_w."""

    shares: Float
    watts: Float
    whole: Float
    mean_w: float


@dataclass(frozen=True)
class Fit:
    """Watts of each class, [classes] each: estimate, interval, and whether the class can be distinguished from the others at all.

    gain: the samples' mean over the mean that the fit predicts for them: how far samples and counter agree. misfit_w: root mean
    square of the residuals.
    """

    watts: Float
    low: Float
    high: Float
    seen: npt.NDArray[np.bool_]
    gain: float
    misfit_w: float


def fit(windows: list[Window], seed: int = 0) -> Fit:
    """Return the watts of each class. An interval needs two windows or more; the caller ensures that."""
    gram = np.stack([_gram(window) for window in windows])
    moment = np.stack([_moment(window) for window in windows])
    estimate = _non_negative(gram.sum(axis=0)[None], moment.sum(axis=0)[None])[0]
    low, high = _bootstrap(gram, moment, seed)
    centre, reach = _jackknife(gram, moment)
    low = np.maximum(np.minimum(low, np.minimum(estimate, centre) - reach), 0.0)
    high = np.maximum(high, np.maximum(estimate, centre) + reach)
    predicted = np.concatenate([window.shares @ estimate for window in windows])
    sampled = np.concatenate([window.watts for window in windows])
    gain = float(sampled.sum() / predicted.sum()) if predicted.sum() else np.inf
    misfit = float(np.sqrt(np.mean((sampled - predicted) ** 2))) if len(predicted) else np.inf
    return Fit(estimate, low, high, _separable(gram.sum(axis=0)), gain, misfit)


def _gram(window: Window) -> Float:
    heavy = _COUNTER_WEIGHT**2 * max(len(window.watts), 1)
    return np.asarray(window.shares.T @ window.shares + heavy * np.outer(window.whole, window.whole))


def _moment(window: Window) -> Float:
    heavy = _COUNTER_WEIGHT**2 * max(len(window.watts), 1)
    return np.asarray(window.shares.T @ window.watts + heavy * window.mean_w * window.whole)


def _non_negative(gram: Float, moment: Float) -> Float:
    """Solve least squares with non-negative unknowns, given normal equations: [problems, classes(, classes)] each."""
    from scipy.optimize import nnls  # slow to import, and only needed here

    values, vectors = np.linalg.eigh(gram)
    keep = values > _SMALLEST * values[:, -1:]
    root = np.sqrt(np.where(keep, values, 0.0))
    turned = np.swapaxes(vectors, 1, 2)
    left = root[:, :, None] * turned
    right = np.where(keep, (turned @ moment[:, :, None])[:, :, 0] / np.where(keep, root, 1.0), 0.0)
    return np.stack([nnls(a, b)[0] for a, b in zip(left, right, strict=True)])


def _free(gram: Float, moment: Float) -> Float:
    """Solve least squares, given the normal equations; for combinations never seen, the smallest solution."""
    return np.asarray(np.linalg.pinv(gram, rcond=_SMALLEST, hermitian=True) @ moment)


def _bootstrap(gram: Float, moment: Float, seed: int) -> tuple[Float, Float]:
    random = np.random.default_rng(seed)
    count = len(gram)
    drawn = random.multinomial(count, np.full(count, 1.0 / count), RESAMPLES).astype(float)
    draws = _non_negative(np.tensordot(drawn, gram, 1), drawn @ moment)
    tail = (1.0 - CONFIDENCE) / 2.0
    return np.asarray(np.quantile(draws, tail, axis=0)), np.asarray(np.quantile(draws, 1.0 - tail, axis=0))


def _jackknife(gram: Float, moment: Float) -> tuple[Float, Float]:
    """Return the unconstrained estimate and how far its interval reaches, by leaving out one window after the other."""
    count = len(gram)
    centre = _free(gram.sum(axis=0), moment.sum(axis=0))
    without = np.stack([_free(gram.sum(axis=0) - gram[i], moment.sum(axis=0) - moment[i]) for i in range(count)])
    spread = np.sqrt((count - 1) / count * ((without - centre) ** 2).sum(axis=0))
    return centre, np.asarray(student_t(count) * spread)


def _separable(gram: Float) -> npt.NDArray[np.bool_]:
    values, vectors = np.linalg.eigh(gram)
    unseen = vectors[:, values <= _SMALLEST * values[-1]]
    return np.asarray((unseen**2).sum(axis=1) < _SEEN)
