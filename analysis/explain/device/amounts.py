"""How much work each side does: unequal amounts explain a difference before any cause does."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.device_account import COPY
from kernelscope.analysis.explain.device import equal_steps, networks, words
from kernelscope.analysis.explain.device.alignment import hardly_alike, words_of
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_OTHER_WORK = 1.5  # times as many products, convolutions and attentions: another program, or another unit of work
_HELPERS = r"(?i)offsets?kernel|generatewinogradtiles"  # of convolutions, beside the kernel that computes
_LONGER, _NEAR = 2.0, 1.3  # times as long sequences that are told; within which attention must take their square
_FAR_LONGER, _LASTS_NS = 4.0, 50_000  # times as long, and how long a copy lasts: more than another kind of memory makes of them
_BETWEEN = ("host to device", "device to host", "unified memory")
_USUAL = frozenset(["kernel", "kernels", "gpu", "cuda", "device", "global", "void", "float", "double", "int", "fn", "func"])
_ALIKE = 0.02  # numbers of executions within this share of each other are equal
_QUANTISES = r"\bQuantizeLinear"
_MOST = 0.6  # of the time of either side must be in kernels whose numbers differ by one factor
_SEVERAL = 5  # different kernels: all of fewer may run more often by chance
_LITTLE = 0.2  # of a side's time in kernels
_LEAST = 3  # different kernels: fewer say nothing about the whole


def differ(case: DeviceCase) -> list[str]:
    """Return a sentence on the amount of work if it differs so much that this alone may be the cause."""
    if case.counted_apart:
        return []
    rules = (_of_programs, networks.differ, _of_gradients, _of_repeats, _of_more, _of_main, _of_lengths, _of_sizes)
    said = next(filter(None, (rule(case) for rule in rules)), None)
    return [one for one in (said, _of_precisions(case), _of_quantised_layers(case)) if one]


def _of_precisions(case: DeviceCase) -> str | None:
    """Return a sentence if engines of TensorRT were built for different precisions, as far as both logs state them."""
    a, b = ((side.facts.get("settings") or {}).get("precision") for side in (case.a, case.b))
    if not all(networks.is_engine(side) for side in (case.a, case.b)) or None in (a, b) or a == b:
        return None
    return f"A's engine may compute in {a}, B's in {b}"


def _of_quantised_layers(case: DeviceCase) -> str | None:
    """Return a sentence if only one engine of TensorRT has layers that quantise: it computes in fewer bits."""
    if not all(networks.is_engine(side) for side in (case.a, case.b)) or any(map(case.is_cut, SIDES)):
        return None
    counts = [int(side.trace.kernels["name"].astype("string").str.contains(_QUANTISES).sum()) for side in (case.a, case.b)]
    if not max(counts) or min(counts):
        return None
    there, other = ("A", "B") if counts[0] else ("B", "A")
    return f"{there} quantises what it computes with (QuantizeLinear in {max(counts)} layers), {other} does not"


def other_programs(case: DeviceCase) -> bool:
    """Return whether the sides seem to be different programs."""
    return _of_programs(case) is not None or networks.differ(case) is not None


def _of_programs(case: DeviceCase) -> str | None:
    """Return a sentence if the sides have kernels of their own, none in common, and hardly two alike by name.

    Kernels of libraries, whose names change from version to version, take little of the time.
    """
    if case.of_functions:
        return _of_functions(case)
    rows = case.all_kernels()
    ours = (rows["a_library"].isna() & rows["b_library"].isna()).to_numpy(bool)
    if any(rows.loc[~ours, f"{key}_ns"].sum() > _LITTLE * rows[f"{key}_ns"].sum() for key in SIDES):
        return None
    rows = rows[ours]
    main = rows[rows["kind"].isin(MAIN).to_numpy(bool)]
    alike = all(main[f"{key}_count"].any() for key in SIDES)  # they may do the same, by kernels of other names
    if rows.empty or alike or case.by_operators:
        return None
    there = [(rows[f"{key}_count"] > 0).to_numpy(bool) for key in SIDES]
    names = [set(rows.loc[mine, "name"].dropna().map(words.kernel)) for mine in there]
    if not all(names) or names[0] & names[1] or (sum(map(len, names)) < _LEAST and not _of_other_kinds(rows)):
        return None
    shared, hardly = hardly_alike(rows, rows["name"].map(lambda name: words_of(name) - _USUAL))
    if shared and (min(map(len, names)) < _LEAST or not hardly):
        return None
    return f"{'hardly a' if shared else 'no'} kernel of A has a name like one of B's: these seem to be different programs"


def _of_functions(case: DeviceCase) -> str | None:
    """Return a sentence if none of several functions of one side is among the other's, under its own or a like name."""
    rows = case.all_kernels()
    there = [(rows[f"{key}_count"] > 0).to_numpy(bool) for key in SIDES]
    if min(map(sum, there)) < _SEVERAL or (there[0] & there[1]).any() or case.replaced:
        return None
    verb = "prints" if any(map(case.is_cut, SIDES)) else "calls"
    return f"none of the functions that A {verb} is among those that B {verb}: these seem to be different programs"


def _of_other_kinds(rows: pd.DataFrame) -> bool:
    """Return whether the kernels of both sides are of known kinds, products or convolutions among them, and none is on both."""
    kinds = [set(rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), "kind"].fillna("unknown")) for key in SIDES]
    known = kinds[0] | kinds[1]
    return not kinds[0] & kinds[1] and "unknown" not in known and bool(known & set(MAIN))


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


