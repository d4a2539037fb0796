"""What the layers pass costs a program: clean and layers steps that take turns within one run of it.

Two runs of a program differ by more than the pass may cost: their memory lies elsewhere, and the machine is another one a minute
later. Within one process neither does. Each turn opens and closes a pass as `kernelscope profile` does, with wrappers, budget of
ranges and files; that lies between steps.

A program that ends after a few turns, and whose parts train in different ways, is run many times instead (`cost_by_step`).
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

STEPS, SKIPPED, MOST = 10, 2, 400  # of a turn, of which so many do not count; turns of each side, if the program goes on so long
FEWEST, ENOUGH = 8, 390  # turns of each side that say anything, and that need no further run
DRAWINGS = 2000
# `kernelscope profile` whose passes are many turns of two
_PROGRAM = (
    "import sys; from kernelscope.tracer.inside.launching import options; "
    "turns = [{{'pass': name, 'skip': {skipped}, 'steps': {steps}}} for name in {order}]; "
    "options.ProfileOptions.plans = lambda self: [turns * {most}]; "
    "from kernelscope.cli.main import main; sys.exit(main())"
)


@dataclass(frozen=True)
class Cost:
    """What the layers pass adds to a step, as a share of it, with its interval of 95% confidence.

    turns: how many say it, or how many steps, each of many runs.
    """

    share: float
    low: float
    high: float
    turns: int


def command(folder: Path, layers_first: bool = False) -> list[str]:
    """Return what stands before a program's command to run it in turns, recorded in a folder."""
    order = ("layers", "clean") if layers_first else ("clean", "layers")
    code = _PROGRAM.format(skipped=SKIPPED, steps=STEPS, most=MOST, order=order)
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
    drawn = pairs[np.random.default_rng(0).integers(0, len(pairs), (DRAWINGS, len(pairs)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975)) - 1
    with_ranges, without = pairs.sum(axis=0)
    return Cost(float(with_ranges / without - 1), float(low), float(high), len(pairs))


def cost_by_step(folders: Sequence[Path]) -> Cost | None:
    """Return what runs say of which every second one began with layers, so that each step has layers in about half of them.

    The medians of the same step with and without layers are compared, over all steps that at least a quarter of the runs had each
    way. The interval draws runs, of both kinds as many as there are.
    """
    numbers = range(1 + max((row["step"] for folder in folders for row in _measured(folder)), default=0))
    times = np.full((2, len(folders), len(numbers)), np.nan)
    for run, folder in enumerate(folders):
        for side, name in enumerate(("clean", "layers")):
            for row in _measured(folder, name):
                times[side, run, row["step"]] = row["user_ns"] + row["system_ns"]
    times = times[:, :, (np.isfinite(times).sum(axis=1) >= max(2, len(folders) // 4)).all(axis=0)]
    if not times.size:
        return None
    draw, half = np.random.default_rng(0), len(folders) // 2
    drawn = (np.append(2 * draw.integers(0, half, half), 2 * draw.integers(0, half, half) + 1) for _ in range(DRAWINGS))
    shares = [_share_by_step(times[:, runs]) for runs in drawn]
    low, high = np.quantile(shares, (0.025, 0.975))
    return Cost(_share_by_step(times), float(low), float(high), times.shape[2])


def _share_by_step(times: npt.NDArray[np.float64]) -> float:
    """Return what layers add, of times by side, run and step; of steps that these runs had both ways."""
    both = times[:, :, np.isfinite(times).any(axis=1).all(axis=0)]
    clean, layers = np.nanmedian(both, axis=1).sum(axis=1)
    return float(layers / clean - 1)


def _measured(folder: Path, *names: str) -> list[dict[str, int]]:
    """Return the measured steps of a run's passes of which it is known what they used."""
    parts = [part for name in names or ("clean", "layers") for part in _parts(folder / name)]
    return [row for part in parts for row in _rows(part) if not row["warmup"] and row["user_ns"] is not None]


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
    times = [row["user_ns"] + row["system_ns"] for row in _rows(part) if not row["warmup"] and row["user_ns"] is not None]
    return statistics.median(times) if len(times) == STEPS else None


def _rows(part: Path) -> list[dict[str, int]]:
    path = part / "steps.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.is_file() else []
