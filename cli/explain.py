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
        help="two scripts, which are first recorded in turns; or two recordings: folders that `run`, `profile`, `compare` or "
        "`import` wrote, folders of several of these (restarts of one program), or captures; or one folder with both sides; or "
        "two folders with the captures of a job's ranks",
    )
    add("--arguments", metavar="TEXT", default="", help="scripts: arguments for both, in one text that is split as a shell does")
    add("--repeats", type=int, default=3, metavar="N", help="scripts: number of recordings of each (default: 3)")
    add("--a", metavar="NAME", help="a folder with several sides: the side to compare with")
    add("--b", metavar="NAME", help="a folder with several sides: the side to explain")
    add("--map", metavar="FILE", help="a file that says which layers of A and B match, where names and shapes do not")
    force = "explain even if the work differs (network, mode, batch) or only one side has steps; replace figures"
    add("--force", action="store_true", help=force)
    add("--format", choices=FORMATS, default="table", help="output format (default: table)")
    add(
        "-o",
        "--report",
        metavar="FILE.html",
        help="also write a self-contained HTML report",
    )
    add("--confirm", action="store_true", help="try changes that undo the causes on the slower side, as `confirm` does")
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
        from kernelscope.cli import figures  # matplotlib takes half a second: load it only to draw
        from kernelscope.reports.figures import gathered

        figures.write(gathered.of_explanation(result), arguments.figures, arguments.style, arguments.force)
    if target is not None:
        from kernelscope.cli import pages  # as above

        pages.explanation(result, target)
    return 0


def _jobs(paths: list[Path]) -> list[list[Path]]:
    """Return the captures of two jobs of several ranks; an empty list if the paths are not two such jobs."""
    found = [captures_in(path) for path in paths if kind_of(path) in (Kind.JOB, Kind.CAPTURE)]
    return found if len(found) == len(paths) == 2 and all(len(captures) > 1 for captures in found) else []


def _explain_jobs(jobs: list[list[Path]], arguments: argparse.Namespace) -> int:
    """Print how two jobs differ."""
    from kernelscope.analysis.ranks.compared import compared  # rarely used: load it only here
    from kernelscope.analysis.ranks.job import job
    from kernelscope.reports import ranks_compared

    if arguments.report or arguments.figures or arguments.confirm or arguments.format == "csv":
        raise UsageError("two jobs can only be printed: use --format table, markdown or json")
    result = sharing.shareable(compared(*map(job, jobs)), arguments.full_paths)
    write_result(result, arguments.format, ranks_compared.shown, ranks_compared.markdown)
    return 0


def _scripts(arguments: argparse.Namespace) -> tuple[Path, Path] | None:
    """Record both sides if they are scripts; return the folders, None if they are not scripts."""
    paths = [Path(path) for path in arguments.paths]
    scripts = [path for path in paths if path.suffix == ".py"]
    if not scripts:
        return None
    for path in scripts:
        if not path.is_file():
            raise UsageError(f"{path}: no such script")
    if len(paths) != 2 or len(scripts) != 2:
        raise UsageError(
            f"{scripts[0]}: a script can only be compared with another script; name two, and their arguments with --arguments"
        )
    if arguments.repeats < 1:
        raise UsageError(f"--repeats {arguments.repeats}: at least 1")
    folders = profile.in_turns((paths[0], paths[1]), shlex.split(arguments.arguments), arguments.repeats, sys.argv)
    for folder in folders:
        sharing.overwrite_secrets(folder)
    return folders


def _confirmed(arguments: argparse.Namespace, found: dict[str, Any], paths: tuple[Path, Path]) -> dict[str, Any]:
    """Try the changes that undo the causes on the slower side."""
    side, findings = candidates.of_explanation(found)
    path = paths[SIDES.index(side)]
    if not findings:
        raise InputError(f"{path}: no cause was found that makes it slower; there is nothing to try")
    if kind_of(path) is Kind.RUNS:  # restarts of one program: any one will do
        path = min(path.glob(f"*/{RUN}")).parent
    return confirm.confirmed(arguments, confirm.program_of(arguments, path), findings, kept.EXPLANATION)


def explained(paths: tuple[Path, Path], mapping: Path | None, force: bool, request: Request | None = None) -> dict[str, Any]:
    """Return the explanation of the recordings at two paths, B against A; print warnings on stderr.

    request: which steps, for captures of device work.
    """

    told = read_map(mapping) if mapping is not None else None
    both = pair.read(*paths, by_layers=told is not None)
    for trace in both.traces():
        if both.of_lines:  # the explanation says itself that there are no kernels
            warn.about_info(trace.info)
        else:
            warn.about(trace)
    if request is not None and request != Request() and not both.of_devices:
        raise UsageError("--steps and --device are for captures of device work, and these are not")
    return both.explain(told, force, request)


def _sides(paths: list[Path], a: str | None, b: str | None) -> tuple[Path, Path]:
    """Return the two sides that the arguments name; raise UsageError if there are not two."""
    if len(paths) > 2:
        raise UsageError(f"{len(paths)} paths: name two sides, or one folder that holds them")
    if len(paths) == 2:
        if a is not None or b is not None:
            raise UsageError("--a and --b choose sides of one folder; leave them out where two paths are named")
        return paths[0], paths[1]
    folder, names = paths[0], _names(paths[0])
    if not names and len(captures := captures_in(folder)) == 2 and a is None and b is None:
        return captures[0], captures[1]
    if not names:
        raise UsageError(f"{folder}: is only one side; name the other too, or a folder that `compare` wrote")
    if (a is None) != (b is None):
        raise UsageError(f"--{'a' if a is None else 'b'} is missing; sides in {folder}: {', '.join(names)}")
    if a is None or b is None:
        if len(names) != 2:
            raise UsageError(f"{folder} holds {len(names)} sides; choose two with --a and --b: {', '.join(names)}")
        a, b = names
    for option, name in (("--a", a), ("--b", b)):
        if name not in names:
            raise UsageError(f"{option} {name}: no such side in {folder}; it has {', '.join(names)}")
    return folder / a, folder / b


def _names(folder: Path) -> list[str]:
    """Return the sides in a folder in the order of its comparison, else by name; an empty list if it holds none.

    Raises OSError if the path does not exist.
    """

    folder.stat()
    kind = kind_of(folder)
    if not folder.is_dir() or kind in (Kind.RUN, Kind.IMPORT):
        return []
    if kind is Kind.SIDES:  # the side that was recorded first is A
        return [side.name for side in sorted(folder.iterdir(), key=_recorded) if kind_of(side) is Kind.RUNS]
    found = sorted(path.name for path in folder.iterdir() if kind_of(path) in (Kind.RUN, Kind.IMPORT))
    recorded = read_object(folder / COMPARISON).get("frameworks", []) if kind is Kind.COMPARISON else []
    return sorted(found, key=lambda name: recorded.index(name) if name in recorded else len(recorded))


def _recorded(side: Path) -> str:
    """Return when the first recording of a side began; an empty text if it has none."""
    return min((str(read_object(file)["created"]) for file in side.glob(f"*/{RUN}")), default="")


def _target(text: str, sources: Sequence[Path]) -> Path:
    """Return the report's path; raise InputError if it would replace anything but a report of ours."""
    target = Path(text)
    refuse_source(target, sources)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / 'explain.html'}")
    if target.exists() and not _is_report(target):
        raise InputError(f"{target}: exists and is not a kernelscope report; name another file")
    return target


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return _OURS in file.read(2000)