def _of_sizes(case: DeviceCase) -> str | None:
    """Return a sentence if kernels and copies, equally many on both sides, all take far longer on one: a larger problem."""
    if not case.totals or not case.counts or case.by_operators or not case.same_device or any(map(case.is_cut, SIDES)):
        return None
    kernels, copies = case.all_kernels(), case.rows[(case.rows["part"] == COPY).to_numpy(bool)]
    copies = copies[copies["kind"].isin(_BETWEEN).to_numpy(bool)]
    rows = pd.concat([kernels, copies])
    if kernels.empty or copies.empty or (rows["a_count"] != rows["b_count"]).any() or (copies["kind"] == "unified memory").any():
        return None
    more, less = ("b", "a") if float(rows["delta_ns"].sum()) > 0 else ("a", "b")
    longer = [float(part[f"{more}_ns"].sum()) / max(float(part[f"{less}_ns"].sum()), 1.0) for part in (kernels, copies)]
    moved = [float(copies[f"{key}_bytes"].sum()) for key in (more, less)]
    each = float(copies[f"{more}_ns"].sum()) / max(float(copies[f"{more}_count"].sum()), 1.0)
    if longer[0] < _LONGER or longer[1] < _FAR_LONGER or each < _LASTS_NS or (all(moved) and moved[0] < _LONGER * moved[1]):
        return None
    times = [f"{ratio:.3g} times as long" for ratio in longer]
    names = sorted(set(kernels["name"].map(words.kernel)))
    said = f"{names[0]} takes" if len(names) == 1 else "the same number of kernels takes"
    there = f"{said} {times[0]} in {more.upper()}"
    return f"{there}, and the same number of copies takes {times[1]} there: as with a larger problem"


def larger_problem(case: DeviceCase) -> bool:
    """Return whether both kernels and copies, equally many, take far longer on one side, as with more data."""
    return _of_sizes(case) is not None


def _of_gradients(case: DeviceCase) -> str | None:
    """Return a sentence if only one side computes gradients, of convolutions, as kernels of products do not show it."""
    times = {key: case.all_kernels(CONVOLUTIONS).groupby("kind")[f"{key}_ns"].sum() for key in SIDES}
    for key, other in (SIDES, SIDES[::-1]):
        mine, its = (float(times[one].drop("convolution forward", errors="ignore").sum()) for one in (key, other))
        forward = float(times[other].get("convolution forward", 0.0))
        if mine and forward and not its and not case.is_cut(other):
            return f"{key.upper()} computes gradients of convolutions ({words.duration(mine)}), {other.upper()} none"
    return None


def _of_main(case: DeviceCase) -> str | None:
    """Return a sentence if one side has far more products, convolutions and attentions. Fused attention counts as two."""
    if any(len(side.trace.graphs) for side in (case.a, case.b)) or any(map(case.is_cut, SIDES)):
        return None
    main = case.without_wrappers(case.all_kernels(MAIN))
    main = main[~main["name"].astype("string").str.contains(_HELPERS).fillna(False).to_numpy(bool)]
    weight = np.where(main["kind"] == "attention", 2.0, 1.0)
    a, b = (float((main[f"{key}_count"] * weight).sum()) for key in SIDES)
    if max(a, b) < 2 or max(a, b) <= _OTHER_WORK * min(a, b):
        return None
    what = "product, convolution or attention" if words.count(a) == "1" else "products, convolutions and attentions"
    return f"{words.count(a)} {what} {case.per} in A, {words.count(b)} in B"


def _of_repeats(case: DeviceCase) -> str | None:
    """Return a sentence if B executes most of what it does by one factor more or less often than A; else None.

    Loops of different length, other numbers of samples, or batches of another size look like this.
    """
    if not case.totals or any(map(case.is_cut, SIDES)):
        return None
    largest = words.of_both(case.all_kernels())
    times = _repeats(case, largest)
    if times is None:
        return None
    place = int((largest["a_ns"] + largest["b_ns"]).to_numpy(float).argmax())
    counts = [words.count(float(largest[f"{key}_count"].iloc[place])) for key in SIDES]
    took = case.b.account.step_ns / times
    change = f"{took / case.a.account.step_ns - 1:+.0%}"
    more, less = ("B", "A") if times > 1 else ("A", "B")
    return (
        f"most of the work runs {max(times, 1 / times):.3g} times as often in {more} as in {less} ({largest.index[place]}: "
        f"{counts[0]} times in A, {counts[1]} in B), as in a loop of another length or with other batches; "
        f"run as often as in A, B's work would take {words.duration(took)} ({change})"
    )


def _of_more(case: DeviceCase) -> str | None:
    """Return a sentence if one side executes all that both print more often, by whatever factor, as in more steps."""
    if not case.totals or not case.counts or case.on_cpu:
        return None
    both = words.of_both(case.all_kernels())
    for key, other in (SIDES, SIDES[::-1]):
        ratios = both[f"{key}_count"] / both[f"{other}_count"]
        listed = [
            float(both[f"{one}_ns"].sum()) / max(case.side(one).account.step_ns - case.unlisted_ns(one), 1) for one in SIDES
        ]
        if len(both) < _SEVERAL or not (ratios > 1 + _ALIKE).all() or min(listed) < _MOST:
            continue
        first = both.iloc[int((both["a_ns"] + both["b_ns"]).to_numpy(float).argmax())]
        counts = [words.count(float(first[f"{one}_count"])) for one in SIDES]
        more, less = (case.side(one).name for one in (key, other))
        often = f"{ratios.min():.3g} to {ratios.max():.3g} times as often"
        steps = equal_steps.told(case)
        why = f"within equally many steps ({steps}): as with work that {less} does in one call for several" if steps else ""
        return (
            f"{more} executes all that both print more often than {less}, {often} "
            f"({first.name}: {counts[0]} times in A, {counts[1]} in B), {why or 'as with more steps or other batches'}"
        )
    return None


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
