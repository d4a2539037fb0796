"""Algorithms: convolutions computed differently by the same library, and matrix products in another form."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import host_evidence
from kernelscope.analysis.explain.causes.groups import Kernel
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion
from kernelscope.analysis.trace import CONVOLUTIONS

_CONVOLUTION = {
    "pytorch": "torch.backends.cudnn.benchmark = True chooses by measuring; on CPUs model.to(memory_format=torch.channels_last) "
    "makes oneDNN choose differently",
    "tensorflow": "TF_CUDNN_USE_AUTOTUNE=1, and no tf.config.experimental.enable_op_determinism()",
    "mxnet": "MXNET_CUDNN_AUTOTUNE_DEFAULT=1; on CPUs a newer oneDNN, or numbers of channels that fit its blocked layouts",
    "cntk": "C.device.use_default_device with cuDNN, or an engine for the layer's layout",
    "": "let the library choose its algorithm by measuring, and use the layout that the faster algorithm takes",
}
_NAMES_NODES = "onnxruntime"
_PRODUCT = {
    "pytorch": "store the factor as it is used (contiguous after .t()), or merge products of the same input into one",
    "tensorflow": "tf.linalg.matmul's transpose_a and transpose_b as on the faster side, or one product for several",
    "": "store the factors in the order of the multiplication, or merge products of the same input into one",
}


def convolution_algorithms(case: Case) -> list[Suspicion]:
    """Convolutions of one direction with algorithms or implementations that the sides do not share."""
    result: list[Suspicion] = []
    if case.same_framework and case.a.framework == _NAMES_NODES:  # a node's name says nothing of the algorithm
        return result
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [(group, kinds) for group in _comparable(case) if (kinds := _other_convolutions(group))]
        if not case.same_framework:
            chosen = [(group, kinds) for group, kinds in chosen if (_difference(group, kinds) > 0) == (slow == "b")]
        claims = ev.merged(ev.claim(case, group, kinds) for group, kinds in chosen)
        groups = [group for group, _ in chosen]
        if ev.slower(claims, groups) != (slow, fast):
            continue
        group, kinds = max(chosen, key=lambda pair: (pair[0].noticed, abs(_difference(*pair))))
        way = {side: _way(group, side, kinds) for side in SIDES}
        title = (
            f"{ev.name(case, slow)} computes the convolutions of {ev.layers(groups)} by {way[slow]}, "
            f"{ev.name(case, fast)} by {way[fast]}"
        )
        sentences = [
            f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(group.kernels(side, kinds))}, "
            f"{ev.duration(group.time_ns(side, kinds))}"
            for side in (slow, fast)
        ]
        stated = host_evidence.owned(host_evidence.differing(case), "algorithms") if case.same_framework else []
        if stated:
            sentences.insert(0, host_evidence.stated(case, stated))
        if host_evidence.only_difference(case, "algorithms"):
            claims = host_evidence.everything(case)
        remedy = ev.remedy(case, slow, _CONVOLUTION)
        precedence = 0 if stated else 1
        result.append(Suspicion("convolution algorithm", title, claims, "high", sentences, remedy, precedence))
    return result


def _comparable(case: Case) -> list[ev.RowGroup]:
    """Return the groups in which only the algorithm can differ: the same types, a common library, the same memory layout.

    Between two runs of one framework, another layout of images is the cause, and another implementation only its consequence.
    """
    return [
        group
        for group in ev.candidates(case)
        if not ev.types_differ(case, group)
        and not ev.libraries_differ(group)
        and ev.unrolled(group) is None
        and not (case.same_framework and ev.other_layout(group))
    ]


def _other_convolutions(group: ev.RowGroup) -> list[str]:
    """Return the directions that both sides compute with no common kernel name and, if known, for a common problem."""
    kinds = []
    for kind in CONVOLUTIONS:
        names, problems = ([group.executed(side, column, [kind]) for side in SIDES] for column in ("kernel", "problem"))
        if names[0] and names[1] and not names[0] & names[1] and (not all(problems) or problems[0] & problems[1]):
            kinds.append(kind)
    return kinds


def _difference(group: ev.RowGroup, kinds: list[str]) -> int:
    return group.time_ns("b", kinds) - group.time_ns("a", kinds)


def _way(group: ev.RowGroup, side: str, kinds: list[str]) -> str:
    """Name the algorithms of a side's convolutions if they differ between the sides; else its kernels."""
    algorithms = {side: group.executed(side, "algorithm", kinds) for side in SIDES}
    names = group.executed(side, "kernel", kinds)
    return ev.listed(sorted(algorithms[side] if algorithms["a"] != algorithms["b"] and all(algorithms.values()) else names), 2)


