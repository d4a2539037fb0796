"""Explain why one side is slower than another: the exact account of the difference, and its causes ranked."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.confirm import candidates, kept
from kernelscope.analysis.explain import pair
from kernelscope.analysis.explain.layer_names import read_map
from kernelscope.analysis.explain.model import SIDES
from kernelscope.analysis.recordings import archives
from kernelscope.analysis.recordings.kinds import COMPARISON, RUN, Kind, captures_in, kind_of
from kernelscope.analysis.trace.records import read_object
from kernelscope.cli import confirm, sharing, steps_options, warn
from kernelscope.cli.comparisons import write_explanation
from kernelscope.cli.output import figure_options, refuse_source, write_result
from kernelscope.tracer.outside import profile
from kernelscope.tracer.outside.errors import InputError, UsageError

FORMATS = ("table", "markdown", "json")
_OURS = b'name="generator" content="kernelscope'


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add(
        "paths",
        nargs="+",
        metavar="PATH",
        help="two scripts, which are recorded in turns first; or two of: folders that `run`, `profile`, `compare` or `import` "
        "wrote, folders of several of these (restarts of one program), captures; or one folder with both sides; or two folders "
        "with the captures of a job's ranks",
    )
    add("--arguments", metavar="TEXT", default="", help="of scripts: what both get, as a shell splits it")
    add("--repeats", type=int, default=3, metavar="N", help="of scripts: recordings of each (default: 3)")
    add("--a", metavar="NAME", help="of one folder with several sides, that which B is set against")
    add("--b", metavar="NAME", help="of one folder with several sides, that which is explained")
    add("--map", metavar="FILE", help="which layers of A and B stand for the same, where names and shapes do not tell")
    force = "explain even if recordings state other work (network, mode, batch) or only one has steps; replace figures"
    add("--force", action="store_true", help=force)
    add("--format", choices=FORMATS, default="table", help="(default: table)")
    add(
        "-o",
        "--report",
        metavar="FILE.html",
        help="write a report of the explanation there too: one file that needs nothing else",
    )
    add("--confirm", action="store_true", help="try on the slower side what undoes the causes, as `confirm` does")
    confirm.trial_options(parser)
    steps_options.configure(parser)
    figure_options(parser)
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read both sides, explain their difference, print it and write the report."""
    confirm.checked(arguments, arguments.confirm)
    if jobs := _jobs([Path(path) for path in arguments.paths]):
        return _explain_jobs(jobs, arguments)
    paths = _scripts(arguments) or _sides([archives.folder(Path(path)) for path in arguments.paths], arguments.a, arguments.b)
    target = _target(arguments.report, [Path(path) for path in arguments.paths]) if arguments.report else None
    found = explained(paths, Path(arguments.map) if arguments.map else None, arguments.force, steps_options.request(arguments))
    result = sharing.shareable(found, arguments.full_paths)
    if arguments.confirm:
        confirm.beside(result, arguments.format, write_explanation, lambda: _confirmed(arguments, found, paths))
    else:
        write_explanation(result, arguments.format)
    if arguments.figures is not None:
        from kernelscope.cli import figures  # matplotlib takes half a second: only where something is drawn
        from kernelscope.reports.figures import gathered

        figures.write(gathered.of_explanation(result), arguments.figures, arguments.style, arguments.force)
    if target is not None:
        from kernelscope.cli import pages  # as above

        pages.explanation(result, target)
    return 0


def _jobs(paths: list[Path]) -> list[list[Path]]:
    """Return the captures of both jobs of several ranks; nothing where the paths are no two such."""
    found = [captures_in(path) for path in paths if kind_of(path) in (Kind.JOB, Kind.CAPTURE)]
    return found if len(found) == len(paths) == 2 and all(len(held) > 1 for held in found) else []


def _explain_jobs(jobs: list[list[Path]], arguments: argparse.Namespace) -> int:
    """Say how two jobs differ."""
    from kernelscope.analysis.ranks.compared import compared  # as above, for what few use
    from kernelscope.analysis.ranks.job import job
    from kernelscope.reports import ranks_compared

    if arguments.report or arguments.figures or arguments.confirm or arguments.format == "csv":
        raise UsageError("of two jobs there are tables only: --format table, markdown or json")
    result = sharing.shareable(compared(*map(job, jobs)), arguments.full_paths)
    write_result(result, arguments.format, ranks_compared.shown, ranks_compared.markdown)
    return 0


