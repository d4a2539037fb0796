"""Record an unchanged script and advise on it: kernelscope profile train.py ..."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelscope.reports.text import printable
from kernelscope.tracer.inside.launching import options
from kernelscope.tracer.inside.launching.command import label
from kernelscope.tracer.inside.launching.outcome import Outcome
from kernelscope.tracer.inside.plan import WHOLE
from kernelscope.tracer.inside.profiling import owner, ranks
from kernelscope.tracer.outside import profile
from kernelscope.tracer.outside.errors import KernelscopeError, UsageError
from kernelscope.tracer.outside.run_folder import dated, replaced

_OURS = ("-o", "--output", "--force", "--repeats", "--once", "--quiet")
EXAMPLES = """examples:
  kernelscope profile train.py --epochs 1             a script, run by the python of this environment
  kernelscope profile -m package.train --epochs 1     a module
  kernelscope profile -- torchrun train.py            any command
  kernelscope profile --ranks all -- torchrun --nproc_per_node 4 train.py     all ranks of a job, and who waits for whom
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("-o", "--output", metavar="DIR", help="folder for the results (default: profiles/<name>-<date and time>)")
    add("--force", action="store_true", help="replace earlier results in the output folder")
    add("--repeats", type=_positive, default=1, metavar="N", help="record the command N times, each into its own folder")
    add("--once", action="store_true", help="do not run the command again if it has too few steps for all passes")
    add("--quiet", action="store_true", help="only record: no advice and no report.html")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="a module with its arguments, as for python -m")
    options.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Record the command and print the advice; return its exit status, or 4 if that is 0 but nothing was recorded."""
    command = profile.runnable(options.command(arguments), arguments.module)
    if not command:
        raise UsageError("no command; name a script, as in kernelscope profile train.py, or a command after --")
    if arguments.mode == WHOLE and arguments.once:
        raise UsageError("--mode whole runs the command once for each pass; leave --once out")
    if arguments.mode == WHOLE and arguments.steps:
        raise UsageError("--mode whole records the program as one step; leave --steps out")
    _say_of_options(arguments)
    name = str(arguments.label or label(command))
    folder = Path(arguments.output) if arguments.output else dated(profile.FOLDER, name)
    rank = ranks.launched()[0] if arguments.ranks else None
    if rank is not None:
        return _one_rank(command, arguments, folder, rank)
    with replaced(folder, arguments.force) as replacement:
        outcomes = []
        for number in range(1, arguments.repeats + 1):
            mine = folder / str(number) if arguments.repeats > 1 else folder
            mine.mkdir(exist_ok=True)
            outcomes.append(_recorded(command, arguments, mine))
        replacement.recorded = any(outcome.seen is not None for outcome in outcomes)
    return next((outcome.exit_status for outcome in outcomes if outcome.exit_status), 0)


def _recorded(command: list[str], arguments: argparse.Namespace, folder: Path) -> Outcome:
    """Record the command once into an existing folder and print the advice; return the outcome."""
    outcome = profile.profile(command, options.asked(arguments), folder, arguments.label, sys.argv, arguments.once)
    _overwrite_secrets(folder)
    for line in outcome.lines():
        print(printable(line, None), file=sys.stderr)
    nothing = outcome.seen is None and not outcome.ranks and folder.is_dir() and not (folder / owner.FILE).exists()
    if nothing and not arguments.output:
        _nothing(folder, command)
    if outcome.ranks and not arguments.quiet:
        _say_of_job([Path(rank) for rank in outcome.ranks], folder)
    elif outcome.seen is not None and not arguments.quiet:
        try:
            _say(folder)
        except (KernelscopeError, OSError) as error:  # the exit status stays the command's
            print(f"kernelscope: no report: {printable(error, None)}; recording: {folder}", file=sys.stderr)
    return outcome


def _overwrite_secrets(folder: Path) -> None:
    # Not at the top: these modules would take memory beside the recorded program
    from kernelscope.cli import sharing

    sharing.overwrite_secrets(folder)


def _say_of_options(arguments: argparse.Namespace) -> None:
    """Warn on stderr of our options after a script that does not know them: there they belong to the script."""
    script, *own = options.command(arguments) or [""]
    if not script.endswith(".py") or not Path(script).is_file():
        return
    text = Path(script).read_text(encoding="utf8", errors="replace")
    swallowed = [one for one in own if one in _OURS and one not in text]
    if swallowed:
        print(
            f"kernelscope: {', '.join(swallowed)} after {script} belongs to the script; put options of profile before it",
            file=sys.stderr,
        )


def _nothing(folder: Path, command: Sequence[str]) -> None:
    """Remove the folder of a recording to which no process wrote, and say which interpreter ran."""
    shutil.rmtree(folder)
    with contextlib.suppress(OSError):  # it may hold other recordings
        folder.parent.rmdir()
    if Path(command[0]).name.startswith("python"):
        rest = " ".join(command[1:])
        print(
            f"it ran with {command[0]}; to use another interpreter: kernelscope profile -- /path/to/python {rest}",
            file=sys.stderr,
        )


def _one_rank(command: list[str], arguments: argparse.Namespace, job: Path, rank: int) -> int:
    """Record one rank, whose launcher started us, into the job's folder; if it is not wanted, just run it."""
    if not arguments.output:
        raise UsageError("name the job's folder with -o: each rank writes into it")
    if not ranks.wanted(rank, arguments.ranks):
        return subprocess.run(command, check=False).returncode
    options_ = options.asked(arguments)
    options_.ranks, options_.alone = str(rank), True
    folder = job / (ranks.FOLDER % rank)
    with replaced(folder, arguments.force) as replacement:
        outcome = profile.profile(command, options_, folder, arguments.label, sys.argv, once=True)
        _overwrite_secrets(folder)
        replacement.recorded = outcome.seen is not None
    for line in outcome.lines():
        print(f"rank {rank}: {line}", file=sys.stderr)
    print(f"rank {rank}: recording: {folder}; for all ranks: `kernelscope ranks {job}`", file=sys.stderr)
    return outcome.exit_status


