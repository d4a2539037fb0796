"""Questions that rules of several families ask about groups: what differs in them, what a cause may claim, and words for it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from typing import cast

import pandas as pd

from kernelscope.analysis.accounting.amounts import duration as duration
from kernelscope.analysis.explain.causes.groups import MOVES as MOVES
from kernelscope.analysis.explain.causes.groups import ONCE as ONCE
from kernelscope.analysis.explain.causes.groups import RowGroup as RowGroup
from kernelscope.analysis.explain.causes.groups import candidates as candidates
from kernelscope.analysis.explain.causes.groups import groups as groups
from kernelscope.analysis.explain.causes.groups import once
from kernelscope.analysis.explain.device.words import listed as listed
from kernelscope.analysis.explain.model import SIDES, Case, Side
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

SMALL = ("elementwise", "activation")  # one pass over memory each
FLOATS = ("f64", "f32", "tf32", "f16", "bf16", "f8e4m3", "f8e5m2", "f4e2m1", "c64", "c128")

# Counts of asynchronous work waver where steps begin and end: counts within this share are equal
WAVER = 0.1
LONGEST = 60  # characters of a kernel's name in a sentence
# So many more elementwise kernels per step make a chain
CHAIN = 2.0
# If kernels that both sides execute alike take more than this share of a group's time, they are not part of the change
ALIKE = 0.5


def more(case: Case, kinds: Collection[str], least: float = ONCE) -> Iterable[tuple[RowGroup, str, str]]:
    """Yield the layers' groups in which one side executes at least `least` more kernels of these kinds per step.

    Each comes with the side that has more, and the other.
    """
    for group in candidates(case):
        a, b = (group.count(side, kinds) for side in SIDES)
        if abs(b - a) >= max(least, WAVER * max(a, b)):
            yield (group, "b", "a") if b > a else (group, "a", "b")


# --- what differs in a group ------------------------------------------------------------------------------------------------


def types(group: RowGroup, side: str) -> set[str]:
    """Return the floating types in which a side computes a group; empty if unknown."""
    return group.computed(side, "dtype") & set(FLOATS)


def types_differ(case: Case, group: RowGroup) -> bool:
    """Return whether the sides compute a group in different types.

    Two frameworks differ if they have no type in common: they do not report types for the same small kernels.
    """
    a, b = types(group, "a"), types(group, "b")
    return bool(a and b and (a != b if case.same_framework else not a & b))


def libraries_differ(group: RowGroup) -> bool:
    """Return whether the sides compute a group with no library in common."""
    a, b = (group.computed(side, "library") for side in SIDES)
    return bool(a and b and not a & b)


def other_library(case: Case, group: RowGroup) -> bool:
    """Return whether another library computes the same work in a group, as far as is known; another operator does not count.

    If both sides compute what carries the FLOPs, it is the layer's work, whatever the operators (a convolution may be a
    product). Other work is compared by kind and operator.
    """
    if not libraries_differ(group):
        return False
    kinds = [group.computing(side) for side in SIDES]
    if all(mine & set(MAIN) for mine in kinds):
        return True
    operators = [group.computed(side, "operator") for side in SIDES]
    alike = not case.same_framework or not all(operators) or bool(operators[0] & operators[1])
    return bool(kinds[0] & kinds[1]) and alike


def layouts(group: RowGroup, side: str) -> set[str]:
    """Return the layouts of the source (the first tensor) of a side's convolutions, without the word src."""
    texts = group.executed(side, "layout", CONVOLUTIONS)
    return {text.split(",")[0].replace("src", "").strip() for text in texts}


def channels_last(group: RowGroup, side: str) -> bool:
    """Return whether a side's convolutions read images with channels last, in oneDNN's notation: acdb for NHWC."""
    return any(re.fullmatch(r"ac[de]*b", layout) for layout in layouts(group, side))


def other_layout(group: RowGroup) -> bool:
    """Return whether one side's convolutions read images channels last and the other's do not."""
    return channels_last(group, "a") != channels_last(group, "b") and all(group.count(side, CONVOLUTIONS) for side in SIDES)


