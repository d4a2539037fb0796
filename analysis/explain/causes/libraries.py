"""Libraries: switched off by a setting, a slower one for the same problem, or an older instruction set."""

from __future__ import annotations

import re

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import host_evidence
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion

# Instruction sets in the names of oneDNN's implementations, newest first
INSTRUCTION_SETS = ("amx", "avx10", "avx512", "avx2", "avx", "sse41")
# Settings and variables that switch oneDNN on and off, and those that limit the instruction set of a library
_SWITCHES = ("onednn", "TF_ENABLE_ONEDNN_OPTS", "TF_DISABLE_MKL", "MXNET_MKLDNN_ENABLED", "MXNET_ONEDNN_ENABLED")
_BOUNDS = {
    "ONEDNN_MAX_CPU_ISA": "onednn", "DNNL_MAX_CPU_ISA": "onednn", "MKL_ENABLE_INSTRUCTIONS": "mkl", "MKL_CBWR": "mkl",
    "ATEN_CPU_CAPABILITY": "aten", "OPENBLAS_CORETYPE": "openblas",
}  # fmt: skip
_MANY, _MOST = 4, 0.7  # so many layers have their main kind named, if it has at least this share of their time
_ONEDNN = {
    "pytorch": "torch.backends.mkldnn.enabled = True (and no torch.backends.mkldnn.flags(enabled=False) around the model)",
    "tensorflow": "TF_ENABLE_ONEDNN_OPTS=1 in the environment before TensorFlow is imported",
    "mxnet": "MXNET_MKLDNN_ENABLED=1 in the environment, and a build with oneDNN",
    "": "switch oneDNN on",
}
_LIBRARY = {
    "pytorch": "another layout (model.to(memory_format=torch.channels_last)) or torch.compile selects other kernels here",
    "tensorflow": "jit_compile=True selects other kernels for these layers",
    "mxnet": "net.optimize_for(x, backend='ONEDNN') selects other kernels for these layers",
    "cntk": "a build of CNTK with MKL-DNN, or a layout of the layer that its faster engine supports",
    "": "choose the backend or build that calls the faster library",
}


def switched_off(case: Case) -> list[Suspicion]:
    """oneDNN switched on by a setting on one side and off on the other, and the layers that another library computes instead."""
    stated = [name for name in _SWITCHES if name in host_evidence.differing(case)]
    left = {
        (off, on): [group for group in ev.candidates(case) if _left(group, on, off, "onednn")]
        for off, on in _orders(case, stated)
    }
    if not left:
        return []
    (off, on), chosen = max(left.items(), key=lambda item: len(item[1]))
    claims = ev.merged(ev.claim(case, group, _computed(group)) for group in chosen)
    sides = ev.slower(claims, chosen)
    effect = "slower" if sides == (off, on) else "faster"
    if sides is None or (effect == "faster" and not case.same_framework):
        return []
    if host_evidence.only_difference(case, "libraries"):
        claims = host_evidence.everything(case)
    title = f"{ev.name(case, off)} runs {ev.layers(chosen)} without oneDNN, which makes it {effect} than {ev.name(case, on)}"
    sentences = [host_evidence.stated(case, stated), *_examples(case, chosen, (off, on))]
    remedy = ev.remedy(case, off, _ONEDNN) if effect == "slower" else "leave oneDNN off for these layers"
    # between frameworks, more than the switch differs in such a layer
    confidence, precedence = ("high", 0) if case.same_framework else ("medium", 1)
    return [Suspicion("library switched off", title, claims, confidence, sentences, remedy, precedence)]


def _orders(case: Case, stated: list[str]) -> list[tuple[str, str]]:
    """Return the pairs (side without oneDNN, side with it) that recorded switches allow; between frameworks at most one."""
    if case.same_framework:
        return [("b", "a"), ("a", "b")] if stated else []
    known = {(True, False): ("b", "a"), (False, True): ("a", "b")}.get(case.setting("onednn"))
    return [known] if known else []


def _left(group: ev.RowGroup, present: str, absent: str, library: str) -> bool:
    """Return whether one side computes something with this library that the other computes without it.

    A library that is switched off may still serve another one: Eigen's convolutions call oneDNN's matrix product.
    """
    kinds = {
        side: {one.kind for one in group.of(side) if one.library == library and one.count >= ev.ONCE}
        for side in (present, absent)
    }
    return bool(kinds[present] - kinds[absent] - set(ev.MOVES)) and bool(group.computing(absent))


def _computed(group: ev.RowGroup) -> set[str]:
    """Return the kinds that either side computes in a group, with the layout changes that come with a library."""
    return {"layout", *(kind for side in SIDES for kind in group.computed(side, "kind"))}


def _examples(case: Case, chosen: list[ev.RowGroup], order: tuple[str, str]) -> list[str]:
    """Say what each side executes in the group with the largest difference."""
    group = ev.largest(chosen)
    return [
        f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(group.kernels(side, group.computing(side)))} "
        f"({ev.listed(sorted(group.computed(side, 'library')))}), {ev.duration(group.time_ns(side))}"
        for side in order
    ]


