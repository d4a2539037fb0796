"""Comparisons and explanations as tables, CSV and Markdown: for spreadsheets and pull requests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelscope.analysis.files import whole
from kernelscope.reports import content, explanation, summary_metrics, text, units
from kernelscope.reports.content import Result, Row
from kernelscope.reports.renderers import markdown_table, to_csv, to_markdown
from kernelscope.reports.table import Table, of_rows

KERNEL_COLUMNS = (
    "kernel", "kind", "library", "layer", "phase", "problem", "layout", "algorithm", "dtype", "transpose", "count",
    "duration_ns", "time_ns", "share", "mean_ns", "median_ns", "min_ns", "max_ns", "std_ns", "gflops_per_s", "method",
)  # fmt: skip
LINE_COLUMNS = ("file", "function", "line", "text", "count", "duration_ns", "time_ns", "share", "method")
PASS_COLUMNS = ("framework", "pass", "step_median_ns", "overhead", "minor_faults", "layer_coverage", "kind_coverage", "reason")
FAIRNESS_COLUMNS = ("check", "framework", "status", "value", "limit", "detail")


def comparison_tables(result: Result) -> list[Table]:
    """Return all tables of a comparison."""
    return [
        _summary(result),
        _side_by_side(result, "layers"),
        _side_by_side(result, "kinds"),
        _per_framework("kernels", KERNEL_COLUMNS, result["kernels"]),
        _per_framework("lines", LINE_COLUMNS, {name: part["rows"] for name, part in result["lines"].items()}),
        of_rows("fairness", result["fairness"]["rows"], FAIRNESS_COLUMNS),
        _settings(result),
        of_rows("passes", result["passes"], PASS_COLUMNS),
    ]


def write_csv_folder(result: Result, folder: Path) -> list[Path]:
    """Write every table of a comparison as folder/<name>.csv; return the files. Raises OSError when that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for table in comparison_tables(result):
        file = folder / f"{table.name}.csv"
        whole.write_text(file, to_csv(table))
        files.append(file)
    return files


def comparison_csv(result: Result) -> str:
    """Return the layers of a comparison side by side as CSV."""
    return to_csv(_side_by_side(result, "layers"))


def comparison_markdown(result: Result) -> str:
    """Return a comparison for a pull request: headline, summary, layers and kinds side by side, fairness."""
    names = result["frameworks"]
    parts = [
        f"### {_said(content.headline(result))}\n",
        f"{_said(content.work(result))}\n",
    ]
    parts += [f"- **{text.markdown(name)}**: {_said(verdict)}" for name, verdict in content.verdicts(result)]
    parts += [f"- **warning**: {_said(warning)}" for warning in content.warnings(result)]
    parts += [f"- {text.markdown(row['framework'])} left out: {_said(row['reason'])}" for row in result["left_out"]]
    summary = [[title.strip(), *cells] for title, cells in summary_metrics.summary_metrics(result)]
    parts += ["", to_markdown(["", *names], summary, 1)]
    for table in content.KEYS:
        unit, rows = _readable(result, table)
        parts += [f"#### {table.capitalize()} ({unit} per step, ratio to the fastest)\n", to_markdown(["", *names], rows, 1)]
    parts += [explanation_markdown(part, 4) for part in result.get("explanations") or []]
    parts.append(f"Fairness: {_said(content.fairness_line(result))}\n")
    return "\n".join(parts)


def explanation_markdown(result: Mapping[str, Any], level: int = 3) -> str:
    """Return an explanation for a pull request: the answer, the parts and the causes, each adding up to the difference.

    level: level of its heading.
    """
    shown = explanation.scale(result)
    total = f"**{shown.signed(explanation.total(result))}**"
    lines = [f"{'#' * level} {_said(explanation.answer(result))}\n"]
    lines += [f"- **{_said(warning)}**" for warning in explanation.warnings(result)]
    nothing = explanation.nothing_found(result)
    lines += [f"- {_said(nothing)}"] if nothing else []
    parts = [[text.markdown(part.label), shown.signed(part.delta_ns)] for part in explanation.parts(result)]
    lines += ["", markdown_table(["part of the difference", shown.unit], [*parts, ["**difference**", total]], [1])]
    ranked, unexplained = explanation.causes(result)
    if ranked:
        causes = [_cause(cause, shown) for cause in ranked]
        left = ["", explanation.UNEXPLAINED, shown.signed(unexplained), *[""] * 4]
        heads = ["", "cause", shown.unit, "share", "confidence", "evidence", "what to do"]
        lines += [markdown_table(heads, [*causes, left, ["", "**difference**", total, *[""] * 4]], [2, 3])]
    lines += [f"- {_said(fact)}" for fact in [*explanation.facts(result), *explanation.gaps(result)]]
    return "\n".join(lines) + "\n"


def _cause(cause: explanation.RankedCause, shown: explanation.Scale) -> list[str]:
    finding = cause.finding
    evidence = text.sentences(finding.get("evidence") or [], text.SENTENCE)
    cells = (cause.number, cause.title, shown.signed(cause.delta_ns), cause.share, cause.confidence)
    return [*map(_said, cells), text.markdown(evidence, None), _said(finding.get("remedy"))]


def _readable(result: Result, table: str) -> tuple[str, list[list[str]]]:
    """Return the unit and the rows of a side-by-side table for reading, its total last."""
    names = result["frameworks"]
    unit = units.common_unit(row["step_median_ns"] for row in result["summary"])
    rows = []
    for row in result[table]:
        cells = [content.label(row, table)]
        for name in names:
            time, ratio = row["time_ns"].get(name), row["ratio"].get(name)
            cells.append(units.in_unit(time, unit, 3) + (f" ({units.ratio(ratio)})" if units.known(ratio) else ""))
        rows.append(cells)
    rows.append(["total = clean step", *(units.in_unit(content.total(result, table, name), unit, 3) for name in names)])
    return unit, rows


def _summary(result: Result) -> Table:
    columns = tuple(dict.fromkeys(name for row in result["summary"] for name in row))
    return of_rows("summary", result["summary"], columns)


def _side_by_side(result: Result, table: str) -> Table:
    names = result["frameworks"]
    keys = content.KEYS[table]
    columns = (*keys, *(f"{name}_time_ns" for name in names), *(f"{name}_ratio" for name in names))
    rows = [
        [*(row[key] for key in keys), *(row["time_ns"].get(name) for name in names), *(row["ratio"].get(name) for name in names)]
        for row in result[table]
    ]
    total = ["(total)", *[None] * (len(keys) - 1), *(content.total(result, table, name) for name in names)]
    return Table(table, columns, [*rows, [*total, *[None] * len(names)]])


def _per_framework(name: str, columns: tuple[str, ...], rows: Mapping[str, list[Row]]) -> Table:
    lines = [[framework, *(row.get(column) for column in columns)] for framework, found in rows.items() for row in found]
    return Table(name, ("framework", *columns), lines)


def _settings(result: Result) -> Table:
    names = result["frameworks"]
    rows = [[row["setting"], *(row["values"].get(name) for name in names)] for row in result["fairness"]["differences"]]
    return Table("settings", ("setting", *names), rows)


def _said(sentence: object) -> str:
    """Return a sentence of ours as Markdown, in full."""
    return text.markdown(sentence, text.SENTENCE)
