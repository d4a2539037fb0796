"""The timeline as an interactive part of a page: one recording, or several that are aligned at a step of each.

Its data is small: times are differences, names are stored once, colours are places in a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.cell_labels import COMPUTING
from kernelscope.analysis.accounting.levels import DEVICE
from kernelscope.analysis.attribution.calls import SYSTEM
from kernelscope.analysis.trace import PHASES
from kernelscope.reports import units
from kernelscope.reports.colours import COMPUTING as COMPUTING_COLOUR
from kernelscope.reports.colours import COPY, GREYS, HOST, KINDS, of_owner
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import SENTENCE, WHOLE, printable

LANES = 32  # lanes of one side
WORK = 7  # kinds of work with their own colour
_COPIES = "copies"  # the page's script uses the same word
TITLES = {
    "step": "the whole",
    "steps": "steps",
    "calls": "calls of the device's API and of the system",
    "lines": "host lines",
}
_ODD = 1 << 32  # larger thread numbers are hashes, and are renumbered

Side = tuple[str, Mapping[str, Any]]


def timeline(runs: Sequence[tuple[str, Mapping[str, Any] | str]]) -> Interactive:
    """Return the timelines of one or several runs as a part of a page.

    runs: (name as in the page's tables, result of analysis.timeline.lanes or the reason why there is none).
    """
    sides = [(name, made) for name, made in runs if not isinstance(made, str)]
    missing = [f"{printable(name)}: no timeline: {printable(made)}." for name, made in runs if isinstance(made, str)]
    if not sides:
        return Interactive("timeline", "Timeline", "timeline", {}, "no timeline", " ".join(missing) or "There is no run.")
    slots = _Slots(sides)
    aligned = len(sides) > 1
    data = {"sides": [_side(name, made, slots, aligned) for name, made in sides], "legend": slots.legend}
    of = "; ".join(f"{printable(name)}: {_about(made)}" for name, made in sides)
    stepped = any(made["steps"] and not _is_whole(made) for _, made in sides)
    what = "a representative step" if stepped else "the recording"
    return Interactive(
        key="timeline",
        title=f"Timeline of {what}",
        kind="timeline",
        data=data,
        alternative=f"Timeline of {what}, with a lane for each thread and stream. {of}. "
        "The same times, as means of all steps, are in the tables of layers, kinds and kernels.",
        note=" ".join([*([_STEPS] if stepped else []), *([_ALIGNED] if aligned else []), _OWNERS, *_left_out(sides), *missing]),
        exported=True,
    )


_STEPS = "Each run has the recorded step nearest to the median of its recorded steps."
_ALIGNED = "The steps shown first begin at the same place, at 0."
_OWNERS = (
    "The first lane gives each instant to one owner, so it adds up to the whole: colours show what happened while nothing was "
    "computed."
)


def _is_whole(made: Mapping[str, Any]) -> bool:
    """Return whether a timeline covers more than the step that it shows first."""
    return made["step_ns"] is not None and made["step_ns"] != [0, made["wall_ns"]]


def _shown_from(made: Mapping[str, Any]) -> int:
    """Return when the step that is shown first begins, ns from the recording's start."""
    return int(made["step_ns"][0]) if made["step_ns"] else 0


def _about(made: Mapping[str, Any]) -> str:
    """Return which window the timeline covers."""
    wall = units.duration(made["wall_ns"])
    if _is_whole(made):
        low, high = made["step_ns"]
        step = f"step {made['step']}, {units.duration(high - low)} (median {units.duration(made['median_ns'])})"
        return f"the whole recording, {wall}; shown first: {step}"
    if not made["steps"]:
        return f"the whole capture, {wall}, which {'marks' if made.get('found') else 'has'} no steps"
    return f"step {made['step']}, {wall} (median {units.duration(made['median_ns'])})"


def _left_out(sides: Sequence[Side]) -> Iterator[str]:
    """Yield what is simplified or left out."""
    for name, made in sides:
        if made.get("found"):
            yield f"{printable(name)}, steps found: {printable(made['found'], SENTENCE)}."
        said = []
        if made["cut"]:
            said.append(f"events that extend beyond it are cut ({_events(made['cut'])})")
        if made["together_ns"]:
            short = units.duration(made["together_ns"])
            outside = "outside the step shown first, " if _is_whole(made) else ""
            said.append(f"{outside}events shorter than {short} in close succession are merged and named after the longest")
        if len(made["lanes"]) > LANES:
            said.append(f"{len(made['lanes']) - LANES} lanes with the least time are left out")
        if said:
            yield f"{printable(name)}: {', '.join(said)}."


# --- one side ---------------------------------------------------------------------------------------------------------------


def _side(name: str, made: Mapping[str, Any], slots: _Slots, aligned: bool) -> dict[str, Any]:
    """Return a run's timeline in the script's format. aligned: whether the step that is shown first begins at 0."""
    labels = made["labels"]
    shown = {key: _numbered(texts) for key, texts in labels.items()}
    kinds = list(dict.fromkeys(lane["kind"] for lane in made["lanes"]))
    lanes = sorted(made["lanes"], key=lambda lane: (kinds.index(lane["kind"]), lane["thread"] != made["thread"]))
    kept = sorted(sorted(range(len(lanes)), key=lambda place: -_weight(lanes[place]))[:LANES])
    threads = _threads(made)
    waiting = [kind == SYSTEM for kind in labels["kind"]]
    return {
        "name": printable(name),
        "begins": -_shown_from(made) if aligned else 0,
        "shown": made["step_ns"] if _is_whole(made) else None,
        "title": f"{printable(name)}: {_about(made)}",
        "wall": made["wall_ns"],
        "texts": {key: texts for key, (texts, _) in shown.items()},
        "labels": {key: numbers for key, (_, numbers) in shown.items()},
        "owners": [slots.cause(text) for text in labels["name"]],
        "colours": [slots.work(phase, kind) for phase, kind in zip(labels["phase"], labels["kind"], strict=True)],
        "lanes": [_lane(lanes[place], threads, waiting) for place in kept],
    }


def _weight(lane: Mapping[str, Any]) -> float:
    return float("inf") if lane["kind"] == "step" else float(lane["sum_ns"])


def _numbered(texts: Sequence[str | None]) -> tuple[list[str], list[int]]:
    """Return the distinct texts for display, and the place of each label's text; -1 is null."""
    places = {text: place for place, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    return [printable(text, WHOLE) for text in places], [-1 if text is None else places[text] for text in texts]


def _threads(made: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of threads: the loop's thread is marked, and hashes get numbers."""
    found = [lane["thread"] for lane in made["lanes"] if lane["thread"] is not None]
    odd = [thread for thread in dict.fromkeys(found) if not 0 <= thread < _ODD]
    names = {thread: f"thread {thread}" for thread in found} | {thread: f"thread #{n}" for n, thread in enumerate(odd, 1)}
    if made["thread"] in names:
        names[made["thread"]] += " (loop)"
    return names


def _lane(lane: Mapping[str, Any], threads: Mapping[int, str], waiting: Sequence[bool]) -> dict[str, Any]:
    """Return a lane: its title, and rows with the gap before each event, its duration and its label.

    quiet: the thread only waits in the operating system, so the lane is hidden at first. waiting: which labels are such waits.
    """
    place = [] if lane["device"] is None else [printable(lane["device"])]
    if lane["thread"] is not None:
        gpu = lane["device"] not in (None, "cpu")
        place.append(f"stream {lane['thread']}" if gpu else threads[lane["thread"]])
    title = ", ".join([TITLES.get(lane["kind"], lane["kind"]), *place])
    total = f"{_events(lane['events'])}, sum {units.duration(lane['sum_ns'])}"
    quiet = lane["kind"] == "calls" and all(waiting[label] for row in lane["rows"] for label in set(row["label"]))
    host = lane["device"] in (None, "cpu")
    return {
        "kind": lane["kind"], "name": title, "title": f"{title}: {total}", "thread": lane["thread"] if host else None,
        "quiet": quiet, "rows": [row_of(row) for row in lane["rows"]],
    }  # fmt: skip


def _events(count: int) -> str:
    return f"{units.count(count)} event{'s' if count != 1 else ''}"


def row_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a lane in the script's format: the gap before each event, its duration and its label."""
    start, duration = np.array(row["start_ns"]), np.array(row["duration_ns"])
    gaps = start - np.append(0, (start + duration)[:-1])
    several = {"events": row["events"], "busy": row["busy_ns"]} if row["events"] is not None else {}
    launches = {"launched": row["launched_ns"], "launcher": row["launcher"]} if "launched_ns" in row else {}
    return {"gap": gaps.tolist(), "lasted": row["duration_ns"], "label": row["label"], **several, **launches}


# --- colours ----------------------------------------------------------------------------------------------------------------


class _Slots:
    """The colours of everything, as places in `legend`, whose entries are {title, of, colour}.

    of: owners (the first lane) or work (all others). colour: other, a phase, or #rrggbb (see reports.colours). The
    largest host causes get their own greys; work is coloured by kind, as in every chart, or by phase if no kind is known.
    """

    def __init__(self, sides: Sequence[Side]):
        causes, kinds = Counter[str](), Counter[str]()
        for _, made in sides:
            causes.update(_added(made, "step", "name"))
            kinds.update(_added(made, "kernels", "kind"))
        phases = {phase for _, made in sides for phase in made["labels"]["phase"]} & set(PHASES) - {"other"}
        phases = phases if len(phases - {"data"}) > 1 and not set(kinds) & set(KINDS) else set()
        self.legend: list[dict[str, str]] = []
        self._causes = self._of_causes(causes)
        self._rest = self._add("other or several causes", "owners", "other") if set(causes) - set(self._causes) else 0
        self._by_phase = bool(phases)
        if phases:
            self._work = {phase: self._add(phase, "work", phase) for phase in PHASES if phase in phases}
        else:
            several = [kind for kind, _ in kinds.most_common(WORK) if kind in KINDS]
            self._work = {kind: self._add(kind, "work", KINDS[kind]) for kind in several}
        self._other = self._add("no phase known" if phases else "other or no kind", "work", "other")

    def _of_causes(self, causes: Counter[str]) -> dict[str, int]:
        """Return the place of each owner's colour; all copies and memory sets share one."""
        places: dict[str, int] = {}
        titles: dict[str, int] = {}
        for cause, colour in _coloured(causes):
            title = _COPIES if cause.startswith(DEVICE) and colour == COPY else cause
            if title not in titles:
                titles[title] = self._add(title, "owners", colour)
            places[cause] = titles[title]
        return places

    def _add(self, title: str, of: str, colour: str) -> int:
        self.legend.append({"title": printable(title), "of": of, "colour": colour})
        return len(self.legend) - 1

    def cause(self, text: str | None) -> int:
        """Return the place of an owner's colour."""
        return self._causes.get(text or "", self._rest)

    def work(self, phase: str | None, kind: str | None) -> int:
        """Return the place of the colour of anything else."""
        return self._work.get((phase if self._by_phase else kind) or "", self._other)


def _coloured(causes: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield causes of steps with their colours: those with a fixed colour, and the host's largest causes in greys."""
    if COMPUTING in causes:
        yield COMPUTING, COMPUTING_COLOUR
    single = [cause for cause, _ in causes.most_common() if cause != COMPUTING and " + " not in cause]
    host = [cause for cause in single if of_owner(cause) == HOST[0]]
    yield from ((cause, of_owner(cause)) for cause in single if cause not in host)
    yield from zip(host, GREYS, strict=False)


def _added(made: Mapping[str, Any], lanes: str, key: str) -> Counter[str]:
    """Return the ns of each text in a column of labels, over all lanes of a kind."""
    texts = made["labels"][key]
    sums = np.zeros(len(texts))
    for lane in made["lanes"]:
        for row in lane["rows"] if lane["kind"] == lanes else ():
            sums += np.bincount(row["label"], weights=row["busy_ns"] or row["duration_ns"], minlength=len(texts))
    found = pd.Series(sums)[sums > 0].groupby(pd.Series(texts, dtype="object")[sums > 0]).sum()
    return Counter({str(text): int(ns) for text, ns in found.items()})
