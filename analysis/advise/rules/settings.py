"""Settings that cost time: checks left on, libraries switched off, idle threads."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.trace import CONVOLUTIONS

_NOTED = 1_000  # ns that autograd takes for an operator on a processor
_CHECKS = ("aten::isnan", "aten::ne", "aten::any", "aten::isfinite", "aten::all")
_THREADS = {
    "pytorch": "torch.set_num_threads(...), or OMP_NUM_THREADS=... in the environment",
    "tensorflow": "tf.config.threading.set_intra_op_parallelism_threads(0)",
    "tensorflow 1": "tf.ConfigProto(intra_op_parallelism_threads=0)",
    "": "OMP_NUM_THREADS=... in the environment",
}


def checks(subject: Subject) -> list[Advice]:
    """A debugging mode is left on."""
    modes = {
        "anomaly_detection": "autograd's anomaly detection is on: remove torch.autograd.set_detect_anomaly(True)",
        "debug_nans": "jax_debug_nans is on: every result is checked and read back",
        "profiler": "a profiler of the framework runs in the measured steps",
    }
    on = [text for name, text in modes.items() if subject.setting(name) is True]
    if not on:
        return []
    tests = subject.rows[subject.rows["operator"].isin(_CHECKS).to_numpy(bool)]
    host = subject.idle((idle_causes.OPERATOR, idle_causes.RANGE))
    rows = pd.concat([tests, host[~host.index.isin(tests.index)]])
    saves = words.time_of(tests) + 0.5 * (words.time_of(rows) - words.time_of(tests))
    return [
        Advice(
            "debugging mode",
            on[0].split(":")[0],
            saves,
            "the checks' own operators, and half of the time outside kernels, in which such modes record what is called",
            [f"Operators that check values: {words.share(subject, words.time_of(tests))} {subject.per}.", *on[1:]],
            on[0].split(": ")[-1],
            "",
            words.ids(rows),
            modelled=True,
        )
    ]


def deterministic(subject: Subject) -> list[Advice]:
    """PyTorch's deterministic algorithms are on: new memory is filled, also where it is written right after."""
    if subject.setting("deterministic_algorithms") is not True or subject.framework != "pytorch":
        return []
    rows = subject.rows[(subject.rows["operator"] == "aten::fill_").fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    return [
        Advice(
            "debugging mode",
            "deterministic algorithms are on, so PyTorch fills all new memory before it is used",
            ns,
            "all fills, of which the program's own remain; what slower algorithms cost is not known from one recording",
            [f"Fills take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}."],
            "torch.utils.deterministic.fill_uninitialized_memory = False keeps results as they are; where runs need not be "
            "equal, remove torch.use_deterministic_algorithms(True)",
            "https://docs.pytorch.org/docs/stable/deterministic.html",
            words.ids(rows),
        )
    ]


def without_onednn(subject: Subject) -> list[Advice]:
    """Convolutions and products on the processor run without oneDNN."""
    if not subject.on_host or subject.setting("onednn") is not False:
        return []
    rows = subject.kernels(CONVOLUTIONS)
    rows = rows[(rows["library"] != "onednn").fillna(True).to_numpy(bool)]
    ns = words.time_of(rows)
    return [
        Advice(
            "oneDNN",
            "oneDNN is off, and convolutions run by slower kernels",
            ns * 0.5,
            "half of the convolutions' time: oneDNN halved it on the machines where this was measured",
            [f"Convolutions take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}."],
            words.text(subject, {
                "pytorch": "torch.backends.mkldnn.enabled = True, which is the default",
                "tensorflow": "TF_ENABLE_ONEDNN_OPTS=1",
                "": "switch oneDNN on",
            }),
            "",
            words.ids(rows),
            modelled=True,
        )
    ]  # fmt: skip


def idle_threads(subject: Subject) -> list[Advice]:
    """Operators may use fewer threads than there are cores."""
    threads, cores = subject.setting("threads"), subject.cores
    if not subject.on_host or not threads or not cores or subject.used_ns is None:
        return []
    free = round(cores - (subject.foreign_cores or 0.0))  # without the cores that other processes use
    if threads >= free:
        return []
    rows = subject.kernels()
    busy = subject.used_ns / max(subject.step_ns, 1)
    saves = words.time_of(rows) * (1 - min(max(busy, 1.0) / free, 1.0))
    return [
        Advice(
            "threads",
            f"operators use {threads} of {cores} cores",
            saves,
            "kernels run on all free cores",
            [f"Cores kept busy on average: {busy:.1f} of {cores}. Kernels take {words.share(subject, words.time_of(rows))}."],
            words.text(subject, _THREADS).replace("...", str(free)),
            "",
            words.ids(rows),
            modelled=True,
        )
    ]


def autograd(subject: Subject) -> list[Advice]:
    """Inference runs with autograd on, which records each operator for a backward pass that never comes."""
    rows = subject.kernels()
    if not subject.on_host or subject.setting("autograd_in_inference") is not True:
        return []
    operators = float(rows["count"].sum())
    host = subject.idle((idle_causes.OPERATOR, idle_causes.RANGE))
    return [
        Advice(
            "autograd",
            "autograd is on while the model only infers",
            min(operators * _NOTED, words.time_of(host)),
            f"{words.duration(_NOTED)} for each operator, as measured for small ones, at most the time outside kernels",
            [
                f"{words.count(operators)} operators that compute run {subject.per}, and each is recorded for a backward pass "
                "that never comes; what that pass would need stays in memory until the result is dropped."
            ],
            "with torch.inference_mode(): around the calls of the model, or with torch.no_grad():",
            "https://docs.pytorch.org/docs/stable/generated/torch.inference_mode.html",
            modelled=True,
        )  # no rows: other remedies for the host's time reduce this saving
    ]


RULES: tuple[Rule, ...] = (checks, deterministic, autograd, without_onednn, idle_threads)