def unrolled(group: RowGroup) -> tuple[str, str] | None:
    """Return (the side that runs a recurrent layer cell by cell, the side with a fused kernel); None if there are none.

    The cell-by-cell side executes no fused kernel, and several times as many products.
    """
    for loop, fused in (("b", "a"), ("a", "b")):
        whole = group.count(fused, ["recurrent"])
        cells = group.count(loop, ["gemm", "elementwise", "activation"])
        if whole >= ONCE and group.count(loop, ["recurrent"]) < ONCE and cells >= 4 * max(whole, group.count(fused, ["gemm"])):
            return loop, fused
    return None


def attends(group: RowGroup, side: str) -> bool:
    """Return whether a side computes a group with a fused attention operator, whatever kernels that runs."""
    fused = (one.count for one in group.of(side) if one.kind == "attention" or "scaled_dot_product" in str(one.operator))
    return sum(fused) >= ONCE


def fused_attention(group: RowGroup) -> bool:
    """Return whether exactly one side computes attention with a fused operator."""
    return attends(group, "a") != attends(group, "b")


def repeats(case: Case, side: str) -> dict[str, float]:
    """Return, by layer, how many forward kernels a side executes again in the backward phase, per step.

    Such a kernel is from an operator that only the layer's forward phase uses, as both sides agree: within one framework, an
    operator that the forward phase has on both sides; between frameworks, the convolution itself. Arithmetic is in both phases.
    """
    forward = {group.layer: group for group in groups(case) if group.phase == "forward" and group.is_layer}
    result = {}
    for group in groups(case):
        if group.phase != "backward" or group.layer not in forward:
            continue
        keys = [_forward_work(forward[group.layer], one) for one in SIDES]
        known = keys[0] & keys[1] if case.same_framework else {key for key in keys[0] | keys[1] if key[0] == CONVOLUTIONS[0]}
        count = sum(kernel.count for kernel in group.of(side) if (kernel.kind, kernel.operator) in known)
        if count >= ONCE:
            result[group.layer] = count
    return result


def _forward_work(group: RowGroup, side: str) -> set[tuple[str, str]]:
    """Return the kinds and operators of a side's kernels that compute more than arithmetic."""
    small = (*MOVES, "elementwise", "reduction", "unknown")
    made = [kernel for kernel in group.of(side) if kernel.kind not in small and kernel.count >= ONCE]
    return {(kernel.kind, kernel.operator) for kernel in made if kernel.operator is not None}


def recomputed(case: Case) -> dict[str, set[str]]:
    """Return, by side, the layers whose forward work only that side does again in the backward phase.

    If both sides have such kernels there, a gradient uses them, and more of them mean more gradients.
    """
    return cast(dict[str, set[str]], once(case, "recomputed", _recomputed))


def _recomputed(case: Case) -> dict[str, set[str]]:
    counts = {side: repeats(case, side) for side in SIDES}
    return {
        side: {layer for layer, count in counts[side].items() if count >= ONCE > counts[other].get(layer, 0.0)}
        for side, other in (("a", "b"), ("b", "a"))
    }


def again(case: Case, group: RowGroup) -> bool:
    """Return whether a group is a backward phase with repeated forward work, which explains additional kernels."""
    return group.phase == "backward" and any(group.layer in one for one in recomputed(case).values())


def stronger(case: Case, group: RowGroup) -> bool:
    """Return whether other kernels have a reason of their own: another type or library, an unrolled layer, repeated work.

    Rules on the number or names of kernels leave such groups to the rules for these reasons.
    """
    if types_differ(case, group) or other_library(case, group) or fused_attention(group):
        return True
    return unrolled(group) is not None or again(case, group)


def one_sided(case: Case, group: RowGroup) -> bool:
    """Return whether only one side has this layer, in two programs of one framework: then that is the cause."""
    return case.same_framework and group.layer in cast(set[str], once(case, "one-sided", _one_sided))


def _one_sided(case: Case) -> set[str]:
    return {match.label for match in case.matches if not (match.a and match.b)}


