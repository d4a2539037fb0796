"""Run programs that nobody here wrote under `kernelscope profile`, and print how it went.

    python tests/tools/foreign/run.py [--only NAME ...] [--repeats 3] [--keep DIR] [--markdown docs/validation/profiling.md]

Everything is fetched from the package registry first (see fetching), once. Each program runs as it is and profiled, one after
the other, and its printed text and files are compared. Clean is what our calls at the ends of clean steps took (median), as a
share of the median step; layers is what the layers pass adds to a step, in runs in which both take turns (see turns),
with its interval of 95% confidence and the number of turns. Exits with 1 when outputs differ or coverage is below its limit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import fetching
from catalogue import PROGRAMS
from trial import Trial, attempt
from turns import Cost

COVERAGE, CLEAN, LAYERS = 0.85, 0.01, 0.05
BEGIN, END = "<!-- programs: tests/tools/foreign/run.py --markdown writes between these lines -->", "<!-- end of programs -->"
HEADS = ("program", "from", "framework", "clean steps", "step, ms", "coverage", "outputs", "clean", "layers")


def cells(trial: Trial) -> tuple[str, ...]:
    """Return the texts of HEADS."""
    program = trial.program
    return (
        f"`{program.name}`", program.package.replace("==", " "), trial.framework, trial.steps or "none",
        "-" if trial.step_ms is None else f"{trial.step_ms:.2f}", _percent(trial.coverage),
        trial.same or "identical", _percent(trial.clean, 2), _spread(trial.layers),
    )  # fmt: skip


def _percent(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f}%"


def _spread(cost: Cost | None) -> str:
    if cost is None:
        return "-"
    return f"{100 * cost.share:+.1f}% ({100 * cost.low:+.1f} to {100 * cost.high:+.1f}; {cost.turns})"


def write(page: Path, rows: list[tuple[str, ...]]) -> None:
    """Replace what stands between the two comments of a page by the table; rows of programs that did not run now stay."""
    before, found, rest = page.read_text(encoding="utf8").partition(BEGIN)
    old, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"{page}: has no lines {BEGIN!r} and {END!r} to write between")
    kept = {line.split(" | ")[0]: line for line in old.splitlines() if line.startswith("| `")}
    kept |= {f"| {row[0]}": "| " + " | ".join(row) + " |" for row in rows}
    lines = ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    lines += [kept[f"| `{program.name}`"] for program in PROGRAMS if f"| `{program.name}`" in kept]
    page.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf8")


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs whose name contains one of these")
    parser.add_argument("--repeats", type=int, default=3, help="runs in turns of a program, if the first has few (default: 3)")
    parser.add_argument("--keep", metavar="DIR", help="keep run folders here")
    parser.add_argument("--markdown", metavar="PAGE", help="write the table into this page")
    parser.add_argument("--fetch-only", action="store_true", help="fetch, and run nothing")
    arguments = parser.parse_args()
    wanted = arguments.only or [program.name for program in PROGRAMS if not program.long]
    chosen = [program for program in PROGRAMS if any(name in program.name for name in wanted)]
    rows, fine = [], True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.keep or temporary).absolute()  # programs run in folders of their own
        for program in chosen:
            try:
                if arguments.fetch_only:
                    fetching.python(program.environment)
                    fetching.source(program.source) if program.source else None
                    continue
                own = folder / program.name.translate({ord(c): "-" for c in "/ ()"})
                trial = attempt(program, own, in_turns=arguments.repeats)
            except fetching.Missing as error:
                print(f"{program.name}: not run: {error}", flush=True)
                continue
            rows.append(cells(trial))
            print(" | ".join(rows[-1]) + f" | {trial.seconds:.0f} s", flush=True)
            for problem in trial.problems:
                print(f"  {problem}", flush=True)
            fine &= trial.same in ("", "random by itself") and (trial.coverage or 0) >= COVERAGE
    if arguments.markdown:
        write(Path(arguments.markdown), rows)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
