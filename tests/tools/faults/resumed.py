"""Kill `confirm` at random moments until its trials are over, and compare its verdicts with those of one that ran undisturbed.

    python tests/tools/faults/resumed.py [--times 20] [--seed 1] [--rounds 4]

A program with anomaly detection on is recorded; tried are a change that helps, one that meets nothing, and one that does nothing.
After each kill nothing of the command runs within 10 s, and what was recorded whole stays as it was. Exits with 1 where that does
not hold, or where verdicts differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import killed

SCRIPT = killed.ROOT / "tests" / "tracer" / "children" / "slow_torch.py"
CHANGES = ("no-anomaly-detection", "channels-last", "nothing")


def trying(recorded: Path, trials: Path, rounds: int) -> list[str]:
    """Return the command that tries the changes."""
    only = [word for name in CHANGES for word in ("--only", name)]
    return ["confirm", "--rounds", str(rounds), *only, "--format", "json", "-o", str(trials), str(recorded)]


def whole(trials: Path) -> dict[Path, int]:
    """Return the records of trials that ended well, and when these were written."""
    found = {path: path.stat().st_mtime_ns for path in trials.glob("**/run.json")}
    return {path: when for path, when in found.items() if json.loads(path.read_text()).get("complete")}


def verdicts(said: str) -> dict[str, Any]:
    """Return what a result says of each change, but for times."""
    result = json.loads(said)
    rows = {row["name"]: (row["verdict"], row["results"], row["met"]) for row in result["tried"]}
    findings = {row["title"]: (row["change"], row["verdict"]) for row in result["findings"]}
    return {"tried": rows, "findings": findings, "keep": result["keep"]}


def disturbed(words: Sequence[str], trials: Path, scratch: Path, moments: Sequence[float]) -> list[str]:
    """Kill the command after each of so many seconds, trials in its folder going on; return what is wrong after each."""
    wrong = []
    for number, after_s in enumerate(moments, 1):
        kept = whole(trials)
        status, children = killed.killed(words, scratch, after_s)
        found = killed.left_over(children)
        if not kept.items() <= whole(trials).items():
            found.append("what was recorded whole was recorded again")
        wrong += [f"kill {number}, after {after_s:.1f} s: {line}" for line in found]
        print(f"kill {number} after {after_s:.1f} s (status {status}): {len(whole(trials))} trials whole", flush=True)
    return wrong


def main() -> int:
    """Return 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    with killed.workplace() as (out, scratch):
        os.environ["XDG_STATE_HOME"] = str(scratch / "state")  # verdicts of this machine's user stay as they are
        python = killed.filled(["{pytorch}"], out)[0]
        killed.run(["profile", "--quiet", "-o", str(out), "--", python, str(SCRIPT)], scratch, 300.0).check_returncode()
        folders = [out.with_name(name) for name in ("undisturbed", "disturbed")]
        began = time.monotonic()
        undisturbed = killed.run(trying(out, folders[0], arguments.rounds), scratch, 1200.0)
        most_s = 3 * (time.monotonic() - began) / arguments.times
        words, chance = trying(out, folders[1], arguments.rounds), random.Random(arguments.seed)
        wrong = disturbed(words, folders[1], scratch, [chance.uniform(0.3, most_s) for _ in range(arguments.times)])
        resumed = killed.run(words, scratch, 1200.0)
        again = killed.run(words, scratch, 1200.0)
    for name, done in (("undisturbed", undisturbed), ("resumed", resumed)):
        if done.returncode:
            print("\n".join([*wrong, f"{name}: {done.stderr.strip().splitlines()[-1:]}"]))
            return 1
        print(f"{name}: {json.dumps(verdicts(done.stdout))}")
    if verdicts(undisturbed.stdout) != verdicts(resumed.stdout):
        wrong.append("verdicts differ")
    if again.stdout != resumed.stdout:
        wrong.append("the same command said something else afterwards")
    print("\n".join(wrong) or f"{arguments.times} kills, nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
