"""Record scripts, change them, record them again, and judge by program what `explain` says.

    python tests/tools/scripts/run.py [--only WORD] [--kind same|plants|advice|tuned|pairs] [--recordings 4] [--busy 2]

same: every two recordings of one unchanged program, some of them on a busy machine; no cause may be named. plants: an unchanged
recording against one of a changed program. A plant counts as found when its cause is ranked first, sized when that explains 75
to 125% of the measured difference of the clean steps, and its line counts as named when the first cause points into the changed
lines. advice: what a recording of the changed program alone says to do; its fault must be among the first two topics, and save
more than in the unchanged program, and name a changed line where it is one. tuned: well-tuned programs, which get no advice.
pairs: one model written in two frameworks; most of both steps is to lie in matched layers. What was recorded before is judged
again: remove the folder to record anew.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import catalogue
import recording
from catalogue import Change

from kernelscope.analysis import advise
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.sides import load

SIZE = (0.75, 1.25)
MATCHED = 0.9
TOLD = 2  # topics of advice
KINDS = ("plants", "advice", "tuned", "same", "pairs")
_QUIET, _BUSY = "quiet", "busy"


@dataclass(frozen=True)
class Row:
    """A line of the table. found, sized, line: None where it is not asked for."""

    name: str
    a_ns: int | None
    b_ns: int | None
    said: str
    explains_ns: int | None
    found: bool
    sized: bool | None = None
    line: bool | None = None
    why: str = ""

    def texts(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        delta = None if self.a_ns is None or self.b_ns is None else self.b_ns - self.a_ns
        marks = ("" if mark is None else "yes" if mark else "no" for mark in (self.found, self.sized, self.line))
        return (self.name, *map(_ms, (self.a_ns, self.b_ns, delta)), self.said, _ms(self.explains_ns), *marks, self.why)


HEADER = ("what", "A, ms", "B, ms", "difference, ms", "first cause", "explains, ms", "right", "size", "line", "remark")
_WIDTHS = (44, 7, 7, 7, 28, 7, 5, 5, 5, 0)


def _ms(ns: int | None) -> str:
    return "" if ns is None else f"{ns / 1e6:.2f}"


def said_of(a: Path, b: Path) -> dict[str, Any]:
    """Return the explanation of two recordings."""
    return explain(load(a), load(b))


def same(name: str, a: Path, b: Path) -> Row:
    """Judge two recordings of one program: nothing may be said."""
    said = said_of(a, b)
    causes = ", ".join(finding["cause"] for finding in said["findings"])
    why = (said["abstained"] or "")[:80]
    return Row(name, said["a"]["step_ns"], said["b"]["step_ns"], causes or "-", None, not causes, why=why)


def plant(change: Change, a: Path, b: Path) -> Row:
    """Judge what is said of a change."""
    said = said_of(a, b)
    sides = said["a"]["step_ns"], said["b"]["step_ns"]
    if not change.causes:
        causes = ", ".join(finding["cause"] for finding in said["findings"])
        return Row(change.name, *sides, causes or "-", None, not causes)
    if not said["findings"]:
        return Row(change.name, *sides, "-", None, False, False, False, (said["abstained"] or "no cause")[:80])
    first = said["findings"][0]
    delta, explains = said["wall_delta_ns"], int(first["explains_ns"])
    sized = delta != 0 and SIZE[0] <= explains / delta <= SIZE[1]
    causes = [finding["cause"] for finding in said["findings"]]
    found = causes[0] in change.causes
    why = "" if found else ", ".join(causes[1:4])
    return Row(change.name, *sides, causes[0], explains, found, sized, names_line(change, first), why)


def advice(change: Change, a: Path, b: Path) -> Row:
    """Judge what is advised on a changed program, of which more can be saved than in the unchanged one."""
    before, after = (advise.advise(path) for path in (a, b))
    topics = catalogue.ADVICE[change.name]
    saved = {one["topic"]: one["saves_ns"] for one in before["advice"]}
    first = [one for one in after["advice"][:TOLD] if one["topic"] in topics]
    right = any(one["saves_ns"] > saved.get(one["topic"], 0) for one in first)
    named = ", ".join(one["topic"] for one in after["advice"][:TOLD])
    saves = first[0]["saves_ns"] if first else None
    line = any(names_line(change, one) for one in first) if change.name not in catalogue.SETTINGS else None
    return Row(change.name, before["step_ns"], after["step_ns"], named or "-", saves, right, None, line)


def tuned(name: str, path: Path, _: Path) -> Row:
    """Judge what is advised on a program that is tuned: nothing."""
    said = advise.advise(path)
    named = ", ".join(f"{one['topic']} {_ms(one['saves_ns'])} ms" for one in said["advice"])
    return Row(name, said["step_ns"], None, named or "-", None, not named)


def names_line(change: Change, finding: dict[str, Any]) -> bool:
    """Return whether a finding points at a line that was changed."""
    text = " ".join([finding["title"], *finding["evidence"]])
    named = {int(number) for number in re.findall(r"\.py(?: line |:)(\d+)", text)}
    return bool(named & changed(change))


def changed(change: Change) -> set[int]:
    """Return the lines of the changed program that differ, those beside a removal included."""
    texts = [recording.source(change.program, one).splitlines() for one in (None, change)]
    lines: set[int] = set()
    for tag, _, _, first, last in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if tag != "equal":
            lines |= set(range(first + 1, max(last, first + 1) + 1))
    return lines


def pair(name: str, a: Path, b: Path) -> Row:
    """Judge how much of both steps lies in layers that were matched."""
    said = said_of(a, b)
    matched = {match["label"] for match in said["matches"] if match["a"] and match["b"]}
    shares = []
    for side in ("a_ns", "b_ns"):
        rows = [row for row in said["rows"] if not row["layer"].startswith("(")]
        whole = sum(row[side] for row in rows)
        shares.append(sum(row[side] for row in rows if row["layer"] in matched) / max(whole, 1))
    text = f"{shares[0]:.0%} and {shares[1]:.0%} of the layers' time is matched"
    first = said["findings"][0] if said["findings"] else {"cause": "-", "explains_ns": None}
    sides = said["a"]["step_ns"], said["b"]["step_ns"]
    return Row(name, *sides, first["cause"], first["explains_ns"], min(shares) >= MATCHED, why=text)


def _recorded(program: str, options: argparse.Namespace) -> dict[str, list[Path]]:
    """Record a program as it is, as often as asked for."""
    folder = options.output / program
    wanted = {_QUIET: options.recordings, _BUSY: options.busy}
    paths = {kind: [folder / f"{kind}-{number}" for number in range(1, count + 1)] for kind, count in wanted.items()}
    for kind, mine in paths.items():
        for path in mine:
            recording.record(program, path, busy=2 if kind == _BUSY else 0)
    return paths


def _same_rows(program: str, paths: dict[str, list[Path]]) -> list[Row]:
    pairs = [*itertools.combinations(paths[_QUIET], 2), *zip(paths[_QUIET], paths[_BUSY], strict=False)]
    return [_tried(f"{program}: {a.name}, {b.name}", same, a, b) for a, b in pairs]


def _tried(name: str, judge: Any, a: Path, b: Path) -> Row:
    try:
        row: Row = judge(name, a, b)
    except EvidenceError as error:
        row = Row(name, None, None, "-", None, False, why=f"{error}"[:100])
    return _shown(row)


def _shown(row: Row) -> Row:
    print("  ".join(f"{text:<{width}}" for text, width in zip(row.texts(), _WIDTHS, strict=True)), flush=True)
    return row


def _plant_row(change: Change, options: argparse.Namespace, judge: Callable[[Change, Path, Path], Row]) -> Row:
    base = options.output / change.program / f"{_QUIET}-1"
    path = options.output / change.program / change.name
    try:
        recording.record(change.program, base)
        recording.record(change.program, path, change)
        return _shown(judge(change, base, path))
    except (EvidenceError, recording.Missing) as error:
        return _shown(Row(change.name, None, None, "-", None, False, False, False, f"{error}"[:100]))


def _tuned_row(program: str, options: argparse.Namespace) -> Row:
    path = options.output / program / f"{_QUIET}-1"
    recording.record(program, path)
    return _tried(program, tuned, path, path)


def _pair_row(sides: tuple[str, str], options: argparse.Namespace) -> Row:
    paths = [options.output / program / f"{_QUIET}-1" for program in sides]
    for program, path in zip(sides, paths, strict=True):
        recording.record(program, path)
    return _tried(" and ".join(sides), pair, *paths)


def table(rows: list[Row]) -> str:
    """Return rows as markdown."""
    lines = [HEADER, tuple("---" for _ in HEADER), *(row.texts() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def scores(rows: dict[str, list[Row]]) -> list[str]:
    """Return what came out, a line each."""
    same_rows, plants, controls, pairs = (rows.get(name, []) for name in ("same", "plants", "controls", "pairs"))
    lines = []
    if same_rows:
        lines.append(f"{sum(row.found for row in same_rows)} of {len(same_rows)} pairs of equal programs get no cause.")
    if plants:
        counts = [sum(bool(getattr(row, name)) for row in plants) for name in ("found", "sized", "line")]
        lines.append(
            f"{counts[0]} of {len(plants)} plants: the first cause is right; {counts[1]}: its size is within 25%; "
            f"{counts[2]}: the changed line is named."
        )
    if controls:
        lines.append(f"{sum(row.found for row in controls)} of {len(controls)} changes without effect get no cause.")
    advised = rows.get("advice", [])
    if advised:
        lines.append(f"{sum(row.found for row in advised)} of {len(advised)} faults are among the first {TOLD} topics of advice.")
        placed = [row for row in advised if row.line is not None]
        lines.append(f"{sum(bool(row.line) for row in placed)} of {len(placed)} that stand in a line are named with it.")
    well = rows.get("tuned", [])
    if well:
        lines.append(f"{sum(row.found for row in well)} of {len(well)} well-tuned programs get no advice.")
    if pairs:
        lines.append(f"{sum(row.found for row in pairs)} of {len(pairs)} models written twice: {MATCHED:.0%} is matched.")
    return lines


def main() -> int:
    """Do what the command line says; return 0 where everything is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="WORD", help="programs and changes whose name holds this (repeatable)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="what to do (default: all)")
    parser.add_argument("--recordings", type=int, default=4, help="of each unchanged program (default: 4)")
    parser.add_argument("--busy", type=int, default=2, help="more of them while two processes burn the cores (default: 2)")
    parser.add_argument("--output", type=Path, default=Path("out/scripts"), metavar="DIR", help="where recordings are kept")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table as markdown")
    options = parser.parse_args()
    kinds = options.kind or KINDS

    def chosen(name: str) -> bool:
        return not options.only or any(word in name for word in options.only)

    rows: dict[str, list[Row]] = {}
    if "plants" in kinds:
        for group, changes in (("plants", catalogue.PLANTS), ("controls", catalogue.CONTROLS)):
            mine = [change for change in changes if chosen(f"{change.program} {change.name}")]
            rows[group] = [_plant_row(change, options, plant) for change in mine]
    if "advice" in kinds:
        mine = [one for one in catalogue.PLANTS if one.name in catalogue.ADVICE and chosen(f"{one.program} {one.name}")]
        rows["advice"] = [_plant_row(change, options, advice) for change in mine]
    if "tuned" in kinds:
        rows["tuned"] = [_tuned_row(program, options) for program in catalogue.TUNED if chosen(program)]
    if "same" in kinds:
        programs = [program for program in catalogue.REPEATED if chosen(program)]
        rows["same"] = [row for program in programs for row in _same_rows(program, _recorded(program, options))]
    if "pairs" in kinds:
        rows["pairs"] = [_pair_row(sides, options) for sides in catalogue.PAIRS if chosen(" ".join(sides))]
    every = [row for mine in rows.values() for row in mine]
    print("\n" + "\n".join(scores(rows)))
    if options.table:
        options.table.write_text(table(every) + "\n" + "\n".join(scores(rows)) + "\n", encoding="utf8")
    return 0 if all(row.found for row in every) else 1


if __name__ == "__main__":
    sys.exit(main())
