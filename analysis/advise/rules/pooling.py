"""Pooling on processors that takes longer than any convolution, which does far more arithmetic."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.trace import CONVOLUTIONS

_MUCH = 0.2  # of the step
_REMEDY = {
    "pytorch": "model.to(memory_format=torch.channels_last) and the same for the input: max_pool2d vectorises over channels, and "
    "computes other layouts element by element; check torch.get_num_threads(); record again after warm-up",
    "": "a layout with channels last or blocked, in which libraries vectorise over channels; check the number of threads, and "
    "that no other process has the cores; record again after warm-up",
}


def slow(subject: Subject) -> list[Advice]:
    """An execution of a pooling takes longer than each convolution."""
    rows, convolutions = subject.kernels(("pooling",)), subject.kernels(CONVOLUTIONS)
    ns = words.time_of(rows)
    if not subject.on_host or convolutions.empty or ns < _MUCH * subject.step_ns:
        return []
    most = float((rows["time_ns"] / rows["count"]).max())
    # where sizes are unknown, one row is of convolutions of all sizes
    same = convolutions["problem"].notna().to_numpy(bool)
    longest = float((convolutions["time_ns"] / convolutions["count"].where(same, 1)).max())
    if most <= longest:
        return []
    return [
        Advice(
            "pooling",
            "pooling takes longer than any convolution",
            ns,
            "its whole time is a bound: it cannot be faster than memory",
            [
                f"Pooling takes {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}. The longest takes "
                f"{words.duration(most)}, the longest convolution, which does far more arithmetic, {words.duration(longest)}."
            ],
            words.text(subject, _REMEDY),
            "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html"
            if subject.framework == "pytorch"
            else "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (slow,)
