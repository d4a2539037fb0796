"""Run every check that needs a GPU on the machine at hand, and write a dated record of what was seen and what was not.

    tests/tools/gpu/check.py [--frameworks A,B] [--python NAME=PATH] [--steps 20] [--only REGEX] [--output docs/gpu] [--work DIR]
    python tests/tools/gpu/check.py --from DIR      # of what `python agent.pyz check -o DIR` left, from any machine

Each check has a time limit and stops no other; the record is on disk after every one. On a machine without a GPU the requests for
one are tried, what needs none is recorded, and all else is listed as not run. The exit status is 0 when nothing failed.

--python: with interpreters named, only these are tried: for machines on which environments cannot be made.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import analyses
import faults
import inside
import power
import recordings
import records
import refusals
from outcomes import FAILED, NOT_RUN, Check, Outcome, perform
from place import Place, look

from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import gpu, recipes


def planned(place: Place) -> Iterator[Check]:
    """All checks, in an order in which the quick ones that need no recording come first; recordings decide what follows them."""
    yield Check("doctor's collectors", "this machine", partial(analyses.doctor, place=place))
    yield from power.checks(place) if place.device == "cuda" else ()
    yield from recordings.made_here(place)
    yield Check("devices of the framework's process", "all recordings", partial(power.reported, place=place))
    if place.device != "cuda":  # not run, each with its reason
        yield from power.checks(place)
        for name in ("sums as in the file", "collectors agree", "roofline"):
            yield Check(name, "all recordings", lambda _: place.need_gpu())
    yield from analyses.of_runs(place)
    yield from inside.checks(place)
    yield from faults.checks(place)
    yield from refusals.checks(place)


def brought(folder: Path, found: dict[str, Any], place: Place) -> Iterator[Check]:
    """What can be said here of the recordings that an agent made elsewhere."""
    by_framework: dict[str, dict[str, Path]] = {}
    for row in found["results"]:
        path = folder / str(row["measured"].get("folder"))
        if row["check"] != "record" or row["outcome"] == FAILED or not (path / "run.json").is_file():
            continue
        subject = row["subject"]
        framework, _, collector = subject.partition(", ")
        by_framework.setdefault(framework, {})[collector] = path
        on_gpu = Run(path).record["options"].get("device") != "cpu"
        yield from recordings.of_a_run(path, subject, on_gpu)
        yield from analyses.of_a_run(place, path, subject, on_gpu)
    for framework, folders in by_framework.items():
        yield Check("collectors agree", framework, partial(recordings.agree, folders=folders))


def carry_out(record: records.Record, checks: Iterable[Check], only: str, output: Path) -> None:
    """Do the checks whose "name: subject" holds the expression `only`, writing the record after each."""
    for check in checks:
        if not re.search(only, f"{check.name}: {check.subject}"):
            continue
        outcome = perform(check)
        record.outcomes.append(outcome)
        reason = f": {outcome.reasons[0]}" if outcome.reasons else ""
        print(f"{outcome.outcome:8}{outcome.seconds:7.1f} s  {check.name}: {check.subject}{reason}", flush=True)
        record.write(output)


def here(arguments: argparse.Namespace) -> records.Record:
    """Return the record of this machine, without outcomes; `place` is where its checks run."""
    place: Place = arguments.place
    name = place.gpus[0].name if place.gpus else records.NO_GPU
    return records.Record(f"{datetime.now(UTC):%Y-%m-%d}", name, records.about(place), folders=(place.folder,))


def elsewhere(folder: Path) -> tuple[records.Record, dict[str, Any]]:
    """Return the record of the machine on which an agent left `folder`, with its outcomes, and what it left."""
    found = json.loads((folder / "check.json").read_text(encoding="utf8"))
    if found.get("schema") != records.SCHEMA:
        raise ValueError(f"{folder}: schema {found.get('schema')!r} is not {records.SCHEMA}, as `agent.pyz check` writes it")
    nvml = found["machine"].pop("nvml")
    gpus = nvml["gpus"]
    machine = {
        **found["machine"], "system": records.release(found["machine"]["system"]),
        "driver": nvml["driver"], "CUDA of the driver": nvml["cuda"],
        "GPU": "; ".join(f"{g.get('name')}, compute capability {g.get('compute_capability')}" for g in gpus)
        or f"none ({nvml['unavailable']})",
    }  # fmt: skip
    about = {"machine": machine, "versions (portable agent)": found["versions"]}
    outcomes = [Outcome(**row) for row in found["results"]]
    name = gpus[0].get("name") or "unknown GPU" if gpus else records.NO_GPU
    return records.Record(found["created"][:10], name, about, outcomes, folders=(folder,)), found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--from", dest="folder", type=Path, metavar="DIR", help="make the record of what the portable agent left in DIR")
    add("--frameworks", default="", metavar="A,B,...", help="only these (default: all)")
    add("--python", action="append", default=[], metavar="NAME=PATH", help="interpreter of a framework (repeatable)")
    add("--steps", type=int, default=20, metavar="N", help="measured steps of a recording (default: 20)")
    add("--only", default="", metavar="REGEX", help="only checks whose `name: subject` holds this")
    add("--output", type=Path, default=records.ROOT / "docs" / "gpu", metavar="DIR", help="for the record (default: docs/gpu)")
    add("--work", type=Path, metavar="DIR", help="for recordings (default: out/gpu-check/<time>)")
    return parser


def main(given: list[str] | None = None) -> int:
    """Return 0 when nothing failed, 1 otherwise, 2 for wrong use."""
    parser = _parser()
    arguments = parser.parse_args(given)
    pythons = dict(text.partition("=")[::2] for text in arguments.python)
    only = [name for name in arguments.frameworks.split(",") if name]
    unknown = [name for name in (*pythons, *only) if name not in recipes.FRAMEWORKS]
    if unknown:
        parser.error(f"unknown framework {unknown[0]!r}; known: {', '.join(recipes.FRAMEWORKS)}")
    work = (arguments.work or records.ROOT / "out" / "gpu-check" / time.strftime("%Y%m%d-%H%M%S")).absolute()
    try:
        if arguments.folder is not None:
            folder = arguments.folder.absolute()
            record, found = elsewhere(folder)
            work.mkdir(parents=True, exist_ok=True)
            checks = brought(folder, found, Place(work, "cpu", (), gpu.find().reason, []))
        else:
            arguments.place = look(work, pythons, only, arguments.steps)
            record, checks = here(arguments), planned(arguments.place)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"check.py: error: {error}; name a folder that can be read and written", file=sys.stderr)
        return 2
    return _finish(record, checks, arguments)


def _finish(record: records.Record, checks: Iterable[Check], arguments: argparse.Namespace) -> int:
    try:
        carry_out(record, checks, arguments.only, arguments.output)
    except KeyboardInterrupt:
        record.outcomes.append(Outcome("all further checks", "this machine", NOT_RUN, {}, ["interrupted"], 0.0))
    path = record.write(arguments.output)
    counts = ", ".join(f"{sum(o.outcome == what for o in record.outcomes)} {what}" for what in ("passed", "failed", "not run"))
    print(f"{counts}; record: {path}")
    return 1 if record.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
