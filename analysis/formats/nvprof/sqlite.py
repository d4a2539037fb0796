"""nvprof's SQLite files (.nvprof, .nvvp, .sql) of every version of their schema.

Times are wall clock, in ns since the epoch. CUPTI writes 0 for a time that it could not take: these rows are counted and left
out, as are rows that end before they start. Kernels and copies do not name their process. If the file names one process, it is
that one; if several, it is the process of the only call with their correlation id, or null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.cupti import callbacks as cupti_callbacks
from kernelscope.analysis.formats.demangling import demangled
from kernelscope.analysis.formats.nvprof.sqlite_tables import PREFIX, STRINGS, NvprofDatabase
from kernelscope.analysis.trace import Trace, conform, page_faults
from kernelscope.analysis.trace.categories import named, triples

_UINT32 = 0xFFFFFFFF
_DEMANGLED = 4000  # names; one takes about a millisecond and a program has hundreds of kernels

# Enumerations of cupti_activity.h
_OBJECT_PROCESS, _OBJECT_THREAD = 1, 2
_MARKER_INSTANT, _MARKER_START, _MARKER_END = 1, 2, 4
_PEER, _SET, _UNIFIED = 10, 100, 101  # the last two are ours
_OPERATIONS = {
    1: "host to device", 2: "device to host", 3: "host to device", 4: "device to host", 5: "device to device",
    6: "device to device", 7: "device to device", 8: "device to device", 9: "host to host", _PEER: "peer to peer",
    _SET: "set", _UNIFIED: "unified memory",
}  # fmt: skip
_MEMORIES = (
    "unknown", "pageable", "pinned", "device", "array", "managed", "device static", "managed static",
)  # fmt: skip
_SYNCS = {1: "event", 2: "stream wait event", 3: "stream", 4: "context"}
_OVERHEADS = {
    1: "compiler", 1 << 16: "buffer flush", 2 << 16: "instrumentation", 3 << 16: "resources", 4 << 16: "module loading",
    5 << 16: "lazy function loading", 6 << 16: "full command buffers", 7 << 16: "buffer requests",
}  # fmt: skip
_UNIFIED_COPIES = (1, 2, 8)
_CPU_FAULT, _GPU_FAULTS = 3, 4
_UNIFIED_SAMPLES = {
    1: "unified_memory_host_to_device_bytes", 2: "unified_memory_device_to_host_bytes", 3: "unified_memory_cpu_page_faults",
    4: "unified_memory_gpu_page_faults", 5: "unified_memory_thrashing", 6: "unified_memory_throttling",
    7: "unified_memory_remote_map", 8: "unified_memory_device_to_device_bytes",
}  # fmt: skip
# kind of environment record -> metrics in its first words, with the factor from the recorded unit (MHz, degrees, mW, percent)
_ENVIRONMENT = {
    1: (("gpu_sm_clock_hz", 1e6), ("gpu_memory_clock_hz", 1e6)),
    2: (("gpu_temperature_c", 1.0),),
    3: (("gpu_power_w", 1e-3), ("gpu_power_limit_w", 1e-3)),
    4: (("gpu_fan_speed", 1e-2),),
}
_FRAMEWORKS = {
    "mxnet": ("mxnet::", "mshadow::"), "pytorch": ("at::native::", "c10::"), "tensorflow": ("tensorflow::",),
    "cntk": ("Microsoft::MSR::CNTK",),
}  # fmt: skip

_SPAN = {"start": "int", "end": "int"}
_DEVICE_WORK = {
    **_SPAN, "deviceId": "int?", "contextId": "int?", "streamId": "int?", "correlationId": "int?", "runtimeCorrelationId": "int?",
}  # fmt: skip


def matches(head: Head) -> bool:
    """Return whether these are nvprof's tables: CUPTI's records with a StringTable (Nsight Systems has StringIds instead)."""
    tables = head.tables
    return STRINGS in tables and "StringIds" not in tables and bool(tables.beginning(PREFIX))


def read(path: Path) -> Trace:
    """Return the Trace of one file; raise EvidenceError if it is damaged or not nvprof's."""
    with NvprofDatabase(path) as database:
        source = _ActivityDatabase(database, database.strings())
        calls = source.calls()
        processes = source.processes(calls)
        kernels = source.kernels(calls, processes)
        copies = source.copies(calls, processes)
        syncs = source.syncs(calls, processes)
        ranges = source.ranges()
        memory = source.memory()
        samples = source.samples()
        trace = Trace(
            kernels=kernels,
            copies=copies,
            syncs=syncs,
            calls=source.call_table(calls),
            ranges=ranges,
            memory=memory,
            samples=samples,
            totals=source.page_faults(),
        )
        trace.info = source.info(trace)
    trace.diagnostics = {name: count for name, count in source.diagnostics.items() if count}
    return trace


