"""Generation without a cache: each call of the model recomputes all earlier positions."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.advise import lookups, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

TOPIC = "no cache of positions"
_FEWEST = 6  # different lengths
_IN_TURN = 0.8  # of the calls: they have one position more than the call before
_REMEDY = (
    "keep the keys and values of earlier positions and give each call only the new position (use_cache=True, which is the "
    "default, and past_key_values in transformers)"
)


def without_cache(subject: Subject) -> list[Advice]:
    """The model is called with texts that grow by one position from call to call."""
    computing = subject.kernels()
    if (computing["phase"] == "backward").any():
        return []
    looking = lookups.among(subject.inside_steps(subject.trace.operators)).sort_values("start_ns")
    lengths, samples = _lengths(looking["shapes"])
    grows = np.diff(lengths) == 1
    if len(np.unique(lengths)) < _FEWEST or grows.mean() < _IN_TURN or np.median(lengths) < _FEWEST:
        return []
    ns, typical = words.time_of(computing), float(np.median(lengths))
    of = f", for {samples} texts at once" if samples > 1 else ""
    return [
        Advice(
            TOPIC,
            "each call of the model recomputes all earlier positions",
            ns * (1 - 1 / typical),
            "the share of all positions but the new one, of the kernels' time; weights are still read in each call",
            [
                f"Calls get {lengths[0]} to {lengths[-1]} positions{of}, each one more than the call before. Kernels take "
                f"{words.share(subject, ns)} {subject.per}."
            ],
            _REMEDY,
            "https://huggingface.co/docs/transformers/kv_cache",
            words.ids(computing),
        )
    ]


def _lengths(shapes: pd.Series) -> tuple[npt.NDArray[np.int64], int]:
    """Return the positions of each lookup in the largest table, in order, and for how many texts; empty if unknown."""
    known = {text: _of(text) for text in shapes.dropna().unique()}
    rows = np.array([known.get(text, (0, 0, 0)) for text in shapes], dtype=np.int64).reshape(-1, 3)
    rows = rows[(rows[:, 0] == rows[:, 0].max(initial=0)) & (rows[:, 0] > 0)]
    return rows[:, 2], int(rows[0, 1]) if len(rows) else 0


def _of(text: str) -> tuple[int, int, int]:
    """Return the table's entries, texts and positions of one lookup, from shapes such as [[5000, 256], [2, 61], [], [], []]."""
    one = lookups.lookup(text)
    return (one.entries, math.prod(one.sizes[:-1]), one.sizes[-1]) if one else (0, 0, 0)


RULES: tuple[Rule, ...] = (without_cache,)