def product_forms(case: Case) -> list[Suspicion]:
    """Matrix products of the same size with other transposition flags, or the same work in products of other shapes."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        for cause, differs in (("transposition of products", _other_flags), ("shapes of products", _other_shapes)):
            chosen = [
                group
                for group in _comparable(case)
                if differs(group) and (group.time_ns(slow, ["gemm"]) > group.time_ns(fast, ["gemm"]))
            ]
            claims = ev.merged(ev.cell_claims({side: group.kernels(side, ["gemm"]) for side in SIDES}) for group in chosen)
            if ev.slower(claims, chosen) != (slow, fast):
                continue
            group = ev.largest(chosen)
            forms = {side: ev.listed(_forms(group.kernels(side, ["gemm"]))) for side in SIDES}
            title = f"{ev.name(case, slow)} multiplies in {ev.layers(chosen)} in a different form from {ev.name(case, fast)}"
            sentences = [
                f"{ev.place(group)}, {ev.name(case, side)}: {forms[side]}, {ev.duration(group.time_ns(side, ['gemm']))}"
                for side in (slow, fast)
            ]
            result.append(Suspicion(cause, title, claims, "medium", sentences, ev.remedy(case, slow, _PRODUCT)))
    return result


def _products(group: ev.RowGroup, side: str) -> list[tuple[tuple[int, int, int], Kernel]]:
    """Return a side's products with their sizes, if known; the smaller of m and n first, as libraries may see the transpose."""
    result = []
    for one in group.of(side, ["gemm"]):
        if one.m is not None and one.n is not None and one.k is not None and one.count >= ev.ONCE:
            result.append(((min(one.m, one.n), max(one.m, one.n), one.k), one))
    return result


def _sizes(group: ev.RowGroup, side: str) -> set[tuple[int, int, int]]:
    return {size for size, _ in _products(group, side)}


def _work(group: ev.RowGroup, side: str) -> float:
    """Return the operations per step of a side's products; 0 if unknown for any of them."""
    each = [(one.flops, one.count) for one in group.of(side, ["gemm"])]
    return sum(flops * count for flops, count in each if flops is not None) if all(flops for flops, _ in each) else 0.0


def _other_flags(group: ev.RowGroup) -> bool:
    """Return whether the products have the same sizes but other transposition flags.

    A product can be written as itself or as its transpose (as row-major frameworks do); then NN stays NN, and TN stands for NT.
    """
    flags = [{_order(one.transpose) for _, one in _products(group, side) if one.transpose} for side in SIDES]
    sizes = [_sizes(group, side) for side in SIDES]
    return bool(flags[0] and flags[1] and sizes[0] and sizes[0] == sizes[1] and flags[0] != flags[1])


def _order(flags: str) -> str:
    return "".join(sorted(flags.upper()))


def _other_shapes(group: ev.RowGroup) -> bool:
    """Return whether as many multiplications, within a tenth, are done in products of other sizes."""
    work = [_work(group, side) for side in SIDES]
    sizes = [_sizes(group, side) for side in SIDES]
    return min(work) > 0 and max(work) < 1.1 * min(work) and not sizes[0] & sizes[1]


def _forms(cells: pd.DataFrame) -> list[str]:
    """List the products with their shapes and flags, longest first."""
    result = []
    rows = cells[cells["count"] >= ev.ONCE].sort_values("time_ns", ascending=False)
    for row in rows.astype("object").where(rows.notna(), None).to_dict("records"):
        shape = "" if row["m"] is None or row["k"] is None else f" {row['m']}x{row['n']}x{row['k']}"
        flags = f" {row['transpose']}" if row["transpose"] else ""
        result.append(f"{ev.number(row['count'])} x {ev.short(row['kernel'])}{shape}{flags}")
    return result


RULES: tuple[Rule, ...] = (convolution_algorithms, product_forms)
