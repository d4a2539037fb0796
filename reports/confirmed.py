"""Render the result of trials: the answer, the lines to keep, a row for each finding and for each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from rich.console import Group
from rich.text import Text

from kernelscope.analysis.confirm.verdicts import CONFIDENCE, CONFIRMED, PARTLY, UNSEEN, VERDICTS
from kernelscope.reports import content, text, units
from kernelscope.reports.fitted import Fitted
from kernelscope.reports.renderers import Markdown
from kernelscope.reports.table import Table, of_rows
from kernelscope.reports.trimmed import Trimmed

Result = Mapping[str, Any]
_PARTS = 3  # of the account that are shown
# Of a step: trials should show effects of the first size; without those of the second there is no verdict
_COARSE, _BLIND = 0.05, 0.25
_APART = 0.25  # of the trials' step: recordings may differ from it by this much
_MANY = 50  # rounds: nobody repeats trials more often


def answer(result: Result) -> str:
    """Return in one sentence what helped."""
    together, rows = result["together"], result["tried"]
    begin = f"{'The program' if result.get('program') else 'A step'} takes {_ms((together or result)['step_ns'])} ms"
    if together:
        names = " and ".join(together["names"])
        make = "make" if len(together["names"]) > 1 else "makes"
        said = f"{names} {make} it {_shorter(together, together['step_ns'])}"
        if together["p"] >= 1 - CONFIDENCE:
            low, high = (_ms(ns) for ns in together["interval_ns"])
            again = "try again on an idle machine, or with more --rounds, before you keep it"
            said = f"{names} helped in the trials, but separate runs showed no sure effect (between {low} and {high} ms); {again}"
        return f"{begin}; {said}.{content.busy(result, turns=True)}"
    helped = [row for row in rows if row["verdict"] in (CONFIRMED, PARTLY)]
    if helped:
        nothing = "no tried change is known to help without changing results"
        other = [row for row in helped if _changes_results(row)]
        most = "".join(
            f"{row['name']} makes it {_shorter(row, result['step_ns'])}, with other results ({row['results']}); "
            for row in other[:1]
        )
        return f"{begin}; {most}{nothing}.{content.busy(result, turns=True)}"
    return f"{begin}; {_without_effect(rows, result['step_ns'])}.{content.busy(result, turns=True)}"


def _changes_results(row: Mapping[str, Any]) -> bool:
    """Return whether a change helps and by its nature changes results; mere differences of losses do not count."""
    known = ("same", "differ", "not compared")
    return row["verdict"] in (CONFIRMED, PARTLY) and not row["bound"] and row["results"] not in known


def _shorter(saved: Mapping[str, Any], step_ns: int) -> str:
    """Return by how much a step became shorter. saved: saved_ns and interval_ns."""
    low, high = (_ms(ns) for ns in saved["interval_ns"])
    return f"{_ms(saved['saved_ns'])} ms shorter ({saved['saved_ns'] / max(step_ns, 1):.0%}; between {low} and {high} ms)"


def _without_effect(rows: Sequence[Mapping[str, Any]], step_ns: int) -> str:
    """Say that nothing helps and which effect would be visible (half of the widest interval), or that trials cannot tell."""
    several = f"none of the {len(rows)} tried changes helps"
    tried = several if len(rows) > 1 else "the tried change does not help"
    widths = [high - low for low, high in (row["interval_ns"] for row in rows if row["interval_ns"])]
    if not widths:
        return tried
    least = max(widths) / 2
    seen = f"more than {_ms(least)} ms, {least / max(step_ns, 1):.0%} of a step, would have been visible"
    if least > _BLIND * step_ns:
        whether = "whether any change helps" if len(rows) > 1 else "whether the change helps"
        return f"the trials cannot tell {whether}: only {seen}; try again on an idle machine, or with more --rounds"
    return f"{tried} ({seen}{'; more --rounds would show smaller effects' if least > _COARSE * step_ns else ''})"


def shown(result: Result) -> Trimmed:
    """Return it for a terminal."""
    parts: list[Any] = [Text(answer(result), style="bold"), Text()]
    if result["keep"]:
        kept = (Text(f"  {line}", no_wrap=True, overflow="ignore") for line in result["keep"])  # in full, for copying
        parts += [Text("To keep:"), *kept, Text()]
    if others := _where_results_may_change(result):
        parts += [Text("To keep, if other results are acceptable:"), *(Text(f"  {line}") for line in others), Text()]
    for table in _tables(result):
        parts += [Fitted(table), Text()]
    for head, lines in _after(result):
        parts += [Text(head, style="bold"), *(Text(f"  {line}") for line in lines), Text()]
    return Trimmed(Group(*parts, *map(Text, notes(result))))


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    lines = [f"### {text.markdown(answer(result), None)}", ""]
    lines += [*("    " + line for line in result["keep"]), ""] if result["keep"] else []
    if others := _where_results_may_change(result):
        lines += ["If other results are acceptable:", "", *("    " + line for line in others), ""]
    lines += [Markdown().render(table) for table in _tables(result)]
    for head, said in _after(result):
        lines += [f"### {head}", "", *(f"- {text.markdown(line, None)}" for line in said), ""]
    return "\n".join([*lines, *(f"- {text.markdown(note, None)}" for note in notes(result))]).rstrip() + "\n"


def verdicts(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return how often each kind of finding was confirmed (confirm.kept.summary), for people and programs."""
    title = f"{sum(row[CONFIRMED] for row in rows)} of {sum(row['tried'] for row in rows)} tried findings are confirmed"
    table = [{**row, "seen of claimed": units.percent(row["seen_share"]), "found by": row["source"]} for row in rows]
    columns = ("topic", "confidence", "found by", "tried", *VERDICTS, "seen of claimed")
    return of_rows("verdicts", table, columns, title, first=("topic", "tried", CONFIRMED))


