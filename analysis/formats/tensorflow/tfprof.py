"""Reports of TensorFlow 1's tfprof (tf.profiler.profile, ProfileContext): total times by type of operator, by node or by line.

    node name | requested bytes | total execution time | accelerator execution time | cpu execution time
    Conv2D         3.2GB (100.00%, 29.36%),   138.63ms (100.00%, 32.18%),   56.67ms (100.00%, 19.63%),   81.96ms (100.00%, 57.65%)

By type, a value's second percentage is its share of the whole. In the other views names are indented below _TFProfRoot, and a
value is `own/with all below`; the root's is the whole. There a row counts what is not in the printed rows below it. The
accelerator's time is the device's work. The CPU's ends when the operator does, waits included, and runs beside the accelerator's:
it counts as work only where no accelerator worked.
Source: TensorFlow's core/profiler, its README.md and g3doc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed, scopes, unlisted
from kernelscope.analysis.trace import EXECUTIONS, Trace, conform

_TITLES = re.compile(r"^\s*node name +\|.{0,300}(?:\b|# )(?:execution time|float_ops|parameters|requested bytes)\b", re.MULTILINE)
_TIMES = {"accelerator execution time": "accelerator", "cpu execution time": "cpu", "execution time": "cpu"}
_OCCURRENCE = ("op occurrence (run|defined)", "op count (run|defined)")
_ROOT = "_TFProfRoot"
# By type: value (cumulative%, share%), ...
_SHARED = r"^(?P<indent>\s*)(?P<name>\S+)\s{2,}(?P<cells>\d[^\s(]*(?: \w+)? \(\d.*|[^\s(|]+\|.*)$"
_NESTED = r"^(?P<indent>\s*)(?P<name>\S.*?) \((?P<cells>.*)\)\s*$"  # other views: own/total, ...
_TIME = r"\d[\d.]*(?:us|ms|sec)"
_SHARE_CELL = rf"^(?P<own>{_TIME}) \([\d.]+%, *(?P<share>[\d.]+%)\)$"
_TREE_CELL = rf"^(?P<own>{_TIME}|--)(?:/(?P<total>{_TIME}))?$"
_BETWEEN = r",\s+(?!\s*[\d.]+%\))"  # values, but not the two percentages of one
_END = re.compile(r"^=+End of Report=+|^tfprof> ")
_RUNS = r"^(?P<runs>\d+)\|\d+"
_NO_TIMES = "no execution times; print it with .select(['micros', 'occurrence']) of a run with trace_level=FULL_TRACE"


def matches(head: Head) -> bool:
    """Return whether the text has the titles of a report of tfprof."""
    return head.is_text and "node name" in head.tables_text and _TITLES.search(head.tables_text) is not None


def read(path: Path) -> Trace:
    """Return the report's operators as totals; raise EvidenceError if it has no times or holds several reports."""
    lines = stream.table_lines(path)
    starts = [number for number, line in enumerate(lines) if _TITLES.match(line)]
    timed = [number for number in starts if "execution time" in lines[number]]
    if not timed:
        raise EvidenceError(f"{path}: tfprof's report has {_NO_TIMES}")
    result = Trace(
        info={
            "source": {"format": "tfprof", "tool": "tfprof", "version": None, "schema": None},
            "clock": "none",
            "framework": "tensorflow",
            "devices": [],
            "unavailable": {"times": "totals only; timeline.Timeline(run_metadata.step_stats) has the timeline"},
        }
    )
    remarks = printed.Remarks(result)
    ends = [*starts[1:], len(lines)]
    for start in timed[1:]:
        remarks.note(f"the report of line {start + 1} is not read: it may show the same work as that of line {timed[0] + 1}")
    end = next(one for one in ends if one > timed[0])
    _Report(path, timed[0], lines[timed[0] : end], remarks).fill(result)
    return result


