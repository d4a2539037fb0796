"""Python loops over the samples of a batch: many small operators outside of the model's layers."""

from __future__ import annotations

from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_MANY = 100  # operators a step, outside of layers and of the optimizer
_BATCH = 8  # smaller batches have little to gain


def over_samples(subject: Subject) -> list[Advice]:
    """Operators run once per sample, outside of the layers."""
    if not subject.on_host:
        return []
    outside = subject.rows["layer"].isna() & subject.rows["phase"].isin(["other", "data"]) & subject.rows["operator"].notna()
    rows = subject.rows[(outside & subject.rows["part"].isin([COMPUTE, IDLE])).to_numpy(bool)]
    computing = rows[(rows["part"] == COMPUTE).to_numpy(bool)]
    batch = (subject.facts.get("options") or {}).get("batch") or 0
    least = max(_MANY, 2 * batch)
    if float(computing["count"].sum()) < least or batch < _BATCH:
        return []
    often = rows[(rows["count"] >= batch).to_numpy(bool)]
    ns = words.time_of(often)
    return [
        Advice(
            "loop over samples",
            f"{words.count(float(computing['count'].sum()))} small operators run in each step outside of the model's layers",
            ns * (1 - 1 / batch),
            f"one operator on the whole batch instead of one for each of its {batch} samples",
            [
                f"Operators that run at least once per sample take {words.share(subject, ns)} {subject.per}: "
                f"{words.largest(often, 'operator')}.",
                *words.lines(subject, 0.1 * ns, words.SLOWED * ns, hits=batch / 2),
            ],
            "do it for the whole batch at once (a leading batch dimension, torch.vmap, jax.vmap, tf.vectorized_map), or ahead of "
            "the step in the loader's workers",
            "",
            words.ids(often),
        )
    ]


RULES: tuple[Rule, ...] = (over_samples,)
