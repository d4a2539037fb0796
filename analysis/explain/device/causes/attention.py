"""Attention: by other kernels, or in one fused kernel while the other side multiplies, masks and normalises separately."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding

_AROUND = ("softmax", "gemm", "random", "copy", "layout", "elementwise", "cast", "reduction")
_MAY_BE_FROM_HOST = ("copy", "cast")  # operators of these kinds may copy from the host, which is no part of attention
_BACKWARD = r"(?i)bwd|backward|_d[qkv]+_|dkdv|dgrad"
_ATTENTION = r"^aten::(?:scaled_dot_product_attention|_\w*_attention)"
_BATCHED = r"^aten::b(?:addb)?mm$"
_ANY = "a kernel that computes all of attention at once (flash attention): cuDNN, FlashAttention, xFormers"
_AS_OTHER = "leave attention as it is on the faster side, or try another version, type or head size"
_AS_FASTER = (
    "compare versions and builds of the library, and types, head sizes and lengths: kernels of one name take longer in {0} "
    "than in {1}"
)
_FURTHER = "see what makes {0} execute these beside attention, and {1} not: padded or packed inputs, or the library's version"
_EXPONENTIALS = r"(?i)\bexp_kernel|^aten::exp_?$"  # of a softmax that the program computes in parts
_GENERATED = r"(?i)^triton_\w*_exp2?(?:_|$)"  # a compiler's kernel for what is around a fused attention, as in its gradients
_PARTS = ("elementwise", "reduction", "copy", "cast", "random")  # kinds that grow with the scores
_GREW = 10.0  # times as long: in totals, kernels that work on the scores, too
_IN_PARTS = (
    "{0} has exponentials ({1} x) and reductions ({2} x) of its own, as of a softmax in parts, which write the scores to memory."
)
_NO_PRODUCTS = "Products are left out: which of them are attention's is unknown."
_MAY_BE_OTHERS = "The rest is small kernels that only {0} has or that take far longer there; some of them may be no attention."
_SHARED = 0.5  # of a kernel's executions that both sides have: it is mostly other work, and none of its time is attention's
_REPLACED = 0.5  # of a kernel an attention must be gone; of tables that were cut, which lack some of them, fewer
_REPLACED_OF_CUT = 0.3
_TO_16_BITS = "inputs in float16 or bfloat16, which flash attention needs: in float32 a slower kernel takes its place"
_ALGORITHMS = (
    (r"(?i)flash", "flash"), (r"(?i)fmha_cutlass|efficient_attention|mem_eff", "memory-efficient"), (r"(?i)cudnn", "cuDNN"),
)  # fmt: skip
_REMEDY = "torch.nn.functional.scaled_dot_product_attention with a type, head size and mask that its fused kernels support"


def other_attention(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The sides compute attention by kernels of other names, or only one has fused kernels for it."""
    rows = case.kernels(["attention"])
    counts = {key: float(rows[f"{key}_count"].sum()) for key in SIDES}
    if max(counts.values()) < 0.5 or not case.same_device:
        return
    if min(counts.values()) < 0.5:
        yield from _unfused(case, rows)
        return
    mine = rows[((rows["a_count"] < 0.5) != (rows["b_count"] < 0.5)).to_numpy(bool)]
    backward = mine["name"].str.contains(_BACKWARD).fillna(False).to_numpy(bool)
    for part, what in ((mine[~backward], "attention"), (mine[backward], "attention's gradients")):
        both = part["name"].map(words.kernel).isin(words.of_both(part).index).to_numpy(bool)
        if both.any():
            yield _by_the_same(case, part[both], what)
        if not both.all():
            yield _only_there(case, part[~both], what) if both.any() else _by_other_kernels(case, part, what)


def _by_the_same(case: DeviceCase, rows: pd.DataFrame, what: str) -> DeviceFinding:
    """Return the finding that attention's kernels, which both sides execute, take longer on one.

    Their full names differ: by template arguments, or by how they are printed.
    """
    _, slower, fast, faster = words.slower(case, rows)
    title = f"{what}: {words.longest(rows, fast)} takes longer in {slower} than in {faster}: {words.of_rows(case, rows)}"
    said = [*words.both(case, rows), *words.by_number(case, rows)]
    sure = "medium" if case.totals else "high"  # totals have no sizes, so the work may differ
    how = _AS_FASTER.format(slower, faster)
    return DeviceFinding("attention algorithm", title, rows["row"].tolist(), sure, said, how, structural=True)


