"""Data moved without being computed on: layout conversions, and copies that the other side does not make."""

from __future__ import annotations

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion

# Operators of the host that stand around a copy and nothing else, as their frameworks call them
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
_COPY = {
    "pytorch": "remove .clone(), .contiguous() and .copy_() that nothing needs; in-place and view operators copy nothing",
    "tensorflow": "remove tf.identity and tf.transpose that nothing needs",
    "mxnet": "remove .copy(), .as_in_context() and mx.nd.transpose that nothing needs",
    "": "remove the copies",
}


def conversions(case: Case) -> list[Suspicion]:
    """Layers in which one side converts layouts, or computes in another layout, with copies around."""
    found = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.groups(case) if group.noticed and group.is_layer and _converts(case, group, slow, fast)]
        claims = ev.merged(ev.claim(case, group, ["layout"]) for group in chosen)
        if ev.slower(claims) != (slow, fast):
            continue
        kinds = ("layout", "copy") if case.same_framework else ("layout",)
        count = {side: sum(group.count(side, kinds) for group in chosen) for side in SIDES}
        time = {side: sum(group.time_ns(side, kinds) for group in chosen) for side in SIDES}
        title = f"{ev.name(case, slow)} converts the layout of data in {ev.layers(chosen)}"
        what = "conversions and copies" if case.same_framework else "conversions"
        sentences = [
            "; ".join(
                f"{ev.name(case, side)}: {ev.number(count[side])} {what} per step, {ev.ms(time[side])}" for side in (slow, fast)
            )
        ]
        sentences += _layouts_of(case, chosen, (slow, fast), kinds)
        found.append(Suspicion("layout conversions", title, claims, "high", sentences, ev.remedy(case, slow, _LAYOUT)))
    return found


def _converts(case: Case, group: ev.Group, slow: str, fast: str) -> bool:
    """Return whether one side moves more data for the sake of layouts.

    In two runs of one framework: where images lie otherwise in memory, whatever is copied more; else, more conversions. In two
    frameworks: more conversions that take longer. (Where another library or type computes, that is the cause.)
    """
    if ev.types_differ(case, group) or ev.libraries_differ(group) or ev.unrolled(group) is not None:
        return False
    conversions = group.count(slow, ["layout"]) - group.count(fast, ["layout"])
    longer = group.time_ns(slow, ["layout"]) > group.time_ns(fast, ["layout"])
    if case.same_framework and _other_layout(group):
        moves = group.count(slow, ("layout", "copy")) - group.count(fast, ("layout", "copy"))
        return moves >= ev.ONCE or (abs(moves) < ev.ONCE and group.count(slow, ["copy"]) > group.count(fast, ["copy"]))
    return conversions >= ev.ONCE and longer


def _other_layout(group: ev.Group) -> bool:
    """Return whether the sides' convolutions read images that lie otherwise in memory."""
    a, b = (ev.layouts(group, side) for side in SIDES)
    return bool(a and b and a != b)


def _layouts_of(case: Case, chosen: list[ev.Group], order: tuple[str, str], kinds: tuple[str, ...]) -> list[str]:
    """Return for the group with the largest difference what each side converts, and the layouts of its convolutions."""
    group = ev.largest(chosen)
    found = []
    for side in order:
        said = [f"{group.layer} {group.phase}, {ev.name(case, side)}: {ev.executions(group.kernels(side, kinds))}"]
        if layouts := sorted(ev.layouts(group, side)):
            said.append(f"convolutions with {ev.listed(layouts)}")
        found.append("; ".join(said))
    return found


def copies(case: Case) -> list[Suspicion]:
    """Layers in which one side copies more, the rest being equal."""
    found = []
    pairs = list(ev.more(case, ["copy"]))
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group, more, _ in pairs if more == slow and _only_copies(case, group)]
        claims = ev.merged(_copy_claims(case, group) for group in chosen)
        if ev.slower(claims) != (slow, fast):
            continue
        count = {side: sum(group.count(side, ["copy"]) for group in chosen) for side in SIDES}
        time = {side: sum(group.time_ns(side, ["copy"]) for group in chosen) for side in SIDES}
        title = f"{ev.name(case, slow)} makes copies in {ev.layers(chosen)} that {ev.name(case, fast)} does not make"
        group = max(chosen, key=lambda one: abs(one.time_ns("b", ["copy"]) - one.time_ns("a", ["copy"])))
        sentences = [
            "; ".join(
                f"{ev.name(case, side)}: {ev.number(count[side])} copies per step, {ev.ms(time[side])}" for side in (slow, fast)
            ),
            f"{group.layer} {group.phase}, {ev.name(case, slow)}: {ev.executions(group.kernels(slow, ['copy']))} in "
            f"{ev.listed(sorted(ev.executed(group.cells[slow], 'operator') & set(_COPYING))) or 'no operator of its own'}",
        ]
        confidence = "high" if case.same_framework else "medium"
        found.append(Suspicion("extra copies", title, claims, confidence, sentences, ev.remedy(case, slow, _COPY)))
    return found


def _only_copies(case: Case, group: ev.Group) -> bool:
    """Return whether a group's copies have no stronger reason, such as another layout, type, library or an unrolled layer."""
    if ev.types_differ(case, group) or ev.libraries_differ(group) or ev.unrolled(group) is not None:
        return False
    return group.phase != "optimizer" and not (case.same_framework and _other_layout(group))


def _copy_claims(case: Case, group: ev.Group) -> dict[str, float]:
    """Return the claims of copies: what the layer takes longer within one framework, else the copies themselves."""
    if case.same_framework and group.is_layer:
        return ev.claim(case, group, ["copy"])
    chosen = {}
    for side in SIDES:
        cells = group.cells[side]
        chosen[side] = cells[(cells["kind"] == "copy") | (cells["kind"].isna() & cells["operator"].isin(_COPYING))]
    return ev.cell_claims(chosen)


RULES: tuple[Rule, ...] = (conversions, copies)
