"""From a file of any format to a Trace: device work is related to its launches, kernels get their kinds, all is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from kernelscope.analysis import secrets
from kernelscope.analysis.attribution import device_steps, launches
from kernelscope.analysis.attribution.steps import markers
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.packed import plain_file
from kernelscope.analysis.formats.format import Format, detect, format_named
from kernelscope.analysis.kernels import names, work
from kernelscope.analysis.recordings import named_twice
from kernelscope.analysis.trace import Trace, clocks, duplicates, hiding
from kernelscope.analysis.trace.merge import merged

# Diagnostics that tell no loss. All others tell what a file says and the Trace lacks: a new one is said until it is listed here.
_NO_LOSS = re.compile(
    # odd, and read
    r"^(?:launches without a kernel|calls with several kernels|API calls that repeat|ranges that outlast)"
    r"|^kernels launched outside|without their API call$|before their launch$|^ranges not in stack order$"
    r"|^device rows on no stream$|of unknown (?:process|size|name)$|taken for kernels$|stand on thread 0$"
    r"|not demangled$|cut short(?: by the tool)?$"
    r"|beyond the sum below the table|overhead\b.*, ns$|, mended$|^dump not closed$|^times of a clock that nothing ties"
    r"|^nsys: |^errors and warnings of the profiler$"
    r"|^packets that were lost before others$"  # Perfetto says it of the first packet of each sequence, too
    # elsewhere again, or derived from what is read
    r"|written twice$|^duplicates on|again as tasks$|in two tables$|^tasks of collectives|^annotations projected on"
    r"|of operators that called others$|are no transfers$|^steps (?:at the end|of|cut|inside)|^minibatches of other threads$"
    # of a time outside of the capture
    r"|^open ranges$|^calls without an end$|^(?:ends of ranges|range ends) without(?: a)? start$|taken before the capture"
    # of no use to any analysis
    r"|\bnot read$|^values not available$|^values that are no numbers$|are no kernels or copies$"
)


def read(path: Path, form: str | None = None, keep_secrets: bool = False) -> Trace:
    """Return the Trace of one capture, its tables related and checked; `form` is a format's name, found out if not given.

    Raises EvidenceError when it cannot be read.
    """
    with reading(path, form, keep_secrets) as trace:
        return trace


@contextmanager
def reading(path: Path, form: str | None = None, keep_secrets: bool = False) -> Iterator[Trace]:
    """Give the Trace that `read` returns while the capture is still searched for secrets.

    Its info says what was found, as warnings and notes, at the end only. What looks like one is overwritten in the Trace, unless
    keep_secrets.
    """
    with (
        plain_file(path) as plain,
        ThreadPoolExecutor(max_workers=1) as beside,  # the search for secrets takes a second core where there is one
    ):
        chosen = format_named(form) if form else detect(plain)
        searching = beside.submit(secrets.remarks, plain, shown=path)
        with _explained(path, chosen), _named_wrongly(path, plain, form):
            trace = chosen.read(plain)
            before = len(trace.info.get("warnings", []))
            finish(trace)
            if more := trace.info.get("warnings", [])[before:]:
                trace.info["warnings"][before:] = [f"{path.name}: {line}" for line in more]
            if not keep_secrets:
                hiding.hide(trace)
            _explain_absence(trace)
            for line in _lost(trace):
                trace.info.setdefault("warnings", []).append(f"{path.name}: {line}")
        yield trace
        with _explained(path, chosen):
            for kind, line in searching.result():
                trace.info.setdefault(kind, []).append(line)


@contextmanager
def _named_wrongly(path: Path, plain: Path, form: str | None) -> Iterator[None]:
    """Where a capture cannot be read as the format that somebody named, say which one it is, if it is another."""
    try:
        yield
    except (EvidenceError, LookupError, TypeError, ValueError) as error:
        found = _detected(plain) if form else None
        if found not in (None, form):
            raise EvidenceError(f"{path}: is of another format than {form} by its content ({found}); leave out --from") from error
        raise


def _detected(plain: Path) -> str | None:
    """Return the name of a capture's format by its content; None where that is none."""
    try:
        return detect(plain).name
    except EvidenceError:
        return None


