"""Products of matrices in a kernel that a program brings along, though a vendor's library has them."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

TOPIC = "product without a library"
_MOST = 0.5  # of the step
_FASTER = 1.2  # times as long: two versions of one product that differ by less are alike
_NAMED = r"(?i)mat(?:rix|rices)?_?mul|(?:^|_)[sd]?gemm(?:_|$)|(?:^|_)b?mm(?:_|$)"
# Kernels of libraries, of compilers and by hand that use tensor cores, quantised or sparse matrices, or do something else besides
_OTHERS = (
    r"(?i)\d+x\d+|general|largek|beta|warp|mma|tensor|vectori[sz]ed|pipelin|double_?buffer|cutlass|cute|triton|tma|quant|q\d|_q|"
    r"int[48]|i8|[fb]p?8|sparse|spm|csr|coo|mat_?vec|mul_?vec|gemv|moe|expert|group|lora|att|fus|bias|conv|pack|split|norm|softmax"
)
_PLAIN = r"(?i)naive|simple|basic"  # in names without parameters: those of Triton's kernels have none either
_KERNEL = r"^(?:void )?(\w+)(?:<.*>)?(\(.*\))?(?: \[clone .*\])?(?:\.kd)?$"  # its name, of no namespace, and its parameters
_WORK = 2e12  # operations/s in float32: libraries reach more on most GPUs of the last ten years
_LIBRARY = {
    "on an AMD GPU": "call hipBLAS or rocBLAS in its place (hipblasSgemm; hipblasSgemmStridedBatched for a batch of products)",
    "on another accelerator": "call the vendor's library in its place (oneMKL on Intel's GPUs), for a batch of products its "
    "batched call",
    "": "call the vendor's library in its place: cuBLAS (cublasSgemm; cublasSgemmStridedBatched for a batch of products), or on "
    "AMD's GPUs hipBLAS or rocBLAS",
}
_LINKS = {
    "on an AMD GPU": "https://rocm.docs.amd.com/projects/hipBLAS/en/latest/",
    "on another accelerator": "",
    "": "https://docs.nvidia.com/cuda/cublas/",
}


def by_hand(subject: Subject) -> list[Advice]:
    """Kernels of no known library, named as products of matrices, take most of the time, and no library computes any."""
    products = subject.kernels(("gemm",))
    rows = products[_is_plain(products)]
    ns = words.time_of(rows)
    known = products["library"].notna() | products["algorithm"].notna()
    counted = len(subject.trace.metrics) > 0  # hardware counters tell more of the same kernel
    if subject.on_host or counted or known.any() or rows.empty or ns < _MOST * subject.step_ns:
        return []
    count = max(float(rows["count"].sum()), 1.0)
    return [
        Advice(
            TOPIC,
            _title(rows),
            ns / 2,
            "half of it, more if a launch computes less than that: a plain kernel often takes several times as long as the "
            "library's, a well tuned one hardly longer; which one this is, the recording does not tell",
            _of_several(subject, rows)
            if rows["name"].nunique() > 1
            else [
                f"It takes {words.share(subject, ns)} {subject.per}, {words.duration(ns / count)} each time.",
                *_of_sizes(rows, ns / count),
            ],
            words.text(subject, _LIBRARY),
            words.text(subject, _LINKS),
            words.ids(rows),
        )
    ]


def _title(rows: pd.DataFrame) -> str:
    names = rows.groupby(rows["name"].astype("string"))["time_ns"].sum().sort_values(ascending=False, kind="stable").index
    if len(names) == 1:
        return f"{words.kernel(names[0])} multiplies matrices, and is a kernel of no known library"
    which = " and ".join(words.kernel(name) for name in names) if len(names) == 2 else f"{len(names)} kernels"
    return f"{which} multiply matrices, and are kernels of no known library"


def _of_several(subject: Subject, rows: pd.DataFrame) -> list[str]:
    """Say what each kernel takes, and compare two that are launched equally often: they may be versions of one product."""
    evidence = [f"They take {words.share(subject, words.time_of(rows))} {subject.per}: {words.kernels(rows)}."]
    sums = rows.groupby(rows["name"].astype("string"))[["count", "time_ns"]].sum().sort_values("time_ns", kind="stable")
    (fast, slow), counts = sums["time_ns"].iloc[[0, -1]], sums["count"]
    if len(sums) == 2 and counts.nunique() == 1 and slow >= _FASTER * fast:
        names = [words.kernel(name) for name in sums.index]
        evidence.append(
            f"If both compute the same product, {names[0]} takes {fast / slow:.0%} of the time of {names[1]}, and can take its "
            "place."
        )
    return evidence


def _is_plain(products: pd.DataFrame) -> pd.Series[bool]:
    """Return which kernels are named as plain products, of no library; parameters tell kernels in C++ from Triton's."""
    parts = products["name"].astype("string").str.extract(_KERNEL)
    name = parts[0].fillna("")
    written = parts[1].notna() | name.str.contains(_PLAIN)
    own = products["library"].isna() & products["algorithm"].isna()
    chosen = own & written & name.str.contains(_NAMED) & ~name.str.contains(_OTHERS)
    return chosen.fillna(False).astype(bool)


def _of_sizes(rows: pd.DataFrame, each: float) -> list[str]:
    """Say how large matrices a library multiplies in half of that time, which the reader can compare with the program's own."""
    if not rows["dtype"].eq("f32").fillna(False).all():
        return []
    size = (each / 2 / 1e9 * _WORK / 2) ** (1 / 3)
    rows_of_each = f"{float(f'{size:.2g}'):,.0f} rows"
    return [
        f"In half of that a library multiplies square matrices of {rows_of_each}, at {_WORK / 1e12:.0f} TFLOP/s in float32, "
        "which most GPUs exceed."
    ]


RULES: tuple[Rule, ...] = (by_hand,)
