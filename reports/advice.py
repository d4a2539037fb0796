"""Render the advice on one recording: the answer, what to do, where the step's time goes, and the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from kernelscope.analysis.accounting.amounts import duration
from kernelscope.analysis.accounting.device_account import ALL
from kernelscope.analysis.advise.advice import AROUND, EARLIER, GRAPHS, IN_FUNCTIONS, IN_LINES, UNPRINTED
from kernelscope.analysis.formats.nsys import RECORD_GRAPHS
from kernelscope.reports import content, text, units

MOST = 3  # pieces of advice shown in full; the others show only what to do
_COMPUTING = "computing"  # a part of a step
_UNRECORDED = "nothing recorded"  # likewise
_HIDDEN = 0.2  # of a step: with so much in graphs whose kernels were not recorded, possible savings are unknown
_EARLIER = 0.05  # of a step: earlier work lengthens the step noticeably
_START = 20  # times the kernels' time: a longer recording is mostly the program's start-up
_LONG_NS = 1_000_000_000_000  # a whole of so many ns is shown in seconds
_APART = 0.1  # of the mean step: a median that differs by more is told beside it
_BAR = 36  # columns of the longest bar

_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")  # an English word

_NOT_LETTERS = re.compile("[^a-z]+")

Result = Mapping[str, Any]


def answer(result: Result) -> str:
    """Return in one sentence how long a step takes, what fills it, and how much can be saved."""
    step_ns = int(result["step_ns"])
    if not step_ns:
        return "All times in the recording are zero, so it does not show where time goes."
    first = [
        f"{part['what']} {share(part['ns'], step_ns)}{_longest(result, part)}"
        for part in result["parts"][:3]
        if part["ns"] >= 0.01 * step_ns
    ]
    advice = result["advice"]
    saved = f" The first suggestion could save {_saving(advice[0])}." if advice else _nothing(result)
    if content.unreliable(result):  # content.busy says so instead
        saved = ""
    if result.get("unrecorded"):
        return _unrecorded(result, first)
    recorded_ns = result.get("recorded_ns")
    if _starting(result):
        more = saved if advice else " Record more steps to get advice on them."
        calls = ", ".join(f"{one['name']} ({duration(one['ns'])})" for one in result.get("calls", []))
        host = f"; the host was in {calls}" if calls else ""
        kernels = f"kernels take {duration(step_ns)} of the {duration(recorded_ns)} recorded{_on(result)}"
        return f"Mostly start-up: {kernels}{host}.{more}"
    if recorded_ns:
        whole = f"Kernels take {duration(step_ns)} of the {duration(recorded_ns)} recorded"
    elif result.get("program"):
        whole = f"The program takes {duration(step_ns)} from its import of {result['framework']} on"
    else:
        totals = f"{'What ran spans' if result.get('timeline', True) else f'{_summed(result)} add up to'} {duration(step_ns)}"
        step = "A step" if result.get("certain", True) else "What repeats (a step or a part of one, such as a layer)"
        whole = f"{step} takes {_about(result)}{duration(step_ns)}{_between(result)}" if result["per"] == "a step" else totals
    return (
        f"{whole}{_on(result)}: {', '.join(first)}.{_others(result)}{_earlier(result)}{_few(result)}{_changed(result)}"
        f"{_long(result)}{content.busy(result)}{saved}"
    )


def _summed(result: Result) -> str:
    """Return what totals add up: PyTorch's tables of processors list operators, TensorRT's layers, cProfile functions."""
    if result.get("iteration"):
        return f"Layers of an iteration ({result['iteration']})"
    if result.get("counted") == "functions":
        return "Functions"
    operators = result["device"] == "cpu" and str(result.get("framework")).startswith("pytorch")
    return "Operators" if operators else "Kernels and copies"


def _about(result: Result) -> str:
    """Say that a step's time is neither the mean nor the median of uneven steps, but the middle one of windows' means."""
    uneven = bool((result.get("range_ns") or (0, 0))[1])
    several = (result.get("windows") or 0) > 2  # the middle one of two is their mean
    return "about " if uneven and several and not result.get("median") else ""


def _between(result: Result) -> str:
    """Return the range of the steps' times, if one time does not represent them."""
    shortest, longest = result.get("range_ns") or (0, 0)
    what = "" if _about(result) else " in the median" if result.get("median") else " on average"
    middle = result.get("median_ns") or result["step_ns"]
    apart = not result.get("median") and abs(middle - result["step_ns"]) > _APART * result["step_ns"]
    median = f", median {duration(middle)}" if apart else ""
    return f"{what} ({duration(shortest)} to {duration(longest)}{median})" if longest else ""


