"""What to record of a command, and the command-line options for it."""

import argparse
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from kernelscope.tracer.inside.plan import WHOLE

PASSES = ("clean", "layers", "kernels", "lines")
MODES = ("auto", "train", "infer", WHOLE)
STEPS = 20  # of the clean pass, by default
SKIPPED = 2  # first steps of a pass that do not count: wrappers and profilers warm up in them
RERUN_WARMUP = 3  # warm-up steps of a script that runs for one pass only
FEW_WARMUP = 5  # and of one that is known to have enough steps for shorter passes
FEWEST = 5  # fewest steps of such shorter passes
LIMIT = 1000000000  # bytes
_EVER = 1e9  # seconds: passes of ranks end together, by their steps
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_FOCUS = "profile the lines of this function, as in train.py:Model.forward; repeatable (default: the function with the step loop)"


class ProfileOptions(object):
    """What to record.

    steps: of the clean pass; every other pass has half as many. more: additional clean steps if their times waver. window:
    steps (A, B) of the script to use instead; every pass but the clean one gets a fifth of them. warmup: minimum number of
    steps before. rerun: whether each pass has a run of the command. seconds: after which a pass ends with what it has. mode:
    one of MODES, what a step is; with WHOLE the program, from the first import of a framework to its end, is the only step, and
    each pass has a run of the command. focus: functions whose lines are profiled, as FILE:FUNCTION; by default those that hold
    the step loop. limit: bytes that may be held. full_paths: keep home folders and user names in the output. sources: keep the
    program's own files. passes: which to record. changes: changes to the program (see tracer.inside.changes). variables: of its
    environment. end: end the program with the last pass. ranks: "all" or "0,7"; by default rank 0. Ranks record the same steps,
    so their passes end by count, not by time. alone: the command is one rank, whose launcher started us. few: the number of
    steps of the command, if an earlier run of it ended before all passes had theirs. Then passes are shorter (see `shorter`),
    or each has a run of its own, with at least one measured step.
    """

    def __init__(
        self,
        steps: int = STEPS,
        window: Optional[Tuple[int, int]] = None,
        warmup: int = 10,
        rerun: bool = False,
        seconds: float = 60.0,
        mode: str = "auto",
        focus: Sequence[Any] = (),
        limit: int = LIMIT,
        full_paths: bool = False,
        sources: bool = True,
        passes: Sequence[str] = PASSES,
        changes: Sequence[str] = (),
        variables: Optional[Mapping[str, str]] = None,
        end: bool = False,
        more: int = STEPS,
        ranks: Optional[str] = None,
        alone: bool = False,
        few: Optional[int] = None,
    ) -> None:
        self.steps = steps
        self.window = window
        self.warmup = warmup
        self.rerun = rerun
        self.seconds = seconds
        self.mode = mode
        self.focus = list(focus)
        self.limit = limit
        self.full_paths = full_paths
        self.sources = sources
        self.passes = passes
        self.changes = list(changes)
        self.variables = dict(variables or {})
        self.end = end
        self.more = more
        self.ranks = ranks
        self.alone = alone
        self.few = few
        if mode == WHOLE:
            self.take_whole()

    def take_whole(self) -> None:
        """Record the whole program as one step, in a run for each pass; without layers, as no model is known when it begins."""
        self.mode, self.rerun = WHOLE, True
        self.passes = [name for name in self.passes if name != "layers"]

    def plans(self) -> List[List[Dict[str, Any]]]:
        """Return the passes of each run of the command: lists of {"pass", "skip", "steps"}."""
        if self.mode == WHOLE:
            return [[{"pass": name, "skip": 0, "steps": 1, "more": 0}] for name in PASSES if name in self.passes]
        half = max(1, self.steps // 2)
        counts = {name: self.steps if name == "clean" else half for name in PASSES}
        if self._share_few:
            counts = self.shorter()
        if self.window is not None and not self.rerun:
            counts = _shared(self.window[1] - self.window[0])
        skipped = 0 if self.window is not None else self._spared(SKIPPED, max(1, self._rerun_warmup()))
        entries = [
            {
                "pass": name,
                "skip": 0 if name == "clean" else min(skipped, counts[name] // 2),
                "steps": counts[name],
                "more": self.more if name == "clean" and self.window is None and not self.ranks and not self._share_few else 0,
            }
            for name in PASSES
            if name in self.passes
        ]
        return [[entry] for entry in entries] if self.rerun else [entries]

    @property
    def _share_few(self) -> bool:
        """Whether all passes share one run of a command that is known to have few steps."""
        return self.few is not None and not self.rerun

    def shorter(self) -> Dict[str, int]:
        """Return the steps of each pass if all share the command's few steps, keeping a tenth spare; {} if there are too few."""
        others = [name for name in PASSES[1:] if name in self.passes]
        left = (self.few or 0) - FEW_WARMUP - SKIPPED * len(others)
        each = min(STEPS // 2, left * 9 // 10 // (2 + len(others)))
        return dict(dict.fromkeys(others, each), clean=2 * each) if each >= FEWEST else {}

    def warming(self) -> Dict[str, Any]:
        """Return when warm-up ends: {"steps", "settle"}."""
        if self._share_few:
            return {"steps": FEW_WARMUP, "settle": False}
        if self.window is not None:
            return {"steps": self.window[0], "settle": False}
        settle = not self.rerun and self.warmup > 0 and not self.ranks
        return {"steps": self._rerun_warmup() if self.rerun else self.warmup, "settle": settle}

    def _rerun_warmup(self) -> int:
        return RERUN_WARMUP if self.few is None else min(RERUN_WARMUP, self.few // 3)  # every pass has a first step of its own

    def _spared(self, steps: int, before: int) -> int:
        """Return how many of these steps need not count, so that one is left after them and those before."""
        return steps if self.few is None else max(0, min(steps, self.few - before - 1))


def _shared(steps: int) -> Dict[str, int]:
    """Distribute a window's steps over the passes."""
    fifth = max(1, steps // 5)
    others = PASSES[1:]
    return dict(dict.fromkeys(others, fifth), clean=max(1, steps - fifth * len(others)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command line, including the command itself (`script`); see `asked` and `command`."""
    add = parser.add_argument
    add("--mode", choices=MODES, default="auto", help="what a step is; whole: the whole program (default: detect it)")
    add(
        "--steps",
        type=_steps,
        metavar="N|A:B",
        help="number of clean steps, or a range of the script's steps from 0 (default: 20, up to 20 more if times vary)",
    )
    add(
        "--warmup",
        type=_count,
        default=10,
        metavar="N",
        help="minimum of warm-up steps; more run until their times settle (default: 10)",
    )
    add("--passes", choices=("once", "rerun"), default="once", help="all passes in one run of the command, or a run for each")
    add(
        "--seconds",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="end a pass after this time with the steps so far (default: 60)",
    )
    add("--focus", action="append", type=_function, default=[], metavar="FILE:FUNCTION", help=_FOCUS)
    add(
        "--max-trace-size",
        type=_size,
        default=LIMIT,
        metavar="SIZE",
        help="drop the oldest records beyond this size (default: 1GB)",
    )
    add("--ranks", type=_ranks, metavar="all|0,7", help="record these ranks, each into its own folder (default: only rank 0)")
    add("--full-paths", action="store_true", help="keep the home folder and the user's name in the output (default: write ~)")
    add("--no-source", action="store_true", help="store neither the program's source files nor their lines")
    add("--label", metavar="NAME", help="name of the run (default: the script's name)")
    add("script", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="the command, as you would run it")


def asked(arguments: argparse.Namespace) -> "ProfileOptions":
    """Return the options of a parsed command line."""
    count, window = arguments.steps or (STEPS, None)
    rerun = arguments.passes == "rerun"
    more = arguments.mode, arguments.focus, arguments.max_trace_size, arguments.full_paths, not arguments.no_source
    extra = STEPS if arguments.steps is None else 0
    seconds = arguments.seconds if arguments.ranks is None else _EVER
    return ProfileOptions(count, window, arguments.warmup, rerun, seconds, *more, more=extra, ranks=arguments.ranks)


def command(arguments: argparse.Namespace) -> List[str]:
    """Return the command of a parsed command line; an empty list if there is none."""
    return arguments.script[1:] if arguments.script[:1] == ["--"] else arguments.script


def _steps(text: str) -> Tuple[int, Optional[Tuple[int, int]]]:
    """Parse --steps: the number of clean steps, and the window if the text is A:B."""
    first, colon, last = text.partition(":")
    if not colon and text.isdigit() and int(text) > 0:
        return int(text), None
    if colon and first.isdigit() and last.isdigit() and int(last) - int(first) >= 4 and int(first) >= 1:
        return int(last) - int(first), (int(first), int(last))
    raise argparse.ArgumentTypeError("%s: write a number of steps, or A:B with A at least 1 and B at least A + 4" % text)


def _size(text: str) -> int:
    """Parse --max-trace-size into bytes."""
    number = text.rstrip("bBkKmMgG")
    unit = _UNITS.get(text[len(number) :].lower())
    if unit is None or not number.strip().isdigit() or int(number) * unit < 10**6:
        raise argparse.ArgumentTypeError("%r: write a size of at least 1MB, such as 500MB or 2GB" % text)
    return int(number) * unit


def _ranks(text: str) -> str:
    """Check the value of --ranks."""
    if text == "all" or (text and all(part.isdigit() for part in text.split(","))):
        return text
    raise argparse.ArgumentTypeError("%r: write all, or numbers of ranks such as 0,7" % text)


def _function(text: str) -> str:
    """Check the value of --focus."""
    file, colon, name = text.rpartition(":")
    if not (colon and file) or not all(part.isidentifier() for part in name.split(".")):
        raise argparse.ArgumentTypeError("%r: write FILE:FUNCTION, such as train.py:train or train.py:Model.forward" % text)
    return text


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError("%r is not a whole number of at least 0" % text)
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("%r is not a number of seconds above 0" % text)
    return seconds