def _tables(result: Result) -> list[Table]:
    """Return the verdict on each finding, and the effect of each change."""
    findings = [
        {"claimed, ms": _ms(row["claimed_ns"]), "seen, ms": _ms(row["saved_ns"]), "verdict": _verdict(row),
         "confidence": row["confidence"], "tried by": row["change"], "what was found": row["title"]}
        for row in result["findings"]
    ]  # fmt: skip
    changes = [
        {"seen, ms": _ms(row["saved_ns"]), "95% interval": _interval(row), "did": _did(row), "change": row["name"],
         "results": row["results"], "peak memory": _memory(row["peak_bytes"], result["peak_bytes"])}
        for row in result["tried"]
    ]  # fmt: skip
    sure = () if all(row["confidence"] is None for row in findings) else ("confidence",)
    columns = ("claimed, ms", "seen, ms", "verdict", *sure, "tried by", "what was found")
    return [
        *([of_rows("findings", findings, columns, "Findings, and what the trials say about them")] if findings else []),
        of_rows("changes", changes, title="Tried changes"),
    ]


def _where_results_may_change(result: Result) -> list[str]:
    """Return the lines of changes that help but change results; several for one finding may exclude each other."""
    return [row["keep"] for row in result["tried"] if _changes_results(row) and row["keep"]]


def _after(result: Result) -> list[tuple[str, list[str]]]:
    """Return where the time went in the recording with the kept changes, and what remains to be done."""
    account = result["account"]
    if not account:
        return []
    parts = sorted(account["parts"], key=lambda part: -abs(part["delta_ns"]))[:_PARTS]
    rest = account["b_ns"] - account["a_ns"] - sum(part["delta_ns"] for part in parts)
    parts += [{"part": "everything else", "delta_ns": rest}]
    moved = [f"{part['delta_ns'] / 1e6:+,.2f} ms  {text.printable(part['part'])}" for part in parts]
    remains = [
        f"{text.printable(one['title'])}: {'at most' if one.get('at_most', True) else 'about'} {_ms(one['saves_ns'])} ms"
        for one in result["remains"]
    ]
    both = " and ".join(f"{_ms(account[side])} ms" for side in ("a_ns", "b_ns"))
    head = f"Where the time went, by {account['parts_by']} (recorded once each, with steps of {both})"
    if apart := _apart(account, result["together"]):
        head, moved = "Where the time went is unknown", apart
    return [(head, moved), ("What remains", remains or ["nothing known to help"])]


