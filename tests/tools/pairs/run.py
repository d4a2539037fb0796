"""Explain pairs of captures whose difference is known, as a user would, and judge what is said of them.

    python tests/tools/pairs/run.py [FOLDER...] [--only NAME] [--jobs 2]

A folder holds `truth.csv` and the pairs that it lists (see judging.py); default: ../shared/corpus/pairs. Each pair goes through
`kernelscope explain A B --format json`. A difference is found when one of the first two causes says, in its name, title or
evidence, the main words of one of the known keywords, and explains 50% to 200% of the known ms with their sign. A control is
right when nothing is found. Both steps must be within 3% of the known ones.

Exits with 1 where fewer than 12 of 13 differences (the same share of another number) are found, a control is accused, or a step
is off.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import judging
from judging import Judgement, Pair

PAIRS = Path(__file__).resolve().parents[3].parent / "shared/corpus/pairs"
WANTED = 12 / 13  # of the differences
HEADER = (
    "pair",
    "A seen/known, ms",
    "B seen/known, ms",
    "known cause",
    "ms",
    "first cause",
    "ms",
    "second cause",
    "ms",
    "verdict",
)
_LONGEST = 34  # characters of a cell


@dataclass(frozen=True)
class Outcome:
    """A pair with what was said and the judgement of it; both None where the pair is skipped, for the reason."""

    pair: Pair
    explanation: dict[str, Any] | None = None
    judgement: Judgement | None = None
    reason: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the texts of HEADER."""
        known = ("(control)", "") if self.pair.control else (", ".join(self.pair.keywords), f"{self.pair.cause_ms:+.4g}")
        if self.explanation is None or self.judgement is None:
            steps = [f"-/{ms:.4g}" for ms in self.pair.steps_ms]
            return (self.pair.name, *steps, *known, "-", "", "-", "", self.reason)
        ratios = judging.step_ratios(self.pair, self.explanation)
        steps = [f"{ratio * ms:.4g}/{ms:.4g} {ratio:.3f}" for ratio, ms in zip(ratios, self.pair.steps_ms, strict=True)]
        named = [(one["cause"], f"{one['explains_ns'] / 1e6:+.4g}") for one in self.explanation["findings"][: judging.RANKS]]
        named += [("-", "")] * (judging.RANKS - len(named))
        return (self.pair.name, *steps, *known, *(text for one in named for text in one), self.judgement.said)


def outcome(pair: Pair) -> Outcome:
    """Explain one pair through the command line, and judge it."""
    captures = pair.captures()
    if captures is None:
        return Outcome(pair, reason=f"skipped: no a.* and b.* in {pair.folder}")
    command = [Path(sys.executable).with_name("kernelscope"), "explain", *captures, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing on stderr"]
        return Outcome(pair, judgement=Judgement(False, False, ""), reason=f"exit status {done.returncode}: {said[-1]}"[:120])
    explanation = json.loads(done.stdout)
    return Outcome(pair, explanation, judging.judge(pair, explanation))


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of the table."""
    rows = [HEADER, *(one.cells() for one in outcomes)]
    short = [tuple(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..." for text in row[:-1]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*short, strict=True)]
    for row, whole in zip(short, rows, strict=True):
        yield "  ".join([*(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)), whole[-1]])


def passed(outcomes: Sequence[Outcome]) -> tuple[bool, list[str]]:
    """Return whether all is as it must be, and the totals in words."""
    judged = [(one.pair, one.judgement) for one in outcomes if one.judgement is not None]
    differences = [judgement.cause for pair, judgement in judged if not pair.control]
    controls = [judgement.cause for pair, judgement in judged if pair.control]
    steps = [judgement.steps for _, judgement in judged]
    least = math.ceil(WANTED * len(differences) - 1e-9)
    lines = [
        f"{sum(differences)} of {len(differences)} differences found (at least {least}), "
        f"{sum(controls)} of {len(controls)} controls left alone, "
        f"step times of {sum(steps)} of {len(steps)} pairs within {judging.STEPS_WITHIN:.0%}"
    ]
    if len(judged) < len(outcomes):
        lines.append(f"{len(outcomes) - len(judged)} skipped")
    return sum(differences) >= least and all(controls) and all(steps), lines


def _pairs(parser: argparse.ArgumentParser, folders: Sequence[Path], only: Sequence[str] | None) -> list[Pair]:
    """Return the pairs of the folders, or of those that this machine has where none is named."""
    found = []
    for folder in folders or [PAIRS]:
        if not (folder / "truth.csv").is_file():
            if folders:
                parser.error(f"{folder}: no truth.csv")
            print(f"skipped: no {folder}; name folders with pairs of your own")
            continue
        found += judging.read(folder)
    return [pair for pair in found if not only or pair.name in only]


def main() -> int:
    """Do what the command line says; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="folders with a truth.csv and pairs")
    parser.add_argument("--only", action="append", metavar="NAME", help="pairs of this name (repeatable)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="explanations at a time (default: processors)")
    arguments = parser.parse_args()
    pairs = _pairs(parser, arguments.folders, arguments.only)
    if not pairs:
        return 0
    with ThreadPoolExecutor(max(arguments.jobs, 1)) as pool:
        outcomes = list(pool.map(outcome, pairs))
    right, totals = passed(outcomes)
    print("\n".join([*table(outcomes), "", *totals]))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
