"""Fusion: one side does in a few kernels what the other does in many small ones, by a compiler, a fused optimizer or post-ops."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain.device import compiled, host_pace, words
from kernelscope.analysis.explain.device.case import SIDES, SMALL, DeviceCase, DeviceFinding

_OPTIMIZER = re.compile(r"(?i)multi_tensor|fused_?(?:adam|sgd|lamb|adagrad)|foreach|FusedOptimizer|distributed_adam")
_COMPILED = re.compile(
    r"(?i)^(?!at::native::).*fused_|^triton_|CudaCodeGen|nvfuser|^kernel\d+$|_fusion|^fusion|^Xla|^_Xla|jit_|TensorIteratorFused"
)
_AS_MANY = 2.0  # primitives a post-op, at most: an activation and a sum
_ATTACHABLE = ("activation", "elementwise")  # kinds of primitives that oneDNN can attach to the one before
_FEWER = 0.85  # of the launches of small kernels may be left, at most
_LEAST = {False: 5, True: 3}  # small kernels on the side that has more, by whether both are totals
_REPLACES = 0.02  # of the difference: a fused optimizer that does the same takes at least so long, as it moves the same data
_COUNTS = 0.02  # share by which counts of a kernel must differ


def fused(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side executes fewer small kernels for the same work, and has fused kernels that the other does not have."""
    if not case.same_device:
        return
    rows = case.kernels((*SMALL, "unknown", "layout", "embedding", "pooling"))
    small = rows[rows["kind"].isin(SMALL).to_numpy(bool)]
    counts = {key: float(small[f"{key}_count"].sum()) for key in SIDES}
    few = min(SIDES, key=lambda key: counts[key])
    many = "b" if few == "a" else "a"
    if counts[few] > _FEWER * counts[many] or counts[many] < _LEAST[case.totals]:
        return
    only = rows[((rows[f"{few}_count"] > 0) & (rows[f"{many}_count"] < 0.02 * rows[f"{few}_count"])).to_numpy(bool)]
    only = only[~only["row"].isin(case.rows.loc[case.below_cut(), "row"]).to_numpy(bool)]  # the other side may have them, too
    names = [str(name) for name in only["name"].dropna()]
    optimizer, generated = ([name for name in names if pattern.search(_plain(name))] for pattern in (_OPTIMIZER, _COMPILED))
    if not optimizer and not generated:
        return
    fuses = only["name"].isin([*optimizer, *generated]).to_numpy(bool)
    changed = small[_differs(small, few, many)]
    mine = pd.concat([changed, only[fuses]]).drop_duplicates("row")
    if optimizer and not generated and _takes_little(only[fuses], mine, few):
        return
    what = " and ".join(["a fused optimizer"] * bool(optimizer) + ["fused (compiled) kernels"] * bool(generated))
    if float(mine["delta_ns"].sum()) * (1 if few == "a" else -1) < 0:
        yield _slower(case, mine, few, many)
        return
    removed, added = mine[mine["delta_ns"].to_numpy() < 0], mine[mine["delta_ns"].to_numpy() > 0]
    totals = {key: float(mine[f"{key}_count"].sum()) for key in SIDES}
    title = (
        f"fusion: {words.count(totals['a'])} elementwise and other small kernels {case.per} in {case.a.name},"
        f" {words.count(totals['b'])} in {case.b.name}; {case.side(few).name} has {what}"
    )
    sentences = [
        f"{words.of_rows(case, mine)} {case.per}: {words.duration(float(removed['delta_ns'].sum()))} "
        f"from kernels that are fewer or gone, +{words.duration(float(added['delta_ns'].sum()))} from others.",
        *words.both(case, mine),
        *compiled.sentences(case),
    ]
    idle = host_pace.of_launches(case, mine)
    sentences += host_pace.waits(case, idle)
    mine = pd.concat([mine, idle])
    remedy = compiled.remedy(case, many) or "torch.compile the model"
    remedy = "torch.optim with fused=True or foreach=True" if optimizer else remedy
    yield DeviceFinding("fusion", title, mine["row"].tolist(), "high", sentences, remedy, structural=True)


