"""What to do about kernels that take longer on one side: as their grids, shapes, copies and names tell."""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis.accounting.device_account import COPY
from kernelscope.analysis.explain.device import alignment, counted, operator_hints, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.explain.device.causes import copies as copying
from kernelscope.analysis.trace import MAIN

_COMPARE = "compare sizes first; if they are equal, it is the code, or where its data lies"
_BY_SHAPE = (
    "to see whether {0}'s sizes are larger, record with record_shapes=True, and print key_averages(group_by_input_shape=True); "
    "with equal sizes, compare types, layouts and the code"
)
_LONGER = (
    "to see whether {0}'s problem is larger, record grids on both sides (nsys, or nvprof --print-gpu-trace); with equal grids, "
    "it is the code, or where its data lies"
)
_SAME_DATA = (
    "the data seems to have one size on both sides, as equally many copies take equally long ({0}), so compare how the kernel is "
    "launched (one block, or blocks of few threads, leave most of the device idle), and its code"
)
_SAME_COPIES, _LASTS_NS = 0.05, 100_000  # of their time; shorter copies take about as long whatever their size
_COMPUTES = re.compile(r"(?i)gemm|mat_?mul|mult|conv|attention|norm|softmax")  # and transposes or adds up only besides
# Words of a kernel's name; words that say that it is done already; what to do
_HINTS = (
    (
        frozenset(["transpose", "transposed"]),
        frozenset(["shared", "smem", "lds", "tile", "tiled", "coalesced"]),
        "a transposition that reads along rows and writes along columns accesses memory with large strides; in {0}, move tiles "
        "through shared memory (LDS), so that neighbouring threads read and write neighbouring addresses (coalesced)",
    ),
    (
        frozenset(["atomic", "atomics", "histogram"]),
        frozenset(["shared", "smem", "lds", "private", "privatized"]),
        "atomic operations on one address wait for one another; in {0}, use fewer of them: let each block add up in registers or "
        "shared memory, and add its sum or count to the result once",
    ),
)
_ON_CPU = "compare sizes, threads, library versions, and other load on the processors"
_LIKE_OTHER = (
    "let {0} use {1}, as {2} does: compare types, memory layouts (format_tag::any lets oneDNN choose), versions of the "
    "libraries, and whether the model is compiled or frozen"
)
_REFERENCE = re.compile(r"\b(?:ref|simple):any\b|\bref\b")
_OPTIMISE = (
    "in {0}, {1} is the library's reference code, for what no optimised code supports: change the type, layout or attributes "
    "(zero points, scales, post-ops) of this primitive, or the library's version"
)
_IN_FULL = (
    "several kernels share names that the table cut: print them in full, key_averages().table(max_name_column_width=200, "
    "row_limit=-1), on both sides, to see which one takes longer or runs more often"
)
_SAME_GRID = "grids are the same: compare code, inputs and the data's location; Nsight Compute shows what a kernel waits for"
_OTHER_GRID = "grids differ: compare sizes, and how the work is divided into blocks"


def remedy(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return the remedy for kernels that take longer, depending on their grids if the captures have them."""
    slow, slower, fast, faster = words.slower(case, rows)
    if _REFERENCE.search(longest := words.longest(rows, slow)) and (rows[f"{slow}_library"] == "onednn").fillna(False).any():
        return _OPTIMISE.format(slower, longest)
    if case.on_cpus:
        pair = words.one_each(rows, slow, fast)
        if pair is None and (others := operator_hints.others_as_long(case, rows)) is not None:
            return operator_hints.PRODUCTS_ALONE.format(others)
        return _ON_CPU if pair is None else _LIKE_OTHER.format(slower, pair[1], faster)
    if (measured := counted.remedy(case, rows)) is not None:
        return measured
    if words.are_several(rows).any():
        return _IN_FULL
    each = _of_one_execution(case, rows)
    if hint := _by_its_name(rows, slow):
        return f"{each}{hint.format(slower)}"
    grids = [rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), f"{key}_grid"] for key in SIDES]
    if all(len(grid) and grid.notna().all() for grid in grids):
        return _SAME_GRID if set(grids[0]) == set(grids[1]) else _OTHER_GRID
    if copied := _of_equal_copies(case):
        return f"{each}{copied}"
    how = _LONGER if all(side.makes <= {"cuda"} for side in (case.a, case.b)) else _COMPARE
    return f"{each}{(_BY_SHAPE if case.by_operators else how).format(slower)}"


def _by_its_name(rows: pd.DataFrame, slow: str) -> str | None:
    """Return what mostly slows down kernels of the program's own that do what this one's name says; None if it says nothing."""
    longest = rows.iloc[int(rows[f"{slow}_ns"].to_numpy(float).argmax())]
    computes = longest["kind"] in MAIN or _COMPUTES.search(words.kernel(longest["name"]))
    if computes or pd.notna(longest[f"{slow}_library"]):
        return None
    said = alignment.words_of(longest["name"])
    return next((hint for told, done, hint in _HINTS if said & told and not said & done), None)


def _of_equal_copies(case: DeviceCase) -> str | None:
    """Return that the data seems to have one size on both sides, as equally many copies of it take equally long; else None."""
    copies = case.rows[((case.rows["part"] == COPY) & case.rows["kind"].isin(copying.BETWEEN)).to_numpy(bool)]
    if not case.totals or copies.empty or (copies["a_count"] != copies["b_count"]).any() or any(map(case.is_cut, SIDES)):
        return None
    times = copies[["a_ns", "b_ns"]]
    near = times.max(axis=1) <= (1 + _SAME_COPIES) * times.min(axis=1)
    if not near.all() or float(times.min().min()) < _LASTS_NS:
        return None
    return _SAME_DATA.format(words.of_rows(case, copies))


def _of_one_execution(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return how long one execution takes on each side, as the beginning of a sentence; "" if it is unknown."""
    computing = case.without_wrappers(rows)
    counts, times = ([float(computing[f"{key}_{what}"].sum()) for key in SIDES] for what in ("count", "ns"))
    if not case.counts or not all(counts) or not all(times):
        return ""
    return f"one execution takes {words.change(case, times[0] / counts[0], times[1] / counts[1])}; "
