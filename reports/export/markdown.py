"""Markdown for a pull request: the answer, the causes and the largest rows; each table has a row for the rest, so it adds up.

Everything else is in the report and in the other exports. The text never exceeds `LIMIT` characters, the limit of comments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.reports import breakdown_words, captures, content, explanation, summary_metrics, text, units
from kernelscope.reports.renderers import to_markdown

LIMIT = 60_000
_ROWS = 8  # of a table; the others are merged into one
_CAUSES = 3
_DECIMALS = 3  # of times
_SUMMARY = ("step, median of windows", "slower by", "ratio to fastest", "samples per second", "peak memory", "energy per step")

Envelope = Mapping[str, Any]


def comparison(result: dict[str, Any]) -> str:
    """Return a comparison: headline, verdicts, summary, each explanation, layers and fairness."""
    names = result["frameworks"]
    lines = [f"### {_md(content.headline(result))}", "", _md(content.work(result)), ""]
    lines += [f"- **{_md(name)}**: {_md(verdict)}" for name, verdict in content.verdicts(result)]
    lines += [f"- **warning**: {_md(warning)}" for warning in content.warnings(result)]
    lines += [f"- {_md(row['framework'])} left out: {_md(row['reason'])}" for row in result["left_out"]]
    summary = [[title.strip(), *cells] for title, cells in summary_metrics.summary_metrics(result) if title.startswith(_SUMMARY)]
    lines += ["", to_markdown(["", *names], summary, 1)]
    for part in result.get("explanations") or []:
        lines += [_explained(part)]
    lines += [_layers(result), f"Fairness: {_md(content.fairness_line(result))}", ""]
    return _short("\n".join(lines))


def run(result: dict[str, Any], envelopes: Sequence[Envelope]) -> str:
    """Return one run: headline, warnings, and where its step goes. result: a comparison of this run alone."""
    lines = [f"### {_md(content.headline(result))}", "", _md(content.work(result)), ""]
    lines += [f"- **warning**: {_md(warning)}" for warning in content.warnings(result)]
    return _short("\n".join([*lines, *_breakdowns(envelopes, ("layer", "kind", "kernel"))]))


def capture(record: Mapping[str, Any], envelopes: Sequence[Envelope]) -> str:
    """Return an imported capture: what it is, and where its time goes. record: as import.json."""
    lines = [f"### {_md(captures.headline(record, envelopes))}", ""]
    lines += [f"- **warning**: {_md(warning)}" for warning in record["info"].get("warnings", [])]
    three = breakdown_words.three_numbers(next((part for part in envelopes if part.get("totals")), {}))
    lines += [_md(three), ""] if three else []
    return _short("\n".join([*lines, *_breakdowns(envelopes, ("layer", "range", "kernel"))]))


def _explained(result: Mapping[str, Any]) -> str:
    """Return an explanation's answer and first causes, with rows for the other causes and the unexplained rest."""
    shown = explanation.scale(result)
    lines = [f"#### {_md(explanation.answer(result))}", ""]
    lines += [f"- **{_md(warning)}**" for warning in explanation.warnings(result)]
    ranked, unexplained = explanation.causes(result)
    if not ranked:
        return "\n".join([*lines, _md(explanation.nothing_found(result))])
    rows = [[str(cause.number), cause.title, shown.signed(cause.delta_ns), cause.share] for cause in ranked[:_CAUSES]]
    rest = ranked[_CAUSES:]
    if rest:
        claimed = sum(int(cause.finding["explains_ns"]) for cause in rest)
        much = shown.signed(sum(cause.delta_ns for cause in rest))
        rows.append(["", f"({len(rest)} more causes)", much, explanation.share(result, claimed)])
    left = int(result["wall_delta_ns"]) - sum(int(cause.finding["explains_ns"]) for cause in ranked)
    rows.append(["", explanation.UNEXPLAINED, shown.signed(unexplained), explanation.share(result, left)])
    rows.append(["", "difference", shown.signed(explanation.total(result)), ""])
    return "\n".join([*lines, to_markdown(["", "cause", shown.unit, "share"], rows, 2)])


def _layers(result: dict[str, Any]) -> str:
    """Return the longest layers side by side, the others as one row, and the total."""
    names = result["frameworks"]
    unit = units.common_unit(row["step_median_ns"] for row in result["summary"])
    ranked = sorted(result["layers"], key=lambda row: -max((abs(time) for time in row["time_ns"].values() if time), default=0))
    kept, rest = [row for row in result["layers"] if row in ranked[:_ROWS]], ranked[_ROWS:]
    labels = [
        *(content.label(row, "layers") for row in kept),
        *([f"({units.counted(len(rest), 'other')})"] if rest else []),
        "clean step",
    ]
    columns = [_column([row["time_ns"].get(name) for row in kept], [row["time_ns"].get(name) for row in rest], unit)
               for name in names]  # fmt: skip
    return to_markdown([f"layer, {unit} per step", *names], zip(labels, *columns, strict=True), 1)


def _column(shown: Sequence[int | None], rest: Sequence[int | None], unit: str) -> list[str]:
    """Return a column of times, with the sum of `rest` and the sum of all, rounded so that they add up as printed."""
    whole = [*shown, sum(time or 0 for time in rest)] if rest else [*shown]
    rounded = units.rounded_together([time or 0 for time in whole], units.NS_PER[unit] // 10**_DECIMALS or 1)
    cells = [None if time is None else ns for time, ns in zip(whole, rounded, strict=True)]
    return [units.in_unit(ns, unit, _DECIMALS) for ns in (*cells, sum(rounded))]


def _breakdowns(envelopes: Sequence[Envelope], wanted: Sequence[str]) -> list[str]:
    made = {part["by"]: part for part in envelopes if "unavailable" not in part and part["rows"]}
    return [_breakdown(made[by]) for by in wanted if by in made]


def _breakdown(envelope: Envelope) -> str:
    """Return a breakdown's largest rows, the others as one, and the whole."""
    whole = breakdown_words.whole_ns(envelope)
    unit = units.common_unit([whole])
    ranked = sorted(envelope["rows"], key=lambda row: -abs(breakdown_words.row_ns(row)))
    shown, rest = ([breakdown_words.row_ns(row) for row in part] for part in (ranked[:_ROWS], ranked[_ROWS:]))
    labels = [_label(envelope["by"], row) for row in ranked[:_ROWS]]
    labels += [*([f"({units.counted(len(rest), 'other')})"] if rest else []), breakdown_words.whole(envelope)]
    shares = [units.percent(ns / whole if whole else None) for ns in [*shown, *([sum(rest)] if rest else []), whole]]
    return to_markdown([envelope["by"], unit, "share"], zip(labels, _column(shown, rest, unit), shares, strict=True), 1)


def _label(by: str, row: Mapping[str, Any]) -> str:
    """Return the name of a row, with its layer or phase if the table has them."""
    if by == "layer":
        return content.label(dict(row), "layers")
    beside = [row.get(name) for name in ("layer", "activity", "phase") if name in row]
    return " · ".join(str(part) for part in (row.get(by), *beside) if part is not None)


def _md(value: object) -> str:
    return text.markdown(value)


def _short(found: str) -> str:
    """Return at most LIMIT characters, cut at the end of a line."""
    if len(found) <= LIMIT:
        return found
    return found[: found.rindex("\n", 0, LIMIT - 100)] + "\n\n(cut here: too long for a comment)\n"
