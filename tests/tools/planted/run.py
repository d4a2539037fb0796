"""Plant known causes, record A (as it is) against B (with one change), and judge by program what is said about them.

    python tests/tools/planted/run.py [--only NAME] [--same TIMES] [--repeats 3] [--no-steady] [--output DIR] [--again]

The two sides of a pair take turns, in the same session that `compare` uses. A plant counts as found when its cause is ranked
first and the ns that it explains are within 15% of the measured difference of the clean steps, or that difference is inside of
the interval reported for it. A control counts when nothing is said. --again judges what was recorded before.

--same records two sides that are the same instead: nothing may be said of any such pair, and in steady conditions the median of
the differences, whichever sign they have, is to be 1% of the step at most.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plants
from plants import Plant

from kernelscope.analysis.comparisons import gate
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.sides import load
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.variants import Variant, program_file

TOLERANCE = 0.15
TARGET = 15  # of 16 plants
GATE = 0.03  # the slowdown that the gate allows where nothing was changed
SAME = 0.01  # of the step: how far sides that are the same may be apart in steady conditions
HEADER = ("plant", "A, ms", "B, ms", "difference, ms", "first cause", "explains, ms", "verdict")
_WIDTHS = (30, 8, 8, 8, 28, 8, 0)


@dataclass(frozen=True)
class Judgement:
    """One row of the table: what was measured, what was said, and whether that was right."""

    plant: Plant
    a_ns: int | None
    b_ns: int | None
    said: str
    explains_ns: int | None
    right: bool
    verdict: str

    def row(self) -> tuple[str, ...]:
        """Return the texts of HEADER."""
        delta = None if self.a_ns is None or self.b_ns is None else self.b_ns - self.a_ns
        times = [_ms(self.a_ns), _ms(self.b_ns), _ms(delta)]
        return (self.plant.name, *times, self.said, _ms(self.explains_ns), self.verdict)


def _ms(ns: int | None) -> str:
    return "" if ns is None else f"{ns / 1e6:.2f}"


def record(plant: Plant, folder: Path, repeats: int, steady: bool) -> None:
    """Record both sides into folder/a and folder/b, replacing what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    options = RunOptions(
        network=plant.network, mode=plant.mode, batch=plant.batch, threads=plant.threads, steps=plant.steps, repeats=repeats,
        steady=steady,
    )  # fmt: skip
    environment = environments.resolve(plant.framework)
    variants = [
        Variant("a", environment, _program(plant.base), plant.base_env),
        Variant("b", environment, _program(plant.program or plant.base), plant.env),
    ]
    folders = [folder / variant.label for variant in variants]
    session = Session(variants, options, folders, ["tests/tools/planted/run.py", plant.name])
    session.run(lambda *_: None)
    for side in session.sides:
        if side.failure is not None:
            raise EvidenceError(side.failure)


def _program(name: str | None) -> Any:
    return None if name is None else program_file(str(plants.PROGRAMS / f"{name}.py"))


def judge(plant: Plant, folder: Path) -> Judgement:
    """Explain a recorded pair, and compare what is said with what was planted."""
    return judged(plant, explain(load(folder / "a"), load(folder / "b")))


def judged(plant: Plant, said: dict[str, Any]) -> Judgement:
    """Compare an explanation with what was planted."""
    sides = said["a"]["step_ns"], said["b"]["step_ns"]
    return _judge_plant(plant, said, sides) if plant.causes else _judge_control(plant, said, sides)


def _judge_control(plant: Plant, said: dict[str, Any], sides: tuple[int, int]) -> Judgement:
    causes = ", ".join(finding["cause"] for finding in said["findings"])
    verdict = "nothing said, as it should be" if not causes else "false accusation"
    return Judgement(plant, *sides, causes or "-", None, not causes, verdict)


def _judge_plant(plant: Plant, said: dict[str, Any], sides: tuple[int, int]) -> Judgement:
    if not said["findings"]:
        return Judgement(plant, *sides, "-", None, False, f"nothing said: {said['abstained'] or 'no cause found'}")
    first, delta = said["findings"][0], said["wall_delta_ns"]
    explains = int(first["explains_ns"])
    low, high = first["interval_ns"] or (explains, explains)
    named = first["cause"] in plant.causes
    near = abs(explains - delta) <= TOLERANCE * abs(delta) or low <= delta <= high
    verdict = "found" if named and near else "size wrong" if named else f"not first: {_rank(plant, said)}"
    return Judgement(plant, *sides, first["cause"], explains, named and near, verdict)


