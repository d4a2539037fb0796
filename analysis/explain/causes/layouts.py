"""Data moved without computing on it: layout conversions, and copies that the other side does not make."""

from __future__ import annotations

import re

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import host_evidence
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion

# Operators of the host around a copy and nothing else, by their names in frameworks
_COPYING = (
    "aten::clone", "aten::contiguous", "aten::copy_", "aten::to", "aten::_to_copy", "aten::empty_like", "CloneBackward0",
    "ToCopyBackward0", "autograd::engine::evaluate_function: CloneBackward0",
    "autograd::engine::evaluate_function: ToCopyBackward0", "Identity", "Transpose", "_copy", "transpose", "Reshape",
)  # fmt: skip
_LAYOUT = {
    "pytorch": "keep one layout through the model: model.to(memory_format=torch.channels_last) and the same for its input, or "
    "neither; no .contiguous() around single layers",
    "tensorflow": "use the device's layout throughout: data_format='channels_last' on CPUs, 'channels_first' on GPUs",
    "mxnet": "keep one layout: layout='NCHW' without transposes around layers; a fused graph (net.hybridize()) keeps oneDNN's",
    "cntk": "keep one layout of the axes, without C.transpose around layers",
    "": "keep one layout through all layers, so that nothing is converted between them",
}
_JOINS = re.compile(r"(?i)(^|[^a-z])(cat|concat\w*|stack)([^a-z]|$)|CatArray")
_JOIN = "join tensors once: collect them in a list and call cat or stack after the loop; each call copies all its inputs"
_COPY = {
    "pytorch": "remove unneeded .clone(), .contiguous() and .copy_(); in-place and view operators copy nothing",
    "tensorflow": "remove unneeded tf.identity and tf.transpose",
    "mxnet": "remove unneeded .copy(), .as_in_context() and mx.nd.transpose",
    "": "remove the copies",
}


def memory_format(case: Case) -> list[Suspicion]:
    """Convolutions that only one of two runs of a framework computes channels last, with the copies and conversions around."""
    chosen = [group for group in ev.candidates(case) if case.same_framework and ev.other_layout(group)]
    chosen = [group for group in chosen if not (ev.types_differ(case, group) or ev.libraries_differ(group))]
    stated = host_evidence.owned(host_evidence.differing(case), "layouts")
    claims = ev.merged(ev.claim(case, group, ()) for group in chosen)
    claims = host_evidence.everything(case) if host_evidence.only_difference(case, "layouts") else claims
    sides = ev.slower(claims, chosen)
    if sides is None:
        return []
    slow, fast = sides
    kinds = ("layout", "copy")
    group = ev.largest(chosen)
    order = {side: "last" if ev.channels_last(group, side) else "first" for side in SIDES}
    title = (
        f"{ev.name(case, slow)} computes the convolutions of {ev.layers(chosen)} channels {order[slow]}, with conversions and "
        f"copies around them; {ev.name(case, fast)} channels {order[fast]}"
    )
    sentences = [_moves(case, chosen, sides, kinds), *_layouts_of(case, chosen, sides, kinds)]
    sentences = [*([host_evidence.stated(case, stated)] if stated else []), *sentences][:3]
    remedy = ev.remedy(case, slow, _LAYOUT)
    return [Suspicion("layout conversions", title, claims, "high", sentences, remedy, precedence=0 if stated else 1)]


def conversions(case: Case) -> list[Suspicion]:
    """Layers in which one side converts layouts more often than the other."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.candidates(case) if group.is_layer and _converts(case, group, slow, fast)]
        claims = ev.merged(_of_conversions(case, group) for group in chosen)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        title = f"{ev.name(case, slow)} converts the layout of data in {ev.layers(chosen)}"
        sentences = [_moves(case, chosen, (slow, fast), ("layout",)), *_layouts_of(case, chosen, (slow, fast), ("layout",))]
        result.append(Suspicion("layout conversions", title, claims, "high", sentences, ev.remedy(case, slow, _LAYOUT)))
    return result


def _of_conversions(case: Case, group: ev.RowGroup) -> dict[str, float]:
    """Return the claims of conversions; between frameworks, never those of kernels that compute."""
    if case.same_framework:
        return ev.claim(case, group, ev.MOVES, strict=True)
    cells = group.rows["cell"]
    return {row: ns for row, ns in ev.claim(case, group, ["layout"]).items() if cells[row] in ev.MOVES}


def _converts(case: Case, group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether one side converts more often, takes longer for it, and has no stronger reason."""
    if case.same_framework and (ev.stronger(case, group) or ev.other_layout(group)):
        return False  # between frameworks, another library is no reason: conversions are claimed separately from its computation
    more = group.count(slow, ["layout"]) - group.count(fast, ["layout"])
    return more >= ev.ONCE and group.time_ns(slow, ["layout"]) > group.time_ns(fast, ["layout"])


