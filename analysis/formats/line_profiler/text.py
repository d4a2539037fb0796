"""line_profiler's reports as text, of every version: the lines that ran, with their hits and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from os.path import commonpath
from pathlib import Path, PurePosixPath
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.formats.line_profiler import tables as line_profiler
from kernelscope.analysis.formats.line_profiler.tables import Function
from kernelscope.analysis.trace import Trace, conform

_INT64 = 2**63 - 1
_TWICE = "functions that call each other count twice: the whole is the largest total, that of {}"
_NOT_PRINTED = "(lines not printed)"
_LIBRARIES = ("/site-packages/", "/dist-packages/")


def matches(head: Head) -> bool:
    """Return whether the text has line_profiler's line with the timer's unit or one of its tables."""
    return head.is_text and line_profiler.is_report(head.tables_text)


def read(path: Path) -> Trace:
    """Return the Trace of a report; raise EvidenceError if it has no table."""
    functions = line_profiler.parse_text(Head(path, read_content(path)).tables_text, str(path))
    if unread := [function for function in functions if function.unreadable]:
        _refuse_unread(path, functions, unread)
    trace = trace_of(functions, "line-profiler", path)
    units = sorted({function.unit_s for function in functions})
    trace.info["notes"].append(f"times are as printed: to a tenth of the timer's unit ({', '.join(units)} s), or three digits")
    printed = [function for function in functions if function.total_ns is not None and _differs(function)]
    trace.diagnostics |= {
        name: count
        for name, count in (
            ("unreadable_lines", sum(function.unreadable for function in functions)),
            ("functions whose lines do not add up to their total", len(printed)),
        )
        if count
    }
    return trace


def _refuse_unread(path: Path, functions: Sequence[Function], unread: Sequence[Function]) -> None:
    """Raise EvidenceError if lines ran but none of them can be read."""
    if not any(function.lines for function in functions):
        count = sum(function.unreadable for function in unread)
        raise EvidenceError(
            f"{path}, line {unread[0].unreadable_at}: hits and time cannot be read, as in all {count:,} lines that ran; "
            "write the report again with python -m line_profiler FILE.lprof"
        )


def _differs(function: Function) -> bool:
    """Return whether lines do not add up to the printed total, rounding aside, as in a table that was cut short."""
    return abs(function.time_ns - (function.total_ns or Fraction(0))) > _rounding(function)


def _rounding(function: Function) -> Fraction:
    """Return by how much the sum of lines may differ from the printed total: a total has six digits, a time one decimal."""
    return (function.total_ns or Fraction(0)) / 100 + len(function.lines) * Fraction(function.unit_s) * 1_000_000_000 / 20


def _not_printed(function: Function) -> int:
    """Return the time of lines that were cut from a table (ns): what the printed total has beyond those that are there."""
    total = function.total_ns or Fraction(0)
    missing = total - function.time_ns
    return round(missing) if missing > _rounding(function) and not function.unreadable else 0


def trace_of(functions: Sequence[Function], form: str, path: Path) -> Trace:
    """Return a Trace with the table `lines`; its info names the function with the largest total, which stands for the whole."""
    ran = [function for function in functions if function.lines]
    labels = _labels(ran)
    files = _relative({function.file for function in ran})
    rows = []
    for function, label in zip(ran, labels, strict=True):
        for line in function.lines:
            time = round(line.time_ns)
            if time > _INT64:
                raise EvidenceError(f"{path}: {label}, line {line.number}: a time of centuries; record it again")
            number = {"line": line.number, "last_line": line.number, "text": line.text, "hits": line.hits, "time_ns": time}
            rows.append({"file": files[function.file], "function": label, **number})
        if (rest := _not_printed(function)) and rest <= _INT64:
            number = {"line": 0, "last_line": 0, "text": _NOT_PRINTED, "hits": 0, "time_ns": rest}
            rows.append({"file": files[function.file], "function": label, **number})
    info: dict[str, Any] = {"source": {"format": form, "tool": "line_profiler", "version": None}, "clock": "none", "notes": []}
    if idle := sum(not function.lines and not function.unreadable for function in functions):
        info["notes"].append(f"{idle} of {len(functions)} profiled functions never ran")
    if any(function.derived for function in functions):
        info["notes"].append("the timer's unit is not printed; it follows from the totals")
    if any(function.counted for function in functions):
        info["notes"].append("lines' numbers are not printed; they are counted from their function's first line")
    if rows:
        info |= _whole(ran, labels)
        info["notes"].append(_TWICE.format(info["lines_root"]))
    info["unavailable"] = {"kernels": "line_profiler sees lines of Python only", "steps": "line_profiler keeps totals only"}
    if not rows:
        info["unavailable"]["lines"] = "no profiled function ran"
    return Trace(lines=conform("lines", rows), info=info)


def _whole(functions: Sequence[Function], labels: Sequence[str]) -> dict[str, Any]:
    """Return the function that stands for the whole. Its name is without the class, as breakdowns by line compare names."""
    totals = [sum(round(line.time_ns) for line in function.lines) + _not_printed(function) for function in functions]
    largest = max(range(len(functions)), key=totals.__getitem__)
    return {"lines_root": labels[largest].rpartition(".")[2], "lines_steps": 1, "lines_step_ns": totals[largest]}


def _labels(functions: Sequence[Function]) -> list[str]:
    """Return a name for each function whose last part is unique: many classes have a `forward`."""
    labels = [function.name.rstrip(".") or "(unnamed)" for function in functions]
    stems = [PurePosixPath(function.file.replace("\\", "/")).stem.replace(".", "_") for function in functions]
    suffixes = (
        [f" at line {function.first}" for function in functions],
        [f" of {stem}" for stem in stems],
        [f" ({number})" for number in range(1, len(functions) + 1)],
    )
    for suffix in suffixes:
        shared = Counter(label.rpartition(".")[2] for label in labels)
        labels = [
            f"{label}{more if shared[label.rpartition('.')[2]] > 1 else ''}" for label, more in zip(labels, suffix, strict=True)
        ]
    return labels


def _relative(files: Iterable[str]) -> dict[str, str]:
    """Return files' paths without their common folder, and those of installed packages from the package on."""
    plain = {file: file.replace("\\", "/") for file in files}
    for folder in _LIBRARIES:
        plain = {file: path.rpartition(folder)[2] for file, path in plain.items()}
    own = {path for path in plain.values() if path.startswith("/") or path[1:3] == ":/"}
    try:
        common = commonpath([path.rpartition("/")[0] or "/" for path in own]) if own else ""
    except ValueError:  # on different drives
        common = ""
    return {file: path.removeprefix(common).lstrip("/") if path in own else path for file, path in plain.items()}
