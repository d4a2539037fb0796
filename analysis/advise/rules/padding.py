"""Padding: a model computes positions of texts that hold nothing."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

TOPIC = "padding"
_MUCH, _LEAST = 0.2, 0.01  # of the positions: enough for advice; enough to be mentioned


def of_texts(subject: Subject) -> list[Advice]:
    """Many of the positions that a model is called with are padding, as counted in the recorder's first calls."""
    counted = subject.facts.get("padding")
    if not counted or counted["padded"] < _MUCH * counted["positions"]:
        return []
    computing = subject.kernels()
    ns = words.time_of(computing)
    padded, beyond = (counted[name] / counted["positions"] for name in ("padded", "beyond_longest"))
    shorter = beyond > padded / 2
    return [
        Advice(
            TOPIC,
            f"{padded:.0%} of the positions that the model is called with are padding",
            ns * (beyond if shorter else padded),
            "the share of these positions, of the kernels' time; attention saves more, and what does not depend on the length "
            "saves nothing",
            [f"In the first calls, {_where(beyond, padded - beyond)}. Kernels take {words.share(subject, ns)} {subject.per}."],
            'pad each batch to its own longest text, not to a fixed length (padding="longest" in transformers\' tokenizers, '
            "pad_sequence in a collate function)"
            if shorter
            else "put texts of similar length into one batch (sort by length; group_by_length=True in transformers' Trainer), "
            "or pack several into one row",
            "https://huggingface.co/docs/transformers/pad_truncation",
            words.ids(computing),
        )
    ]


def _where(beyond: float, within: float) -> str:
    """Say where padding is: beyond the longest text of a call, or beyond the end of a shorter text."""
    if beyond < _LEAST:
        return f"{within:.0%} of all positions are beyond the end of their text"
    shorter = f", and {within:.0%} beyond the end of a shorter one" if within >= _LEAST else ""
    return f"{beyond:.0%} of all positions are beyond the longest text of their call{shorter}"


RULES: tuple[Rule, ...] = (of_texts,)