@dataclass
class _ActivityDatabase:
    """A database with its texts. diagnostics: oddities, counted by name."""

    database: NvprofDatabase
    texts: dict[int, str]
    diagnostics: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    overhead_ns: int = 0  # nvprof's own time

    def records(self, kind: str, columns: dict[str, str]) -> pd.DataFrame:
        return self.database.select(PREFIX + kind, columns)

    def timed(self, what: str, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with a start and an end that is not before it."""
        known = (rows["start"] > 0) & (rows["end"] > 0)
        ordered = rows["end"] >= rows["start"]
        self.diagnostics[f"{what}_without_time"] += int((~known).sum())
        self.diagnostics[f"{what}_ending_before_start"] += int((known & ~ordered).sum())
        return rows[known & ordered].sort_values(["start", "end"], kind="stable").reset_index(drop=True)

    def calls(self) -> pd.DataFrame:
        """Return the API calls: cbid, api, start, end, process, thread, correlation."""
        columns = {**_SPAN, "cbid": "int", "processId": "int", "threadId": "int", "correlationId": "int"}
        tables = [self.records(kind, columns).assign(api=number) for number, kind in enumerate(("RUNTIME", "DRIVER"))]
        rows = self.timed("calls", pd.concat(tables, ignore_index=True))
        process, thread = rows["processId"] & _UINT32, rows["threadId"] & _UINT32
        return rows.assign(process=process, thread=_thread(process, thread))

    def call_table(self, rows: pd.DataFrame) -> pd.DataFrame:
        names = (cupti_callbacks.RUNTIME, cupti_callbacks.DRIVER)
        identity = (rows["cbid"].clip(0, _UINT32) * 2 + rows["api"]).to_numpy()
        frame = pd.DataFrame(
            {
                "start_ns": rows["start"],
                "end_ns": rows["end"],
                "process": rows["process"],
                "thread": rows["thread"],
                "api": pd.Categorical.from_codes(rows["api"].to_numpy(), categories=pd.Index(["runtime", "driver"], dtype="str")),
                "name": _categorical(identity, lambda number: names[number % 2].get(number // 2, f"cbid {number // 2}")),
                "correlation": rows["correlationId"] & _UINT32,
            }
        )
        return conform("calls", frame)

    def processes(self, calls: pd.DataFrame) -> list[int]:
        """Return the processes that the file mentions."""
        result = set(calls["process"].unique().tolist())
        columns = {"objectKind": "int", "objectId": "blob"}
        for rows in (self.records("NAME", columns), self.markers, self.records("OVERHEAD", columns)):
            mine = rows[rows["objectKind"].isin([_OBJECT_PROCESS, _OBJECT_THREAD])]
            result |= set(np.unique(_words(mine["objectId"], 1)[:, 0]).tolist())
        return sorted(result)

    def launched(self, rows: pd.DataFrame, calls: pd.DataFrame, processes: Sequence[int]) -> dict[str, Any]:
        """Return the columns that all device work shares: device, thread, process, correlation."""
        correlation = self._correlation(rows, calls)
        if len(processes) == 1:
            process = pd.Series(processes[0], index=rows.index, dtype="Int64")
        else:
            pairs = calls[["correlationId", "process"]].drop_duplicates().drop_duplicates("correlationId", keep=False)
            process = correlation.map(pairs.set_index("correlationId")["process"]).astype("Int64")
            self.diagnostics["device_work_of_unknown_process"] += int(process.isna().sum())
        stream = _column(rows, "streamId")
        return {
            "device": _categorical(self._devices(rows), lambda number: f"cuda:{number}"),
            "thread": stream.where(~stream.isin([-1, _UINT32])),
            "process": process,
            "correlation": correlation,
        }

    def _correlation(self, rows: pd.DataFrame, calls: pd.DataFrame) -> pd.Series:
        """Return the correlation ids; old files have a separate column for those of runtime calls."""
        direct, runtime = _column(rows, "correlationId"), _column(rows, "runtimeCorrelationId")
        known = calls["correlationId"]
        return direct.where(direct.isin(known) | ~runtime.isin(known) | (runtime == 0).fillna(True), runtime)

    def _devices(self, rows: pd.DataFrame) -> np.ndarray:
        """Return the devices' numbers, from the context if a row has none; -1 if unknown."""
        contexts = self.records("CONTEXT", {"contextId": "int", "deviceId": "int"}).drop_duplicates("contextId")
        by_context = _column(rows, "contextId").map(contexts.set_index("contextId")["deviceId"])
        return _column(rows, "deviceId").fillna(by_context.astype("Int64")).fillna(-1).to_numpy(dtype=np.int64)

    def kernels(self, calls: pd.DataFrame, processes: Sequence[int]) -> pd.DataFrame:
        columns = {**_DEVICE_WORK, "name": "int", "registersPerThread": "int?"}
        columns |= {f"{part}{axis}": "int?" for part in ("grid", "block") for axis in "XYZ"}
        columns |= {"staticSharedMemory": "int?", "dynamicSharedMemory": "int?"}
        kinds = ("CONCURRENT_KERNEL", "KERNEL", "CDP_KERNEL")
        tables = [table for table in (self.records(kind, columns).assign(table=kind) for kind in kinds) if len(table)]
        if not tables:
            return conform("kernels", pd.DataFrame())
        rows = pd.concat(tables, ignore_index=True)
        if len(tables) > 1:
            rows = self._once(rows)
        rows = self.timed("kernels", rows)
        nested = int((rows["table"] == "CDP_KERNEL").sum())
        if nested:
            self.notes.append(f"{nested} kernels were launched by other kernels (dynamic parallelism) and run within these")
        frame = pd.DataFrame(
            {
                "start_ns": rows["start"],
                "end_ns": rows["end"],
                "duration_ns": rows["end"] - rows["start"],
                "count": np.ones(len(rows), dtype=np.int64),
                "name": self._kernel_names(rows["name"].to_numpy()),
                "grid": triples(rows, ["grid" + axis for axis in "XYZ"]),
                "block": triples(rows, ["block" + axis for axis in "XYZ"]),
                "registers": _column(rows, "registersPerThread").where(lambda count: count.between(0, 0xFFFF)),
                "shared_memory": _column(rows, "staticSharedMemory") + _column(rows, "dynamicSharedMemory"),
                **self.launched(rows, calls, processes),
            }
        )
        return conform("kernels", frame)

    def _once(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows without the repeats of those that are in two tables."""
        kept = rows.drop_duplicates([*_DEVICE_WORK, "name"])
        self.diagnostics["kernels_in_two_tables"] += len(rows) - len(kept)
        return kept

    def _kernel_names(self, numbers: np.ndarray) -> pd.Categorical:
        used = dict.fromkeys(self.texts[number] for number in np.unique(numbers).tolist() if number in self.texts)
        plain = {name: demangled(name) for name in list(used)[:_DEMANGLED]}
        self.diagnostics["kernel_names_not_demangled"] += sum(
            plain.get(name, name) == name and name.startswith("_Z") for name in used
        )
        self.diagnostics["kernels_without_name"] += int((~np.isin(numbers, list(self.texts))).sum())

        def name_of(number: int) -> str | None:
            text = self.texts.get(number)
            return None if text is None else plain.get(text, text)

        return _categorical(numbers, name_of)

    def copies(self, calls: pd.DataFrame, processes: Sequence[int]) -> pd.DataFrame:
        rows = pd.concat([self._memcpys(), self._memsets(), self._migrations()], ignore_index=True)
        rows = self.timed("copies", rows)
        common = self.launched(rows, calls, processes)
        frame = pd.DataFrame(
            {
                "start_ns": rows["start"],
                "end_ns": rows["end"],
                "duration_ns": rows["end"] - rows["start"],
                "count": np.ones(len(rows), dtype=np.int64),
                "operation": _categorical(rows["copyKind"].to_numpy(), lambda kind: _OPERATIONS.get(kind, "other")),
                "memory": _categorical(rows["memory"].to_numpy(), _memory_name),
                "bytes": rows["bytes"].where(rows["bytes"] >= 0),
                **common,
                "process": _column(rows, "processId").fillna(common["process"]),
            }
        )
        return conform("copies", frame)

    def _memcpys(self) -> pd.DataFrame:
        columns = {**_DEVICE_WORK, "bytes": "int", "copyKind": "int", "srcKind": "int?", "dstKind": "int?"}
        copied = self.records("MEMCPY", columns)
        peer = self.records("MEMCPY2", columns).assign(copyKind=_PEER)
        copied["copyKind"] = copied["copyKind"].clip(0, _SET - 1)
        rows = pd.concat([table for table in (copied, peer) if len(table)] or [copied], ignore_index=True)
        both = _column(rows, "srcKind").fillna(0).clip(0, 99) * 100 + _column(rows, "dstKind").fillna(0).clip(0, 99)
        return rows.assign(memory=both.to_numpy(dtype=np.int64))

    def _memsets(self) -> pd.DataFrame:
        rows = self.records("MEMSET", {**_DEVICE_WORK, "bytes": "int", "memoryKind": "int?"})
        return rows.assign(copyKind=_SET, memory=_column(rows, "memoryKind").fillna(0).clip(0, 99).to_numpy(dtype=np.int64))

    def _migrations(self) -> pd.DataFrame:
        """Return the transfers of unified memory; the host's id as source or destination is not a device."""
        rows = self._unified()
        rows = rows[rows["counterKind"].isin(_UNIFIED_COPIES)].reset_index(drop=True)
        device = rows["dstId"].where(rows["counterKind"] != 2, rows["srcId"])
        frame = rows[["start", "end", "processId"]].assign(bytes=rows["value"], deviceId=device, copyKind=_UNIFIED, memory=0)
        return frame.assign(processId=frame["processId"] & _UINT32)

    def _unified(self) -> pd.DataFrame:
        columns = {**_SPAN, "counterKind": "int", "value": "int", "srcId": "int", "dstId": "int", "processId": "int"}
        return self.records("UNIFIED_MEMORY_COUNTER", columns)

    def syncs(self, calls: pd.DataFrame, processes: Sequence[int]) -> pd.DataFrame:
        columns = {**_SPAN, "type": "int", "correlationId": "int?", "contextId": "int?", "streamId": "int?"}
        rows = self.timed("syncs", self.records("SYNCHRONIZATION", columns))
        kind = _categorical(rows["type"].to_numpy(), lambda number: _SYNCS.get(number, f"type {number}"))
        return conform(
            "syncs",
            pd.DataFrame(
                {"start_ns": rows["start"], "end_ns": rows["end"], "kind": kind, **self.launched(rows, calls, processes)}
            ),
        )

    @cached_property
    def markers(self) -> pd.DataFrame:
        """NVTX records in order of time."""
        columns = {"flags": "int", "timestamp": "int", "id": "int", "objectKind": "int", "objectId": "blob"}
        rows = self.records("MARKER", {**columns, "name": "int", "domain": "int?"})
        self.diagnostics["marks_without_time"] += int((rows["timestamp"] <= 0).sum())
        return rows[rows["timestamp"] > 0].sort_values("timestamp", kind="stable").reset_index(drop=True)

    def ranges(self) -> pd.DataFrame:
        """Return NVTX ranges and marks. A range's two records share an id; only the first has the name.

        Ranges of a thread are nested (push/pop); those of a process, and those that do not close in stack order, are not.
        """
        rows = self.markers
        words = _words(rows["objectId"], 2)
        whole = rows["objectKind"].to_numpy() == _OBJECT_PROCESS
        thread = _thread(words[:, 0], np.where(whole, 0, words[:, 1]))
        rows = rows.assign(process=words[:, 0], thread=thread, whole=whole)
        instant = rows[rows["flags"] & _MARKER_INSTANT != 0]
        spans = self._spans(rows)
        nested = ~spans["whole"].to_numpy(dtype=bool) & _stacked(spans)
        self.diagnostics["ranges_not_in_stack_order"] += int((~nested & ~spans["whole"].to_numpy(dtype=bool)).sum())
        marks = instant.assign(start=instant["timestamp"], end=instant["timestamp"])
        result = pd.concat([spans.assign(nested=nested, category=0), marks.assign(nested=False, category=1)], ignore_index=True)
        frame = pd.DataFrame(
            {
                "thread": result["thread"],
                "start_ns": result["start"],
                "end_ns": result["end"],
                "category": pd.Categorical.from_codes(
                    result["category"].to_numpy(), categories=pd.Index(["user", "mark"], dtype="str")
                ),
                "name": _categorical(result["name"].to_numpy(), self.texts.get),
                "nested": result["nested"].astype(bool),
                "domain": _categorical(_column(result, "domain").fillna(0).to_numpy(dtype=np.int64), self.texts.get),
            }
        )
        return conform(
            "ranges", frame.sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable", ignore_index=True)
        )

    def _spans(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the ranges with start and end; an id that is used again is a new range."""
        starts, ends = rows[rows["flags"] & _MARKER_START != 0], rows[rows["flags"] & _MARKER_END != 0]
        keys = ["process", "id"]
        starts = starts.assign(turn=starts.groupby(keys).cumcount(), start=starts["timestamp"])
        ends = ends.assign(turn=ends.groupby(keys).cumcount(), end=ends["timestamp"])[[*keys, "turn", "end"]]
        spans = starts.merge(ends, how="left", on=[*keys, "turn"])
        opened = spans["end"].isna()
        self.diagnostics["open_ranges"] += int(opened.sum())
        self.diagnostics["range_ends_without_start"] += len(ends) - int((~opened).sum())
        last = self.last_time()
        spans["end"] = spans["end"].astype("Int64").fillna(last).astype("int64")
        wrong = spans["end"] < spans["start"]
        self.diagnostics["ranges_ending_before_start"] += int(wrong.sum())
        return spans[~wrong].reset_index(drop=True)

    def last_time(self) -> int:
        """Return the latest time in the capture, where open ranges are closed."""
        kinds = ("RUNTIME", "DRIVER", "CONCURRENT_KERNEL", "KERNEL", "MEMCPY", "MEMSET")
        ends = [self.database.maximum(PREFIX + kind, "end") for kind in kinds]
        return max([*(end for end in ends if end is not None), *self.markers["timestamp"][-1:]], default=0)

    def memory(self) -> pd.DataFrame:
        """Return allocations and frees: each record has the times of both."""
        columns = {**_SPAN, "bytes": "int", "memoryKind": "int", "deviceId": "int"}
        rows = self.records("MEMORY", columns)
        on_device = rows["memoryKind"].isin([3, 5, 6, 7])
        rows = rows.assign(device=np.where(on_device, rows["deviceId"], -2))
        taken = rows.assign(time_ns=rows["start"])
        given = rows.assign(time_ns=rows["end"], bytes=-rows["bytes"])
        result = pd.concat([taken, given], ignore_index=True)
        result = result[result["time_ns"] > 0].sort_values("time_ns", kind="stable", ignore_index=True)
        device = _categorical(result["device"].to_numpy(), lambda number: "cpu" if number == -2 else f"cuda:{number}")
        return conform("memory", pd.DataFrame({"time_ns": result["time_ns"], "device": device, "bytes": result["bytes"]}))

    def samples(self) -> pd.DataFrame:
        rows = self.records("ENVIRONMENT", {"deviceId": "int", "timestamp": "int", "environmentKind": "int", "data": "blob"})
        words = _words(rows["data"], 2)
        result = []
        for kind, metrics in _ENVIRONMENT.items():
            mine = rows["environmentKind"].to_numpy() == kind
            device = "cuda:" + rows["deviceId"][mine].astype("string")
            for place, (metric, factor) in enumerate(metrics):
                value = words[mine, place] * factor
                result.append(
                    pd.DataFrame({"time_ns": rows["timestamp"][mine], "device": device, "metric": metric, "value": value})
                )
        result += self._unified_samples()
        table = pd.concat([frame for frame in result if len(frame)] or result[:1], ignore_index=True)
        return conform("samples", table.sort_values("time_ns", kind="stable", ignore_index=True))

    def page_faults(self) -> pd.DataFrame:
        """Return page faults of unified memory as totals; each one of the CPU is a record, before version 7 a counter."""
        old, new = self._old_unified(), self._unified()
        groups = new[new["counterKind"] == _GPU_FAULTS]
        known = (groups["start"] > 0) & (groups["end"] >= groups["start"])
        took = (groups["end"] - groups["start"]).astype("Int64").where(known)
        of_cpu = int((new["counterKind"] == _CPU_FAULT).sum()) + int(old.loc[old["counterKind"] == _CPU_FAULT, "value"].sum())
        return conform("totals", page_faults.summed(took, of_cpu))

    def _old_unified(self) -> pd.DataFrame:
        """Return the counters of versions before 7, which have one time and also count transfers."""
        return self.records("UNIFIED_MEMORY_COUNTER", {"timestamp": "int", "counterKind": "int", "value": "int"})

    def _unified_samples(self) -> list[pd.DataFrame]:
        """Return unified memory's page faults and other events as samples."""
        old = self._old_unified()
        new = self._unified().rename(columns={"start": "timestamp"})
        new = new[~new["counterKind"].isin(_UNIFIED_COPIES)]
        new["value"] = new["value"].mask(new["counterKind"] == _CPU_FAULT, 1)  # the recorded value is the fault's address
        result = []
        for kind, metric in _UNIFIED_SAMPLES.items():
            for rows in (old, new):
                mine = rows[rows["counterKind"] == kind]
                result.append(
                    pd.DataFrame({"time_ns": mine["timestamp"], "metric": metric, "value": mine["value"].astype(float)})
                )
        return result

    def info(self, trace: Trace) -> dict[str, Any]:
        self.diagnostics.update({f"unreadable_rows:{table}": count for table, count in self.database.unreadable.items()})
        self._note_overhead()
        info: dict[str, Any] = {
            "source": {"format": "nvprof-sqlite", "tool": "nvprof", "version": None, "schema": self.database.version()},
            "clock": "wall",
            "devices": self._device_list(),
            "unavailable": self._unavailable(trace),
            "notes": self.notes,
            "overhead_ns": self.overhead_ns,
        }
        names = "\n".join(trace.kernels["name"].cat.categories)
        proven = [name for name, signs in _FRAMEWORKS.items() if any(sign in names for sign in signs)]
        return {**info, "framework": proven[0]} if len(proven) == 1 else info

    def _note_overhead(self) -> None:
        rows = self.timed("overheads", self.records("OVERHEAD", {**_SPAN, "overheadKind": "int"}))
        totals = (rows["end"] - rows["start"]).groupby(rows["overheadKind"]).agg(["count", "sum"])
        parts = [
            f"{_OVERHEADS.get(int(str(kind)), f'kind {kind}')} {total / 1e6:,.3f} ms in {count} intervals"
            for kind, count, total in totals.itertuples()
        ]
        self.overhead_ns = int((rows["end"] - rows["start"]).sum())
        if parts:
            self.notes.append(f"nvprof's own overhead: {'; '.join(parts)}")

    def _device_list(self) -> list[dict[str, Any]]:
        columns = {"id": "int", "name": "int", "globalMemorySize": "int?", "numMultiprocessors": "int?"}
        rows = self.records("DEVICE", {**columns, "computeCapabilityMajor": "int?", "computeCapabilityMinor": "int?"})
        rows = rows.drop_duplicates("id")[:1024]
        result = []
        for row in rows.to_dict("records"):
            device = {
                "device": f"cuda:{row['id']}",
                "name": self.texts.get(row["name"]),
                "multiprocessors": row["numMultiprocessors"],
                "memory_bytes": row["globalMemorySize"],
            }
            if not pd.isna(row["computeCapabilityMajor"]) and not pd.isna(row["computeCapabilityMinor"]):
                device["compute_capability"] = f"{row['computeCapabilityMajor']}.{row['computeCapabilityMinor']}"
            result.append({key: value for key, value in device.items() if not pd.isna(value)})
        return result

    def _unavailable(self, trace: Trace) -> dict[str, str]:
        """Return why tables are empty."""
        if not any(len(getattr(trace, name)) for name in ("kernels", "copies", "calls", "ranges")):
            listed = "lists devices but" if len(self._device_list()) else "has all its tables but"
            reason = f"nvprof recorded no activity: the file {listed} holds no kernel, copy, call or range"
            return dict.fromkeys(("kernels", "copies", "calls", "ranges"), reason)
        reasons = {
            "kernels": "the file holds no kernel: nothing ran on a GPU while nvprof recorded, or kernels were not recorded",
            "copies": "the file holds no copy and no memory set",
            "calls": "the file holds no API call: nvprof ran with --profile-api-trace none",
            "ranges": "the file holds no NVTX range: the program opened none while nvprof recorded",
        }
        return {name: reason for name, reason in reasons.items() if not len(getattr(trace, name))}


def _thread(process: Any, thread: Any) -> Any:
    """Return thread numbers that are unique across processes."""
    return (process & 0x7FFFFFFF) * (1 << 32) + (thread & _UINT32)


def _words(blobs: pd.Series, count: int) -> np.ndarray:
    """Return the first `count` little-endian 32-bit words of each row's bytes, padded with zeros."""
    packed = np.array(blobs.tolist(), dtype=f"S{4 * count}")  # cuts, and pads with zeros
    words: np.ndarray = packed.view("<u4").reshape(len(packed), count).astype(np.int64)
    return words


def _column(rows: pd.DataFrame, name: str) -> pd.Series:
    """Return a column of whole numbers, all null if the rows do not have it."""
    if name in rows:
        return rows[name].astype("Int64")
    return pd.Series(pd.NA, index=rows.index, dtype="Int64")


def _categorical(values: np.ndarray, name_of: Callable[[int], str | None]) -> pd.Categorical:
    """Return texts for numbers, looked up once per distinct number; negative numbers except -2, and None, are null."""
    return named(values, lambda number: name_of(number) if number >= 0 or number == -2 else None)


def _memory_name(both: int) -> str | None:
    """Return the kinds of memory from source x 100 + destination; sets have only a destination."""
    source, target = divmod(both, 100)
    names = [_MEMORIES[kind] if kind < len(_MEMORIES) else "unknown" for kind in (source, target)]
    if both == 0:
        return None
    return names[1] if source == 0 else f"{names[0]} to {names[1]}"


def _stacked(spans: pd.DataFrame) -> np.ndarray:
    """Return which ranges close in stack order on their thread: as many are open before their end as after their start."""
    fine = np.ones(len(spans), dtype=bool)
    for _ in range(8):  # a range out of order can hide another
        wrong = _out_of_order(spans[fine])
        if not wrong.any():
            return fine
        fine[np.flatnonzero(fine)[wrong]] = False
    crossing = spans["thread"][fine][_out_of_order(spans[fine])]
    return fine & ~spans["thread"].isin(crossing).to_numpy()


def _out_of_order(spans: pd.DataFrame) -> np.ndarray:
    """Return for which ranges the number of open ranges differs between their start and their end."""
    count = len(spans)
    thread, start, end = (spans[name].to_numpy() for name in ("thread", "start", "end"))
    timed = np.flatnonzero(end > start)  # a range of zero length crosses nothing
    owner = np.concatenate([timed, timed])
    opens = np.repeat([1, 0], len(timed))
    time = np.concatenate([start[timed], end[timed]])
    # at the same time, ends come first; then, of starts, the longest, and of ends, the one that began last
    rank = np.concatenate([-end[timed], -start[timed]])
    order = np.lexsort((owner * (2 * opens - 1), rank, opens, time, thread[owner]))
    change = 2 * opens[order] - 1
    depth = np.cumsum(change) - (change > 0)
    at = np.zeros((2, count), dtype=np.int64)
    at[1 - opens[order], owner[order]] = depth
    wrong: np.ndarray = at[0] != at[1]
    return wrong