def _unrecorded(result: Result, parts: Sequence[str]) -> str:
    """Return how long a recording without known computation takes, and where the program was meanwhile."""
    whole = "A step takes" if result["per"] == "a step" else "The recording covers"
    whole = "The program takes" if result.get("program") else whole
    places = ", ".join(f"{one['name']} {share(one['ns'], result['step_ns'])}" for one in result.get("ranges", []))
    lines = any(part["what"] == IN_LINES for part in result["parts"])
    where = f"; by {'line' if lines else 'range'}: {places}" if places else ""
    return (
        f"{whole} {duration(result['step_ns'])}: {', '.join(parts)}{where}. What computes is not known: {result['unrecorded']}."
    )


def _few(result: Result) -> str:
    """Say that few steps were measured, which may be slower than later ones."""
    count = result.get("few_steps")
    if not count:
        return ""
    return f" Only {units.counted(count, 'step')} {'was' if count == 1 else 'were'} measured: warm ones may take less."


def _changed(result: Result) -> str:
    """Say that steps change for good, as in a program of two loops, of which no single number tells."""
    changed = result.get("changed")
    if not changed:
        return ""
    return (
        f" Steps change with the {_ordinal(changed['first'])} that was measured, from {duration(changed['before_ns'])} to "
        f"{duration(changed['after_ns'])}: where the program has several loops, record one of them with --steps A:B."
    )


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def _long(result: Result) -> str:
    """Say that the program spends much time in a few long steps, which the median step does not include."""
    long = result.get("long_steps")
    if not long:
        return ""
    part, one = long["ns"] / long["of_ns"], long["count"] == 1
    return (
        f" {long['count']} of {long['of']} steps took {duration(long['ns'])}{'' if one else ' together'}, {part:.0%} of the "
        f"time of all steps, which is not included here; `profile --mode whole` shows what {'it does' if one else 'they do'}."
    )


def _others(result: Result) -> str:
    """Return what the other devices do meanwhile; if several, the range of their computing shares."""
    others = result.get("other_devices") or []
    if len(others) == 1:
        (one,) = others
        said = [f"{part['what']} {share(part['ns'], one['ns'])}" for part in one["parts"][:2] if part["ns"] >= 0.01 * one["ns"]]
        return f" On {one['device']}: {', '.join(said)}."
    shares = sorted(sum(part["ns"] for part in one["parts"] if part["what"] == _COMPUTING) / one["ns"] for one in others)
    return f" The other {len(others)} compute {shares[0]:.0%} to {shares[-1]:.0%} of it." if shares else ""


def _earlier(result: Result) -> str:
    """Return how long a step takes without work that was launched before it, if that is a large part."""
    earlier = sum(part["ns"] for part in result["parts"] if part["what"] == EARLIER)
    if earlier < _EARLIER * result["step_ns"]:
        return ""
    return f" Without work left over from before the step, it takes {duration(result['step_ns'] - earlier)}."


