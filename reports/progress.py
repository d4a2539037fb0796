"""A recording in progress for the terminal: what it is, the progress of each side, and the time left."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from kernelscope.analysis.recordings.progress import (
    COMPLETE,
    FAILED,
    INCOMPLETE,
    RECORDING,
    Pass,
    RecordingProgress,
    SideProgress,
)
from kernelscope.reports import units
from kernelscope.reports.breakdown_grid import bar
from kernelscope.reports.text import printable

_QUIET_S = 120.0  # after so long without new data the recording may have stopped
_LEFT_S = 5.0  # the same if no command here holds the folder
_STYLES = {COMPLETE: "green", INCOMPLETE: "yellow", FAILED: "red", RECORDING: ""}
_LEAST_BAR, _MOST_BAR = 4, 30


class Drawn:
    """A recording at time `now` (s since 1970), for a console of any width. held: whether a command here writes its folder."""

    def __init__(self, progress: RecordingProgress, now: float, held: bool):
        self.progress = progress
        self.now = now
        self.held = held

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(line(self.progress, self.now, self.held), style="bold")
        if self.progress.sides:
            yield _table(self.progress.sides, options.max_width)
        yield from _notes(self.progress, self.now, self.held)


def line(progress: RecordingProgress, now: float, held: bool = True) -> str:
    """Return the progress in one line: what is recorded, how much is done, the time so far and the time left.

    held: whether a command here writes its folder; if none does, it is unknown whether the recording is running.
    """
    parts = [printable(progress.title)]
    if progress.cells is not None:
        parts.append(f"{progress.cells[0]} of {progress.cells[1]} cells")
    planned = [side.planned for side in progress.sides if side.planned is not None]
    if planned and progress.cells is None:
        parts.append(f"{sum(side.over for side in progress.sides)} of {sum(planned)} passes")
    if progress.ended:
        return " \u00b7 ".join([*parts, f"ended after {seconds(progress.written - progress.began)}"])
    if not held and now - progress.written > _LEFT_S:
        return " \u00b7 ".join([*parts, f"last written after {seconds(progress.written - progress.began)}"])
    parts.append(f"{seconds(now - progress.began)} so far")
    left = progress.left_s
    if left is not None:
        parts.append(f"about {seconds(max(left - (now - progress.written), 0.0))} left")
    return " \u00b7 ".join(parts)


def state(side: SideProgress) -> str:
    """Return a side's current state in a few words, which change when the pass does."""
    if side.state != RECORDING:
        return side.state
    if side.now is not None:
        return _named(side.now)
    return "starting" if not side.over else "finishing" if side.over == side.planned else "between passes"


def _named(now: Pass) -> str:
    return f"{now.name} {now.repeat} of {now.repeats}" if now.repeats > 1 else now.name


def _table(sides: list[SideProgress], width: int) -> Table:
    """Return a row per side: a bar of its passes, the current pass, its steps, time of a step and throughput."""
    cells = [_cells(side) for side in sides]
    heads = ("side", "passes", "pass", "steps", "step", "samples/s")
    taken = sum(max(len(head), *(len(row[place]) for row in cells)) + 2 for place, head in enumerate(heads))
    room = min(width - taken, _MOST_BAR) if all(side.planned for side in sides) else 0
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place in (0, 2) else "right", overflow="fold")
        if place == 1 and room >= _LEAST_BAR:
            table.add_column("", width=room, no_wrap=True)
    for side, row in zip(sides, cells, strict=True):
        shown = [Text(text, style=_STYLES[side.state] if place == 2 else "") for place, text in enumerate(row)]
        if room >= _LEAST_BAR and side.planned:
            shown.insert(2, Text(bar(side.over / side.planned, room), style="blue"))
        table.add_row(*shown)
    return table


def _cells(side: SideProgress) -> list[str]:
    now = side.now
    passes = str(side.over) if side.planned is None else f"{side.over}/{side.planned}"
    steps = "" if now is None or now.name == "check" else f"{now.steps}/{now.wanted}" if now.wanted else str(now.steps)
    step_ns = now.step_ns if now else None
    rate = units.rate(side.batch * 1e9 / step_ns) if step_ns and side.batch else ""
    return [printable(side.label, 40), passes, state(side), steps, units.duration(step_ns) if step_ns else "", rate]


def _notes(progress: RecordingProgress, now: float, held: bool) -> Iterator[RenderableType]:
    for side in progress.sides:
        if side.reason:
            yield Text(f"{printable(side.label, 40)}: {printable(side.reason, 400)}", style=_STYLES[side.state], overflow="fold")
    if not progress.ended and now - progress.written > (_QUIET_S if held else _LEFT_S):
        quiet = f"nothing was written for {seconds(now - progress.written)}"
        reason = "a long step or import" if held else "no command here writes it: it has ended, or it runs on another machine"
        yield Text(f"{quiet}: {reason}", style="yellow")


def seconds(value: float) -> str:
    """Return a time for reading: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = max(round(value), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 and whole % 60 else f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
