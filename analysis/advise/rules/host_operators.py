"""In TensorFlow's totals, operators that work on the host alone although a device is there."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.formats import scopes

_MUCH = 0.2  # of the device's work
_NAMED = 3
_NO_WORK = r"Iterator|Queue|Dataset|Read|Decode|Parse|Recv|Send|Barrier|Staging|Summary|Save|Restore"  # input, waits and files


def on_the_host(subject: Subject) -> list[Advice]:
    """Operators that compute have no work on the device, and take a noticeable part of its time on the host."""
    if subject.timeline or subject.on_host or subject.framework != "tensorflow":
        return []
    totals = subject.trace.totals
    names = totals["name"].astype("string")
    on_device = set(subject.trace.kernels["operator"].dropna())
    mine = (totals["table"] == "operators") & ~names.isin(list(on_device))
    mine &= ~names.str.match(scopes.STEERING) & ~names.str.contains(_NO_WORK)
    sums = totals["duration_ns"].astype(float)[mine.fillna(False).to_numpy(bool)].groupby(names).sum().nlargest(_NAMED)
    sums = sums[sums >= _MUCH * subject.step_ns]
    if sums.empty:
        return []
    listed = ", ".join(f"{name} {words.duration(ns)}" for name, ns in sums.items())
    plural = len(sums) > 1
    return [
        Advice(
            "operators on the host",
            f"{' and '.join(map(str, sums.index))} {'run' if plural else 'runs'} on the host alone",
            float(sums.sum()),
            "at most their time on the host, which includes waits, if nothing else runs meanwhile",
            [f"No work of theirs on the device was recorded; on the host: {listed}."],
            f"place {'them' if plural else 'it'} on the device: log_device_placement=True tells where each operator runs; check "
            "tf.device(...) blocks, and that the type has a kernel for the device (float32 rather than float64 or integers)",
            "https://www.tensorflow.org/guide/gpu#logging_device_placement",
            last=float(sums.sum()) < subject.step_ns,
        )
    ]


RULES: tuple[Rule, ...] = (on_the_host,)
