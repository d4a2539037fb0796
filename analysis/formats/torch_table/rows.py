"""The rows of a printed table: operators and ranges of the host, kernels, and ranges that are projected on the device.

The profiler prints operators and, since PyTorch 1.8, also the kernels that they launched, as rows without time on the CPU. An
operator's own time on the device is the sum of its kernels', so only one kind of rows counts: kernels, unless they have less
than half of the sum below the table and operators have more (the older autograd profiler prints no kernels, and tables are cut
to their first rows), or, without a sum, if operators have notably more. Annotations that are projected on the device are also
rows without time on the CPU, named like their row of the host: they contain kernels but are not kernels. The sum below the
table leaves them out, except in PyTorch 2.1 to 2.4.

Before PyTorch 1.7 and in lists of single events, `nested` tells what is nested in a row.

In a table without any time on the CPU, names tell operators and calls from kernels.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files import text_tables
from kernelscope.analysis.formats import printed
from kernelscope.analysis.formats.torch_table import calls, nested
from kernelscope.analysis.formats.torch_table.tables import OperatorTable
from kernelscope.analysis.kernels import names

Flags = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]

CALLS = r"^(?:cuda|cu|hip|ze|ur|xpu|musa|acl)[A-Z]\w*$"
PROFILER = r"^(?:Activity Buffer Request|Buffer Flush|Instrumentation|Resource|Lazy Function Loading|Command Buffer Full)"
OPERATOR = r"::"  # after a library's name: aten::mm, mkldnn::_linear; users' names mostly have none
_OPERATOR_OF_PYTORCH = r"^aten::"
# The host's rows in a table without its times: names without parameters after a library's, nodes of autograd, calls
_HOST = rf"^\w+(?:::\w+)+(?:\.\w+)?(?:\.\.\.)?$|^autograd::|^torch::autograd::|^\w+Backward\d*$|{CALLS}"
_COPIES, _MEMCPY, _LAUNCH = "aten::copy_", r"^(?:cuda|hip)Memcpy(?:Async)?$", r"^(?:cuda|hip)\w*LaunchKernel"
_LOOP = r"^(?:ProfilerStep[#*]|Optimizer\.\w+#|enumerate\(DataLoader\)#)"
_STEP = r"^ProfilerStep[#*]"
ANNOTATIONS = rf"{_LOOP}|^(?:## |Torch-Compiled Region|\[pl\])"
# Operators that make a view of a tensor or query it: device time that the older profiler gives them belongs to others
_VIEWS = (
    "_unsafe_view as_strided detach empty empty_like empty_strided expand permute result_type select slice squeeze t transpose"
)
_NO_WORK = [f"aten::{name}" for name in f"{_VIEWS} unsqueeze view".split()]
MEMORY_CALLS = r"^(?:cuda|cu|hip|ze|ur|xpu|musa|acl)(?:rt)?(?:CommandListAppend|Enqueue)?[mM]em(?:cpy|set|ory(?:Copy|Fill))"
_COLLECTIVES = r"^(?:nccl|gloo|xccl):"
COPY = r"^(?:Memcpy|Memset|\[CUDA mem|gpu_mem)"
_KERNEL = rf"[<(]|::|^_Z|kernel|triton|{COPY}"  # in names of kernels, hardly ever of ranges

_ROUNDING = 200  # rounded times may be off by one 200th of the total: 0.5%
_NEARLY = 0.9  # of operators' time: without a sum below the table, kernels that tell less do not count
_NAMED = 100  # a user's range counts if it has at least one 100th of a CPU table's total
_WRAPPED = 100  # an operator whose own part of its device time is less than one 100th leaves the work to others


class TableRows:
    """The rows of one table, and what they are. total: in ns, as printed below the table, None if there is none."""

    def __init__(self, table: OperatorTable) -> None:
        self.table, self.rows = table, table.rows
        self.name = table.rows["name"].astype("string")
        self.timed_device = "self_device" in self.rows
        # before PyTorch 1.7, operators had no own time on the device; there the columns of a program without one are all zero
        used = self.timed_device or "self_cpu" not in self.rows or bool((self._times("device_total") > 0).any())
        self.device = table.device.lower() if used else ""
        timed = ((self.ns("cpu").fillna(self.ns("self_cpu")) > 0) | (self.ns("self_cpu") > 0)).fillna(False).to_numpy(dtype=bool)
        self.own_device = self.ns("self_device") if self.timed_device else self._without_nested()
        self.own: Times = self.own_device.fillna(0).to_numpy(dtype=np.int64)
        # neither an operator nor a kernel: as both it might count twice
        self.doubtful: Flags = self.unreadable("cpu") | self.unreadable("self_cpu")
        self.timed_host = not {"cpu", "self_cpu"}.isdisjoint(self.rows)
        self.host: Flags = timed | self.doubtful | ~((self.own > 0) | self.unreadable("self_device"))
        # PyTorch's own operators may be too short for a time on the CPU; beside the host's row of that name, one is the device's
        self.host |= self.like(_OPERATOR_OF_PYTORCH) & ~self.name.isin(self.name[self.host]).to_numpy(dtype=bool)
        if not self.timed_host:
            self.host |= self.like(_HOST)
        # where nothing but its own times tells what is nested in a row, the sum below the table counts that again
        untold = bool(self.device) and not self.timed_device
        self.total = None if untold or self.nested_events else self._total()

    def ns(self, column: str) -> pd.Series:
        """Return a column's times in ns; all null if the table has no such column."""
        if column not in self.rows:
            return pd.Series(pd.NA, index=self.rows.index, dtype="Int64")
        return text_tables.nanoseconds(printed.decimal_points(self.rows[column]), "us")

    def texts(self, column: str) -> pd.Series:
        """Return a column's texts; all null if the table has no such column."""
        return (self.rows[column] if column in self.rows else pd.Series(None, index=self.rows.index)).astype("string")

    def unreadable(self, column: str) -> Flags:
        """Return which rows lack a time in a column; none if the table lacks the column."""
        return self.ns(column).isna().to_numpy(dtype=bool) & (column in self.rows)

    def like(self, pattern: str) -> Flags:
        """Return which rows have a name that contains a pattern."""
        return self.name.str.contains(pattern, regex=True).fillna(False).to_numpy(dtype=bool)

    def rounding(self, counted: pd.Index, total: str) -> int:
        """Return by how many ns rows may fall short of the printed total because all are rounded: half a last digit of each."""
        if self.counted_annotations:  # which are found by times that are about the same
            return int(self.total or 0) // _ROUNDING
        own = self.rows.loc[counted, "self_device" if self.device else "self_cpu"]
        _, steps = calls.times(pd.Series([*own, total], dtype="str"))
        return int(np.nansum(steps) / 2)

    def is_more_than_rounding(self, ns: int) -> bool:
        """Return whether a difference is larger than rounding of the total explains."""
        return self.total is not None and ns * _ROUNDING > self.total

    def own_ns(self) -> pd.Series:
        """Return each row's own time in ns, on the device or, in tables without one, on the processor; null if unknown."""
        if self.device:
            return self.own_device
        return self.ns("self_cpu")

    @cached_property
    def lists_events(self) -> bool:
        """Return whether the rows are the longest single events, as torch.utils.bottleneck prints them, not sums by name."""
        if self.device or "shapes" in self.rows or not {"cpu", "self_cpu"} <= set(self.rows):
            return False
        once = (
            (self.calls == 1) if "count" in self.rows else (self.ns("cpu") == self.ns("cpu_average")).fillna(False).to_numpy(bool)
        )
        nothing_nested = (self.ns("cpu") == self.ns("self_cpu")).fillna(False).to_numpy(bool)
        return bool(once.all() and nothing_nested.all() and self.name.duplicated().any())

    @cached_property
    def nested_events(self) -> dict[int, int]:
        """Return which row of a list of events surely contains which other one, by position."""
        return nested.around(self.name, self._times("self_cpu")) if self.lists_events else {}

    def _without_nested(self) -> pd.Series:
        """Return own times on a device of which the table has totals, in ns; all null if it is not clear what contains what."""
        unknown = pd.Series(pd.NA, index=self.rows.index, dtype="Int64")
        if not {"device_total", "cpu", "self_cpu"} <= set(self.rows):
            return unknown
        device, host, own = (self._times(column) for column in ("device_total", "cpu", "self_cpu"))
        lacking = self.unreadable("device_total") | self.unreadable("cpu") | self.unreadable("self_cpu")
        off, counts = nested.rounding(self.rows), ~self._views & ~lacking
        found = nested.on_device(nested.Totals(device, host, host - own, self._called(), off, counts))
        return unknown if found is None else pd.Series(found, index=self.rows.index, dtype="Int64").mask(lacking)

    def _called(self) -> Times:
        """Return each row's calls, from averages if they are not printed; 0 if unknown."""
        return self.calls if "count" in self.rows else calls.of(self.rows).counts.fillna(0).to_numpy(dtype=np.int64)

    @cached_property
    def annotations(self) -> Flags:
        """Return which rows without time on the CPU are ranges that are projected on the device.

        They are named by PyTorch, or like a range of the host whose own device time differs, mostly being zero: equal times on
        both rows are those of a compiled kernel and of the range that launches it.
        """
        host = self.host & ~self.like(OPERATOR)
        launching, running = self._by_name(host), self._by_name(~host)
        alike = (launching > 0) & (np.abs(launching - running) <= running // _ROUNDING)
        of_host = self.name.isin(self.name[host]).to_numpy(dtype=bool) & ~alike
        result: Flags = ~self.host & (of_host | self.like(ANNOTATIONS) | self.like(_COLLECTIVES))
        return result | self._beyond_total(~self.host & ~result)

    @property
    def steps_on_device(self) -> Flags:
        """Return which rows are steps that are projected on the device: from the first kernel of each to its last."""
        return self.annotations & self.like(_STEP)

    def work(self) -> Flags:
        """Return the rows that are work: a device's, or, in tables without one, the processor's."""
        if not self.device:
            return self.processor_rows
        return self.kernel_rows | self.without_kernels if self.counts_kernels else self.operator_rows

    @cached_property
    def counts_kernels(self) -> bool:
        """Return whether the rows of kernels, not those of operators, count as a device's work."""
        kernels, operators = int(self.own[self.kernel_rows].sum()), int(self.own[self.operator_rows].sum())
        if self.total is None:  # so what the rows that count lack would be lost
            return kernels > 0 and kernels >= _NEARLY * operators
        return kernels > 0 and (2 * kernels >= self.total - self.counted_annotations or kernels >= operators)

    @cached_property
    def kernel_rows(self) -> Flags:
        """Return which rows are kernels and copies."""
        return ~self.host & ~self.annotations & ~self.like(PROFILER)

    @cached_property
    def operator_rows(self) -> Flags:
        """Return which rows of the host have device time of their own; of several that wrap each other, the innermost."""
        wraps = self.own < self._times("device_total") // _WRAPPED
        others = self.like(_LOOP) | self.like(CALLS) | self._views
        return self.host & (self.own > 0) & ~self.doubtful & ~wraps & ~others

    @property
    def wrappers(self) -> Flags:
        """Return which operators leave nearly all of their time on the device to those that they call."""
        total = self._times("device_total")
        result: Flags = (
            self.host & self.like(OPERATOR) & ~self.doubtful & ~self._views & (total > 0) & (self.own < total // _WRAPPED)
        )
        return result

    @cached_property
    def _views(self) -> Flags:
        """Return which rows only make views; before PyTorch 1.5, operators had no library's name."""
        names = self.name if self.like(OPERATOR).any() else "aten::" + self.name
        return np.asarray(names.isin(_NO_WORK), dtype=np.bool_)

    @cached_property
    def without_kernels(self) -> Flags:
        """Return the operators of which no kernel is printed, as far as that is sure; they count beside kernels.

        It is sure if each printed kernel has an operator's time and calls, which is the one that launches it, and if the others
        are within the sum below the table.
        """
        kernels = self.kernel_rows & (self.own > 0)
        same = pd.Series(list(zip(self.own.tolist(), self.calls.tolist(), strict=True)), index=self.rows.index)
        launched = bool(same[kernels].isin(same[self.operator_rows]).all())
        result: Flags = self.operator_rows & ~same.isin(same[kernels]).to_numpy(bool)
        whole = -1 if self.total is None else self.total - self.counted_annotations
        within = int(self.own[kernels | result].sum()) <= whole
        return result if launched and within else np.zeros_like(result)

    @cached_property
    def left_to_others(self) -> int:
        """Return the own time in ns of printed operators that do not count.

        On a device, where operators count, they wrap others or make views; in a list of events they are around others.
        """
        if not self.device:
            own = self._times("self_cpu")
            return sum(int(own[outer] - own[inner]) for outer, inner in self.nested_events.items())
        others = self.host & ~self.operator_rows & ~self.doubtful & self.operators & ~self.like(CALLS)
        return 0 if self.counts_kernels else int(self.own[others].sum())

    @cached_property
    def transfers(self) -> Flags:
        """Return which rows of operators are copies by the device's copy engine: aten::copy_, if it launches no kernel.

        That is so if it calls the API to copy as often as it runs, and the other operators account for all launches.
        """
        mine = self.operator_rows & (self.name == _COPIES).fillna(False).to_numpy(bool)
        others = self.operator_rows & ~mine
        copied, launched = (int(self.calls[self.like(pattern)].sum()) for pattern in (_MEMCPY, _LAUNCH))
        only = 0 < int(self.calls[mine].sum()) <= copied and 0 < launched <= int(self.calls[others].sum())
        return mine if only else np.zeros_like(mine)

    @cached_property
    def calls(self) -> Times:
        """Return the printed number of calls of each row; 0 if it is not printed."""
        if "count" not in self.rows:
            return np.zeros(len(self.rows), dtype=np.int64)
        return text_tables.counts(self.rows["count"]).fillna(0).to_numpy(dtype=np.int64)

    @cached_property
    def processor_rows(self) -> Flags:
        """Return which rows count as a processor's work, by their own time: operators, and ranges with a large part of it."""
        around = np.isin(np.arange(len(self.rows)), list(self.nested_events))
        return self.host & (self.operators | self.named_ranges) & ~around

    @cached_property
    def operators(self) -> Flags:
        """Return which rows are named like operators; before PyTorch 1.8, operators had names like ranges."""
        library = self.like(OPERATOR)
        return library if library.any() else ~self.like(_LOOP)

    @cached_property
    def named_ranges(self) -> Flags:
        """Return which rows are a user's ranges with a noticeable part of the processor's time."""
        own = self._times("self_cpu")
        whole = int(own[self.host].sum()) if self.total is None else self.total
        return ~self.operators & ~self.like(_LOOP) & ~self.like(PROFILER) & (own >= whole // _NAMED)

    @cached_property
    def counted_annotations(self) -> int:
        """Return the annotations' time in ns that the sum below the table includes, as in versions before 2.5; mostly 0.

        It is included if annotations add up to the sum together with kernels, with operators' own time, which may tell more of a
        table that was cut short, or with the host's row with the most device time.
        """
        annotations = int(self.own[self.annotations].sum())
        if not annotations or self.total is None:
            return 0
        kernels, operators = int(self.own[self.kernel_rows].sum()), int(self.own[self.operator_rows].sum())
        within = int(self._times("device_total")[self.host].max(initial=0))
        off = min((abs(held + annotations - self.total) for held in (kernels, operators, within) if held), default=self.total)
        return 0 if self.is_more_than_rounding(off) else annotations

    def _times(self, column: str) -> Times:
        return self.ns(column).fillna(0).to_numpy(dtype=np.int64)

    @cached_property
    def host_total(self) -> int | None:
        """Return the host's total own time in ns, as printed below a table with a device; None without a device or a total."""
        return self._printed("CPU") if self.device else None

    def _total(self) -> int | None:
        return self._printed(self.table.device if self.device else "CPU")

    def _printed(self, of: str) -> int | None:
        text = printed.decimal_points(pd.Series([self.table.totals.get(of, "")], dtype="str"))
        total = text_tables.nanoseconds(text, "us").iloc[0]
        return None if pd.isna(total) else int(total)

    def _by_name(self, rows: Flags) -> Times:
        """Return for each row the own device time of the given rows with the same name."""
        sums = pd.Series(self.own[rows]).groupby(self.name[rows].to_numpy(dtype=object)).sum()
        return np.asarray(self.name.map(sums).fillna(0), dtype=np.int64)

    def _beyond_total(self, rows: Flags) -> Flags:
        """Return which of these rows must be annotations, as all of them add up to more than the printed total.

        Candidates are rows that are not named like kernels. In turn, the smallest one that suffices is taken, else the largest;
        none if all of them do not suffice.
        """
        result = np.zeros(len(rows), dtype=bool)
        over = 0 if self.total is None else int(self.own[rows].sum()) - self.total
        if not self.is_more_than_rounding(over):
            return result
        places = [
            place for place in np.flatnonzero(rows & ~self.like(_KERNEL)) if names.describe(str(self.name[place])).rule is None
        ]
        places.sort(key=lambda place: self.own[place])
        while places and self.is_more_than_rounding(over):
            place = next((place for place in places if not self.is_more_than_rounding(over - int(self.own[place]))), places[-1])
            places.remove(place)
            result[place] = True
            over -= int(self.own[place])
        return np.zeros_like(result) if self.is_more_than_rounding(over) else result


def operation(name: str) -> str:
    """Return one of COPY_OPERATIONS; on Intel's GPUs, M is the host's memory: Memcpy M2D."""
    sides = {"H": "H", "M": "H", "D": "D", "S": "D"}
    return printed.operation(re.sub(r"\b([HDMS])2([HDMS])\b", lambda match: f"{sides[match[1]]}to{sides[match[2]]}", name))


def memory(name: str) -> str | None:
    """Return the kinds of memory that a copy's name tells, as in Memcpy HtoD (Pageable -> Device): pageable to device."""
    match = re.search(r"\((?P<source>[A-Z][a-z]+) -> (?P<destination>[A-Z][a-z]+)\)", name)
    return f"{match['source']} to {match['destination']}".lower() if match else None
