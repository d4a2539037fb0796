"""The figures of a sweep: each with its table and notes on what it leaves out, or why it cannot be drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from kernelscope.analysis.published import ConditionGroup
from kernelscope.analysis.published.levels import level
from kernelscope.reports.figures import Style
from kernelscope.reports.sweeps import agreement, bars, cells, code, core_map, kinds, lines
from kernelscope.reports.sweeps.bars import CONDITIONS, GPU_MEMORY, HOST_MEMORY, POWER, STEP, THROUGHPUT, Measure
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.sweeps.chart import Chart, Missing
from kernelscope.reports.table import Table

Draw = Callable[[Sequence[Row], Style], Figure]
_BARS: tuple[tuple[str, Measure, Draw], ...] = (
    ("throughput", THROUGHPUT, bars.throughput),
    ("power", POWER, bars.power),
    ("gpu_memory", GPU_MEMORY, bars.gpu_memory),
    ("memory", HOST_MEMORY, bars.host_memory),
)
KINDS = "kinds"  # the key of the first figure
_IN_TABLE = "the numbers are in the table of the same name"


def charts(rows: Sequence[Row], groups: Sequence[ConditionGroup]) -> list[Chart | Missing]:
    """Return every figure of these cells, in the order of the page.

    rows: see `cells.rows`. groups: published numbers for the same work (analysis.published.compare).
    """
    tried = [row for row in rows if row["status"] != "left out"]
    found = [_kinds(tried), *(_bars(key, measure, draw, tried) for key, measure, draw in _BARS)]
    found += [_times("threads", lines.time_by_threads, tried), _times("batch", lines.time_by_batch, tried)]
    found += [_scaling(axis, tried) for axis in ("threads", "devices")]
    found += [_code(tried), _levels(tried), _cores(tried), _published(groups)]
    return found


def _kinds(rows: Sequence[Row]) -> Chart | Missing:
    key, title = KINDS, "Where the time of a step goes"
    splits = kinds.read(rows)
    if not splits:
        passes = 'unknown, because no cell has a kernels pass: add passes = ["clean", "kernels"] to the sweep\'s file'
        return Missing(key, title, passes)
    why_not = dict.fromkeys(split.why_not for split in splits if split.why_not)
    others = sum(map(cells.done, rows)) - len(splits)
    left = f"{len(splits)} cells with the largest differences and steps; {others} more are in their run folders" if others else ""
    alternative = f"A stacked bar for each cell: the time of a step by kind of kernel and of the host; {_IN_TABLE}."
    notes = (left, *(f"unknown: {reason}" for reason in why_not))
    return Chart(
        key, title, kinds.table(splits), lambda style: kinds.stacked(splits, style), tuple(filter(None, notes)), alternative
    )


def _bars(key: str, measure: Measure, draw: Draw, rows: Sequence[Row]) -> Chart | Missing:
    taken = bars.shown(rows, measure)
    if not taken:
        return Missing(key, measure.title, "unknown for every cell")
    notes = [_statuses(taken), _unknown(taken, measure), _batches(rows)]
    alternative = f"Bars of {measure.title.lower()} in {measure.unit} by framework, a panel per network; {_IN_TABLE}."
    table = bars.table(key, taken, measure)
    return Chart(key, measure.title, table, lambda style: draw(rows, style), tuple(filter(None, notes)), alternative)


def _times(axis: str, draw: Draw, rows: Sequence[Row]) -> Chart | Missing:
    title = f"Time against {'batch size' if axis == 'batch' else axis}"
    key = f"time_by_{axis}"
    taken = lines.over(rows, axis)
    if not taken:
        return Missing(key, title, f"no network ran with more than one value of {axis}")
    notes = [_statuses(taken), _no_interval(taken)]
    alternative = f"Lines of the time of a step over {axis}, one per framework, with bands of 95% intervals; {_IN_TABLE}."
    table = bars.table(key, taken, STEP)
    return Chart(key, title, table, lambda style: draw(rows, style), tuple(filter(None, notes)), alternative)


def _scaling(axis: str, rows: Sequence[Row]) -> Chart | Missing:
    key, title = f"scaling_by_{axis}", f"Scaling efficiency over {axis}"
    taken = lines.efficient(rows, axis)
    if not taken:
        return Missing(key, title, f"no cells differ in {axis} alone")
    columns = ("base", "speedup", "efficiency", "efficiency_low", "efficiency_high")
    table = Table(key, (*CONDITIONS, *columns), [[row.get(name) for name in (*CONDITIONS, *columns)] for row in taken])
    note = f"1 is perfect: {axis} multiply the speed; intervals combine the ends of both cells', so they are wider than 95%"
    alternative = f"Lines of the scaling efficiency over {axis}, one per framework; {_IN_TABLE}."
    return Chart(key, title, table, lambda style: lines.scaling(rows, axis, style), (note,), alternative)


def _code(rows: Sequence[Row]) -> Chart | Missing:
    key, title = "lines_of_code", "Lines of code against time"
    taken = code.counted(rows)
    if not taken:
        return Missing(key, title, "no work has lines of code and times for two frameworks")
    note = "lines of code in the workload's own source for the network and mode; lower left is better"
    table = _with_level(key, taken)
    alternative = f"Marks of the time of a step over lines of code, one per framework; {_IN_TABLE}."
    return Chart(key, title, table, lambda style: code.lines_of_code(rows, style), (note,), alternative)


def _levels(rows: Sequence[Row]) -> Chart | Missing:
    key, title = "time_by_level", "Time by level of abstraction"
    taken = code.levelled(rows)
    if not taken:
        return Missing(key, title, "no work ran on two levels of abstraction")
    alternative = f"Bars of the time of a step, from libraries to interfaces on top of frameworks; {_IN_TABLE}."
    notes = tuple(filter(None, [_statuses(taken)]))
    return Chart(key, title, _with_level(key, taken), lambda style: code.time_by_level(rows, style), notes, alternative)


def _with_level(key: str, rows: Sequence[Row]) -> Table:
    columns = (*CONDITIONS, "level", "lines_of_code", "step_ns", "step_low_ns", "step_high_ns")
    lines_of = [{**row, "level": level(str(row["framework"]))} for row in rows]
    return Table(key, columns, [[row.get(name) for name in columns] for row in lines_of])


def _cores(rows: Sequence[Row]) -> Chart | Missing:
    key, title = "cores", "Use of each core over time"
    uses, left = core_map.read(rows)
    if not uses:
        return Missing(key, title, "; ".join(left))
    notes = ("from the first restart of the clean pass; other programs on the machine count, too", *left)
    alternative = f"Heat maps of the busy share of every core over time, one per framework; {_IN_TABLE}."
    return Chart(key, title, core_map.table(uses), lambda style: core_map.core_map(uses, style), notes, alternative)


def _published(groups: Sequence[ConditionGroup]) -> Chart | Missing:
    key, title = "published_ratios", "Published against measured ratios"
    near = agreement.nearest(groups)
    if not near:
        return Missing(key, title, "nothing was published on two frameworks that ran here with the same network and mode")
    notes = (f"published values are from {agreement.OTHER}; on the dashed line the measured ratio equals the published one",)
    alternative = f"Marks of published ratios over measured ones, on logarithmic axes; {_IN_TABLE}."
    table = agreement.ratios_table(groups)
    return Chart(key, title, table, lambda style: agreement.published_against_measured(near, style), notes, alternative)


def _statuses(rows: Sequence[Row]) -> str:
    """Return how many cells have no number because they did not finish."""
    counts = Counter(str(row["status"]) for row in rows if not cells.done(row))
    return "without a number: " + ", ".join(f"{count} {status}" for status, count in counts.items()) if counts else ""


def _unknown(rows: Sequence[Row], measure: Measure) -> str:
    count = sum(cells.done(row) and measure.value(row) is None for row in rows)
    return f"{measure.title.lower()} is unknown for {count} cells that ran" if count else ""


def _no_interval(rows: Sequence[Row]) -> str:
    count = sum(cells.done(row) and STEP.ends(row) is None for row in rows)
    return f"{count} cells have no interval: they were started once" if count else ""


def _batches(rows: Sequence[Row]) -> str:
    works = cells.grouped(rows, ("sweep", "network", "mode")).values()
    several = any(len({row["batch"] for row in members}) > 1 for members in works)
    return "one batch size per network, the one that most frameworks ran; all are in the table of cells" if several else ""