def _nothing(result: Result) -> str:
    """Say that there is nothing to save, or that possible savings are unknown."""
    if result.get("untraced"):
        return " What could be saved is unknown."
    if unknown := result.get("untold_ns"):
        known = "with_stack=True of torch.profiler, NVTX ranges, or `kernelscope profile` record it"
        return f" What could be saved is unknown: the recording does not say what the host did for {duration(unknown)} ({known})."
    hidden = sum(part["ns"] for part in result["parts"] if part["what"] == GRAPHS)
    if hidden < _HIDDEN * result["step_ns"]:
        return " No saving stands out."
    return f" What could be saved is unknown: the kernels {GRAPHS} were not recorded ({RECORD_GRAPHS} records them)."


def _longest(result: Result, part: Mapping[str, Any]) -> str:
    """Return what takes most of the computing, if anything takes a large part of the step."""
    longest = result.get("longest")
    if part["what"] not in (_COMPUTING, IN_FUNCTIONS) or not longest or not result["step_ns"]:
        return ""
    return f" (most in {longest['name']}, {share(longest['ns'], result['step_ns'])})"


def _starting(result: Result) -> bool:
    """Return whether the device is idle for nearly all of the recording, as during start-up."""
    return (result.get("recorded_ns") or 0) > _START * max(int(result["step_ns"]), 1)


def _on(result: Result) -> str:
    """Return where it ran; empty for the host, and for several unnamed devices taken as one."""
    named = result["hardware"] or result["device"]
    if result["device"] == "cpu" or named == ALL:
        return ""
    several = result.get("devices", 1)
    which = f"{result['device']} of {several} devices" if several > 1 else named
    return f" on {which}" + (f" ({named})" if named not in (which, result["device"]) else "")


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    lines = [f"### {text.markdown(answer(result), None)}", ""]
    for number, one in enumerate(result["advice"], start=1):
        lines += [f"{number}. **{text.markdown(_title(one), None)}.** {text.markdown(_sentence(one['remedy']), None)}"]
        lines += [f"   {text.markdown(detail, None)}" for detail in _details(one)]
    lines += ["", "| time | share | what |", "| ---: | ---: | --- |"]
    parts, _ = _account(result)
    whole = sum(part["ns"] for part in parts)
    lines += [f"| {duration(part['ns'])} | {share(part['ns'], whole)} | {part['what']} |" for part in parts]
    return "\n".join([*lines, "", *(f"- {text.markdown(note, None)}" for note in result["notes"])]).rstrip() + "\n"


@dataclass(frozen=True)
class Page:
    """Advice for a page. first: pieces shown at once; more: the others. alternative: the bar in words."""

    answer: str
    parts: list[dict[str, Any]]
    first: list[dict[str, Any]]
    more: list[dict[str, Any]]
    notes: list[str]
    alternative: str


def page(result: Result) -> Page:
    """Return the advice for a page."""
    parts = _stacked(_account(result)[0])
    pieces = [
        {
            "saves": _saving(one),
            "title": _printable(one["title"]),
            "remedy": _printable(_sentence(one["remedy"])),
            "evidence": [_printable(sentence) for sentence in one["evidence"]],
            "estimate": _printable(one["estimate"]),
            "link": one["link"],
        }
        for one in result["advice"]
    ]
    alternative = ", ".join(f"{part['what']} {part['share']}" for part in parts)
    return Page(_printable(answer(result)), parts, pieces[:MOST], pieces[MOST:], list(result["notes"]), alternative)


def _account(result: Result) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Return the parts of a step (without steps: of the whole recording), and what they are parts of."""
    whole = result.get("recorded_parts")
    return (whole, "recorded") if whole else (result["parts"], result["per"])


def _stacked(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return parts (what, ns) as a page stacks them."""
    whole = max(sum(part["ns"] for part in parts), 1)
    return [
        {
            "what": part["what"],
            "time": duration(part["ns"]),
            "share": share(part["ns"], whole),
            "width": 100 * part["ns"] / whole,
            "colour": part_class(part["what"]),
        }
        for part in parts
    ]


