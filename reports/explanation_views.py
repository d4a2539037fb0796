"""An explanation for HTML reports: its first screen, its causes with links to their rows, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelscope.reports import explanation, side_bars, units
from kernelscope.reports.explanation import RankedCause, Result, Scale
from kernelscope.reports.sections import MOST, WRITTEN, PageTable, ViewCell, ViewColumn, keys_of, text_cell
from kernelscope.reports.side_bars import SideBar
from kernelscope.reports.text import SENTENCE, printable

FIRST = 3  # causes on the first screen
_CHANGED = ("Changed: ", "The only change of the program: ")
_LINKS = 6  # rows that a cause links to by name
_GROUPS = ("layer", "phase", "cell")
_TIMES = ("delta_ns", "a_ns", "b_ns")
_EMPTY = ("", units.UNKNOWN)
Evidence = Callable[[str | None, str | None, str | None, str | None], str]  # side, layer, phase, kind -> identifier or ""
_SURE = {"name": "same name", "map": "given with --map"}


@dataclass(frozen=True)
class Link:
    """A link to a row of the account."""

    target: str
    label: str


@dataclass(frozen=True)
class ShownFinding:
    """One cause, ready to show. more: number of its rows beyond `links`; rows: the identifiers of all its rows."""

    number: int
    much: str
    faster: bool
    share: str
    interval: str
    confidence: str
    title: str
    evidence: list[str]
    remedy: str
    links: list[Link]
    more: int
    rows: list[str]

    @property
    def changed(self) -> str:
        """What changed in the program."""
        return next((said for said in self.evidence if said.startswith(_CHANGED)), "")


@dataclass(frozen=True)
class Explained:
    """One explanation. key: prefix of its identifiers on the page."""

    key: str
    title: str
    answer: str
    sides: tuple[str, str]
    warnings: list[str]
    nothing: str
    findings: list[ShownFinding]
    unexplained: str
    total: str
    alternative: str
    account: PageTable
    matches: PageTable
    differences: PageTable
    facts: list[str]
    bars: list[SideBar]

    @property
    def first(self) -> list[ShownFinding]:
        """The causes on the first screen."""
        return self.findings[:FIRST]

    @property
    def rest(self) -> str:
        """The line below the causes on the first screen."""
        more = len(self.findings) - FIRST
        return (f"{more} more cause{'' if more == 1 else 's'} below; " if more > 0 else "") + self.unexplained


def explained(result: Result, key: str, evidence: Evidence | None = None) -> Explained:
    """Return an explanation for a page; `key` is the prefix of its identifiers there.

    evidence: links from the account's rows to the page's evidence (see sections.evidence), if it has any.
    """
    shown = explanation.scale(result)
    ranked, unexplained = explanation.causes(result)
    total = f"{shown.signed(explanation.total(result))} {shown.unit}"
    return Explained(
        key=key,
        title=explanation.title(result),
        answer=explanation.answer(result),
        sides=explanation.names(result),
        warnings=explanation.warnings(result),
        nothing=explanation.nothing_found(result),
        findings=[_finding(cause, result, shown, key) for cause in ranked],
        unexplained=explanation.unexplained(result, unexplained),
        total=total,
        alternative=_alternative(result, shown, total),
        account=account(result, key, evidence or (lambda *_: "")),
        matches=matches(result, key),
        differences=differences(result, key),
        facts=[*explanation.facts(result), *explanation.gaps(result)],
        bars=side_bars.bars(result),
    )


def _alternative(result: Result, shown: Scale, total: str) -> str:
    """Return the waterfall in words."""
    parts = ", ".join(f"{part.label} {shown.signed(part.delta_ns)}" for part in explanation.parts(result))
    return f"Waterfall of the difference, {explanation.title(result)}, in {shown.unit}: {parts}; total {total}."


def _finding(cause: RankedCause, result: Result, shown: Scale, key: str) -> ShownFinding:
    finding = cause.finding
    rows = {row["row"]: row for row in result["rows"]}
    whole = {"row": explanation.INSTRUMENTATION, "cell": explanation.INSTRUMENTATION, "delta_ns": result["instrumentation_ns"]}
    rows[explanation.INSTRUMENTATION] = whole
    claimed = sorted((rows[row] for row in finding.get("rows") or [] if row in rows), key=lambda row: -abs(row["delta_ns"]))
    ends = finding.get("interval_ns")
    return ShownFinding(
        number=cause.number,
        much=f"{shown.signed(cause.delta_ns)} {shown.unit}",
        faster=cause.delta_ns < 0,
        share=cause.share,
        interval=f"{shown.number(ends[0])} to {shown.number(ends[1])} {shown.unit}" if ends else units.UNKNOWN,
        confidence=cause.confidence,
        title=cause.title,
        evidence=[printable(text, SENTENCE) for text in finding.get("evidence") or []],
        remedy=printable(finding["remedy"], SENTENCE) if finding.get("remedy") else "",
        links=[Link(anchor(key, row["row"]), _row_name(row)) for row in claimed[:_LINKS]],
        more=max(len(claimed) - _LINKS, 0),
        rows=[anchor(key, row["row"]) for row in claimed],
    )


def anchor(key: str, row: object) -> str:
    """Return the identifier of a row of the account: letters, digits and hyphens."""
    return f"{key}-{''.join(letter if letter.isascii() and letter.isalnum() else '-' for letter in str(row))[:40]}"


def _row_name(row: Mapping[str, Any], most: int = 80) -> str:
    place = " ".join(str(row[name]) for name in ("layer", "phase") if row.get(name))
    return printable(f"{place}: {row['cell']}" if place else row["cell"], most)


def account(result: Result, key: str, evidence: Evidence) -> PageTable:
    """Return the account, largest differences first, with instrumentation and sums; its values are exact, in ns.

    Beyond MOST rows, those with the smallest differences are merged; rows of findings stay. Rows link to `evidence`.
    """
    rows = sorted(result["rows"], key=lambda row: -abs(row["delta_ns"]))
    linked = {row for finding in result["findings"] for row in finding.get("rows") or []}
    kept = sorted(rows, key=lambda row: row["row"] not in linked)[:MOST]
    places = {row["row"] for row in kept}
    shown = [row for row in rows if row["row"] in places]
    rest = [row for row in rows if row["row"] not in places]
    longest = max((abs(row["delta_ns"]) for row in rows), default=1) or 1
    sides = [result[side].get("name") for side in explanation.SIDES]
    scale = _finer(explanation.scale(result))
    body = [_account_row(row, longest, sides, evidence, scale) for row in shown]
    body += [_sums(f"({len(rest)} more)", [_column(rest, name) for name in _TIMES], scale)] if rest else []
    steps = [result[side].get("step_ns") for side in explanation.SIDES]
    own = [None if step is None else step - _column(rows, name) for step, name in zip(steps, _TIMES[1:], strict=True)]
    body.append(_sums(explanation.INSTRUMENTATION, [result["instrumentation_ns"], *own], scale))
    total = _sums("step", [result["wall_delta_ns"], *steps], scale)
    sums = f"{scale.unit}:{scale.decimals}"
    columns = [ViewColumn("part of the step"), ViewColumn("B - A", True, f"signed:{sums}")]
    columns += [ViewColumn(head, True, sums) for head in _heads(*explanation.names(result))]
    columns += [ViewColumn("95% interval", True), ViewColumn("outside of noise")]
    caption = f"The account, {scale.unit} per step: {explanation.title(result)}"
    anchors = [anchor(key, row["row"]) for row in shown]
    anchors += ([""] if rest else []) + [anchor(key, explanation.INSTRUMENTATION)]
    of_recording = dict.fromkeys(_GROUPS, explanation.INSTRUMENTATION)
    keys = keys_of([*shown, *([{}] if rest else []), of_recording], _GROUPS)
    ends = zip([result["wall_delta_ns"], *steps], _TIMES, strict=True)
    left = [None if end is None else end - _column(shown[:WRITTEN], name) for end, name in ends]
    further = _sums(f"({len(body) - WRITTEN} more)", left, scale)
    told = [place for place in range(len(columns)) if any(row[place].text not in _EMPTY for row in body)]
    columns = [columns[place] for place in told]
    total, further = ([row[place] for place in told] for row in (total, further))
    body = [[row[place] for place in told] for row in body]
    return PageTable(
        f"{key}-account", caption, columns, body, total, anchors=anchors, keys=keys, groups=_GROUPS,
        further=further if len(body) > WRITTEN else [],
    )  # fmt: skip


def _finer(scale: Scale) -> Scale:
    """Return a finer scale for single rows, which are smaller than the difference."""
    return replace(scale, decimals=max(scale.decimals, 2)) if scale.unit != "ns" else scale


def _heads(a: str, b: str) -> list[str]:
    """Return the headings of both sides' columns; labels that begin with A and B need no prefix."""
    return [name if name.startswith(key) else f"{key}: {name}" for key, name in (("A", a), ("B", b))]


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] or 0 for row in rows)


