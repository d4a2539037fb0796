"""Make one record of what several calls of check.py left on a machine that could be had for minutes only, judged again here.

    python tests/tools/gpu/merged.py DIR... [--output docs/gpu]

Each DIR holds `rec-*/*.json`, records, and `check-*/runs/*`, recordings, the later DIR being the newer one. Of each check the
newest outcome counts that says more than that it was not run. What can be said of a recording is judged by the code at hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import analyses
import recordings
import records
from outcomes import NOT_RUN, Check, Outcome, perform
from place import Place

from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import gpu

_INTERRUPTED = "all further checks"


def newest(found: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Outcome]:
    """Return the newest outcome of each check that was run, of the records in their order; else why it was not."""
    result: dict[tuple[str, str], Outcome] = {}
    for record in found:
        for row in record["results"]:
            key = row["check"], row["subject"]
            outcome = Outcome(**row)
            if key[0] == _INTERRUPTED or (outcome.outcome == NOT_RUN and key in result and not _of_interpreter(result[key])):
                continue
            result[key] = outcome
    return result


def _of_interpreter(outcome: Outcome) -> bool:
    """Return whether a check was not run only because another call was about another framework."""
    return outcome.outcome == NOT_RUN and "no interpreter" in " ".join(outcome.reasons)


def judged_again(place: Place, folders: Iterable[Path]) -> Iterator[Check]:
    """Yield what can be said of the recordings."""
    by_framework: dict[str, dict[str, Path]] = {}
    for path in folders:
        if path.name == "agent":
            yield Check("agent run", "first framework", partial(recordings.rows, folder=path))
        framework, _, collector = path.name.rpartition("-")
        if (path / "run.json").is_file() and framework and Run(path).complete:
            by_framework.setdefault(framework, {})[collector] = path
    for framework, runs in by_framework.items():
        for collector, path in runs.items():
            yield from recordings.of_a_run(path, f"{framework}, {collector}", on_gpu=True)
            yield from analyses.of_a_run(place, path, f"{framework}, {collector}", on_gpu=True)
        yield Check("collectors agree", framework, partial(recordings.agree, folders=runs))


def main() -> int:
    """Return 0 when nothing failed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--output", type=Path, default=records.ROOT / "docs" / "gpu", metavar="DIR")
    arguments = parser.parse_args()
    folders = [folder.absolute() for folder in arguments.folders]
    found = [json.loads(file.read_text("utf8")) for folder in folders for file in sorted(folder.glob("rec-*/*.json"))]
    outcomes = newest(found)
    about = found[0]["about"]
    about["frameworks"] = {
        name: text for one in found for name, text in one["about"]["frameworks"].items() if "not run" not in text
    }
    place = Place(folders[0], "cpu", (), gpu.find().reason, [])
    for check in judged_again(place, [path for folder in folders for path in sorted(folder.glob("check-*/runs/*"))]):
        outcomes[check.name, check.subject] = perform(check)
    record = records.Record(found[0]["date"], found[0]["gpu"], about, list(outcomes.values()), folders=tuple(folders))
    print(record.write(arguments.output))
    for outcome in record.outcomes:
        if outcome.outcome != NOT_RUN:
            print(f"{outcome.outcome:8}{outcome.check}: {outcome.subject}: {'; '.join(outcome.reasons)}"[:200])
    return 1 if record.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
