"""What a kernel computes and moves, as rows of a table; kinds that work element by element; sizes of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

ELEMENTS = ("activation", "elementwise", "optimizer", "softmax", "normalisation")


ELEMENT_BYTES = {
    "f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 1, "f8_e5m2": 1, "f8e4m3": 1, "f8e5m2": 1, "s64": 8, "s32": 4,
    "s16": 2, "s8": 1, "u8": 1, "bool": 1,
}  # fmt: skip
_MOST = 1 << 62  # larger numbers come from damaged files


@dataclass(frozen=True)
class Amount:
    """What one kernel or call computes; None is unknown. bytes: algorithmic. source: what the numbers follow from."""

    problem: str | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    transpose: str | None = None
    flops: int | None = None
    bytes: int | None = None
    source: str | None = None


COLUMNS = tuple(Amount.__dataclass_fields__)
NUMBERS = ("m", "n", "k", "flops", "bytes")


def frame_of(works: Sequence[Amount]) -> pd.DataFrame:
    """Return amounts as rows; numbers that exceed a 64-bit integer are unknown."""
    rows = [[_fitting(getattr(work, name)) for name in COLUMNS] for work in works]
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def _fitting(value: Any) -> Any:
    return None if isinstance(value, int) and not 0 <= value < _MOST else value