def joined(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side has a kernel whose name joins those of two or more kernels of the other side, executed as often."""
    for one in case.replaced:
        if len(one.a) == len(one.b) or min(len(one.a), len(one.b)) > 1 or not case.totals:
            continue
        rows = case.kernels()
        rows = rows[rows["name"].isin(one.a | one.b).to_numpy(bool)]
        few, many = ("a", "b") if len(one.a) == 1 else ("b", "a")
        if len(rows) != len(one.a | one.b):
            continue
        names = {key: words.listed(sorted(map(words.kernel, mine))) for key, mine in (("a", one.a), ("b", one.b))}
        fused, apart = case.side(few).name, case.side(many).name
        title = (
            f"fusion: {names[few]} of {fused} does what {names[many]} do in {apart}, as its name tells: "
            f"{words.of_rows(case, rows)}, {words.count(float(rows[f'{few}_count'].sum()))} executions of each"
        )
        saves = float(rows["delta_ns"].sum()) * (1 if few == "a" else -1) > 0
        remedy = (
            f"in {apart}: one kernel for both, as in {fused}: what they share is read once, and there are fewer launches"
            if saves
            else f"in {fused}: two kernels, as in {apart}, where they take less time"
        )
        yield DeviceFinding("fusion", title, rows["row"].tolist(), "medium", words.both(case, rows), remedy, structural=True)


def attached(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side's primitives of oneDNN do activations and sums on their own results, and the other runs primitives for these."""
    counts = {key: sum((case.side(key).trace.info.get("post_ops") or {}).values()) for key in SIDES}
    few = max(SIDES, key=lambda key: counts[key])
    many = "b" if few == "a" else "a"
    rows = case.kernels(_ATTACHABLE)
    more = rows[f"{many}_count"] - rows[f"{few}_count"]
    rows = rows[((rows[f"{many}_library"] == "onednn") & (more > 0)).fillna(False).to_numpy(bool)]
    if rows.empty or float(more[rows.index].sum()) > _AS_MANY * (counts[few] - counts[many]):
        return  # more than post-ops do: other work
    operations = ", ".join(sorted(case.side(few).trace.info["post_ops"]))
    title = (
        f"fusion: {case.side(few).name} computes {operations} within the primitives before (post-ops); "
        f"{case.side(many).name} runs primitives of their own for that: {words.of_rows(case, rows)}"
    )
    executed = f"Post-ops executed: {counts['a']:,} in {case.a.name}, {counts['b']:,} in {case.b.name}."
    remedy = (
        f"in {case.side(many).name}: append them to the attributes of the primitive before (dnnl::post_ops); "
        "frameworks do so when they compile or freeze a model"
    )
    yield DeviceFinding(
        "fusion", title, rows["row"].tolist(), "high", [executed, *words.both(case, rows)], remedy, structural=True
    )


def _slower(case: DeviceCase, rows: pd.DataFrame, few: str, many: str) -> DeviceFinding:
    """Return the finding that fused kernels take longer than the kernels that they replace."""
    fused, others = case.side(few).name, case.side(many).name
    title = f"fused kernels of {fused} take longer than the kernels of {others} that they replace: {words.of_rows(case, rows)}"
    remedy = f"leave this part in {fused} as it is in {others}, or try another version or mode of the compiler"
    return DeviceFinding("fusion", title, rows["row"].tolist(), "medium", words.both(case, rows), remedy, structural=True)


def _takes_little(fused: pd.DataFrame, rows: pd.DataFrame, few: str) -> bool:
    """Return whether fused kernels take so little time on their side that they cannot do what the difference is made of."""
    return float(fused[f"{few}_ns"].sum()) < _REPLACES * abs(float(rows["delta_ns"].sum()))


def _plain(name: str) -> str:
    return name.removeprefix("void ").replace("(anonymous namespace)::", "").split("(", 1)[0]


def _differs(rows: pd.DataFrame, few: str, many: str) -> pd.Series[bool]:
    """Return which kernels the sides do not execute equally often."""
    a, b = rows[f"{few}_count"], rows[f"{many}_count"]
    return (a - b).abs() > _COUNTS * pd.concat([a, b], axis=1).max(axis=1)


RULES = (joined, fused, attached)
