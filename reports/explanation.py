"""Sentences of an explanation for every renderer, and its numbers, rounded so that they add up as printed.

A result is the plain data of `analysis.explain` (schema kernelscope/explain/1). A difference is B minus A: positive ns make B
slower. Parts are rounded together, and so are causes, so that each add up to the printed difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from kernelscope.analysis.explain.model import CLOSE
from kernelscope.reports import content, units
from kernelscope.reports.text import SENTENCE, printable

Result = Mapping[str, Any]

INSTRUMENTATION = content.INSTRUMENTATION
UNEXPLAINED = "not explained"
_OFFSET = 1.005  # times the difference: with a larger cause, percentages of the difference say nothing
_ALL = 0.995  # of the time: more that is known by name is not worth a word
SIDES = ("a", "b")
_NAME = 40  # characters of a side's name in sentences
_CHANGES = 3  # changes of the program that are listed if no cause is named
_FACTOR = 10  # times as long: from here on a percentage is hard to read
_DIGITS = 10  # last digits that a time must have to be shown in the other one's unit
_LARGE = 0.25  # of the largest part: parts of this size are never merged with others


@dataclass(frozen=True)
class Scale:
    """The unit and the decimals of all times of an explanation."""

    unit: str
    decimals: int

    @property
    def step_ns(self) -> int:
        """The last digit, in ns."""
        return units.NS_PER[self.unit] // int(10**self.decimals)

    def together(self, values: Sequence[int]) -> list[int]:
        """Return ns rounded to the last digit so that they add up to their rounded sum."""
        return units.rounded_together(values, self.step_ns)

    def number(self, ns: int) -> str:
        """Return a time without its unit: 4.98."""
        return f"{ns / units.NS_PER[self.unit]:,.{self.decimals}f}"

    def signed(self, ns: int) -> str:
        """Return a difference with its sign and without its unit: +1.28; a value that rounds to 0 has no sign."""
        text = self.number(ns)
        return text.lstrip("-") if not text.strip("-0.,") else text if ns < 0 else f"+{text}"


_MORE_DECIMALS = 2  # at most, so that steps and their difference are rounded, and nothing is bent


@dataclass(frozen=True)
class RankedPart:
    """One part of the difference, rounded: its label and its ns."""

    label: str
    delta_ns: int


@dataclass(frozen=True)
class RankedCause:
    """One finding, rounded. number: its rank from 1. share: of the difference (see `share`). finding: as in the result."""

    number: int
    delta_ns: int
    share: str
    finding: Mapping[str, Any]

    @property
    def confidence(self) -> str:
        """How certain the cause is: high, medium or low."""
        return printable(self.finding.get("confidence"), 20)

    @property
    def title(self) -> str:
        """The cause in a sentence."""
        return printable(self.finding["title"], SENTENCE)


def scale(result: Result) -> Scale:
    """Return the unit that suits the longer step, with the decimals that the difference, or its interval, needs."""
    steps = [result[side].get("step_ns") for side in SIDES]
    low, high = result.get("wall_interval_ns") or (0, 0)
    delta = max(abs(int(result["wall_delta_ns"])), (high - low) // 2)
    unit = units.common_unit([max((step for step in steps if step), default=delta)])
    if unit == "ns":
        return Scale(unit, 0)
    much = delta / units.NS_PER[unit]
    decimals = 1 if much >= 100 else 2 if much >= 1 or not much else 3 if much >= 0.05 or unit == "µs" else 4
    known = [step for step in steps if step is not None]
    if result.get("wall_interval_ns") or len(known) < len(SIDES):
        return Scale(unit, decimals)
    tried = [Scale(unit, decimals + more) for more in range(_MORE_DECIMALS + 1)]
    return next((one for one in tried if _agree(one, known, int(result["wall_delta_ns"]))), tried[0])


def _agree(shown: Scale, steps: Sequence[int], delta: int) -> bool:
    """Return whether rounded steps differ by the rounded difference: who checks a printed table finds the same digits."""
    first, second, apart = (units.round_half_up(value, shown.step_ns) for value in (*steps, delta))
    return second - first == apart


def names(result: Result) -> tuple[str, str]:
    """Return the names of the sides in sentences; sides of the same name are marked A and B."""
    a, b = (printable(result[side].get("name") or side.upper(), _NAME) for side in SIDES)
    return (f"{a} (A)", f"{b} (B)") if a == b else (a, b)


def key(number: int) -> str:
    """Return the prefix of an explanation's identifiers on a page, by its number from 1."""
    return f"why-{number}"