def chained(case: Case, group: RowGroup) -> tuple[str, str] | None:
    """Return (the side that computes a group with a chain of small kernels, the other); None if neither does, or for good
    reason.

    An activation may be two kernels on one side and one on the other without being written out by hand: a chain has at least
    CHAIN more kernels, and 1.5 times as many. Nor is the chain to blame if the other side takes longer for the whole layer with
    a kernel of another kind: compilers turn normalisations into chains, and gain by it.
    """
    if types_differ(case, group) or unrolled(group) is not None or again(case, group) or group.phase == "optimizer":
        return None
    if fused_attention(group) or one_sided(case, group):
        return None
    a, b = (group.count(side, SMALL) for side in SIDES)
    few, many = sorted((a, b))
    if many - few < CHAIN or many < 1.5 * few:
        return None
    chain, other = ("b", "a") if b > a else ("a", "b")
    if set(group.computing(other)) - set(SMALL) and group.time_ns(chain) < group.time_ns(other):
        return None
    return chain, other


def alike(case: Case) -> set[str]:
    """Return the rows whose kernels both sides execute alike: the same names, problems, types and shapes, equally often."""
    return cast(set[str], once(case, "alike", _alike))


def _alike(case: Case) -> set[str]:
    columns = ["kernel", "problem", "dtype", "layout", "transpose", "m", "n", "k"]
    cells = case.account.cells
    cells = cells[cells["kind"].notna()]
    keys = [pd.factorize(cells[name], use_na_sentinel=False)[0] for name in columns]
    counts = pd.DataFrame({side: cells["count"].where(cells["side"] == side, 0.0) for side in SIDES})
    sums = counts.groupby([cells["row"].to_numpy(), *keys]).sum()
    other = (sums["b"] - sums["a"]).abs() >= (WAVER * sums.max(axis=1)).clip(lower=ONCE)
    by_row = other.groupby(level=0).any()
    return set(by_row[~by_row].index)


def tensor_sizes(problem: str | None) -> list[int] | None:
    """Return the numbers of elements of the tensors in a problem such as 64x120:64x120; None if it does not describe tensors."""
    if problem is None or not re.fullmatch(r"\d+(x\d+)*(:\d+(x\d+)*)*", problem):
        return None
    return [math.prod(map(int, tensor.split("x"))) for tensor in problem.split(":")]


def parameters(side: Side) -> dict[str, int]:
    """Return the number of parameters of each of the program's modules, by name; empty if unknown."""
    modules = side.trace.info.get("modules") or []
    return {str(module["name"]): int(module["parameters"]) for module in modules if module.get("parameters")}


# --- claims -----------------------------------------------------------------------------------------------------------------


def claim(case: Case, group: RowGroup, kinds: Collection[str], strict: bool = False) -> dict[str, float]:
    """Return the claims of a cause that decides the kernels of these kinds in a group.

    Within one framework it claims all that differs in a layer, including the host's part, but not kernels that both sides
    execute alike if these are most of the layer. With `strict`, this holds only if no kernels of other kinds differ. Otherwise,
    and between frameworks or outside layers, it claims the kernels of these kinds, net of those of other kinds that only the
    faster side has: they were replaced.
    """
    rows = group.rows
    same = rows[rows.index.isin(alike(case))]
    kernels = rows[~rows["cell"].str.startswith("(")]
    others = kernels[~kernels.index.isin(same.index) & ~kernels["cell"].isin(list(kinds))]
    slow = "b" if group.delta_ns > 0 else "a"
    replaced = others[(others[f"{slow}_ns"] == 0).to_numpy(bool)]  # the slower side has something else in their place
    if not (case.same_framework and group.is_layer) or (strict and len(others) > len(replaced)):
        rows = rows[rows["cell"].isin(list(kinds)) | rows.index.isin(replaced.index)]
    else:
        if same[f"{slow}_ns"].sum() > ALIKE * group.time_ns(slow):
            rows = rows.drop(same.index)
    return {str(row): float(ns) for row, ns in rows["delta_ns"].items() if ns}