def part_class(what: str) -> str:
    """Return the class in style.css of a part of a step; what was not printed looks like what was not recorded."""
    what = _UNRECORDED if what in (UNPRINTED, AROUND) else what
    return f"part-{_NOT_LETTERS.sub('-', what.lower())}"


class AdviceText:
    """Advice as rich draws it."""

    def __init__(self, result: Result):
        self._result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the answer, the advice, the parts of the step, and the evidence."""
        yield Text(_printable(answer(self._result)), style="bold")
        yield Text()
        yield from self._advice()
        yield self._parts()
        if batch := self._result.get("batch"):
            source = f" ({self._result['batch_source']})" if self._result.get("batch_source") else ""
            yield Text(f"Throughput: {batch * 1e9 / max(self._result['step_ns'], 1):,.0f} samples/s at {batch} a step{source}")
        yield from (Text(_printable(note), style="dim") for note in self._result["notes"])

    def _advice(self) -> Iterator[Any]:
        advice = self._result["advice"]
        for number, one in enumerate(advice, start=1):
            titled = Table.grid(padding=(0, 1, 0, 0))
            titled.add_row(Text(f"{number}.", style="bold"), Text(_printable(_title(one)) + ".", style="bold"))
            yield titled
            yield Padding(Text(_printable(_sentence(one["remedy"]))), (0, 0, 0, 3))
            for detail in _details(one) if number <= MOST else []:
                link = one["link"] if one["link"] and detail.endswith(one["link"]) else None  # stays clickable when it wraps
                yield Padding(Text(_printable(detail), style=Style(dim=True, link=link)), (0, 0, 0, 3))
        if len(advice) > MOST:
            rest = f"{MOST + 1}" if len(advice) == MOST + 1 else f"{MOST + 1} to {len(advice)}"
            yield Text(f"for the evidence of {rest}: advise with --format markdown, or the report", style="dim")
        if advice:
            yield Text()

    def _parts(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="dim")
        parts, of = _account(self._result)
        longest, whole = max((part["ns"] for part in parts), default=1), sum(part["ns"] for part in parts)
        unit, size = ("s", 1e9) if whole >= _LONG_NS else ("ms", 1e6)
        for name, justify in ((unit, "right"), ("share", "right"), ("where the time goes", "left"), ("", "left")):
            table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        for part in parts:
            bar = "█" * round(_BAR * part["ns"] / longest)
            table.add_row(f"{part['ns'] / size:,.3f}", share(part["ns"], whole), part["what"], bar)
        table.add_row(f"{whole / size:,.3f}", "100%", of, "", style="bold")
        return table


def _title(one: Mapping[str, Any]) -> str:
    saving = _saving(one)
    return f"{saving[0].upper()}{saving[1:]}: {one['title']}"


def _saving(one: Mapping[str, Any]) -> str:
    """Return how much a piece of advice saves, and whether that is an upper bound."""
    return f"{'up to' if one.get('at_most', True) else 'about'} {duration(one['saves_ns'])}"


def _details(one: Mapping[str, Any]) -> list[str]:
    link = [f"See {one['link']}"] if one["link"] else []
    return [" ".join(one["evidence"]), f"Estimate: {one['estimate']}.", *link]


def _sentence(remedy: str) -> str:
    """Return a remedy as a sentence; a leading name (tf.function, jax_debug_nans) keeps its case."""
    first = remedy.split(" ")[0].rstrip(",:;")
    return f"{remedy[:1].upper()}{remedy[1:]}." if " " in remedy and _WORD.fullmatch(first) else f"{remedy}."


def share(ns: float, step_ns: float) -> str:
    """Return a time's share of the step: 12%; <1% if it is small but not zero."""
    part = ns / max(step_ns, 1)
    return "<1%" if 0 < part < 0.005 else f"{part:.0%}"


def _printable(value: str) -> str:
    return text.printable(value, None)
