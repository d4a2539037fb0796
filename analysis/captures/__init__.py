"""Captures that other tools recorded: files as people have them become a Trace.

Each format is a module here with two functions: `matches(head)` tells the format from a file's beginning, and `read(path)`
returns a Trace of what the file says, without relating its tables. What is common to all is done here: device work is tied to
the calls, ranges and operators that launched it, kernels get their kind, and the invariants are checked.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pyarrow as pa

from kernelscope.analysis import kernel_lookup, kernel_names, launches
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.captures.head import Head, read_head
from kernelscope.analysis.categories import filled
from kernelscope.analysis.clocks import set_aside_impossible
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.garbage import uncollected
from kernelscope.analysis.helper import Helper
from kernelscope.analysis.ties import Ties
from kernelscope.analysis.trace import Trace


class Format(NamedTuple):
    """A format: its name for --format and what it is. Its module has the name with underscores.

    container: what alone it can be: a folder or one of readers.magic.CONTAINERS; "file" for any other file.
    """

    name: str
    title: str
    container: str = "file"

    @property
    def module(self) -> ModuleType:
        """The module that reads it, imported late: most captures need one."""
        return importlib.import_module(f"kernelscope.analysis.captures.{self.name.replace('-', '_')}")


# In the order of trying: formats that are told by certain signs stand before those told by likely ones.
FORMATS = (
    Format("nsys-sqlite", "Nsight Systems: SQLite export", "database"),
    Format("nsys-folder", "Nsight Systems: parquetdir or arrowdir export", "folder"),
    Format("nsys-report", "Nsight Systems: report (.nsys-rep, .qdrep, .qdstrm), through an installed nsys", "report"),
    Format("nvprof-sqlite", "nvprof: SQLite file (.nvprof, .nvvp, .sql)", "database"),
    Format("cupti", "kernelscope's CUPTI collector: cupti.records", "records"),
    Format("kineto", "PyTorch: chrome trace of torch.profiler or autograd"),
    Format("tensorflow-timeline", "TensorFlow 1: chrome trace of RunMetadata"),
    Format("mxnet", "MXNet: chrome trace of mx.profiler"),
    Format("cntk-profiler", "CNTK: profiler's timeline"),
    Format("xplane", "TensorFlow, JAX: XPlane protobuf"),
    Format("line-profiler-pickle", "line_profiler: .lprof"),
    Format("line-profiler", "line_profiler: text table"),
    Format("nvprof-table", "nvprof: GPU trace, summaries, API tables as CSV or text"),
    Format("nsys-stats", "nsys stats: tables as CSV or text"),
    Format("verbose", "oneDNN, DNNL, MKL-DNN verbose and MKL_VERBOSE, mixed with other output"),
    Format("cntk-log", "CNTK: training log"),
    Format("gpu-samples", "nvidia-smi query CSV, dmon, plain table; DCGM samples"),
)


_READ_AHEAD, _TIED_AHEAD = ("nsys-sqlite", "kineto"), "nsys-sqlite"  # by a helper


def format_named(name: str) -> Format:
    """Return the format of this name; raise EvidenceError listing all of them when there is none."""
    for form in FORMATS:
        if form.name == name:
            return form
    raise EvidenceError(f"unknown format {name!r}; known: {', '.join(form.name for form in FORMATS)}")


def detect(path: Path) -> Format:
    """Return the format of a file or folder, from its content; raise EvidenceError when it is none that can be read."""
    head = read_head(path)
    for form in FORMATS:
        # the modules of others are not imported
        if form.container in ("file", head.container) and form.module.matches(head):
            return form
    likely = _likely(head) or "; see `kernelscope import --list`, and name one with --format if it is one of these"
    raise EvidenceError(f"{path}: no capture of a known format{likely}")


def read_raw(path: Path, form: Format, helper: Helper | None = None) -> Trace:
    """Return the Trace as the format's module reads it: its tables are not related yet."""
    ahead = {"helper": helper} if form.name in _READ_AHEAD else {}
    trace: Trace = form.module.read(path, **ahead)
    return trace


def read(path: Path, form: str | None = None, helper: Helper | None = None) -> Trace:
    """Return the Trace of one capture, its tables related and checked; `form` is a format's name, found out if not given.

    helper: a process that reads ahead in the same capture, if one was started. Raises EvidenceError when it cannot be read.
    """
    with reading(path, form, helper) as trace:
        return trace