class _Report:
    """One report: its rows, with a value for each title."""

    def __init__(self, path: Path, line: int, lines: Sequence[str], remarks: printed.Remarks) -> None:
        self.remarks, self.place = remarks, f"the report of line {line + 1}"
        titles = re.split(r"\s+\|\s+", lines[0].strip())[1:]
        last = next((number for number, one in enumerate(lines) if _END.match(one)), len(lines))
        strings = stream.strings_of([one for one in lines[1:last] if one.strip() and not unlisted.is_cut(one)])
        by_type, nested = (stream.extract(strings, pattern) for pattern in (_SHARED, _NESTED))
        self.is_tree = int(nested["name"].notna().sum()) > int(by_type["name"].notna().sum())
        chosen = nested if self.is_tree else by_type
        rows = chosen.dropna().reset_index(drop=True)
        within = chosen["name"].notna().to_numpy(bool)[: 1 + max(np.flatnonzero(chosen["name"].notna()), default=0)]
        remarks.count("lines of tables that are no rows", int((~within).sum()))
        cells = rows["cells"].str.split(_BETWEEN, regex=True, expand=True)
        self.names = rows["name"].str.strip()
        self.parents = _parents(rows["indent"].str.len().tolist(), self.names.tolist()) if self.is_tree else []
        self.cells = {title: cells[place].str.strip() for place, title in enumerate(titles) if place in cells}
        self.times = {_TIMES[title]: self._times(title) for title in self.cells if title in _TIMES}
        if not any(int(part["work"].notna().sum()) for part in self.times.values()):
            raise EvidenceError(
                f"{path}, line {line + 1}: none of the {len(lines) - 1:,} lines below the titles has a time; print it again"
            )

    def _times(self, title: str) -> pd.DataFrame:
        """Return own times and totals in ns, own times as text, and shares as text; null where there is none."""
        found = stream.extract(stream.strings_of(self.cells[title].fillna("")), _TREE_CELL if self.is_tree else _SHARE_CELL)
        texts: pd.DataFrame = found.reindex(columns=["own", "total", "share"]).astype("str")
        own, total = text_tables.nanoseconds(texts["own"]), text_tables.nanoseconds(texts["total"])
        work = _without_children(total, self.parents) if self.is_tree else own
        return texts.assign(work=work, total=total, text=texts["total" if self.is_tree else "own"])

    def fill(self, result: Trace) -> None:
        """Add kernels and the host's totals to the Trace."""
        result.info["counted"] = "nodes" if self.is_tree else "types"
        on_device = "accelerator" in self.times and bool((self.times["accelerator"]["work"] > 0).any())
        root = self.names == _ROOT
        work = self.times["accelerator" if on_device or "cpu" not in self.times else "cpu"]
        device = "cuda:0" if on_device else "cpu"
        counts = self._counts()
        mine = ~root & (work["work"] > 0).fillna(False)
        types = self._types()
        described = scopes.columns(self.names, types)
        kinds = scopes.kinds(types, described["phase"])
        kernels = pd.DataFrame(
            {
                "name": self.names, "operator": types, "duration_ns": work["work"], "count": counts.clip(lower=1),
                "device": device, **described, "kind": kinds.mask(types.str.match(scopes.STEERING)),
            }
        )[mine]  # fmt: skip
        result.kernels = conform("kernels", pd.concat([kernels, self._rest(work, root, mine, device)], ignore_index=True))
        if on_device and "cpu" in self.times:
            host = pd.DataFrame({"table": "operators", "name": types, "count": counts, "duration_ns": self.times["cpu"]["work"]})
            result.totals = conform("totals", host[~root & (host["duration_ns"] > 0).fillna(False)])
            self.remarks.note("the host's time of an operator includes its waits, and runs beside the device's")
        if on_device:
            result.info["devices"] = [{"device": device}]
            result.info["host_ns"] = self._host_ns(root)
            self.remarks.note("tfprof does not say which accelerators worked: all of their work is that of one device here")

    def _host_ns(self, root: pd.Series) -> int:
        """Return the time of all operators on the host, printed or not, as far as it is known."""
        if "cpu" not in self.times:
            return 0
        host, printed_rows = self.times["cpu"], ~root & self.times["cpu"]["work"].notna()
        if self.is_tree:
            whole = host["total"][root].dropna()
            return int(whole.iloc[0]) if len(whole) else int(host["work"][printed_rows].sum())
        mine = host[printed_rows]
        rest = unlisted.of(mine["work"], mine["share"], text_tables.resolution(mine["text"])).kernels
        return int(mine["work"].sum()) + (int(rest["duration_ns"].sum()) if len(rest) else 0)

    def _types(self) -> pd.Series:
        """Return each row's type; what the graph's optimizer added is listed by name, by type, too."""
        added = self.names.str.contains("Transpose", regex=False) & self.names.str.endswith("-LayoutOptimizer")
        return self.names.str.rpartition("/")[2].str.replace(r"_\d+$", "", regex=True).mask(added, "Transpose")

    def _counts(self) -> pd.Series:
        """Return how often each row's operators ran; 1, with a note, where it was not printed."""
        column = next((self.cells[title] for title in _OCCURRENCE if title in self.cells), None)
        if column is None:
            self.remarks.note(f"{self.place} does not print how often operators ran: a row counts as one execution")
            self.remarks.result.info["unavailable"][EXECUTIONS] = "the report does not print the operators' occurrence"
            return pd.Series(1, index=self.names.index, dtype="Int64")
        runs = stream.extract(stream.strings_of(column.fillna("")), _RUNS)["runs"]
        return text_tables.counts(runs).fillna(1)

    def _rest(self, work: pd.DataFrame, root: pd.Series, mine: pd.Series, device: str) -> pd.DataFrame:
        """Return one kernel for what the whole has beyond the rows, or none."""
        if not self.is_tree:
            rest = unlisted.of(work["work"][mine], work["share"][mine], text_tables.resolution(work["text"][mine]))
            if rest.note:
                self.remarks.note(f"{self.place}: {rest.note}")
            return rest.kernels.assign(device=device)
        whole = work["total"][root]
        if whole.isna().all():
            return pd.DataFrame()
        lacking = int(whole.dropna().iloc[0]) - int(work["work"][mine].sum())
        error = text_tables.resolution(work["text"][mine]) * (int(mine.sum()) + 1)
        if lacking <= error:
            return pd.DataFrame()
        self.remarks.note(
            f"{self.place}: {lacking / 1e6:,.3f} ms of the whole are in rows that were not printed (-max_depth, -min_micros)"
        )
        return unlisted.row(lacking).assign(device=device)


def _parents(indents: Sequence[int], names: Sequence[str]) -> list[int]:
    """Return for each row the row that it is below: the last one with a smaller indent, or whose name begins its own; else -1."""
    result: list[int] = []
    above: list[int] = []
    for number, (indent, name) in enumerate(zip(indents, names, strict=True)):
        while above and not (indents[above[-1]] < indent or name.startswith(f"{names[above[-1]]}/")):
            above.pop()
        result.append(above[-1] if above else -1)
        above.append(number)
    return result


def _without_children(totals: pd.Series, parents: Sequence[int]) -> pd.Series:
    """Return of each row's total what is not in the printed rows below it; none is below 0, as totals are rounded."""
    below = totals.groupby(pd.Series(parents, index=totals.index)).sum()
    return (totals - below.reindex(totals.index).fillna(0)).clip(lower=0)