def other_library(case: Case) -> list[Suspicion]:
    """Layers computed with no library in common, by pair of libraries: the slower one is suspected."""
    pairs: dict[tuple[str, str, str], list[ev.RowGroup]] = {}
    for group in ev.candidates(case):
        if not ev.other_library(case, group) or _explained_otherwise(case, group):
            continue
        a, b = (" and ".join(sorted(group.computed(side, "library"))) for side in SIDES)
        # within one framework, a change of library is one cause, whatever it does to single layers
        sign = "" if case.same_framework else "b" if group.delta_ns > 0 else "a"
        pairs.setdefault((a, b, sign), []).append(group)
    result = []
    for (a, b, _), chosen in pairs.items():
        claims = ev.merged(ev.claim(case, group, _computed(group)) for group in chosen)
        sides = ev.slower(claims, chosen)
        if sides is None:
            continue
        library = {side: "its own kernels" if text == ev.framework(case, side) else text for side, text in (("a", a), ("b", b))}
        slow, fast = sides
        title = (
            f"{ev.name(case, slow)} computes {ev.layers(chosen)}{_mostly(chosen, slow)} with {library[slow]}, slower here than "
            f"{library[fast]} in {ev.name(case, fast)}"
        )
        confidence = "high" if case.same_framework else "medium"
        sentences = _examples(case, chosen, sides)
        stated = (case.a if slow == "a" else case.b).facts.get("settings") or {}
        remedy = ev.remedy(case, slow, _ONEDNN if stated.get("onednn") is False else _LIBRARY)
        result.append(Suspicion("slower library", title, claims, confidence, sentences, remedy))
    return result


def _mostly(chosen: list[ev.RowGroup], side: str) -> str:
    """Name what many layers mostly compute, for a title; empty if they are few or differ."""
    times: dict[str, int] = {}
    for group in chosen:
        for kind in group.computing(side):
            times[kind] = times.get(kind, 0) + group.time_ns(side, [kind])
    if len({group.layer for group in chosen}) < _MANY or not times:
        return ""
    largest = max(times, key=lambda kind: times[kind])
    return f" (mostly {largest})" if times[largest] > _MOST * sum(times.values()) else ""


def _explained_otherwise(case: Case, group: ev.RowGroup) -> bool:
    """Return whether another library is only a consequence: of another type, of more kernels, or of another optimizer."""
    if ev.types_differ(case, group) or ev.unrolled(group) is not None:
        return True
    return ev.chained(case, group) is not None or group.phase == "optimizer"


def instruction_sets(case: Case) -> list[Suspicion]:
    """The same library's implementations for an older instruction set, or a variable that limits it."""
    stated = [name for name in _BOUNDS if name in host_evidence.differing(case)]
    bounded = {_BOUNDS[name] for name in stated} if case.same_framework else set()
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.candidates(case) if _older(case, group, slow, fast)]
        claims = ev.merged(ev.claim(case, group, _computed(group)) for group in chosen)
        claims = ev.merged([claims, *(_of_libraries(group, bounded) for group in ev.groups(case) if bounded)])
        if bounded and host_evidence.only_difference(case, "libraries"):
            claims = host_evidence.everything(case)
        named = chosen or [group for group in ev.groups(case) if bounded and _of_libraries(group, bounded)]
        if ev.slower(claims, named) != (slow, fast):
            continue
        group = ev.largest(named)
        old, new = (_set_of(group, side) or "the other's" for side in (slow, fast))
        title = (
            f"{ev.name(case, slow)} runs {ev.layers(named)} with an older instruction set ({old}) than "
            f"{ev.name(case, fast)} ({new})"
        )
        if not chosen:
            title = f"{ev.name(case, slow)}'s libraries are limited to other instructions than {ev.name(case, fast)}'s"
        sentences = [*([host_evidence.stated(case, stated)] if stated else []), *_examples(case, named, (slow, fast))]
        remedy = f"do not set {ev.listed(stated)}" if stated else "run on a processor with the newer instructions, or allow them"
        precedence = 0 if stated and case.same_framework else 1
        result.append(Suspicion("older instruction set", title, claims, "high", sentences, remedy, precedence))
    return result


def _set_of(group: ev.RowGroup, side: str) -> str | None:
    """Return the newest instruction set in the names of a side's kernels; None if they name none."""
    words = set(re.split(r"[^a-z0-9]+", " ".join(group.computed(side, "kernel")).lower()))
    return next((name for name in INSTRUCTION_SETS if name in words), None)


def _older(case: Case, group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether one side's implementations use an older instruction set of the same library."""
    if ev.libraries_differ(group) or _explained_otherwise(case, group):
        return False
    old, new = (_set_of(group, side) for side in (slow, fast))
    return bool(old and new and INSTRUCTION_SETS.index(old) > INSTRUCTION_SETS.index(new))


def _of_libraries(group: ev.RowGroup, libraries: set[str]) -> dict[str, float]:
    """Return the claims of all that these libraries compute in a group."""
    cells = {side: group.kernels(side) for side in SIDES}
    chosen = {side: table[table["library"].isin(list(libraries))] for side, table in cells.items()}
    return ev.cell_claims(chosen) if all(map(len, chosen.values())) else {}


RULES: tuple[Rule, ...] = (switched_off, other_library, instruction_sets)