def _sums(name: str, values: Sequence[int | None], scale: Scale) -> list[ViewCell]:
    """Return a row that sums several rows, or that is not in the account: B - A, and both sides."""
    delta, *sides = values
    return [ViewCell(name), _difference(delta, scale), *(_time(value, scale) for value in sides), ViewCell(""), ViewCell("")]


def _account_row(
    row: Mapping[str, Any], longest: int, sides: Sequence[str | None], evidence: Evidence, scale: Scale
) -> list[ViewCell]:
    ends = [row.get("ci_low_ns"), row.get("ci_high_ns")]
    interval = " to ".join(scale.number(end) for end in ends if end is not None) if None not in ends else units.UNKNOWN
    times = [
        ViewCell("none") if row.get("only") == other else _time(row[f"{side}_ns"], scale)
        for side, other in (("a", "b"), ("b", "a"))
    ]
    significant = row.get("significant")
    visible = units.UNKNOWN if significant is None else "yes" if significant else "no"
    layers, phase = [row.get("layer_a"), row.get("layer_b")], row.get("phase")
    times = [
        replace(time, link=evidence(side, layer, phase, row["cell"]))
        for time, side, layer in zip(times, sides, layers, strict=True)
    ]
    name = _row_name(row, SENTENCE)
    part = ViewCell(name, name, link=evidence(None, layers[1] or layers[0], phase, None))
    delta = replace(_difference(row["delta_ns"], scale), bar=abs(row["delta_ns"]) / longest)
    return [part, delta, *times, ViewCell(interval, ends[0]), ViewCell(visible, visible)]