def title(result: Result) -> str:
    """Return what is explained: B against A."""
    a, b = names(result)
    return f"{b} against {a}"


def recordings(result: Result) -> list[str]:
    """Return file and device of each side; for recordings other than captures, which have names, the title."""
    sides = [result[side] for side in SIDES]
    if "hidden" not in result or not all(side.get("path") for side in sides):
        return [title(result)]
    return [
        f"{name}: {PurePath(str(side['path'])).name}" + (f" on {side['hardware']}" if side.get("hardware") else "")
        for name, side in zip(names(result), sides, strict=True)
    ]


def answer(result: Result) -> str:
    """Return in one sentence which side is slower, by how much, how certain that is, and the largest cause."""
    return _difference(result) + _largest(result)


def _largest(result: Result) -> str:
    """Return the largest cause in few words, or what the host does if that is more.

    Empty if causes that hide each other are listed first.
    """
    if _host_leads(result):
        return ""
    if result.get("calls"):
        return f"; {head(str(result['calls']))}"
    shown, whole = scale(result), total(result)
    found = [one for one in causes(result)[0] if one.delta_ns * whole > 0]
    alike = result.get("significant") is False and "hidden" not in result
    if not found or alike or result.get("hidden"):
        return ""
    first = max(found, key=lambda one: abs(one.delta_ns))
    return f"; largest cause: {head(first.title)} ({shown.signed(first.delta_ns)} {shown.unit})"


def head(title: str) -> str:
    """Return a title up to its first colon; colons in parentheses or backticks, as in names of ranges, do not count."""
    depth, quoted = 0, False
    for place, letter in enumerate(title):
        quoted ^= letter == "`"
        depth += (letter == "(") - (letter == ")")
        if title.startswith(": ", place) and depth <= 0 and not quoted:
            return title[:place]
    return title


def _difference(result: Result) -> str:
    a, b = names(result)
    delta, shown = total(result), scale(result)
    if result.get("significant") is False and "hidden" in result and result["findings"]:
        much = f"{shown.signed(delta)} {shown.unit}{_per(result)}{_relative(result)}"
        ends = _interval(result, shown, False)
        return f"{b} against {a}: {_steps(result, shown)}, {much}{ends}: uncertain as a whole, certain in its parts"
    if result.get("significant") is False:
        much = f"{shown.signed(delta)} {shown.unit}{_per(result)}"
        return f"{a} and {b} cannot be told apart: {_steps(result, shown)}, {much}{_interval(result, shown, False)}"
    if not shown.number(abs(delta)).strip("0.,"):
        return f"{b} and {a} take the same time: {_steps(result, shown)}{_interval(result, shown, False)}"
    if not result.get("wall_interval_ns") and abs(delta) < CLOSE * (result["a"].get("step_ns") or 0):
        much = f"{shown.signed(delta)} {shown.unit}{_per(result)}{_relative(result)}"
        ends = _interval(result, shown, False)
        return f"{a} and {b} are close: {_steps(result, shown)}, {much}{ends}, and noise may be as large"
    if adds_up(result):
        more = "more" if delta > 0 else "less"
        much = f"{shown.number(abs(delta))} {shown.unit} {more} than those of {a}{_relative(result)}"
        what = "Operators" if _by_operators(result) else "Kernels and copies"
        what = "Layers of an iteration" if all(result[side].get("iteration") for side in SIDES) else what
        what = "Functions" if all(result[side].get("counted") == "functions" for side in SIDES) else what
        if any(result[side].get("printed_only") for side in SIDES):
            what = f"Printed {what[:1].lower()}{what[1:]}"
        if _host_leads(result):
            host = _of_host(result)
            return f"{host}, while its {what[:1].lower()}{what[1:]} add up to {much}: {_steps(result, shown)}"
        return f"{what} of {b} add up to {much}: {_steps(result, shown)}"
    verb = "slower" if delta > 0 else "faster"
    low, high = result.get("wall_interval_ns") or (delta, delta)
    if low <= 0 <= high:
        much = f"{shown.signed(delta)} {shown.unit}{_per(result)}{_relative(result)}"
        return (
            f"{b} is {verb} than {a} by processor time, but by how much is uncertain: {_steps(result, shown)}, {much}"
            f"{_interval(result, shown, False)}"
        )
    much = f"{shown.number(abs(delta))} {shown.unit}{_per(result)}{_relative(result)}"
    return f"{b} is {verb} than {a} by {much}: {_steps(result, shown)}{_interval(result, shown, delta < 0)}"