def _only_there(case: DeviceCase, rows: pd.DataFrame, what: str) -> DeviceFinding:
    """Return the finding on what is executed besides attention's kernels of both sides: padding, conversions, reductions."""
    title = f"{what}: further kernels, besides those of both sides: {words.of_rows(case, rows)}"
    _, slower, _, faster = words.slower(case, rows)
    sure = "medium" if case.totals else "high"
    how = _FURTHER.format(slower, faster)
    return DeviceFinding("attention algorithm", title, rows["row"].tolist(), sure, words.both(case, rows), how, structural=True)


def _by_other_kernels(case: DeviceCase, rows: pd.DataFrame, what: str) -> DeviceFinding:
    """Return the finding that attention, or its gradients, is computed by kernels of other names."""
    names = {key: words.kernel(rows.sort_values(f"{key}_ns", ascending=False)["name"].iloc[0]) for key in SIDES}
    there = [f"{names[key]} in {case.side(key).name}" for key in SIDES if rows[f"{key}_count"].sum()]
    title = f"{what} by other kernels: {', '.join(there)}, {words.of_rows(case, rows)}"
    _, slower, fast, faster = words.slower(case, rows)
    settings = f"the library, version, type or head size that selects {names[fast]} in {faster}" if len(there) > 1 else ""
    what = f"in {slower}: {settings}" if settings else remedy(case)
    return DeviceFinding(
        "attention algorithm", title, rows["row"].tolist(), "high", words.both(case, rows), what, structural=True
    )


def _unfused(case: DeviceCase, rows: pd.DataFrame) -> Iterator[DeviceFinding]:
    """One side computes attention in fused kernels, and executes fewer softmaxes, products and small kernels instead."""
    fused = "a" if float(rows["a_count"].sum()) > 0.5 else "b"
    other = "b" if fused == "a" else "a"
    many = float(rows[f"{fused}_count"].min())  # attentions: each takes one kernel of a name, but several names for gradients
    around = case.kernels([kind for kind in _AROUND if not (case.by_operators and kind in _MAY_BE_FROM_HOST)])
    least = _REPLACED_OF_CUT if case.is_cut(other) else _REPLACED
    fewer = around[(around[f"{other}_count"] - around[f"{fused}_count"] >= least * many).to_numpy(bool)]
    fewer = fewer[~words.are_several(fewer)]
    if case.totals:  # where only a part of a row may be attention's, which part is unknown
        fewer = fewer[(fewer[f"{fused}_count"] <= _SHARED * fewer[f"{other}_count"]).to_numpy(bool)]
    told = _by_operators(case, fewer, (fused, other), many)
    if not (fewer["kind"] == "softmax").any() and not told:
        yield from _in_parts(case, rows, fewer, (fused, other))
        return  # it does not replace any softmax: other work, not another algorithm
    alone, called = float(rows[f"{fused}_ns"].sum()), _called(rows, fused)
    single = rows[f"{fused}_dtype"].isin(["f32", "tf32"]).all()
    rows = pd.concat([rows, fewer])
    sentences = [*_of_rest(case, fewer, alone, (fused, other)), *([told] if told else []), *words.both(case, rows)]
    sure = "medium" if case.totals else "high"  # totals have no shapes, so the work may differ
    title = (
        f"attention: {case.side(fused).name} computes it in one {called}, {case.side(other).name} by products,"
        f" softmax and small kernels: {words.of_rows(case, rows)}"
    )
    slower = words.slower(case, rows)[0] == fused
    how = f"in {case.side(fused).name}: {_TO_16_BITS}" if slower and single else _AS_OTHER if slower else remedy(case)
    here = rows["row"].tolist()
    yield DeviceFinding("attention algorithm", title, here, sure, sentences, how, structural=True, told=told is not None)