def _rank(plant: Plant, said: dict[str, Any]) -> str:
    ranks = [str(rank) for rank, finding in enumerate(said["findings"], 1) if finding["cause"] in plant.causes]
    return f"ranked {ranks[0]}" if ranks else "not named"


def table(judgements: list[Judgement]) -> str:
    """Return the judgements and the score as markdown."""
    rows = [HEADER, tuple("---" for _ in HEADER), *(judgement.row() for judgement in judgements)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    for title, wanted in (("planted causes found", True), ("controls left alone", False)):
        group = [judgement for judgement in judgements if bool(judgement.plant.causes) is wanted]
        if group:
            lines += ["", f"{sum(judgement.right for judgement in group)} of {len(group)} {title}."]
    return "\n".join(lines) + "\n"


def same(arguments: argparse.Namespace) -> int:
    """Record and judge A against A; return 1 when something is said or the sides differ by more than may be."""
    plant = next(plant for plant in plants.CONTROLS if plant.program is None and not plant.env)
    folders = [arguments.output / f"{plant.folder}-{number}" for number in range(1, arguments.same + 1)]
    judgements = [_one(plant, folder, arguments) for folder in folders]
    known = [(j.a_ns, j.b_ns) for j in judgements if j.a_ns is not None and j.b_ns is not None]
    middle = statistics.median(abs(b_ns - a_ns) / a_ns for a_ns, b_ns in known) if known else 1.0
    wanted = f"; at most {SAME:.0%} is wanted" if arguments.steady else ""
    stopped = sum(gated(folder) == gate.FAILED for folder in folders)
    said = (
        f"Median of the differences: {middle:.2%} of the step{wanted}. A gate of {GATE:.0%} failed {stopped} of {len(folders)}."
    )
    _finish(f"{table(judgements)}\n{said}\n", arguments.table)
    return 0 if all(j.right for j in judgements) and not stopped and (middle <= SAME or not arguments.steady) else 1


def gated(folder: Path) -> str:
    """Return what the gate says of a recorded pair; undecided where it cannot be read."""
    try:
        return gate.judge(explain(load(folder / "a"), load(folder / "b"), force=True), GATE).status
    except (EvidenceError, OSError):
        return gate.UNDECIDED


def plant_all(arguments: argparse.Namespace) -> int:
    """Record and judge plants and controls; return 1 when more than one plant was missed or a control accused."""
    judgements = [_one(plant, arguments.output / plant.folder, arguments) for plant in _chosen(arguments.only)]
    _finish(table(judgements), arguments.table)
    wrong = [judgement for judgement in judgements if not judgement.right]
    return 0 if len(wrong) <= len(plants.PLANTS) - TARGET and all(j.plant.causes for j in wrong) else 1


def _chosen(words: list[str] | None) -> list[Plant]:
    """Return the plants of these names, or whose names hold a word that is no whole name."""
    every = plants.PLANTS + plants.CONTROLS
    names = {plant.name for plant in every}
    return [p for p in every if not words or any(w == p.name or (w not in names and w in p.name) for w in words)]


def _one(plant: Plant, folder: Path, arguments: argparse.Namespace) -> Judgement:
    """Record one pair unless it is to be judged again, judge it and print the row; what fails is a verdict too."""
    try:
        if not arguments.again:
            record(plant, folder, arguments.repeats, arguments.steady)
        judgement = judge(plant, folder)
    except Exception as error:
        judgement = Judgement(plant, None, None, "-", None, False, f"{type(error).__name__}: {error}"[:200])
    print("  ".join(f"{text:<{width}}" for text, width in zip(judgement.row(), _WIDTHS, strict=True)), flush=True)
    return judgement


def _finish(text: str, file: Path | None) -> None:
    """Print the score and write the table."""
    print("\n" + text.rpartition("|\n")[2].strip())
    if file:
        file.write_text(text, encoding="utf8")


def main() -> int:
    """Do what the command line says; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="plants whose name this is or holds (repeatable)")
    parser.add_argument("--same", type=int, default=0, metavar="TIMES", help="A against A instead, so many times")
    parser.add_argument("--repeats", type=int, default=3, help="restarts of both sides (default: 3)")
    parser.add_argument("--steady", action=argparse.BooleanOptionalAction, default=True, help="steady heap, passive waiting")
    parser.add_argument("--output", type=Path, default=Path("out/planted"), metavar="DIR", help="where the pairs are kept")
    parser.add_argument("--again", action="store_true", help="judge pairs recorded before, without recording")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table as markdown")
    arguments = parser.parse_args()
    return same(arguments) if arguments.same else plant_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
