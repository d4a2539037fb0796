"""Measured numbers in the form of the literature, experiment by experiment; each table is also a CSV file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kernelscope.analysis.published.levels import LEVELS, level
from kernelscope.reports import units
from kernelscope.reports.sections import PageTable, ViewCell, ViewColumn, identifier, text_cell
from kernelscope.reports.sweeps import cells, host_lines
from kernelscope.reports.sweeps.bars import GPU_MEMORY, HOST_MEMORY, POWER, STEP, THROUGHPUT, Measure, why_not
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.table import Table
from kernelscope.reports.text import printable

SECONDS = Measure("step_ns", "Time of a mini-batch", "s", "step_low_ns", "step_high_ns", 1e-9)
# samples of the whole work in the comparison of eleven frameworks: 10 epochs of CIFAR-10, 3 of IMDB, 1,000 images
WHOLE = {("cifarcnn", "train"): 500_000, ("gru", "train"): 75_000, ("resnet50", "infer"): 1_000}
Labels = Callable[[Row], str]


def tables(experiment: str | None, rows: Sequence[Row]) -> list[PageTable]:
    """Return a sweep's tables in the form of the experiment that it repeats; for an unknown experiment, in the thesis's form.

    rows: of results.parquet, with None for null. Cells without a number say why.
    """
    return _FORMS.get(str(experiment), _by_framework)([row for row in rows if row["status"] != "left out"])


def pivot(key: str, caption: str, rows: Sequence[Row], across: Labels, measure: Measure, down: Labels | None = None) -> PageTable:
    """Return numbers with a row per framework (or label of `down`) and a column per label of `across`."""
    name = down or (lambda row: str(row["framework"]))
    columns = list(dict.fromkeys(map(across, rows)))
    found = {(name(row), across(row)): row for row in reversed(rows)}
    lines = dict.fromkeys(map(name, rows))
    if not any(measure.value(row) is not None for row in rows):
        return PageTable(identifier(key), caption, [], [], note="unknown for every cell")
    body = [[text_cell(line), *(_number(found.get((line, column)), measure) for column in columns)] for line in lines]
    heads = [ViewColumn("framework" if down is None else ""), *(ViewColumn(column, True) for column in columns)]
    return PageTable(identifier(key), caption, heads, body, tools=False)


def _number(row: Row | None, measure: Measure) -> ViewCell:
    value = measure.value(row) if row is not None else None
    if row is None or value is None:
        return ViewCell(why_not(row))
    ends = measure.ends(row)
    return ViewCell(_short(value), value, " to ".join(map(_short, ends)) if ends else None)


def _short(value: float) -> str:
    """Return a number with at least three significant digits, even if small; counts are unchanged."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if abs(value) < 0.1 else units.rate(value)


def _setups(rows: Sequence[Row]) -> Labels:
    varying = cells.varying(rows)
    return lambda row: cells.setup(row, varying)


def _by_framework(rows: Sequence[Row]) -> list[PageTable]:
    """Return the thesis's form: frameworks in rows, networks and hardware in columns, a table per metric."""
    across, same = _columns(rows)
    found = [
        pivot(f"measured-{measure.column}", f"{measure.title}: {measure.unit}{same}", _of(rows, measure), across, measure)
        for measure in (THROUGHPUT, POWER, GPU_MEMORY, HOST_MEMORY, STEP)
        if _of(rows, measure)
    ]
    return [*found, *_factors(rows)]


def _columns(rows: Sequence[Row]) -> tuple[Labels, str]:
    """Return the labels of columns, networks first, and what all columns share, for the caption."""
    setup = _setups(rows)
    varying = set(cells.varying(rows, ("mode", "batch")))
    several = len(set(map(setup, rows))) > 1

    def parts(row: Row, wanted: bool) -> list[str]:
        said = {"mode": cells.MODES.get(row["mode"], printable(row["mode"])), "batch": f"batch {row['batch']}"}
        return [text for name, text in said.items() if (name in varying) is wanted]

    def across(row: Row) -> str:
        return ", ".join([printable(row["network"]), *parts(row, True), *([setup(row)] if several else [])])

    same = [*parts(rows[0], False), *([] if several else [setup(rows[0])])] if rows else []
    return across, "".join(f", {text}" for text in same)


