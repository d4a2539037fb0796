"""Which colour means what, in every chart: the nature of a part of a step, and the kind of a kernel.

Computing is blue, and so is the forward convolution; what the host does while nothing computes is grey; copies are light blue,
communication teal, waiting red, input magenta. Kinds of one family have one hue in several tones, mostly those of Okabe and Ito
(Color Universal Design, 2008), which the colour-blind tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelscope.analysis.accounting import levels

# None of them but computing and communication is the colour of a kind: timelines show both
COMPUTING, COPY, COMMUNICATION, WAITING, INPUT, COMPILING = "#0072B2", "#74C6F2", "#2F8F8F", "#B2182B", "#C51B7D", "#A6D854"
HOST = ("#8a8a8a", "#bdbdbd")  # what it is in mostly, and the rest

# Colours of analysis.trace.KINDS
KINDS: Mapping[str, str] = {
    "convolution forward": "#0072B2", "convolution data gradient": "#4E9BCB", "convolution weight gradient": "#9CC5E3",
    "gemm": "#D55E00", "attention": "#F08A4B", "recurrent": "#8F3F00",
    "normalisation": "#009E73", "softmax": "#66C2A5", "pooling": "#00664A",
    "activation": "#E69F00", "elementwise": "#F3C766", "reduction": "#9A6A00", "fused": "#B8A800",
    "layout": "#CC79A7", "cast": "#E3B4CD", "copy": "#8F4A72", "embedding": "#F0E442",
    "optimizer": "#5B5BD6", "random": "#B3B3F0", "communication": "#2F8F8F", "unknown": "#7A7A7A",
}  # fmt: skip

# Colours of what owns an instant in which nothing computes; whatever else the host is in is grey
_OWNERS: Mapping[str, str] = {levels.DATA: INPUT, levels.WAITING: WAITING, levels.QUEUED: HOST[1]}


def of_owner(cause: str) -> str:
    """Return the colour of what a part of a step is owned by (causes of analysis.accounting.partition)."""
    return _OWNERS.get(cause, COPY if cause.startswith(levels.DEVICE) else HOST[0])
