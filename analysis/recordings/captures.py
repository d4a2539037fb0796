"""Read a file of any format into a Trace: device work is related to its launches, kernels get their kinds, all is checked."""

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
from kernelscope.analysis.formats.format import Format, chosen, detect
from kernelscope.analysis.kernels import names, work
from kernelscope.analysis.recordings import captures_within, named_twice
from kernelscope.analysis.trace import Trace, clocks, duplicates, hiding
from kernelscope.analysis.trace.merge import merged

# Diagnostics of no loss. All others mean that the Trace lacks something in the file: a new one is reported until it is listed
# here.
_NO_LOSS = re.compile(
    # odd, but read
    r"^(?:launches without a kernel|calls with several kernels|API calls that repeat|ranges that outlast)"
    r"|^kernels launched outside|without their API call$|before their launch$|^ranges not in stack order$"
    r"|^device rows on no stream$|of unknown (?:process|size|name)$|taken for kernels$|stand on thread 0$"
    r"|not demangled$|cut short(?: by the tool)?$"
    r"|beyond the sum below the table|overhead\b.*, ns$|^collectives without a transfer"
    r"|, mended$|^dump not closed$|^times of a clock that nothing ties"
    r"|^nsys: |^errors and warnings of the profiler$"
    r"|^packets that were lost before others$"  # Perfetto also sets it on the first packet of each sequence
    # also present elsewhere, or derived from what is read
    r"|written twice$|^duplicates on|again as tasks$|in two tables$|^tasks of collectives|^annotations projected on"
    r"|of operators that called others$|are no transfers$|^steps (?:at the end|of|cut|inside)|^minibatches of other threads$"
    # outside the time of the capture
    r"|^open ranges$|^calls without an end$|^(?:ends of ranges|range ends) without(?: a)? start$|taken before the capture"
    # unused by any analysis
    r"|\bnot read$|^values not available$|^values that are no numbers$|are no kernels or copies$"
)


def read(path: Path, form: str | None = None, keep_secrets: bool = False) -> Trace:
    """Return the Trace of one capture, its tables related and checked. form: a format's name; recognised from the file if None.

    Raises EvidenceError if it cannot be read.
    """
    with reading(path, form, keep_secrets) as trace:
        return trace


@contextmanager
def reading(path: Path, form: str | None = None, keep_secrets: bool = False) -> Iterator[Trace]:
    """Yield the Trace that `read` returns, while the capture is still searched for secrets.

    The search adds its warnings and notes to the Trace's info only at the end. What looks like a secret is overwritten in the
    Trace, unless keep_secrets. Of a folder that is no capture itself, the only capture in it is read.
    """
    only = captures_within.within(path, form)
    folder, path = path, only or path
    with (
        plain_file(path) as plain,
        ThreadPoolExecutor(max_workers=1) as beside,  # the search for secrets can use a second core
    ):
        read_as = chosen(plain, form)
        searching = beside.submit(secrets.remarks, plain, shown=path)
        with _explained(path, read_as), _named_wrongly(path, plain, read_as.name if form else None):
            trace = read_as.read(plain)
            before = len(trace.info.get("warnings", []))
            finish(trace)
            if more := trace.info.get("warnings", [])[before:]:
                trace.info["warnings"][before:] = [f"{path.name}: {line}" for line in more]
            if not keep_secrets:
                hiding.hide(trace)
            _explain_absence(trace)
            for line in _lost(trace):
                trace.info.setdefault("warnings", []).append(f"{path.name}: {line}")
        if only is not None:
            trace.info["chosen"] = f"{folder.name or folder}: a folder; the only capture in it is read, {path.name}"
        yield trace
        with _explained(path, read_as):
            for kind, line in searching.result():
                trace.info.setdefault(kind, []).append(line)


@contextmanager
def _named_wrongly(path: Path, plain: Path, form: str | None) -> Iterator[None]:
    """If a capture cannot be read as the format that the user named, say which format it really has."""
    try:
        yield
    except (EvidenceError, LookupError, TypeError, ValueError) as error:
        found = _detected(plain) if form else None
        if found not in (None, form):
            what = f"its content is of format {found}, not {form}"
            raise EvidenceError(f"{path}: {what}; leave out --from") from error
        raise


def _detected(plain: Path) -> str | None:
    """Return the format's name for a capture, by its content; None if it has none."""
    try:
        return detect(plain).name
    except EvidenceError:
        return None


@contextmanager
def _explained(path: Path, form: Format) -> Iterator[None]:
    """Turn any failure to read a capture into an EvidenceError that names the capture."""
    try:
        yield
    except EvidenceError as error:
        if str(path) in str(error):
            raise
        raise EvidenceError(f"{path}: {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError, pa.ArrowException) as error:
        # an unexpected case in a reader: the user needs the file's name and the request to report it, not a stack trace
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no details'}"
        raise EvidenceError(f"{path}: cannot be read as {form.title} ({reason}); please report it") from error


@contextmanager
def reading_all(paths: Sequence[Path], form: str | None = None, keep_secrets: bool = False) -> Iterator[Trace]:
    """Yield one Trace of several captures of the same run (see trace.merge); of a single one as `reading` does."""
    if len(paths) == 1:
        with reading(paths[0], form, keep_secrets) as trace:
            yield trace
        return
    named_twice.refuse(paths)
    yield merged([read(path, form, keep_secrets) for path in paths], [str(path) for path in paths])


def lost(trace: Trace) -> dict[str, int]:
    """Return counts of what could not be used of a capture: its diagnostics, except those that mean no loss."""
    named = {name.replace("_", " "): count for name, count in sorted(trace.diagnostics.items()) if count}
    return {name: count for name, count in named.items() if not _NO_LOSS.search(name)}


def twice(trace: Trace) -> dict[str, int]:
    """Return counts of what a capture holds twice and the Trace once, by what it is."""
    return {name: count for name, count in trace.diagnostics.items() if count and name.endswith("written twice")}


def _lost(trace: Trace) -> list[str]:
    """Return a sentence on what could not be used of a capture, and one on what it holds twice, if any."""
    sentences = (("not all of it could be used", lost(trace)), ("duplicates count once", twice(trace)))
    return [f"{what}: {_counted(counts)}" for what, counts in sentences if counts]


def _counted(counts: Mapping[str, int]) -> str:
    times = ", ns"  # suffix of diagnostics that are times
    return "; ".join(
        f"{name.removesuffix(times)} ({count:,}{' ns' if name.endswith(times) else ''})" for name, count in counts.items()
    )


def _explain_absence(trace: Trace) -> None:
    """If kernels were lost and none is left, say so in place of a reader's reason, such as that nothing ran."""
    reasons = trace.info.get("unavailable") or {}
    if "kernels" in reasons and not len(trace.kernels) and any("kernel" in name.lower() for name in lost(trace)):
        reasons["kernels"] = "none of its kernels could be read"


def finish(trace: Trace) -> None:
    """Relate the tables of a Trace that a format's module read, set the kernels' kinds, and check it, in place."""
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
    """Count kernels without a name, and CUDA's without a stream or correlation id if others have one."""
    kernels = trace.kernels
    if nameless := int((kernels["name"].isna() | kernels["name"].isin([""])).sum()):
        trace.diagnostics["kernels without a name"] = nameless
    on_cuda = kernels["device"].astype("string").str.startswith("cuda").fillna(False)
    for column, what in (("thread", "stream"), ("correlation", "correlation")):
        missing = kernels.loc[on_cuda.to_numpy(bool), column].isna()
        if missing.any() and not missing.all():
            trace.diagnostics[f"kernels without a usable {what}"] = int(missing.sum())
