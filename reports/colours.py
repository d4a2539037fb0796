"""Colours of all charts: of the parts of a step, and of the kinds of kernels.

Computing and the forward convolution are blue; the host is grey while nothing computes; copies are light blue, communication
teal, waiting red, input magenta. Kinds of one family share a hue in several tones, mostly those of Okabe and Ito (Color
Universal Design, 2008), which colour-blind readers can distinguish.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelscope.analysis.accounting import levels

# Only computing and communication share the colour of a kind: timelines show both sets
COMPUTING, COPY, COMMUNICATION, WAITING, INPUT, COMPILING = "#0072B2", "#74C6F2", "#2F8F8F", "#B2182B", "#C51B7D", "#A6D854"
HOST = ("#8a8a8a", "#bdbdbd")  # its main activity, and the rest

# Colours of analysis.trace.KINDS
KINDS: Mapping[str, str] = {
    "convolution forward": "#0072B2", "convolution data gradient": "#4E9BCB", "convolution weight gradient": "#9CC5E3",
    "gemm": "#D55E00", "attention": "#F08A4B", "recurrent": "#8F3F00",
    "normalisation": "#009E73", "softmax": "#66C2A5", "pooling": "#00664A",
    "activation": "#E69F00", "elementwise": "#F3C766", "reduction": "#9A6A00", "fused": "#B8A800",
    "layout": "#CC79A7", "cast": "#E3B4CD", "copy": "#8F4A72", "embedding": "#F0E442",
    "optimizer": "#5B5BD6", "random": "#B3B3F0", "communication": "#2F8F8F", "unknown": "#7A7A7A",
}  # fmt: skip

# Colours of the causes of time without computing; all other host activities are grey
_OWNERS: Mapping[str, str] = {levels.DATA: INPUT, levels.WAITING: WAITING, levels.QUEUED: HOST[1]}


def of_owner(cause: str) -> str:
    """Return the colour of a cause (of analysis.accounting.partition)."""
    return _OWNERS.get(cause, COPY if cause.startswith(levels.DEVICE) else HOST[0])
