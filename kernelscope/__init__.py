"""Explain why a framework, a version or a change is slower: layer by layer, kernel by kernel, in numbers that add up exactly.

import kernelscope as ks
recording = ks.open("out/lenet/pytorch")
recording.breakdown("layer").table
ks.explain("before", "after")["findings"]

Functions take a path or what `open` returned for it. They import what they need when called, because every command and every
profiled program begins with this module. For the same reason it is written for Python 3.6, as in the frameworks' interpreters.
"""

from pathlib import Path
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

__path__ = extend_path(__path__, __name__)  # if the interpreter starts in our folder, its own copy of our parts is elsewhere

try:
    from kernelscope.tracer.version import VERSION as __version__
except ImportError:  # that copy has only what is needed there
    __version__ = "unknown"

if TYPE_CHECKING:
    from kernelscope.analysis.accounting.breakdowns import Breakdown
    from kernelscope.analysis.comparisons.gate import Verdict
    from kernelscope.analysis.comparisons.recording import Recording
    from kernelscope.analysis.device.roofline import Roofline
    from kernelscope.analysis.energy.summary import Summary
    from kernelscope.analysis.trace import Trace

__all__ = ["__version__", "advise", "breakdown", "compare", "energy", "explain", "gate", "open", "ranks", "read", "roofline"]


def open(path: "str | Path") -> "Recording":
    """Return the recording at a path: a run, comparison, sweep, import or capture of any format, or one of these packed.

    Raises kernelscope.analysis.EvidenceError if there is none.
    """
    from kernelscope.analysis.comparisons.recording import open_recording

    return open_recording(path)


def read(path: "str | Path", form: "str | None" = None) -> "Trace":
    """Return the Trace at a path. form: a format's name (see `kernelscope import --list`); default: recognised by content."""
    from kernelscope.analysis.recordings import reading

    return reading.read(path, form)


def breakdown(source: "str | Path | Recording | Trace", by: str = "layer") -> "Breakdown":
    """Return where a step's time goes: by layer, kernel, kind, phase, step, operator, range, idle or line."""
    from kernelscope.analysis.accounting import breakdowns
    from kernelscope.analysis.trace import Trace

    return breakdowns.breakdown(source, by) if isinstance(source, Trace) else _recording(source).breakdown(by)


def advise(source: "str | Path | Recording") -> "dict[str, Any]":
    """Return advice on one recording, what saves most of a step first (docs/advise.md describes it)."""
    from kernelscope.analysis.advise import advise as on

    return on(_recording(source).path)


def compare(*sources: "str | Path | Recording") -> "dict[str, Any]":
    """Return runs of the same work side by side, as compare.json has it; for a comparison's folder, its runs."""
    from kernelscope.analysis.comparisons.comparison import compare as side_by_side

    return side_by_side([one.run for source in sources for one in _recording(source).runs])


def explain(a: "str | Path | Recording", b: "str | Path | Recording", force: bool = False) -> "dict[str, Any]":
    """Return why B takes more or less time than A: rows that add up to the difference, and causes (see docs/explain-json.md).

    force: explain even if the work differs.
    """
    from kernelscope.analysis.explain import pair

    return pair.read(_recording(a).path, _recording(b).path).explain(force=force)


def gate(base: "str | Path | Recording", new: "str | Path | Recording", max_regression: float = 0.03) -> "Verdict":
    """Return whether NEW is slower than BASE by more than a share of BASE's step, and whether the recordings can decide it."""
    from kernelscope.analysis.comparisons.gate import judge

    return judge(explain(base, new), max_regression)


def ranks(*sources: "str | Path") -> "dict[str, Any]":
    """Return where a job of several ranks loses its time: each rank's step in parts, who makes the others wait, and by what.

    sources: a capture of each rank, or folders of them. docs/ranks.md describes the result. Raises
    kernelscope.analysis.EvidenceError if fewer than two ranks can be read.
    """
    from kernelscope.analysis.ranks.files import of_paths
    from kernelscope.analysis.ranks.job import job

    return job(of_paths([Path(source) for source in sources]))


def roofline(source: "str | Path | Recording", by: str = "kernel") -> "Roofline":
    """Return attained rates of kernels, layers or kinds, against the run's measured ceilings if it has any."""
    from kernelscope.analysis.device import ceilings
    from kernelscope.analysis.device.roofline import roofline as rates

    recording = _recording(source)
    record = recording.facts.get("ceilings")
    return rates(recording.trace, by, ceilings.of_record(record, str(recording.path)) if record else None)


def energy(source: "str | Path | Recording") -> "list[Summary]":
    """Return the joules per step of each device whose energy the run's energy pass recorded."""
    from kernelscope.analysis import energy as of_runs

    return of_runs.steps(_recording(source).run)


def _recording(source: "str | Path | Recording") -> "Recording":
    return open(source) if isinstance(source, (str, Path)) else source


def __dir__() -> "list[str]":
    return sorted(__all__)