def _say(folder: Path) -> None:
    """Print a run's advice and folder on stderr; write its report."""
    # Not at the top: these modules would take memory beside the recorded program
    from kernelscope.analysis import advise
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.cli import output, report
    from kernelscope.reports import ending

    console = output.console(stderr=True)
    console.print()
    try:
        run_ = Run(folder)
        subject = advise.of_run(run_, str(folder))
        advised = advise.of_subject(subject)
        layers, kernels = (advise.largest(subject, column, ending.MOST) for column in ("layer", "name"))
        console.print(ending.shown(advised, layers, kernels))
        console.print()
        if subject.untraced:  # as was said above
            print(f"recording: {folder}; without kernels there is no report", file=sys.stderr)
            return
        report.write(run_, folder / "report.html", advised)
    except EvidenceError as error:
        said = str(error).removeprefix(f"{folder}: ")
        print(f"{said[:1].upper()}{said[1:]}\nrecording: {folder}", file=sys.stderr)
        return
    print(f"recording: {folder}; see also `kernelscope breakdown {folder} --by kernel`", file=sys.stderr)


def _say_of_job(folders: list[Path], folder: Path) -> None:
    """Print on stderr what a job's ranks do, and write its page; the commands for runs show each single rank."""
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.analysis.ranks.job import job
    from kernelscope.cli import output, sharing
    from kernelscope.reports import ranks as report
    from kernelscope.reports import ranks_page

    console = output.console(stderr=True)
    console.print()
    try:
        result = sharing.shareable(job(folders, timeline=True), full_paths=False)
        console.print(report.shown(result))
        ranks_page.write(result, folder / "ranks.html")
        print(f"page: {folder / 'ranks.html'}", file=sys.stderr)
    except EvidenceError as error:
        print(f"kernelscope: {error}", file=sys.stderr)
    print(f"recordings: {folder}/rank*; see also `kernelscope ranks {folder}` and `report {folders[0]}`", file=sys.stderr)


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
