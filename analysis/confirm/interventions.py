"""What can be changed of a program without touching its source: environment variables, and changes in its own process.

`changes` are names of `tracer.inside.changes`; `topics` are those of advice (analysis.advise) that a change answers. GENERAL ones
are tried on every program: they are settings of the process, and no rule can tell beforehand whether they help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PYTORCH, TENSORFLOW, MXNET = "pytorch", "tensorflow", "mxnet"
GENERAL = "settings"  # the topic of what is tried on every program
VALUES = {PYTORCH: "pytorch:values", MXNET: "mxnet:values"}  # notes losses or outputs, by which results are compared


@dataclass(frozen=True)
class Intervention:
    """One change.

    name: what it is called on the command line and in tables. frameworks: those that have it, none for all. topics: of advice
    that it answers. changes, variables: how it is made. keep: the line that makes it last. results: why results are others, empty
    where they have to stay the same. bound: it is no remedy, and only tells what could be won at most.
    """

    name: str
    frameworks: tuple[str, ...]
    topics: tuple[str, ...]
    keep: str
    changes: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    results: str = ""
    bound: bool = False


_HEAP = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
_TORCH, _TF, _MX = (PYTORCH,), (TENSORFLOW,), (MXNET,)

INTERVENTIONS = (
    Intervention("compiled-model", _TORCH, ("fusion", "dispatch", "attention", "small kernels", "host-bound", "python"),
                 "model.compile()", ("pytorch:compiled",)),
    Intervention("channels-last", _TORCH, ("layout",), "model.to(memory_format=torch.channels_last)", ("pytorch:channels last",)),
    Intervention("fused-optimizer", _TORCH, ("optimizer",), "torch.optim.Adam(..., fused=True)", ("pytorch:fused optimizer",)),
    Intervention("foreach-optimizer", _TORCH, ("optimizer",), "torch.optim.Adam(..., foreach=True)",
                 ("pytorch:foreach optimizer",)),
    Intervention("no-anomaly-detection", _TORCH, ("debugging mode",), "torch.autograd.set_detect_anomaly(False)",
                 ("pytorch:no checks",)),
    Intervention("no-deterministic-algorithms", _TORCH, ("debugging mode",), "torch.use_deterministic_algorithms(False)",
                 ("pytorch:not deterministic",)),
    Intervention("no-checkpoints", _TORCH, ("recomputation",), "call the layers without torch.utils.checkpoint",
                 ("pytorch:no checkpoints",)),
    Intervention("all-cores", _TORCH, ("threads",), "leave torch.set_num_threads out", ("pytorch:all cores",)),
    Intervention("onednn-on", _TORCH, ("oneDNN",), "torch.backends.mkldnn.enabled = True", ("pytorch:onednn",)),
    Intervention("loader-workers", _TORCH, ("input pipeline",), "DataLoader(..., num_workers=2, persistent_workers=True)",
                 ("pytorch:workers",)),
    Intervention("bfloat16", _TORCH, ("mixed precision", "tensor cores"),
                 "with torch.autocast(device_type, dtype=torch.bfloat16):", ("pytorch:bfloat16",),
                 results="models compute in bfloat16"),
    Intervention("one-batch", _TORCH, ("input pipeline", "loop over samples"), "", ("pytorch:one batch",),
                 results="every step gets the same batch", bound=True),
    Intervention("graphs", _TF, ("dispatch",), "model.compile(..., run_eagerly=False)", ("tensorflow:graphs", "keras:graphs")),
    Intervention("xla", _TF, ("fusion", "dispatch", "small kernels"), "model.compile(..., jit_compile=True)",
                 ("tensorflow:compiled", "keras:compiled")),
    Intervention("parallel-input", _TF, ("input pipeline",), "dataset.map(f, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)",
                 ("tensorflow:parallel input",)),
    Intervention("one-batch", _TF, ("input pipeline",), "", ("tensorflow:one batch",),
                 results="every step gets the same batch", bound=True),
    Intervention("onednn-on", _TF, ("oneDNN",), "TF_ENABLE_ONEDNN_OPTS=1", variables={"TF_ENABLE_ONEDNN_OPTS": "1"}),
    Intervention("hybridized", _MX, ("dispatch", "fusion"), "net.hybridize(static_alloc=True, static_shape=True)",
                 ("mxnet:hybridized",)),
    Intervention("kept-heap", (), (GENERAL,), " ".join(f"{name}={value}" for name, value in _HEAP.items()), variables=_HEAP),
    Intervention("sleeping-threads", (), (GENERAL,), "OMP_WAIT_POLICY=passive", variables={"OMP_WAIT_POLICY": "passive"}),
)  # fmt: skip
# Does nothing: what is said of it shows how far verdicts can be trusted. It is tried when it is named
NOTHING = Intervention("nothing", (), (), "KERNELSCOPE_NOTHING=1", variables={"KERNELSCOPE_NOTHING": "1"})


@dataclass(frozen=True)
class Candidate:
    """A change to be tried. claimed_ns: what advice says that it can save at most; None where none asks for it."""

    intervention: Intervention
    claimed_ns: int | None


def candidates(advised: Mapping[str, Any], names: Sequence[str] = ()) -> list[Candidate]:
    """Return what to try on a recording, what promises most first, general settings last.

    advised: its advice, as analysis.advise gives it. names: of interventions, in place of those that the advice asks for.
    """
    framework = str(advised["framework"])
    family = framework.rpartition("-")[2]  # keras-tensorflow: TensorFlow's
    mine = [one for one in (*INTERVENTIONS, NOTHING) if not one.frameworks or family in one.frameworks]
    found = []
    for one in mine:
        saves = [int(piece["saves_ns"]) for piece in advised["advice"] if piece["topic"] in one.topics]
        if one.name in names or (not names and (saves or GENERAL in one.topics)):
            found.append(Candidate(one, max(saves, default=None)))
    return sorted(found, key=lambda candidate: -(candidate.claimed_ns or 0))


def known() -> list[str]:
    """Return the names of all interventions."""
    return list(dict.fromkeys(one.name for one in (*INTERVENTIONS, NOTHING)))