def _moves(case: Case, chosen: list[ev.RowGroup], order: tuple[str, str], kinds: tuple[str, ...]) -> str:
    """Say how often each side moves data, and how long that takes."""
    what = " and ".join({"layout": "conversions", "copy": "copies"}[kind] for kind in kinds)
    counts = {side: sum(group.count(side, kinds) for group in chosen) for side in order}
    times = {side: sum(group.time_ns(side, kinds) for group in chosen) for side in order}
    return "; ".join(
        f"{ev.name(case, side)}: {ev.number(counts[side])} {what} per step, {ev.duration(times[side])}" for side in order
    )


def _layouts_of(case: Case, chosen: list[ev.RowGroup], order: tuple[str, str], kinds: tuple[str, ...]) -> list[str]:
    """Name what each side converts in the group with the largest difference, and the layouts of its convolutions."""
    group = ev.largest(chosen)
    result = []
    for side in order:
        parts = [f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(group.kernels(side, kinds))}"]
        if layouts := sorted(ev.layouts(group, side)):
            parts.append(f"convolutions read {ev.listed(layouts)}")
        result.append("; ".join(parts))
    return result


def copies(case: Case) -> list[Suspicion]:
    """Layers in which one side copies more, all else being equal."""
    result = []
    pairs = list(ev.more(case, ["copy"]))
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group, more, _ in pairs if more == slow and _only_copies(case, group)]
        claims = ev.merged(_copy_claims(case, group) for group in chosen)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        title = f"{ev.name(case, slow)} makes copies in {ev.layers(chosen)} that {ev.name(case, fast)} does not make"
        group = max(chosen, key=lambda one: abs(one.time_ns("b", ["copy"]) - one.time_ns("a", ["copy"])))
        sentences = [
            _moves(case, chosen, (slow, fast), ("copy",)),
            f"{ev.place(group)}, {ev.name(case, slow)}: {ev.executions(group.kernels(slow, ['copy']))} in "
            f"{ev.listed(sorted(set(group.cells(slow)['operator'].dropna()) & set(_COPYING))) or 'no operator of its own'}",
        ]
        confidence = "high" if case.same_framework else "medium"
        joins = any(_JOINS.search(str(name)) for name in group.executed(slow, "kernel", ["copy"]))
        remedy = _JOIN if joins else ev.remedy(case, slow, _COPY)
        result.append(Suspicion("extra copies", title, claims, confidence, sentences, remedy))
    return result


def _only_copies(case: Case, group: ev.RowGroup) -> bool:
    """Return whether a group's copies have no stronger reason, such as another layout, type or library, or an unrolled layer."""
    if ev.stronger(case, group):
        return False
    return group.phase != "optimizer" and not (case.same_framework and ev.other_layout(group))


def _copy_claims(case: Case, group: ev.RowGroup) -> dict[str, float]:
    """Return the claims of copies: within one framework all that the layer takes longer, else only the copies."""
    whole = ev.claim(case, group, ["copy"], strict=True)
    if any(group.rows.loc[row, "cell"] != "copy" for row in whole):
        return whole
    chosen = {}
    for side in SIDES:
        cells = group.cells(side)
        chosen[side] = cells[(cells["kind"] == "copy") | (cells["kind"].isna() & cells["operator"].isin(_COPYING))]
    return ev.cell_claims(chosen)


RULES: tuple[Rule, ...] = (memory_format, conversions, copies)