def adds_up(result: Result) -> bool:
    """Return whether both sides are totals: sums of durations, which are not the time of a program."""
    return all(result[side].get("basis") == "totals" for side in SIDES)


def _host_leads(result: Result) -> bool:
    """Return whether the answer begins with the host: by its time the other side is slower, and by more."""
    return bool(result.get("host_ns")) and adds_up(result) and not _is_close(result)


def _is_close(result: Result) -> bool:
    """Return whether the difference of sides without an interval is so small that noise may be as large."""
    close = abs(total(result)) < CLOSE * (result["a"].get("step_ns") or 0)
    return result.get("significant") is False or (not result.get("wall_interval_ns") and close)


def _of_host(result: Result) -> str:
    """Return how much longer or shorter the host takes: B takes 79.5 ms longer on the host (50.7 ms → 130 ms)."""
    before, after = result["host_ns"]
    times = f"{units.duration(before)} \u2192 {units.duration(after)}"
    longer = "longer" if after > before else "less"
    return f"{names(result)[1]} takes {units.duration(abs(after - before))} {longer} on the host ({times})"


def _by_operators(result: Result) -> bool:
    """Return whether both sides' totals are of operators and not of kernels."""
    return all(result[side].get("counted") == "operators" for side in SIDES)


def _per(result: Result) -> str:
    """Return what the times cover: a step, or the whole of a capture without steps."""
    without = ["steps" in ((result.get("missing") or {}).get(side) or {}) for side in SIDES]
    return " in all" if all(without) else " (one step against a whole capture)" if any(without) else " per step"


def _relative(result: Result) -> str:
    step, delta = result["a"].get("step_ns"), result["wall_delta_ns"]
    if step and delta >= (_FACTOR - 1) * step:
        return f" ({(step + delta) / step:,.0f} times as long)"
    return f" ({delta / step * 100:+,.{0 if abs(delta) >= step / 20 else 1}f}%)" if step else ""


def _steps(result: Result, shown: Scale) -> str:
    """Return both steps, the second as the first plus the printed difference."""
    a, b = (result[side].get("step_ns") for side in SIDES)
    delta = shown.together([int(result["wall_delta_ns"])])[0]
    if a and b and min(a, b) < _DIGITS * shown.step_ns:
        return f"{units.duration(a)} \u2192 {units.duration(b)}"
    if a is None or b is None:
        return "the steps themselves were not measured"
    first = shown.together([a])[0]
    second = first + delta if b - a == result["wall_delta_ns"] else b
    return f"{shown.number(first)} \u2192 {shown.number(second)} {shown.unit}"


def _interval(result: Result, shown: Scale, mirrored: bool) -> str:
    """Return the interval of the difference; mirrored if the sentence says how much faster B is."""
    ends = result.get("wall_interval_ns")
    if not ends:
        if adds_up(result):
            return ""
        if "hidden" in result:
            return "; no interval: too few steps"
        few = [str(result[side]["name"]) for side in SIDES if result[side].get("windows") == 1]
        if few:
            return f"; no interval: too few steps{f' in {few[0]}' if len(few) == 1 else ''}"
        restarts = [result[side].get("restarts") for side in SIDES]
        return "; no interval: one restart only" if 1 in restarts else "; no interval: one recording per side"
    low, high = (-ends[1], -ends[0]) if mirrored else ends
    return f"; 95% interval {shown.number(low)} to {shown.number(high)} {shown.unit}"


