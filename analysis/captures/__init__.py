"""Captures that other tools recorded: files as people have them become a Trace.

Each format is a module here with two functions: `matches(head)` tells the format from a file's beginning, and `read(path)`
returns a Trace of what the file says, without relating its tables. What is common to all is done here: device work is tied to
the calls, ranges and operators that launched it, kernels get their kind, and the invariants are checked.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernelscope.analysis.captures.head import Head, read_head
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace


@dataclass(frozen=True)
class Format:
    """A format: its name for --format and what it is. Its module has the name with underscores."""

    name: str
    title: str

    @property
    def module(self) -> ModuleType:
        """The module that reads it, imported late: most captures need one."""
        return importlib.import_module(f"kernelscope.analysis.captures.{self.name.replace('-', '_')}")


# In the order of trying: formats that are told by certain signs stand before those told by likely ones.
FORMATS = (
    Format("nsys-sqlite", "Nsight Systems: SQLite export"),
    Format("nsys-folder", "Nsight Systems: parquetdir or arrowdir export"),
    Format("nsys-report", "Nsight Systems: report (.nsys-rep, .qdrep, .qdstrm), through an installed nsys"),
    Format("nvprof-sqlite", "nvprof: SQLite file (.nvprof, .nvvp, .sql)"),
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
        if form.module.matches(head):
            return form
    raise EvidenceError(f"{path}: no capture of a known format{_likely(head)}; name one with --format if it is")


def read_raw(path: Path, form: Format) -> Trace:
    """Return the Trace as the format's module reads it: its tables are not related yet."""
    trace: Trace = form.module.read(path)
    return trace


def _likely(head: Head) -> str:
    """Return what a file seems to be, for the message, or nothing."""
    return ""
