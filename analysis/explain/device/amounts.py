"""How much work each side does: unequal amounts explain a difference before any cause does."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.alignment import words_of
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_OTHER_WORK = 1.5  # times as many products, convolutions and attentions: another program, or another unit of work
_HELPERS = r"(?i)offsets?kernel|generatewinogradtiles"  # of convolutions, beside the kernel that computes
_LONGER, _NEAR = 2.0, 1.3  # times as long sequences that are told; within which attention must take their square
_USUAL = frozenset(["kernel", "kernels", "gpu", "cuda", "device", "global", "void", "float", "double", "int", "fn", "func"])
_ALIKE = 0.02  # numbers of executions within this share of each other are equal
_MOST = 0.6  # of the time of either side must be in kernels whose numbers differ by one factor
_LEAST = 3  # different kernels: fewer say nothing about the whole


def differ(case: DeviceCase) -> list[str]:
    """Return a sentence on the amount of work if it differs so much that this alone may be the cause."""
    said = _of_programs(case) or _of_gradients(case) or _of_repeats(case) or _of_main(case) or _of_lengths(case)
    return [said] if said else []


def _of_programs(case: DeviceCase) -> str | None:
    """Return a sentence if the sides seem to be different programs: kernels of their own, of which no two share a word."""
    rows = case.all_kernels()
    if rows.empty or rows[["a_library", "b_library"]].notna().any().any() or (rows["kind"].fillna("unknown") != "unknown").any():
        return None
    names = [set(rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), "name"].dropna()) for key in SIDES]
    if sum(map(len, names)) < _LEAST or not all(names):
        return None
    a, b = (frozenset().union(*map(words_of, mine)) - _USUAL for mine in names)
    return None if a & b else "no kernel of A has a name like one of B's: these seem to be different programs"


def _of_lengths(case: DeviceCase) -> str | None:
    """Return a sentence if sequences seem to be longer on one side: then attention grows with the square of what products do."""
    rows = {kind: case.all_kernels([kind])[[f"{key}_{what}" for key in SIDES for what in ("count", "ns")]].sum()
            for kind in ("attention", "gemm")}  # fmt: skip
    if any(min(one) <= 0 or abs(one["a_count"] - one["b_count"]) > _ALIKE * one["a_count"] for one in rows.values()):
        return None
    attention, products = (float(rows[kind]["b_ns"] / rows[kind]["a_ns"]) for kind in ("attention", "gemm"))
    longer = max(products, 1 / products)
    if longer < _LONGER or not 1 / _NEAR < attention / products**2 < _NEAR or not case.same_device:
        return None
    times = [f"{max(ratio, 1 / ratio):.2g}" for ratio in (attention, products)]
    there = "B" if products > 1 else "A"
    as_with = f"as with sequences {times[1]} times as long"
    return f"attention takes {times[0]} times as long in {there}, products {times[1]} times: {as_with}"


def _of_gradients(case: DeviceCase) -> str | None:
    """Return a sentence if only one side computes gradients, of convolutions, as kernels of products do not show it."""
    times = {key: case.all_kernels(CONVOLUTIONS).groupby("kind")[f"{key}_ns"].sum() for key in SIDES}
    for key, other in (SIDES, SIDES[::-1]):
        mine, its = (float(times[one].drop("convolution forward", errors="ignore").sum()) for one in (key, other))
        forward = float(times[other].get("convolution forward", 0.0))
        if mine and forward and not its and not case.unlisted_ns(other):
            return f"{key.upper()} computes gradients of convolutions ({words.duration(mine)}), {other.upper()} none"
    return None


def _of_main(case: DeviceCase) -> str | None:
    """Return a sentence if one side has far more products, convolutions and attentions. Fused attention counts as two."""
    if any(len(side.trace.graphs) for side in (case.a, case.b)) or any(case.unlisted_ns(key) for key in SIDES):
        return None
    main = case.without_wrappers(case.all_kernels(MAIN))
    main = main[~main["name"].astype("string").str.contains(_HELPERS).fillna(False).to_numpy(bool)]
    weight = np.where(main["kind"] == "attention", 2.0, 1.0)
    a, b = (float((main[f"{key}_count"] * weight).sum()) for key in SIDES)
    if max(a, b) < 2 or max(a, b) <= _OTHER_WORK * min(a, b):
        return None
    return f"{words.count(a)} products, convolutions and attentions {case.per} in A, {words.count(b)} in B"


def _of_repeats(case: DeviceCase) -> str | None:
    """Return a sentence if B executes most of what it does by one factor more or less often than A; else None.

    Loops of different length, other numbers of samples, or batches of another size look like this.
    """
    if not case.totals or any(case.unlisted_ns(key) for key in SIDES):
        return None
    largest = words.of_both(case.all_kernels())
    times = _repeats(case, largest)
    if times is None:
        return None
    place = int((largest["a_ns"] + largest["b_ns"]).to_numpy(float).argmax())
    counts = [words.count(float(largest[f"{key}_count"].iloc[place])) for key in SIDES]
    took = case.b.account.step_ns / times
    change = f"{took / case.a.account.step_ns - 1:+.0%}"
    return (
        f"most of the work runs {times:.3g} times as often in B as in A ({largest.index[place]}: {counts[0]} and {counts[1]} "
        "times), as in a loop of another length or with other batches; "
        f"as often as in A, B's work would take {words.duration(took)} ({change})"
    )


def _repeats(case: DeviceCase, sums: pd.DataFrame) -> float | None:
    """Return how many times as often B executes most kernels, by time, as A does; None if equally often, or unlike.

    sums: see words.of_both.
    """
    ratios = (sums["b_count"] / sums["a_count"]).to_numpy(float)
    shares = np.min([sums[f"{key}_ns"] / max(case.side(key).account.step_ns, 1) for key in SIDES], axis=0)
    if len(ratios) < _LEAST:
        return None
    order = np.argsort(ratios, kind="stable")
    middle = float(ratios[order][np.searchsorted(np.cumsum(shares[order]), shares.sum() / 2)])
    near = (np.abs(ratios / middle - 1) <= _ALIKE) & np.isfinite(ratios)
    if abs(middle - 1) <= _ALIKE or near.sum() < _LEAST:
        return None
    held = [float(sums.loc[near, f"{key}_ns"].sum()) / max(case.side(key).account.step_ns, 1) for key in SIDES]
    return middle if min(held) >= _MOST else None
