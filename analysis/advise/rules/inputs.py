"""Input: the step waits for its batch."""

from __future__ import annotations

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution.steps.inputs import uses_dali
from kernelscope.analysis.explain.causes.input_pipeline import IN_PYTHON, python_calls

_TF_DATA = "build the pipeline with tf.data: map(..., num_parallel_calls=tf.data.AUTOTUNE), cache(), prefetch(tf.data.AUTOTUNE)"
_REMEDIES = {
    "pytorch": "load batches in other processes: DataLoader(num_workers=..., prefetch_factor=..., persistent_workers=True), "
    "pin_memory=True with .to(device, non_blocking=True); decode and augment whole batches, or on the GPU (torchvision v2, DALI)",
    "pytorch, on the host": "make whole batches at once, not one sample after the other; if cores are idle, in other "
    "processes: DataLoader(num_workers=..., persistent_workers=True)",
    "tensorflow": _TF_DATA,
    "tensorflow 1": "tf.data instead of feed_dict: map(..., num_parallel_calls=...), cache(), prefetch(1)",
    "mxnet": "gluon.data.DataLoader(num_workers=..., prefetch=...), or mx.io.PrefetchingIter",
    "cntk": "cntk.io.MinibatchSource, which reads ahead",
    "jax": "prepare the next batch on another thread while the step runs, and jax.device_put it early",
    "": "prepare the next batch in other threads or processes while the step runs",
}
# if other processes make the batches already
_BY_WORKERS = {
    "pytorch": "workers make the batches already, but more slowly than the step takes them: more workers while cores are idle "
    "(num_workers), more batches ahead (prefetch_factor), cheaper samples (decode and augment whole batches, keep decoded data), "
    "or on the GPU (torchvision v2, DALI)",
    "pytorch, on the host": "workers make the batches already, but more slowly than the step takes them: cheaper samples (whole "
    "batches at once, keep decoded data); more workers only if cores are idle",
}
_DALI = "DALI: more num_threads, a deeper prefetch_queue_depth, and more of the decoding and augmentation on the device"
_MUCH, _BUSY = 0.25, 0.8  # at least this share of the step is in such calls, and of all cores' time is used
_MOST, _NOTHING = 0.5, "$^"  # of the wait, in one line; matches no line
_FETCHES = r"(?i)^for .* in |next\(|batch|load|data"
# functions that make batches
_MAKERS = r"(?i)__(?:getitems?|iter|next)__|collate|transform|augment|decode|load|fetch|read|sample"
_LINKS = {
    "pytorch": "https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading",
    "tensorflow": "https://www.tensorflow.org/guide/data_performance",
    "tensorflow 1": "",
    "": "",
}


def waiting(subject: Subject) -> list[Advice]:
    """Fetching, decoding or converting the batch delays the step."""
    rows = subject.idle((idle_causes.FETCHING, idle_causes.BETWEEN))
    made = subject.rows[(subject.rows["phase"] == "data").fillna(False).to_numpy(bool)]
    if subject.on_host:
        made = made[made["part"].isin([COMPUTE, IDLE]).to_numpy(bool)]
        rows = subject.rows[subject.rows.index.isin(rows.index) | subject.rows.index.isin(made.index)]
    ns = words.time_of(rows)
    saves, estimate = _saved(subject, ns)
    took = words.share(subject, ns)
    idles = f"While batches are prepared, the device idles for {took} {subject.per}."
    evidence = [f"Preparing batches takes {took} {subject.per}." if subject.on_host else idles]
    calls, _ = python_calls(subject.trace)
    evidence += (
        [f"The pipeline calls Python {words.count(calls)} times a step, and only one of these calls runs at a time."]
        if calls
        else []
    )
    said = rows[rows["detail"].notna()]
    if words.time_of(said) > ns / 2:
        evidence += words.where(said, "detail")
    elif words.time_of(rows[(rows["cause"] == idle_causes.BETWEEN).to_numpy(bool)]) > ns / 2:
        evidence.append("Most of it is before the copies to the device that begin the steps; what the host did was not recorded.")
    return [
        Advice(
            "input pipeline",
            "the step waits for its batch",
            saves,
            estimate,
            [*evidence, *words.lines(subject, 0.2 * ns, words.SLOWED * ns, names=_FETCHES, functions=_MAKERS)],
            _remedy(subject, calls),
            "" if uses_dali(subject.trace) else words.text(subject, _LINKS),
            words.ids(rows),
        )
    ]


def crowding(subject: Subject) -> list[Advice]:
    """The pipeline runs Python beside the step, on cores that the step could use."""
    calls, ns = python_calls(subject.trace)
    if not subject.on_host or not subject.cores or subject.used_ns is None or ns < _MUCH * subject.step_ns:
        return []
    if subject.used_ns < _BUSY * subject.cores * subject.step_ns:
        return []
    return [
        Advice(
            "input pipeline",
            "the input pipeline runs Python on cores that the step needs",
            min(ns, subject.step_ns) / subject.cores,
            f"the time of these calls, which run one at a time, divided by {subject.cores} cores",
            [f"The pipeline calls Python {words.count(calls)} times a step, {words.duration(ns)} in all, as the step computes."],
            IN_PYTHON,
            words.text(subject, _LINKS),
        )  # no rows: it makes all of them longer
    ]


def _remedy(subject: Subject, calls: float) -> str:
    """Return how to prepare batches sooner, by what makes them."""
    if calls:
        return IN_PYTHON
    if uses_dali(subject.trace):
        return _DALI
    by_workers = subject.facts.get("batches_by_workers")
    return words.text(subject, {**_REMEDIES, **(_BY_WORKERS if by_workers else {})})


def _saved(subject: Subject, ns: int) -> tuple[float, str]:
    """Return what can be saved: all of the wait, or on a busy machine only what idle cores can take over.

    If one line of the program takes most of it, all of it counts: that line may get faster on any machine.
    """
    ahead_ns, estimate = _ahead(subject, ns)
    if ahead_ns >= ns or not words.lines(subject, _MOST * ns, words.SLOWED * ns, names=_NOTHING, functions=_MAKERS):
        return ahead_ns, estimate
    workers = f"other processes alone save {words.duration(ahead_ns)}, {estimate}"
    return float(ns), f"all of it, if that line works on whole batches; {workers}"


def _ahead(subject: Subject, ns: int) -> tuple[float, str]:
    """Return what loading ahead can save, and how that is estimated."""
    if not subject.on_host or subject.used_ns is None or not subject.cores:
        return float(ns), "all of the wait, if batches are ready in time"
    room = max(subject.step_ns - subject.used_ns / subject.cores, 0.0)
    used = words.duration(subject.used_ns)
    estimate = f"what the {subject.cores} cores can do besides the step, which uses {used} of processor time"
    return min(float(ns), room), estimate


RULES: tuple[Rule, ...] = (waiting, crowding)
