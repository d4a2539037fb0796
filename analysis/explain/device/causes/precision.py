"""Precision: the sides compute products, convolutions and attention in different types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import MAIN_NAMES, SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import MAIN

_WIDE, _QUANTISED = ("f64", "f32", "tf32"), ("s8", "u8", "f8_e4m3", "f8_e5m2", "f8e4m3", "f8e5m2", "f4e2m1", "s4")
_NARROW = ("f16", "bf16")
_WIDTHS: dict[str | None, int] = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2}  # bytes
_SINGLE = ("f32", "tf32")
_EQUALLY_WIDE = (_NARROW, ("s8", "u8"), ("f8_e4m3", "f8_e5m2", "f8e4m3", "f8e5m2"))
_APART = 0.3  # by which the shares of 16-bit types must differ
_MOST = 0.5  # share of the main kernels' time that one type must have
_AS_MANY = 0.7  # of one side's kernels, that the other must have
_CONVERT = ("layout", "cast", "copy")  # kernels that come with another type
_PART = 0.1  # of the main kernels' time, from which a second type is named
_TO_16_BITS = "torch.autocast(dtype=torch.bfloat16) around the forward pass, or the framework's mixed precision"
_TO_TF32 = "torch.backends.cuda.matmul.allow_tf32 = True, or torch.set_float32_matmul_precision('high')"
_NO_GAIN = "in {0}: another implementation for {1}, or {2} as on the other side; here the narrower type is not the faster one"
_NO_DOUBLE = "find what makes values double: .double(), float64 arrays of numpy, torch.set_default_dtype"


def other_types(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Most of the computation is in another type, in other kernels."""
    main = case.kernels(MAIN)
    types = {key: _type(main, key) for key in SIDES}
    if None in types.values() or types["a"] == types["b"] or not case.same_device or _kept(main):
        return
    if _equally_wide(types):
        return  # the kernels differ, and not how many bits they compute in
    if set(types.values()) == set(_SINGLE) and _tf32_only_beside_attention(main):
        return
    delta = float(main["delta_ns"].sum())
    rows = case.kernels()
    sums = rows.groupby("kind")["delta_ns"].sum()
    follow = [kind for kind, ns in sums.items() if kind in (*MAIN, *_CONVERT) or (ns > 0) == (delta > 0)]
    rows = rows[rows["kind"].isin(follow).to_numpy(bool)]
    quantised = any(kind in _QUANTISED for kind in types.values())
    largest = main.groupby("kind")["delta_ns"].sum().abs().idxmax()
    mine = main[(main["kind"] == largest).to_numpy(bool)]
    what = "quantised" if quantised else "mixed precision" if "f16" in types.values() or "bf16" in types.values() else "precision"
    kinds = [name for name, group in MAIN_NAMES.items() if main["kind"].isin(group).any()]
    mostly = f" (mostly {largest})" if len(kinds) > 1 else ""
    title = (
        f"{what}: {case.a.name} computes in {_of(main, 'a')}, {case.b.name} in {_of(main, 'b')}; {words.listed(kinds)}{mostly} "
        f"take {words.of_rows(case, main)}"
    )
    sentences = [
        f"{str(largest).capitalize()}: {words.of_rows(case, mine)} {case.per}.",
        *words.both(case, mine),
        *_flash(case, main, types),
        f"With kernels that come with it, such as conversions: {words.of_rows(case, rows)}.",
    ]
    remedy = _remedy(types, "b" if delta > 0 else "a", case)
    yield DeviceFinding("precision", title, rows["row"].tolist(), "high", sentences, remedy, structural=True)


def _equally_wide(types: Mapping[str, str | None]) -> bool:
    """Return whether both sides compute in types of as many bits, other than f32 and TF32, such as float16 and bfloat16."""
    return any(set(types.values()) <= set(alike) for alike in _EQUALLY_WIDE)