def _in_parts(case: DeviceCase, rows: pd.DataFrame, fewer: pd.DataFrame, sides: tuple[str, str]) -> Iterator[DeviceFinding]:
    """One side computes attention in fused kernels, and the other its softmax in parts: exponentials and reductions.

    rows: the fused kernels; fewer: what may replace them; sides: which has the fused kernels, and the other.
    """
    fused, other = sides
    many = float(rows[f"{fused}_count"].min())
    names = fewer["name"].astype("string")
    counts = [
        float(fewer.loc[mine.fillna(False).to_numpy(bool), f"{other}_count"].sum())
        for mine in (names.str.contains(_EXPONENTIALS), fewer["kind"] == "reduction")
    ]
    if case.by_operators or min(counts) < _REPLACED * many or counts[1] < counts[0]:
        return  # a softmax reduces at least as often: its largest value, and the sum
    small = case.kernels(_PARTS)
    generated = small["name"].str.contains(_GENERATED).fillna(False) & (small[f"{other}_count"] <= 0)
    grew = case.totals & (small[f"{other}_ns"] > _GREW * small[f"{fused}_ns"]) & (small[f"{fused}_count"] > 0)
    parts = fewer[fewer["kind"].isin(_PARTS).to_numpy(bool)] if case.totals else fewer
    mine = pd.concat([rows, parts, small[(generated | grew).to_numpy(bool)]]).drop_duplicates("row")
    here, apart, alone = case.side(fused).name, case.side(other).name, float(rows[f"{fused}_ns"].sum())
    title = f"attention: {here} computes it in one {_called(rows, fused)}, {apart} in parts: {words.of_rows(case, mine)}"
    sentences = [
        _IN_PARTS.format(apart, *map(words.count, counts)), *([_NO_PRODUCTS] if case.totals else []),
        f"The fused kernels alone take {words.duration(alone)} in {here}. {_MAY_BE_OTHERS.format(apart)}",
        *words.both(case, mine),
    ]  # fmt: skip
    how = _AS_OTHER if words.slower(case, mine)[0] == fused else f"in {apart}: {_of_its_names(case, mine)}"
    yield DeviceFinding("attention algorithm", title, mine["row"].tolist(), "medium", sentences, how, structural=True)


def _of_its_names(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return how to compute attention in one kernel, as PyTorch does if its own kernels are among these."""
    return _REMEDY if rows["name"].str.contains("at::native::", regex=False).fillna(False).any() else remedy(case)


def _of_rest(case: DeviceCase, fewer: pd.DataFrame, alone: float, sides: tuple[str, str]) -> list[str]:
    """Say how much of the fused side's time is in its fused kernels (alone, ns), and where the rest is."""
    fused, other = (case.side(key).name for key in sides)
    said = f"The fused kernels alone take {words.duration(alone)} in {fused}"
    if not fewer[f"{sides[0]}_ns"].sum():
        return [f"{said}; {other} executes the others in place of them."]
    return [f"{said}; the rest is kernels that {other} executes more often, in attention or elsewhere."]


def _called(rows: pd.DataFrame, fused: str) -> str:
    """Return what the fused kernels are, as their names say: flash attention is one of several algorithms."""
    names = rows.loc[(rows[f"{fused}_count"] > 0).to_numpy(bool), "name"].astype("string")
    told = [words_ for pattern, words_ in _ALGORITHMS if names.str.contains(pattern).all()]
    return f"fused ({told[0]}) kernel" if told else "fused kernel"


def _by_operators(case: DeviceCase, fewer: pd.DataFrame, sides: tuple[str, str], many: float) -> str | None:
    """Return a sentence if operators tell what the softmax does, which a table that was cut does not print; else None.

    The side with fused kernels prints attention's operators and no batched product, the other one only batched products, at
    least two for each attention. sides: which has fused kernels, and the other; many: attentions of the first.
    """
    fused, other = sides
    named = [_operators(case, key, pattern) for key, pattern in ((fused, _ATTENTION), (other, _BATCHED))]
    against = [_operators(case, key, pattern) for key, pattern in ((fused, _BATCHED), (other, _ATTENTION))]
    products = not case.by_operators and (fewer["kind"] == "gemm").any()
    if not case.is_cut(other) or not products or any(map(len, against)) or not all(map(len, named)):
        return None
    if float(named[1].sum()) < 2 * many:
        return None
    said = [f"{case.side(key).name}: {one.index[0]} ({words.count(float(one.iloc[0]))} calls)"
            for key, one in zip(sides, named, strict=True)]  # fmt: skip
    return f"Operators tell it, {'; '.join(said)}; a softmax is not among the rows that were printed."


def _operators(case: DeviceCase, key: str, pattern: str) -> pd.Series[float]:
    """Return how often a side's totals count the operators whose names match, by name."""
    totals = case.side(key).trace.totals
    names = totals["name"].astype("string")
    mine = ((totals["table"] == "operators") & names.str.contains(pattern)).fillna(False).to_numpy(bool)
    return totals["count"][mine].astype(float).groupby(names[mine].astype(str)).sum().sort_index(ascending=False)


def remedy(case: DeviceCase) -> str:
    """Return how to compute attention in one kernel."""
    return _REMEDY if any(side.facts.get("framework") == "pytorch" for side in (case.a, case.b)) else _ANY


RULES = (other_attention,)