def _of(rows: Iterable[Row], measure: Measure) -> list[Row]:
    return [row for row in rows if measure.of(row)]


def _factors(rows: Sequence[Row]) -> list[PageTable]:
    """Return the speed of each set-up relative to the first one, if there are several."""
    setup = _setups(rows)
    names = list(dict.fromkeys(map(setup, rows)))
    if len(names) < 2:
        return []
    asked = {(cells.work(row), setup(row)) for row in rows}
    works = dict.fromkeys(cells.work(row) for row in rows)
    pairs = [(work, name) for work in works for name in names[1:] if (work, name) in asked]
    rate = {(row["framework"], cells.work(row), setup(row)): THROUGHPUT.value(row) for row in reversed(rows)}
    body = []
    for framework in cells.frameworks(rows):
        line = [text_cell(framework)]
        for work, name in pairs:
            base, value = rate.get((framework, work, names[0])), rate.get((framework, work, name))
            factor = value / base if value is not None and base else None
            line.append(ViewCell(units.ratio(factor), factor))
        body.append(line)
    heads = [ViewColumn("framework"), *(ViewColumn(f"{work}: {name}", True) for work, name in pairs)]
    return [PageTable("measured-factors", f"Scaling factors: throughput against {names[0]}", heads, body, tools=False)]


def _by_threads_and_batch(rows: Sequence[Row]) -> list[PageTable]:
    """Return Shi et al.'s form: a table per network, seconds of a mini-batch by batch size and threads."""
    named = [name for name in cells.varying(rows) if name != "threads"]

    def across(row: Row) -> str:
        where = f"{row['threads']} threads" if row["device"] == "cpu" else cells.setup(row, named)
        return f"batch {row['batch']}, {'1 thread' if where == '1 threads' else where}"

    found = []
    for members in cells.grouped(rows, ("network", "mode")).values():
        work = cells.work(members[0], False)
        ordered = sorted(members, key=lambda row: (row["device"], row["batch"], row["threads"] or 0))
        found.append(pivot(f"measured-{work}", f"{work}: seconds per mini-batch", ordered, across, SECONDS))
    return found


def _by_workload(rows: Sequence[Row]) -> list[PageTable]:
    """Return the form of the eleven frameworks: a table per workload, in seconds for all of it at the measured rate."""
    found = []
    for (network, mode), members in cells.grouped(rows, ("network", "mode")).items():
        whole = WHOLE.get((network, mode), 1_000)
        timed = [{**row, **_whole(row, whole)} for row in members]
        measure = Measure("whole_s", "Time", "s", "whole_low_s", "whole_high_s")
        work = cells.work(members[0], bool(not cells.varying(members, ("batch",))))
        setup = _setups(members)
        caption = f"{work}: seconds for {whole:,} samples, computed from the measured rate"
        found.append(pivot(f"measured-{work}", caption, timed, setup, measure))
    return found


def _whole(row: Row, samples: int) -> dict[str, float | None]:
    ends = {"whole_s": "samples_per_second", "whole_low_s": "samples_per_second_high", "whole_high_s": "samples_per_second_low"}
    return {name: samples / row[rate] if row.get(rate) else None for name, rate in ends.items()}


def _by_backend(rows: Sequence[Row]) -> list[PageTable]:
    """Return the form of Keras's backends: networks and modes in rows, backends in columns, and the use of cores."""
    setup = _setups(rows)

    def down(row: Row) -> str:
        return f"{cells.work(row)}: {setup(row)}"

    def across(row: Row) -> str:
        return printable(row["framework"])

    busy = [{**row, "busy": _mean(row.get("processor_utilisation"))} for row in rows]
    used = Measure("busy", "Use of the processor", "% of all cores", scale=100)
    return [
        pivot("measured-backends", "Time of a step: ms", rows, across, STEP, down),
        pivot("measured-rates", "Throughput: samples per second", rows, across, THROUGHPUT, down),
        pivot("measured-cores", f"{used.title}: {used.unit}, mean over the clean windows", busy, across, used, down),
        *host_lines.views(rows),
    ]