def _apart(account: Mapping[str, Any], together: Mapping[str, Any]) -> list[str]:
    """Return a line for each of both recordings whose steps differ much from the trials': other work disturbed it."""
    before, after = together["step_ns"], together["step_ns"] - together["saved_ns"]
    pairs = (("unchanged", account["a_ns"], before), ("changed", account["b_ns"], after))
    return [
        f"the recording of the {name} program has steps of {_ms(recorded)} ms, its trials of {_ms(tried)} ms"
        for name, recorded, tried in pairs
        if abs(recorded - tried) > _APART * tried
    ]


def _verdict(row: Mapping[str, Any]) -> str:
    return f"{row['verdict']} ({row['reason']})" if row["reason"] else str(row["verdict"])


def _interval(row: Mapping[str, Any]) -> str | None:
    ends = row["interval_ns"]
    return f"{_ms(ends[0])} to {_ms(ends[1])}" if ends else None


def _did(row: Mapping[str, Any]) -> str:
    """Return what a change did to the step."""
    if row["verdict"] not in (CONFIRMED, PARTLY):
        return _verdict(row)
    return "upper bound: no remedy" if row["bound"] else "made faster"


def _memory(peak: int | None, base: int | None) -> str | None:
    """Return how much the peak differs from the unchanged program's."""
    return None if peak is None or not base else f"{peak / base - 1:+.0%}"


def notes(result: Result) -> list[str]:
    """Return the notes below the tables."""
    least = "1%, as other processes kept cores busy" if result.get("busy") else "5%"
    said = [
        f"{result['rounds']} runs of each, in turns with the unchanged program; a difference counts if the probability of chance "
        f"is below {least}, corrected for the number of changes tried."
    ]
    if result["together"]:
        said.append(
            "The first line and the lines to keep come from separate later runs: the change that helped most in the trials also "
            "helped by chance."
        )
    said += [
        f"{name} helps alone; there was no time to try it together with the kept changes (--budget)."
        for name in (result["together"] or {}).get("alone", [])
    ]
    said += [
        f"{one['name']} does not help in addition to {one['beside']}." for one in (result["together"] or {}).get("dropped", [])
    ]
    said += _undecided(result)
    threads = [row["name"] for row in result["tried"] if row.get("cores") and row["verdict"] in (CONFIRMED, PARTLY)]
    if result.get("busy") and threads:
        said.append(f"Not kept because other processes on the machine influence the effect of threads: {', '.join(threads)}.")
    if result["left_out"]:
        said.append(f"Not tried for lack of time (--budget): {', '.join(result['left_out'])}.")
    if any(row["results"] == "not compared" for row in result["tried"]):
        said.append("Results are compared by the first losses; not compared: losses are not visible, or differ from run to run.")
    return said


def _undecided(result: Result) -> list[str]:
    """Return a note on changes without a sure effect that may save half of what was claimed, or 5% of a step if nothing was.

    An interval shrinks with the square root of the rounds, so their number follows from its width.
    """
    unsure = [row for row in result["tried"] if row["verdict"] == UNSEEN and row["interval_ns"][1] > _least_ns(row, result)]
    if not unsure:
        return []
    most = [f"{row['name']} (may save up to {_ms(row['interval_ns'][1])} ms)" for row in unsure]
    wider = max((row["interval_ns"][1] - row["interval_ns"][0]) / 2 / _least_ns(row, result) for row in unsure)
    rounds = ceil(result["rounds"] * max(wider, 1.5) ** 2)
    again = f"repeat with --rounds {rounds}" if rounds <= _MANY else "repeat on an idle machine, with more --rounds"
    return [f"The noise is too large to rule out that these help: {', '.join(most)}; {again}."]


def _least_ns(row: Mapping[str, Any], result: Result) -> float:
    """Return the least saving by a change that matters."""
    claimed_ns: int = row["claimed_ns"] or 0
    return claimed_ns / 2 if claimed_ns else _COARSE * int(result["step_ns"])


def _ms(ns: float | None) -> str | None:
    return None if ns is None else f"{ns / 1e6:,.2f}"