def _scripts(arguments: argparse.Namespace) -> tuple[Path, Path] | None:
    """Record both sides where they are scripts; return where, None where they are none."""
    paths = [Path(path) for path in arguments.paths]
    scripts = [path for path in paths if path.suffix == ".py"]
    if not scripts:
        return None
    for path in scripts:
        if not path.is_file():
            raise UsageError(f"{path}: no such script")
    if len(paths) != 2 or len(scripts) != 2:
        raise UsageError(f"{scripts[0]}: a script is set against another script; name two, and what both get with --arguments")
    if arguments.repeats < 1:
        raise UsageError(f"--repeats {arguments.repeats}: at least 1")
    folders = profile.in_turns((paths[0], paths[1]), shlex.split(arguments.arguments), arguments.repeats, sys.argv)
    for folder in folders:
        sharing.overwrite_secrets(folder)
    return folders


def _confirmed(arguments: argparse.Namespace, found: dict[str, Any], paths: tuple[Path, Path]) -> dict[str, Any]:
    """Try on the slower side what undoes what makes it slower."""
    side, findings = candidates.of_explanation(found)
    path = paths[SIDES.index(side)]
    if not findings:
        raise InputError(f"{path}: nothing was found that makes it slower; there is nothing to try")
    if kind_of(path) is Kind.RUNS:  # restarts of one program: any will do
        path = min(path.glob(f"*/{RUN}")).parent
    return confirm.confirmed(arguments, confirm.program_of(arguments, path), findings, kept.EXPLANATION)


def explained(paths: tuple[Path, Path], mapping: Path | None, force: bool, request: Request | None = None) -> dict[str, Any]:
    """Return the explanation of what is recorded at two paths, B against A; say on stderr what they lack.

    request: the steps of captures of device work.
    """

    told = read_map(mapping) if mapping is not None else None
    both = pair.read(*paths, by_layers=told is not None)
    for trace in both.traces():
        warn.about(trace)
    if request is not None and request != Request() and not both.of_devices:
        raise UsageError("--steps and --device choose among the steps of captures of device work, and these are none")
    return both.explain(told, force, request)


def _sides(paths: list[Path], a: str | None, b: str | None) -> tuple[Path, Path]:
    """Return the two sides that the arguments name; raise UsageError when these are not two."""
    if len(paths) > 2:
        raise UsageError(f"{len(paths)} paths: name two sides, or one folder that holds them")
    if len(paths) == 2:
        if a is not None or b is not None:
            raise UsageError("--a and --b choose sides of one folder; leave them out where two paths are named")
        return paths[0], paths[1]
    folder, names = paths[0], _names(paths[0])
    if not names and len(held := captures_in(folder)) == 2 and a is None and b is None:
        return held[0], held[1]
    if not names:
        raise UsageError(f"{folder}: one side; name the other too, or a folder that `compare` wrote")
    if (a is None) != (b is None):
        raise UsageError(f"--{'a' if a is None else 'b'} is missing; sides in {folder}: {', '.join(names)}")
    if a is None or b is None:
        if len(names) != 2:
            raise UsageError(f"{folder} holds {len(names)} sides; choose two with --a and --b: {', '.join(names)}")
        a, b = names
    for option, name in (("--a", a), ("--b", b)):
        if name not in names:
            raise UsageError(f"{option} {name}: no such side in {folder}; there are {', '.join(names)}")
    return folder / a, folder / b


def _names(folder: Path) -> list[str]:
    """Return the sides in a folder in the order of its comparison, else by name; an empty list when it holds none.

    Raises OSError when there is nothing at the path.
    """

    folder.stat()
    kind = kind_of(folder)
    if not folder.is_dir() or kind in (Kind.RUN, Kind.IMPORT):
        return []
    if kind is Kind.SIDES:  # that which was recorded first is what the other is set against
        return [side.name for side in sorted(folder.iterdir(), key=_recorded) if kind_of(side) is Kind.RUNS]
    found = sorted(path.name for path in folder.iterdir() if kind_of(path) in (Kind.RUN, Kind.IMPORT))
    recorded = read_object(folder / COMPARISON).get("frameworks", []) if kind is Kind.COMPARISON else []
    return sorted(found, key=lambda name: recorded.index(name) if name in recorded else len(recorded))


def _recorded(side: Path) -> str:
    """Return when the first recording of a side began; of what is none an empty text."""
    return min((str(read_object(file)["created"]) for file in side.glob(f"*/{RUN}")), default="")


def _target(text: str, sources: Sequence[Path]) -> Path:
    """Return where the report goes; raise InputError when something other than a report of ours would be lost."""
    target = Path(text)
    refuse_source(target, sources)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / 'explain.html'}")
    if target.exists() and not _is_report(target):
        raise InputError(f"{target}: exists and is no report of kernelscope; name another file")
    return target


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return _OURS in file.read(2000)