def premises(result: Result) -> list[str]:
    """Return what qualifies the answer itself: other devices, tables that were cut, a profiler's cost, and different work."""
    found = [str(result[key]) for key in ("devices", "cut", "own_cost") if result.get(key)]
    if result.get("differs"):
        found.append(f"the work differs: {'; '.join(map(str, result['differs']))}")
    return [printable(text, SENTENCE) for text in found]


def warnings(result: Result) -> list[str]:
    """Return what to read first: different work, causes that hide each other, and why no cause is named."""
    found = premises(result)
    found += [str(result[key]) for key in ("calls", "hidden") if result.get(key)]
    if result.get("changes") and not result["findings"]:
        more = f"; and {len(result['changes']) - _CHANGES} more" if len(result["changes"]) > _CHANGES else ""
        found.append(f"changed in the program: {'; '.join(row['words'] for row in result['changes'][:_CHANGES])}{more}")
    if result.get("abstained"):
        of = "for the rest, " if result.get("calls") else ""
        found.append(f"{of}no cause is named: {result['abstained']}")
    if result.get("to_find_out") and result.get("abstained"):
        found.append(f"to find out: {result['to_find_out']}")
    return [printable(text, SENTENCE) for text in found]


def parts(result: Result, most: int | None = None) -> list[RankedPart]:
    """Return the parts of the difference, rounded together, instrumentation last; beyond `most`, small ones are merged.

    Parts that round to 0 are left out, unless all do.
    """
    rows = [RankedPart(printable(part["part"]), int(part["delta_ns"])) for part in result["parts"]]
    whole = [*rows, RankedPart(INSTRUMENTATION, int(result["instrumentation_ns"]))]
    shown = scale(result)
    rounded = shown.together([part.delta_ns for part in whole])
    shown_all = not any(rounded)
    whole = [RankedPart(part.label, ns) for part, ns in zip(whole, rounded, strict=True)
             if ns or (shown_all and part.label != INSTRUMENTATION)]  # fmt: skip
    if most is None or len(whole) <= most:
        return whole
    last = [part for part in whole if part.label == INSTRUMENTATION and most > 2]
    others = [part for part in whole if part not in last]
    large = sorted(others, key=lambda part: -abs(part.delta_ns))[: max(most - 1 - len(last), 1)]
    rest = [part for part in others if part not in large]
    merged = RankedPart(f"({len(rest)} other parts)", sum(part.delta_ns for part in rest))
    return [*(part for part in others if part in large), merged, *last]


def large_parts(result: Result) -> int:
    """Return how many parts are so large that merging them would hide the composition of the difference."""
    sizes = [abs(int(part["delta_ns"])) for part in result["parts"]]
    return sum(size >= _LARGE * max(sizes) for size in sizes) if sizes else 0


def total(result: Result) -> int:
    """Return the difference, rounded as parts and causes add up to it."""
    return scale(result).together([int(result["wall_delta_ns"])])[0]


def causes(result: Result) -> tuple[list[RankedCause], int]:
    """Return the findings in the result's order, and the unexplained rest, rounded together."""
    found = result["findings"]
    values = [int(finding["explains_ns"]) for finding in found]
    rounded = scale(result).together([*values, int(result["wall_delta_ns"]) - sum(values)])
    ranked = [
        RankedCause(number, ns, share(result, int(finding["explains_ns"])), finding)
        for number, (finding, ns) in enumerate(zip(found, rounded, strict=False), 1)
    ]
    return ranked, rounded[-1]


def share(result: Result, ns: int) -> str:
    """Return a part as a percentage of the difference; empty if a cause is larger than it, and others offset it."""
    whole = int(result["wall_delta_ns"])
    if not whole or any(abs(int(one["explains_ns"])) > _OFFSET * abs(whole) for one in result["findings"]):
        return ""
    return f"{round(ns / whole * 100) or 0:,}%"