def of_one_width(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence if these kernels compute in two types of as many bits: then other kernels make the difference."""
    types = {key: _type(rows, key) for key in SIDES}
    if types["a"] == types["b"] or not _equally_wide(types):
        return []
    return [f"{case.a.name} computes in {types['a']}, {case.b.name} in {types['b']}, of as many bits each."]


def _tf32_only_beside_attention(main: pd.DataFrame) -> bool:
    """Return whether one side's f32 is that of fused attention, of which there is none in TF32."""
    products = main[(main["kind"] != "attention").to_numpy(bool)]
    return len({_type(products, key) for key in SIDES} - {None}) < len(SIDES)


def _of(main: pd.DataFrame, key: str) -> str:
    """Return the type in which a side computes most; both f32 and TF32 if it uses both."""
    times = main.groupby(f"{key}_dtype")[f"{key}_ns"].sum().sort_values(ascending=False, kind="stable")
    both = [str(name) for name, ns in times.items() if name in _SINGLE and ns > _PART * float(times.sum())]
    return words.listed(both) if len(both) > 1 and str(times.index[0]) in _SINGLE else str(_type(main, key))


def _flash(case: DeviceCase, main: pd.DataFrame, types: Mapping[str, str | None]) -> list[str]:
    """Return a sentence if only one side uses flash attention, as the other computes in a type that it does not support."""
    attention = main[(main["kind"] == "attention").to_numpy(bool)]
    flash = attention["name"].astype("string").str.contains("flash").fillna(False).to_numpy(bool)
    for key, other in (("a", "b"), ("b", "a")):
        mine, theirs = attention[flash & (attention[f"{key}_ns"] > 0)], attention[flash & (attention[f"{other}_ns"] > 0)]
        if len(mine) and theirs.empty and attention[f"{other}_ns"].sum() and types[key] in _NARROW and types[other] in _SINGLE:
            return [f"Flash attention, which {case.side(key).name} uses, supports 16-bit types only."]
    return []


def _kept(main: pd.DataFrame) -> bool:
    """Return whether one side also executes most of the other's kernels: the rest is other work, not another type."""
    shares = []
    for key, other in (("a", "b"), ("b", "a")):
        kept = main[f"{other}_count"] >= (1 - _APART) * main[f"{key}_count"]
        kept &= ~((main["a_dtype"] != main["b_dtype"]).fillna(False))
        shares.append(float(main.loc[kept, f"{key}_ns"].sum()) / max(float(main[f"{key}_ns"].sum()), 1.0))
    return max(shares) > _MOST


def _remedy(types: Mapping[str, str | None], slow: str, case: DeviceCase) -> str:
    """Return how to bring the slower side to the other's type."""
    wide, narrow = types[slow], types["a" if slow == "b" else "b"]
    if _WIDTHS.get(wide, 0) < _WIDTHS.get(narrow, 0):
        return _NO_GAIN.format(case.side(slow).name, wide, narrow)
    how = _NO_DOUBLE if wide == "f64" else _TO_TF32 if narrow == "tf32" else _TO_16_BITS
    return f"in {case.side(slow).name}: {how}"


def partly(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Some of the main kernels are in a narrower type: they replace about as many wider ones of the other side."""
    if not case.same_device:
        return
    main = case.kernels(MAIN)
    own = {key: main[((main[f"{other}_count"] < 0.5) & (main[f"{key}_count"] >= 0.5)).to_numpy(bool)]
           for key, other in (("a", "b"), ("b", "a"))}  # fmt: skip
    types = {key: _type(rows, key) for key, rows in own.items()}
    counts = [float(own[key][f"{key}_count"].sum()) for key in SIDES]
    wide = [kind in _WIDE for kind in types.values()]
    if None in types.values() or wide[0] == wide[1] or min(counts) < _AS_MANY * max(counts):
        return
    rows = pd.concat([own["a"], own["b"]])
    title = (
        f"mixed precision in a part of the step: {words.count(counts[0])} kernels of {case.a.name} in {types['a']} became "
        f"{words.count(counts[1])} of {case.b.name} in {types['b']}, {words.of_rows(case, rows)}"
    )
    remedy = _remedy(types, "b" if float(rows["delta_ns"].sum()) > 0 else "a", case)
    yield DeviceFinding("precision", title, rows["row"].tolist(), "high", words.both(case, rows), remedy, structural=True)


def of_other_kernels(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Programs without products and the like: about as many kernels, in a narrower type on the faster side."""
    rows = case.kernels()
    types = {key: _type(rows, key) for key in SIDES}
    counts = [float(rows[f"{key}_count"].sum()) for key in SIDES]
    if len(case.all_kernels(MAIN)) or None in types.values() or types["a"] == types["b"] or not case.same_device:
        return
    slow, slower, fast, _ = words.slower(case, rows)
    if _WIDTHS.get(types[slow], 0) <= _WIDTHS.get(types[fast], 0) or min(counts) < _AS_MANY * max(counts):
        return
    title = f"other types: {case.a.name} computes in {types['a']}, {case.b.name} in {types['b']}; {words.of_rows(case, rows)}"
    remedy = f"{types[fast]} in {slower}, too, if the results allow it: it moves fewer bytes and computes on narrower units"
    yield DeviceFinding("precision", title, rows["row"].tolist(), "medium", words.both(case, rows), remedy, structural=True)


def _type(rows: pd.DataFrame, key: str) -> str | None:
    """Return the type in which a side spends most of its kernels' time; None if no type has half of it.

    TF32 is a way to compute products of f32, and attention and other kernels beside them stay in f32: both count as one type.
    """
    times = rows.groupby(f"{key}_dtype")[f"{key}_ns"].sum()
    whole = float(rows[f"{key}_ns"].sum())
    if not len(times) or not whole:
        return None
    largest = str(times.idxmax())
    alike = [name for name in times.index if name in _SINGLE] if largest in _SINGLE else [largest]
    return largest if float(times[alike].sum()) >= _MOST * whole else None


def narrower(kernels: pd.DataFrame) -> str | None:
    """Return the key of the side that computes much more in 16-bit types, by the time of kernels of known type; else None."""
    a, b = (_narrow(kernels, key) for key in SIDES)
    if a is None or b is None or abs(b - a) < _APART:
        return None
    return "b" if b > a else "a"


def types(case: DeviceCase, kernels: pd.DataFrame) -> str:
    """Return in words the type in which each side computes, with a kernel that shows it."""
    texts: list[str] = []
    for key in (narrower(kernels) or "a", "a" if narrower(kernels) == "b" else "b"):
        rows = kernels.dropna(subset=[f"{key}_dtype"])
        rows = rows[rows[f"{key}_dtype"].isin(_NARROW).to_numpy(bool)] if not texts else rows
        first = rows.sort_values(f"{key}_ns", ascending=False, kind="stable").iloc[0]
        texts.append(
            f"{case.side(key).name} {'in' if texts else 'computes in'} {first[f'{key}_dtype']} ({words.kernel(first['name'])})"
        )
    return ", ".join(texts)


def _narrow(kernels: pd.DataFrame, key: str) -> float | None:
    """Return the share of 16-bit types in the time of a side's kernels of known type; None if none is known."""
    times = kernels.groupby(f"{key}_dtype")[f"{key}_ns"].sum()
    whole = float(times.sum())
    return float(times.reindex(list(_NARROW)).fillna(0).sum()) / whole if whole else None


RULES = (other_types, partly, of_other_kernels)