@contextmanager
def _explained(path: Path, form: Format) -> Iterator[None]:
    """Turn what goes wrong in reading a capture into an EvidenceError that names it."""
    try:
        yield
    except EvidenceError as error:
        if str(path) in str(error):
            raise
        raise EvidenceError(f"{path}: {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError, pa.ArrowException) as error:
        # a reader met what it was not built for; the user needs the file and whom to tell, not the stack
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no details'}"
        raise EvidenceError(f"{path}: cannot be read as {form.title} ({reason}); please report it") from error


@contextmanager
def reading_all(paths: Sequence[Path], form: str | None = None, keep_secrets: bool = False) -> Iterator[Trace]:
    """Give one Trace of several captures of the same run (see formats.merge); of a single one as `reading` does."""
    if len(paths) == 1:
        with reading(paths[0], form, keep_secrets) as trace:
            yield trace
        return
    named_twice.refuse(paths)
    yield merged([read(path, form, keep_secrets) for path in paths], [str(path) for path in paths])


def lost(trace: Trace) -> dict[str, int]:
    """Return what of a capture could not be used: its diagnostics, without those that tell no loss."""
    named = {name.replace("_", " "): count for name, count in sorted(trace.diagnostics.items()) if count}
    return {name: count for name, count in named.items() if not _NO_LOSS.search(name)}


def twice(trace: Trace) -> dict[str, int]:
    """Return what a capture holds twice, and the Trace once: the more of each, by what they are."""
    return {name: count for name, count in trace.diagnostics.items() if count and name.endswith("written twice")}


def _lost(trace: Trace) -> list[str]:
    """Return a sentence on what of a capture could not be used, and one on what it holds twice, where there is any."""
    said = (("not all of it could be used", lost(trace)), ("what stands there twice counts once", twice(trace)))
    return [f"{what}: {_counted(counts)}" for what, counts in said if counts]


def _counted(counts: Mapping[str, int]) -> str:
    times = ", ns"  # ends the names of diagnostics that are times
    return "; ".join(
        f"{name.removesuffix(times)} ({count:,}{' ns' if name.endswith(times) else ''})" for name, count in counts.items()
    )


def _explain_absence(trace: Trace) -> None:
    """Where kernels were lost and none is left, say that instead of a reader's reason, as that nothing ran."""
    reasons = trace.info.get("unavailable") or {}
    if "kernels" in reasons and not len(trace.kernels) and any("kernel" in name.lower() for name in lost(trace)):
        reasons["kernels"] = "none of its kernels could be read"


def finish(trace: Trace) -> None:
    """Relate the tables of a Trace that a format's module read, name the kernels' kinds, and check it, in place."""
    duplicates.drop(trace)
    clocks.set_aside_impossible(trace)
    launches.relate(trace)
    clocks.compare_with_host(trace)
    _count_incomplete(trace)
    names.fill(trace.kernels)
    work.name_problems(trace)
    device_steps.relate(trace)
    markers.set_aside_first(trace)
    trace.check()


def _count_incomplete(trace: Trace) -> None:
    """Count kernels without a name, and those of CUDA without a stream or correlation where others have one."""
    kernels = trace.kernels
    if nameless := int((kernels["name"].isna() | kernels["name"].isin([""])).sum()):
        trace.diagnostics["kernels without a name"] = nameless
    on_cuda = kernels["device"].astype("string").str.startswith("cuda").fillna(False)
    for column, what in (("thread", "stream"), ("correlation", "correlation")):
        missing = kernels.loc[on_cuda.to_numpy(bool), column].isna()
        if missing.any() and not missing.all():
            trace.diagnostics[f"kernels without a usable {what}"] = int(missing.sum())