def _time(value: int | None, scale: Scale) -> ViewCell:
    return ViewCell(units.in_unit(value, scale.unit, scale.decimals), value)


def _difference(value: int | None, scale: Scale) -> ViewCell:
    return ViewCell(units.UNKNOWN if value is None else scale.signed(value), value)


def matches(result: Result, key: str) -> PageTable:
    """Return which layers of both sides match, and how certain that is."""
    a, b = explanation.names(result)
    columns = [
        ViewColumn(f"A: {a}"),
        ViewColumn(f"B: {b}"),
        ViewColumn("confidence", True),
        ViewColumn("found by"),
        ViewColumn("note"),
    ]
    rows = [
        [
            _layers(match["a"]), _layers(match["b"]), ViewCell(units.percent(match["confidence"], 0), match["confidence"]),
            ViewCell(_SURE.get(str(match["how"]), printable(match["how"])), printable(match["how"])),
            ViewCell(printable(match["note"]) if match.get("note") else ""),
        ]
        for match in result["matches"][:MOST]
    ]  # fmt: skip
    left = len(result["matches"]) - MOST
    caption = f"Matching layers: {explanation.title(result)}" + (
        f" (the first {MOST}; {left} more in the JSON output)" if left > 0 else ""
    )
    return PageTable(f"{key}-matches", caption, columns, rows)


def _layers(names: Sequence[str]) -> ViewCell:
    shown = printable(" + ".join(map(str, names))) if names else "none"
    return ViewCell(shown, shown)


def differences(result: Result, key: str) -> PageTable:
    """Return the settings, versions and variables that differ."""
    a, b = explanation.names(result)
    rows = [[text_cell(row["setting"]), text_cell(row["a"]), text_cell(row["b"])] for row in result["differences"]]
    columns = [ViewColumn("setting"), ViewColumn(f"A: {a}"), ViewColumn(f"B: {b}")]
    return PageTable(f"{key}-differences", f"Settings that differ: {explanation.title(result)}", columns, rows, tools=False)