def _mean(shares: Sequence[float] | None) -> float | None:
    return sum(shares) / len(shares) if shares else None


def _by_level(rows: Sequence[Row]) -> list[PageTable]:
    """Return the form of the levels of abstraction: implementations in rows, lines of code and times in columns."""
    setup = _setups(rows)
    columns = list(dict.fromkeys(f"{cells.work(row)}: {setup(row)}" for row in rows))
    found = {(str(row["framework"]), f"{cells.work(row)}: {setup(row)}"): row for row in reversed(rows)}
    body = []
    for name in sorted(cells.frameworks(rows), key=lambda name: LEVELS.index(level(name))):
        counts = [row["lines_of_code"] for row in rows if row["framework"] == name and row["lines_of_code"]]
        lines = ViewCell(units.count(counts[0]), counts[0]) if counts else ViewCell(units.UNKNOWN)
        body.append([text_cell(name), text_cell(level(name)), lines, *(_number(found.get((name, c)), STEP) for c in columns)])
    heads = [
        ViewColumn("implementation"),
        ViewColumn("level"),
        ViewColumn("lines of code", True),
        *(ViewColumn(c, True) for c in columns),
    ]
    return [PageTable("measured-levels", "Time of a step in ms, and lines of code", heads, body, tools=False)]


_FORMS: dict[str, Callable[[Sequence[Row]], list[PageTable]]] = {
    "shi2016": _by_threads_and_batch,
    "eleven": _by_workload,
    "keras_backends": _by_backend,
    "abstraction": _by_level,
}


def failures(rows: Sequence[Row]) -> PageTable:
    """Return the cells that did not finish, with the reason; those left out are counted by reason."""
    heads = [ViewColumn("cell"), ViewColumn("status"), ViewColumn("reason"), ViewColumn("cells", True)]
    said: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if not cells.done(row):
            left = row["status"] == "left out"
            what = "(cells left out)" if left else f"{row['framework']}: {cells.work(row)}: {cells.whole_setup(row)}"
            key = (printable(what), str(row["status"]), printable(row["reason"], 600))
            said[key] = said.get(key, 0) + 1
    body = [
        [ViewCell(what, what), ViewCell(status, status), ViewCell(reason, reason), ViewCell(str(n), n)]
        for (what, status, reason), n in said.items()
    ]
    return PageTable("failures", "Cells without a number, and why", heads, body)


def all_cells(rows: Sequence[Row]) -> PageTable:
    """Return every cell with its measurements."""
    varying = cells.varying(rows)
    titles = ("step, ms", "samples/s", "power, W", "GPU memory, MiB", "memory, MiB", "lines of code")
    measures = (STEP, THROUGHPUT, POWER, GPU_MEMORY, HOST_MEMORY, Measure("lines_of_code", "Lines of code", "lines"))
    known = [(t, m) for t, m in zip(titles, measures, strict=True) if any(m.value(row) is not None for row in rows)]
    heads = [*map(ViewColumn, ("framework", "version", "work", "set-up", "status")), *(ViewColumn(t, True) for t, _ in known)]
    body = [
        [
            text_cell(row["framework"]), text_cell(row["version"]), text_cell(cells.work(row)),
            text_cell(cells.setup(row, varying)), text_cell(row["status"]), *(_known(row, measure) for _, measure in known),
        ]
        for row in rows
    ]  # fmt: skip
    return PageTable("all-cells", "Every cell: medians over windows, 95% intervals in small print", heads, body)


def _known(row: Row, measure: Measure) -> ViewCell:
    return ViewCell(units.UNKNOWN) if measure.value(row) is None else _number(row, measure)


def plain(view: PageTable) -> Table:
    """Return a view as a table for CSV: exact numbers, or the text in place of a missing one."""
    names = tuple(column.title or "work" for column in view.columns)
    return Table(view.key, names, [[_raw(cell) for cell in row] for row in view.rows])


def _raw(cell: ViewCell) -> Any:
    return cell.text if cell.value is None else cell.value