def whole(group: RowGroup) -> dict[str, float]:
    """Return the claims of a cause that accounts for all that differs in a group, including the host's part."""
    return {str(row): float(ns) for row, ns in group.rows["delta_ns"].items() if ns}


def cell_claims(chosen: dict[str, pd.DataFrame]) -> dict[str, float]:
    """Return the claims of a cause that accounts for these cells: by row, B's time minus A's."""
    b, a = (chosen[side].groupby("row")["time_ns"].sum() for side in ("b", "a"))
    return {str(row): float(ns) for row, ns in b.sub(a, fill_value=0.0).items() if ns}


def merged(claims: Iterable[dict[str, float]]) -> dict[str, float]:
    """Merge the claims of several groups; a row claimed twice keeps the larger claim."""
    result: dict[str, float] = {}
    for part in claims:
        for row, ns in part.items():
            result[row] = max(result.get(row, 0.0), ns, key=abs)
    return result


def slower(claims: dict[str, float], chosen: Iterable[RowGroup]) -> tuple[str, str] | None:
    """Return (the side that these claims make slower, the other); None if they cancel out, or no group stands out from noise."""
    total = sum(claims.values()) if any(group.noticed for group in chosen) else 0.0
    return ("b", "a") if total > 0 else ("a", "b") if total < 0 else None


# --- words ------------------------------------------------------------------------------------------------------------------


def name(case: Case, side: str) -> str:
    """Return a side's name; A or B if both have the same."""
    mine, other = (case.a.name, case.b.name) if side == "a" else (case.b.name, case.a.name)
    return mine if mine != other else side.upper()


def framework(case: Case, side: str) -> str:
    """Return a side's framework; empty if unknown."""
    return (case.a if side == "a" else case.b).framework or ""


def remedy(case: Case, side: str, texts: dict[str, str]) -> str:
    """Return the text for a side's framework; that of "" if there is none."""
    return texts.get(framework(case, side), texts[""])


def short(kernel: str) -> str:
    """Return a kernel's name without its return type, and the first part of a long one."""
    text = kernel.removeprefix("void ")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def place(group: RowGroup) -> str:
    """Return a group's layer and phase."""
    return f"{group.layer} {group.phase}".strip()


def number(count: float) -> str:
    """Format a count per step, as a whole number if it nearly is one."""
    return f"{count:,.0f}" if count >= 100 or abs(count - round(count)) < 0.05 else f"{count:.1f}"


def layers(chosen: Iterable[RowGroup]) -> str:
    """List the layers of groups that stand out from noise, largest difference first."""
    sums: dict[str, int] = {}
    for group in (group for group in chosen if group.noticed):
        sums[group.layer] = sums.get(group.layer, 0) + group.delta_ns
    return listed(sorted(sums, key=lambda layer: -abs(sums[layer])))


def executions(cells: pd.DataFrame, column: str = "kernel", most: int = 3) -> str:
    """List what cells execute per step, longest first: 2 x aten::add_, 1 x aten::mul_ and 3 more."""
    sums = cells.groupby(column, dropna=True, observed=True)[["count", "time_ns"]].sum()
    sums = sums[sums["count"] >= ONCE].sort_values("time_ns", ascending=False, kind="stable")
    if sums.empty:
        return "none"
    return listed((f"{number(count)} x {short(str(kernel))}" for kernel, count in sums["count"].items()), most)


def names(cells: pd.DataFrame, chosen: Collection[str], most: int = 2) -> str:
    """List the names of these kernels among cells, longest first."""
    sums = cells[cells["kernel"].isin(list(chosen))].groupby("kernel")["time_ns"].sum()
    return listed(map(short, sums.sort_values(ascending=False, kind="stable").index), most)


def largest(chosen: list[RowGroup]) -> RowGroup:
    """Return the group with the largest difference, preferring those that stand out from noise; evidence is quoted from it."""
    return max(chosen, key=lambda group: (group.noticed, abs(group.delta_ns)))