def unexplained(result: Result, rounded: int) -> str:
    """Return the unexplained rest, rounded as the causes are."""
    shown = scale(result)
    exact = int(result["wall_delta_ns"]) - sum(int(finding["explains_ns"]) for finding in result["findings"])
    part = share(result, exact)
    return f"{UNEXPLAINED}: {shown.signed(rounded)} {shown.unit}{f' ({part})' if part else ''}"


def facts(result: Result) -> list[str]:
    """Return facts about the numbers: cost of recording, coverage, smallest visible difference, restarts."""
    found = []
    for sentence, key, text in (
        ("time known by name:", "coverage", units.percent),
        ("recordings", "restarts", units.count),
        ("removed as cost of recording:", "removed_ns", units.duration),
    ):
        values = [result[side].get(key) for side in SIDES]
        if key == "restarts" and "hidden" in result:
            continue  # meaningless for captures
        if key == "coverage" and all((value or 0) >= _ALL for value in values):
            continue
        if key == "removed_ns":
            values = [max(value or 0, 0) for value in values]  # negative if the recorded pass was faster
        if any(values):
            found.append(f"{sentence} {' and '.join(map(text, values))}")
    used = result.get("processor")
    if used:
        found.append(f"processor time {' and '.join(units.duration(used[f'{side}_ns']) for side in SIDES)} a step")
    if result.get("floor_ns"):
        found.insert(1, f"differences of whole steps below {units.duration(result['floor_ns'])} cannot be seen")
    return found


def gaps(result: Result) -> list[str]:
    """Return what each capture lacks, and notes."""
    found = []
    for side, name in zip(SIDES, names(result), strict=True):
        if name == side.upper() and "hidden" not in result:
            found.append(printable(f"{name} is {result[side].get('path')}", SENTENCE))
    lacking = [(result.get("missing") or {}).get(side) or {} for side in SIDES]
    shared = {what: why for what, why in lacking[0].items() if lacking[1].get(what) == why}
    found += [printable(f"both have no {what}: {why}", SENTENCE) for what, why in shared.items()]
    for mine, name in zip(lacking, names(result), strict=True):
        found += [printable(f"{name} has no {what}: {why}", SENTENCE) for what, why in mine.items() if what not in shared]
    return [*found, *(printable(note, SENTENCE) for note in result.get("notes") or [])]


def settings(result: Result, most: int | None = None) -> str:
    """Return the settings that differ, A's value before B's, in one sentence, at most `most`; "" if none differ."""
    pairs = [
        f"{printable(row['setting'], _NAME)} {' / '.join(printable(content.setting(row[side]), _NAME) for side in SIDES)}"
        for row in result.get("differences") or []
    ]
    more = [f"and {len(pairs) - most} more"] if most is not None and most < len(pairs) else []
    return f"set differently (A / B): {'; '.join([*pairs[:most], *more])}" if pairs else ""


def nothing_found(result: Result) -> str:
    """Return why no cause is named; "" if there is one, or if the reason is given elsewhere."""
    if result["findings"] or result.get("abstained"):
        return ""
    noise = result.get("significant") is False
    why = "nothing stands out from the noise" if noise else "no rule recognises the source of the difference"
    further = f"; to find out: {printable(result['to_find_out'], SENTENCE)}" if result.get("to_find_out") else ""
    return f"no cause is named: {why}{further}"


def brief(result: Result) -> tuple[str, str]:
    """Return the title, and the answer in few words with the largest cause."""
    found, _ = causes(result)
    much = f"{units.signed(result['wall_delta_ns'])}{_per(result)}"
    much = f"{_of_host(result)}; {much}" if _host_leads(result) else much
    if result.get("abstained"):
        return title(result), f"{much}; no cause is named: {printable(result['abstained'], SENTENCE)}"
    if not found:
        return title(result), f"{much}; {nothing_found(result)}"
    first = found[0]
    explains = units.signed(int(first.finding["explains_ns"]))
    about = ", ".join(filter(None, (explains, first.share, f"confidence {first.confidence}")))
    return title(result), f"{much}; largest cause: {first.title} ({about})"