@contextmanager
def reading(path: Path, form: str | None = None, helper: Helper | None = None) -> Iterator[Trace]:
    """Give the Trace that `read` returns while the capture is still searched for secrets.

    Its info says what was found, as warnings and notes, at the end only.
    """
    chosen = format_named(form) if form else detect(path)
    with ThreadPoolExecutor(max_workers=1) as beside:  # the search for secrets takes a second core where there is one
        searching = None if helper and helper.searches else beside.submit(_remarks, path)
        with _explained(path, chosen), uncollected():
            trace = read_raw(path, chosen, helper)
            finish(trace, _found_ahead(helper, chosen))
        yield trace
        with _explained(path, chosen):
            remarks = searching.result() if searching else helper.remarks() if helper else None
            for kind, line in _remarks(path) if remarks is None else remarks:
                trace.info.setdefault(kind, []).append(line)


def _found_ahead(helper: Helper | None, form: Format) -> Ties | None:
    """Take over what a helper that reads ahead in such a file knows of kernels' names, and return the ties that it found."""
    if helper is None or form.name != _TIED_AHEAD:
        return None
    kernel_lookup.remember(helper.names())
    return helper.ties()


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
        # a reader met what it was not built for; the user shall know the file and whom to tell, not the stack
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no details'}"
        raise EvidenceError(f"{path}: cannot be read as {form.title} ({reason}); please report it") from error


def _remarks(path: Path) -> list[tuple[str, str]]:
    from kernelscope.analysis import secrets  # late: a helper mostly searches instead

    return secrets.remarks(path)


@contextmanager
def reading_together(paths: Sequence[Path], form: str | None = None, helper: Helper | None = None) -> Iterator[Trace]:
    """Give one Trace of several captures of the same run (see analysis.captures.together); of a single one as `reading` does.

    helper: of the first one.
    """
    if len(paths) == 1:
        with reading(paths[0], form, helper) as trace:
            yield trace
        return
    traces = [read(path, form, None if number else helper) for number, path in enumerate(paths)]
    from kernelscope.analysis.captures.together import together

    yield together(traces, [str(path) for path in paths])


def finish(trace: Trace, ties: Ties | None = None) -> None:
    """Relate the tables of a Trace that a format's module read, name the kernels' kinds, and check it, in place.

    ties: those between these tables, where they were found already.
    """
    set_aside_impossible(trace)
    launches.relate(trace, ties)
    describe_kernels(trace)
    device_steps.relate(trace)
    trace.check()


def describe_kernels(trace: Trace) -> None:
    """Fill what the source does not say of each kernel from its operator and its name."""
    kernels = trace.kernels
    if kernels.empty:
        return
    described = kernel_names.describe_all(kernels["name"], kernels["operator"], kernels["phase"])
    for name in ("kind", "library", "algorithm", "dtype", "transpose"):
        kernels[name] = filled(kernels[name], described[name])
    kernels["tensor_core"] = kernels["tensor_core"].fillna(described["tensor_core"])


# What people are likely to name and what no module reads: a sign in the first bytes, and what the file is
_FOREIGN_SIGNS = (
    (b'"rocprofiler-sdk-tool"', "rocprofiler's JSON; write a chrome trace or rocpd's tables of kernels as CSV instead"),
    (b'"schema": "1.', "PyTorch's execution trace, which has no times; name the Kineto trace of the same run"),
    (b'"/host:CPU"', "the trace viewer's file of TensorFlow or JAX; name the .xplane.pb beside it"),
    (b"ustar", "a tar archive; unpack it and name the files inside"),
    (b"PK\x03\x04", "a zip archive; unpack it and name the files inside"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"),
    (b"\x7fELF", "a program; record it with a profiler first"),
)


def _likely(head: Head) -> str:
    """Return what a file seems to be, for the message, or nothing."""
    if "read_only_kernels" in head.tables or "kernel_iteration_node" in head.tables:
        return ": it is DLProf's database; name the Nsight Systems report that DLProf made it from"
    if head.tables:
        return f": it is a SQLite database with the tables {', '.join(sorted(head.tables)[:4])}, ..."
    found = next((what for sign, what in _FOREIGN_SIGNS if sign in head.content[:4096]), None)
    return f": it seems to be {found}" if found else ""
