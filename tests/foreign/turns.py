"""What the layers pass costs a program: clean and layers steps that take turns within one run of it.

Two runs of a program differ by more than the pass may cost: their memory lies elsewhere, and the machine is another one a minute
later. Within one process neither does. Each turn opens and closes a pass as `kernelscope profile` does, with wrappers, budget of
ranges and files; that lies between steps.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

STEPS, SKIPPED, MOST = 10, 2, 400  # of a turn, of which so many do not count; turns of each side, if the program goes on so long
FEWEST, ENOUGH = 8, 390  # turns of each side that say anything, and that need no further run
# `kernelscope profile` whose passes are many turns of two
_PROGRAM = (
    "import sys; from kernelscope.tracer.inside.launching import options; "
    "turns = [{{'pass': name, 'skip': {skipped}, 'steps': {steps}}} for name in ('clean', 'layers')]; "
    "options.ProfileOptions.plans = lambda self: [turns * {most}]; "
    "from kernelscope.cli.main import main; sys.exit(main())"
)


@dataclass(frozen=True)
class Cost:
    """What the layers pass adds to a step, as a share of it, with its interval of 95% confidence. turns: how many say it."""

    share: float
    low: float
    high: float
    turns: int


def command(folder: Path) -> list[str]:
    """Return what stands before a program's command to run it in turns, recorded in a folder."""
    code = _PROGRAM.format(skipped=SKIPPED, steps=STEPS, most=MOST)
    return [sys.executable, "-c", code, "profile", "--force", "-o", str(folder), "--"]


def cost(folders: Iterable[Path]) -> Cost | None:
    """Return what runs in turns, a folder each, say together, or None where they have too few.

    A turn of layers is compared with the mean of the clean ones before and after it, so that what drifts hits both sides; all
    turns together count, as the steps of some programs hold more work than others. Times are the processor's: who else uses the
    machine hardly counts. The interval is that of 2000 drawings of as many turns, with replacement (the percentile bootstrap of
    Efron, 1979).
    """
    pairs = np.array([pair for folder in folders for pair in _pairs(folder)])
    if len(pairs) < FEWEST:
        return None
    drawn = pairs[np.random.default_rng(0).integers(0, len(pairs), (2000, len(pairs)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975)) - 1
    with_ranges, without = pairs.sum(axis=0)
    return Cost(float(with_ranges / without - 1), float(low), float(high), len(pairs))


def _pairs(folder: Path) -> list[tuple[float, float]]:
    """Return a step's processor time in ns in each turn of layers of a run, and that in the clean turns around it."""
    clean, layers = ([_usual(part) for part in _parts(folder / name)] for name in ("clean", "layers"))
    around = zip(clean, layers, clean[1:], strict=False)
    return [(one, (before + after) / 2) for before, one, after in around if before and one and after]


def clean_steps(folder: Path) -> list[dict[str, int]]:
    """Return the clean steps of a run in turns, those that do not count among them."""
    return [row for part in _parts(folder / "clean") for row in _rows(part)]


def _parts(folder: Path) -> list[Path]:
    found = [part for part in folder.iterdir() if part.name.isdigit()] if folder.is_dir() else []
    return sorted(found, key=lambda part: int(part.name))


def _usual(part: Path) -> float | None:
    """Return the processor time of a turn's step: the median in ns, None where the turn was not ended."""
    rows = [row for row in _rows(part) if not row["warmup"] and row["user_ns"] is not None]
    times = [row["user_ns"] + row["system_ns"] for row in rows]
    return statistics.median(times) if len(times) == STEPS else None


def _rows(part: Path) -> list[dict[str, int]]:
    path = part / "steps.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.is_file() else []
