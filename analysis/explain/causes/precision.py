"""Element types: a layer computed in another precision, TF32, and conversions between types."""

from __future__ import annotations

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import host_evidence
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

CAUSE = "precision"
_ONE_TYPE = {
    "pytorch": "keep tensors and parameters in one type: no .double() or .to(torch.float64) in between; torch.autocast for half",
    "tensorflow": "keep one type: dtype= of the layers, tf.keras.mixed_precision.set_global_policy, no tf.cast in between",
    "mxnet": "keep one type: net.cast('float32') and data of the same type, no astype in between",
    "cntk": "keep one type: C.default_options(dtype=np.float32) and minibatches of the same type",
    "": "compute in one type, one that the device has units for",
}
_TF32 = {
    "pytorch": "torch.set_float32_matmul_precision('high') and torch.backends.cudnn.allow_tf32 = True allow TF32",
    "tensorflow": "tf.config.experimental.enable_tensor_float_32_execution(True) allows TF32",
    "": "NVIDIA_TF32_OVERRIDE=0 forbids TF32; the framework's own setting allows it",
}
_POLICY = "precision_policy"  # Keras's setting
# Settings with which frameworks choose the precision of f32 matrix products
_MATMUL_SETTINGS = ("matmul_precision", "tf32_matmul", "tf32_cudnn", "tf32", _POLICY)


def other_types(case: Case) -> list[Suspicion]:
    """Layers that the sides compute in different floating types, and what the optimizer does in these types."""
    chosen = [group for group in ev.candidates(case) if ev.types_differ(case, group)]
    if not chosen:
        return []
    parts = [ev.claim(case, group, [*MAIN, *_kinds(group)]) if group.is_layer else _typed_cells(group) for group in chosen]
    claims = ev.merged(parts)
    sides = ev.slower(claims, chosen)
    if sides is None:
        return []
    slow, fast = sides
    example = ev.largest([group for group in chosen if group.is_layer] or chosen)
    used = {side: ev.listed(sorted(ev.types(example, side))) for side in SIDES}
    text = f"{ev.name(case, slow)} computes {ev.layers(chosen)} in {used[slow]}, {ev.name(case, fast)} in {used[fast]}"
    sentences = [
        f"{ev.place(example)}: {ev.executions(example.kernels(side, _kinds(example)))} in {used[side]}, "
        f"{ev.duration(example.time_ns(side))} in {ev.name(case, side)}"
        for side in (slow, fast)
    ]
    texts = _TF32 if "tf32" in used[fast] and "f32" in used[slow] else _ONE_TYPE
    return [Suspicion(CAUSE, text, claims, "high", sentences, ev.remedy(case, slow, texts))]


def _kinds(group: ev.RowGroup) -> list[str]:
    """Return the kinds that compute in a group, and casts."""
    return ["cast", *{kind for side in SIDES for kind in group.computed(side, "kind")}]


def _typed_cells(group: ev.RowGroup) -> dict[str, float]:
    """Return the claims of cells in a type that only one side uses, against the other side's cells with the same problems."""
    only = {side: ev.types(group, side) - ev.types(group, other) for side, other in (("a", "b"), ("b", "a"))}
    side, other = ("b", "a") if only["b"] else ("a", "b")
    mine, others = group.kernels(side), group.kernels(other)
    mine = mine[mine["dtype"].isin(list(only[side]))]
    others = others[others["problem"].notna() & others["problem"].isin(list(mine["problem"].dropna()))]
    return ev.cell_claims({side: mine, other: others})


def policies(case: Case) -> list[Suspicion]:
    """Keras uses another policy of types, and no other setting differs: kernels need not state their types."""
    kernels = case.rows.index[~case.rows["cell"].astype("string").str.startswith("(").to_numpy(bool)]
    if not _only_policy(case) or set(kernels) <= ev.alike(case):  # a setting that changes no kernel explains nothing
        return []
    slow, fast = host_evidence.slower(case)
    value = dict(zip(SIDES, host_evidence.differing(case)[_POLICY], strict=True))
    of_slow, of_fast = (str(value["a" if side is case.a else "b"]) for side in (slow, fast))
    low = "16" in of_slow
    remedy = f"remove set_global_policy({of_slow!r}): it pays off where the device has units for that type"
    return [
        Suspicion(
            CAUSE,
            f"{slow.name} computes with the policy {of_slow}, {fast.name} with {of_fast}",
            host_evidence.everything(case),
            "high",
            [f"Recorded settings: {host_evidence.stated(case, [_POLICY])}.", "Nothing else that is recorded differs."],
            remedy if low else f"keras.mixed_precision.set_global_policy({of_fast!r})",
            precedence=0,
        )
    ]


def _only_policy(case: Case) -> bool:
    return _POLICY in host_evidence.differing(case) and host_evidence.only_difference(case, "precision")


def chosen_precision(case: Case) -> list[Suspicion]:
    """A setting gives f32 matrix products another precision, and the kernels of products differ with it."""
    if _only_policy(case):
        return []
    stated = [name for name in _MATMUL_SETTINGS if name in host_evidence.differing(case)]
    kinds = (*CONVOLUTIONS, "gemm", "recurrent")
    chosen = [
        group
        for group in ev.candidates(case)
        if stated and case.same_framework and not ev.types_differ(case, group) and _others(group, kinds)
    ]
    claims = ev.merged(ev.claim(case, group, kinds) for group in chosen)
    sides = ev.slower(claims, chosen)
    if sides is None:
        return []
    slow, fast = sides
    if host_evidence.only_difference(case, "precision"):
        claims = host_evidence.everything(case)
    value = dict(zip(SIDES, host_evidence.differing(case)[stated[0]], strict=True))
    example = ev.largest(chosen)
    sentences = [host_evidence.stated(case, stated)]
    sentences += [f"{ev.place(example)}, {ev.name(case, side)}: {ev.executions(example.kernels(side, kinds))}"
                  for side in (slow, fast)]  # fmt: skip
    title = f"{ev.name(case, slow)} multiplies with {stated[0]} {value[slow]}, {ev.name(case, fast)} with {value[fast]}"
    return [Suspicion(CAUSE, title, claims, "high", sentences, ev.remedy(case, slow, _TF32), precedence=0)]


def _others(group: ev.RowGroup, kinds: tuple[str, ...]) -> bool:
    """Return whether the kernels of these kinds have no name in common."""
    a, b = (group.executed(side, "kernel", kinds) for side in SIDES)
    return bool(a and b and not a & b)


def casts(case: Case) -> list[Suspicion]:
    """Conversions between types that the other side does not make, in layers that both compute in the same type."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group, more, _ in ev.more(case, ["cast"]) if more == slow and not ev.types_differ(case, group)]
        claims = ev.merged(ev.cell_claims({side: group.kernels(side, ["cast"]) for side in SIDES}) for group in chosen)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        counts = {side: sum(group.count(side, ["cast"]) for group in chosen) for side in SIDES}
        times = {side: sum(group.time_ns(side, ["cast"]) for group in chosen) for side in SIDES}
        title = f"{ev.name(case, slow)} converts types in {ev.layers(chosen)} more often than {ev.name(case, fast)}"
        sentence = "; ".join(
            f"{ev.name(case, side)}: {ev.number(counts[side])} conversions per step, {ev.duration(times[side])}"
            for side in (slow, fast)
        )
        result.append(Suspicion("type conversions", title, claims, "high", [sentence], ev.remedy(case, slow, _ONE_TYPE)))
    return result


RULES: tuple[Rule, ...] = (other_types, policies, chosen_precision, casts)
