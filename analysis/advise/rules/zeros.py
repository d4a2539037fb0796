"""Tensors of PyTorch that are filled with zeros before a kernel of the program's own writes them, as a table suggests."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules.long_kernels import is_own
from kernelscope.analysis.advise.subject import Subject

_MAKES = ("aten::zeros_like", "aten::zeros", "aten::new_zeros")
_FILLS = ("aten::fill_", "aten::zero_")
_PART = 0.1  # of the time on the device
_BACKWARD = r"(?i)backward|^Optimizer\."
_EMPTY = (
    "torch.empty_like, torch.empty and tensor.new_empty fill nothing: use them where the kernel writes every element before "
    "anything reads it, and does not add to what is there"
)


def in_vain(subject: Subject) -> list[Advice]:
    """All filling is by operators that make tensors of zeros, each beside one launch of a kernel of the program's own."""
    totals = subject.trace.totals
    own: dict[str, dict[str, int]] = subject.trace.info.get("device_own") or {}
    names = totals["name"].astype("string")
    if subject.timeline or subject.framework != "pytorch" or names.str.contains(_BACKWARD).fillna(False).any():
        return []
    made = float(totals["count"][names.isin(_MAKES).fillna(False).to_numpy(bool)].sum())
    ns, filled = (float(sum(own.get(name, {}).get(key) or 0 for name in _FILLS)) for key in ("ns", "calls"))
    rows = subject.kernels()
    beside = [name for name, row in rows.groupby(rows["name"].astype("string")) if is_own(row) and row["count"].sum() == made]
    if not made or filled != made or ns < _PART * subject.step_ns or len(beside) != 1:
        return []
    each = f"{words.count(made)} {'tensor' if made == 1 else 'tensors'}"
    return [
        Advice(
            "fill",
            f"tensors are filled with zeros that {words.kernel(beside[0])} may overwrite",
            ns,
            "all of it, if the kernel writes every element; the recording does not tell whether it does",
            [
                f"Filling takes {words.share(subject, ns)} {subject.per}, {each} by {_listed(set(names) & set(_MAKES))}; "
                f"{words.kernel(beside[0])}, which is the program's own, runs as often."
            ],
            _EMPTY,
            "https://docs.pytorch.org/docs/stable/generated/torch.empty_like.html",
        )
    ]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


RULES: tuple[Rule, ...] = (in_vain,)
