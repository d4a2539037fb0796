"""The colours of all charts: what has a name here has the same colour on every page and in every figure, light or dark.

Each table holds the colours of one sort of thing; none is shared by two things that one page can show, and a name that two tables
share (optimizer, data, communication, other) has one colour. Kinds of one family share a hue in several tones, mostly those of
Okabe and Ito (Color Universal Design, 2008), which colour-blind readers can distinguish. Time in which nothing computes is light
blue for copies, teal for communication, red for waiting, magenta for input, and grey for the host. `css` gives them to pages.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelscope.analysis.accounting import idle_causes, levels

COMPUTING, COPY, COMMUNICATION, WAITING, INPUT, COMPILING = "#44668F", "#74C6F2", "#2F8F8F", "#B2182B", "#C51B7D", "#A6D854"
ALLOCATING, COPIES_AWAITED, OTHER_PROCESS, UNMATCHED = "#A03C8C", "#1FA3C4", "#7A4A4A", "#A3DDD6"
HOST = ("#8A8A8A", "#BDBDBD")  # its main activity; what nothing tells, and the rest
GREYS = (HOST[0], "#484848", "#A3A3A3")  # of several activities of the host
IN_LAYERS = "#67788D"  # computing and dispatch, which only layers do not tell apart
OTHER = "#A9B39B"  # what a chart does not name
PLAIN = "#5C8087"  # bars and marks whose colour says nothing
SLOWER, FASTER = "#B34A00", "#2563EB"

# Colours of analysis.trace.KINDS
KINDS: Mapping[str, str] = {
    "convolution forward": "#0072B2", "convolution data gradient": "#4E9BCB", "convolution weight gradient": "#9CC5E3",
    "gemm": "#D55E00", "attention": "#F08A4B", "recurrent": "#8F3F00",
    "normalisation": "#009E73", "softmax": "#66C2A5", "pooling": "#00664A",
    "activation": "#E69F00", "elementwise": "#F3C766", "reduction": "#9A6A00", "fused": "#B8A800",
    "layout": "#CC79A7", "cast": "#E3B4CD", "copy": "#8F4A72", "embedding": "#F0E442",
    "optimizer": "#8A3FC0", "random": "#B3B3F0", "communication": COMMUNICATION, "unknown": "#6F6F6F",
}  # fmt: skip

# Colours of analysis.trace.PHASES
PHASES: Mapping[str, str] = {
    "forward": "#5B7A1E", "backward": "#EE7C86", "optimizer": KINDS["optimizer"], "data": INPUT, "other": OTHER,
}  # fmt: skip

# Colours of analysis.advise.advice.PARTS; parts of one colour differ in their hatches (style.css)
PARTS: Mapping[str, str] = {
    **dict.fromkeys(("computing", "work from before the steps"), COMPUTING),
    **dict.fromkeys(("in layers", "between layers", "outside of layers", "outside of nodes"), IN_LAYERS),
    **dict.fromkeys(("copying", "copying alone", "changing formats"), COPY),
    **dict.fromkeys(("communication", "communication alone"), COMMUNICATION),
    **dict.fromkeys(("synchronisation", "waiting for the DLA"), WAITING),
    **dict.fromkeys(("waiting for input", "preparing input"), INPUT),
    **dict.fromkeys(("compiling", "capturing a graph", "warming up"), COMPILING),
    "allocating": ALLOCATING, "waiting for copies": COPIES_AWAITED, "another process has the device": OTHER_PROCESS,
    "in CUDA graphs": KINDS["unknown"],
    **dict.fromkeys(("waiting for the host", "dispatch and Python", "dispatch", "in operators", "in functions"), HOST[0]),
    **dict.fromkeys(("in the program's ranges", "in the program's lines"), HOST[0]),
    **dict.fromkeys(("between kernels", "idle, unknown why", "nothing recorded"), HOST[1]),
}  # fmt: skip

# Neutral shades for layers in a network's order
LAYERS = ("#5A4B3D", "#716153", "#89796A", "#A29181", "#BCAA9A", "#D6C3B3", "#F1DDCD")
# For names that have no colour of their own, such as restarts and frameworks: these differ in marks or hatches, too
SERIES = ("#5C98F8", "#985044", "#A49850", "#B0385C", "#688C5C", "#B080E0", "#685CA4")

# Colours of the causes of time without computing, those of the part that each makes up; all other host activities are grey
_OWNERS: Mapping[str, str] = {
    idle_causes.FETCHING: INPUT, idle_causes.BETWEEN: INPUT, idle_causes.SYNCHRONISING: WAITING,
    idle_causes.COMPILING: COMPILING, idle_causes.CAPTURING: COMPILING, idle_causes.WARMING_UP: COMPILING,
    idle_causes.ALLOCATING: ALLOCATING, idle_causes.COPYING: COPIES_AWAITED, idle_causes.UNSEEN: HOST[1],
    idle_causes.QUEUED: HOST[1], levels.QUEUED: HOST[1], levels.OPAQUE_GRAPH: KINDS["unknown"],
    levels.IN_LAYER: IN_LAYERS,
}  # fmt: skip


def of_owner(cause: str) -> str:
    """Return the colour of a cause (of analysis.accounting.partition); timelines draw the host's in several tones, GREYS."""
    return _OWNERS.get(cause, COPY if cause.startswith(levels.DEVICE) else HOST[0])


def of_label(label: str) -> str:
    """Return the colour of a row that is named in parentheses: a part of the step, or what the device or the host did."""
    said = label.strip("()")
    return PHASES.get(said) or KINDS.get(said) or of_owner(said.removeprefix("host: "))


def css() -> str:
    """Return the colours as variables of style.css."""
    named = {
        "computing": COMPUTING, "copying": COPY, "communication": COMMUNICATION, "waiting": WAITING, "input": INPUT,
        "compiling": COMPILING, "allocating": ALLOCATING, "copies-awaited": COPIES_AWAITED, "other-process": OTHER_PROCESS,
        "in-layers": IN_LAYERS, "graphs": KINDS["unknown"], "host": HOST[0], "untold": HOST[1],
        "bar": PLAIN, "slower": SLOWER, "faster": FASTER,
    }  # fmt: skip
    named |= {f"phase-{phase}": colour for phase, colour in PHASES.items()}
    named |= {f"series-{number}": colour for number, colour in enumerate(SERIES, 1)}
    return ":root { " + " ".join(f"--{name}: {colour};" for name, colour in named.items()) + " }\n"
