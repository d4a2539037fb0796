"""More computing threads than cores: the system takes the cores from threads that others of the program wait for."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.recordings import core_use

TOPIC = "oversubscribed cores"
_OFTEN = 1.0  # preemptions for each ms of processor time: up to 0.2 with as many threads as cores, 2.3 to 10.6 with more
_SYSTEM = 0.2  # of the processor time in the operating system's code; such programs had at most 0.2 with fitting threads
_FEW = 5  # preemptions in a step: fewer are an accident
_HALF = 0.5  # of the kernels' time
_REMEDIES = {
    "pytorch": "torch.set_num_threads({0}), or OMP_NUM_THREADS={0} in the environment",
    "tensorflow": "tf.config.threading.set_intra_op_parallelism_threads({0})",
    "tensorflow 1": "tf.ConfigProto(intra_op_parallelism_threads={0})",
    "onnxruntime": "SessionOptions().intra_op_num_threads = {0}",
    "": "OMP_NUM_THREADS={0} in the environment",
}


def too_many_threads(subject: Subject) -> list[Advice]:
    """Operators use more threads than there are cores, and these are taken from them many times in each step."""
    evidence = _evidence(subject)
    if not evidence or core_use.others(subject.foreign_cores, subject.cores):
        return []
    rows = subject.kernels()
    return [
        Advice(
            TOPIC,
            f"operators use {subject.setting('threads')} threads on {subject.cores} cores",
            words.time_of(rows) * _HALF,
            "half of the kernels' time, by a test on two quiet cores: four times as many threads as cores made small products "
            "take 1.2 times as long and convolutions 5.8 times; 16 times as many, 2.8 and 24 times",
            [*evidence, f"Kernels take {words.share(subject, words.time_of(rows))} {subject.per}."],
            words.text(subject, _REMEDIES).format(subject.cores),
            rows=words.ids(rows),
            modelled=True,
        )
    ]


def notes(subject: Subject) -> list[str]:
    """Say that there are more threads than cores where other processes keep these busy, so what it costs is not known."""
    busy = core_use.others(subject.foreign_cores, subject.cores)
    if not busy or not _evidence(subject):
        return []
    return [
        f"operators use {subject.setting('threads')} threads on {subject.cores} cores, and lose them often, but other processes "
        f"kept {busy['others']:.2g} busy: what fewer threads would save is not known; record again while nothing else runs"
    ]


def _evidence(subject: Subject) -> list[str]:
    """Say how often threads lose their cores; empty unless there are more threads than cores, and that is often."""
    threads, cores, clean = subject.setting("threads"), subject.cores, subject.facts.get("clean") or {}
    if not subject.on_host or not threads or not cores or threads <= cores or not subject.used_ns:
        return []
    lost = float(clean.get("involuntary_switches", 0.0))
    if lost < max(_FEW, _OFTEN * subject.used_ns / 1e6):
        return []
    per_ms = lost / (subject.used_ns / 1e6)
    said = [f"Threads lose their core {words.count(lost)} times {subject.in_each}, {per_ms:.2g} times for each ms of its use."]
    system_ns = float(clean.get("system_ns", 0.0))
    if system_ns > _SYSTEM * subject.used_ns:
        said.append(f"The operating system's code takes {system_ns / subject.used_ns:.0%} of the processor time.")
    return said


RULES: tuple[Rule, ...] = (too_many_threads,)
