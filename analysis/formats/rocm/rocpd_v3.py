"""rocpd databases of rocprofv3 (ROCm 6.4 and later) and rocprof-sys, schemas 3 and 4.

Names of tables end with the database's id; a merged file holds several sets of tables. Views are never used. Device work and the
call that launched it share the stack_id of their events. From schema 4.1 on, tracks say where work ran, and categories have a
table of their own. The file also holds the environment of the process, which is not read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import sqlite_columns
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats.rocm import work
from kernelscope.analysis.formats.rocm.work import RowsRead
from kernelscope.analysis.trace import Trace

_STRINGS = re.compile(r"rocpd_string(_[0-9A-Z_]+)", re.IGNORECASE)
_SIZES = tuple(f"workgroup_size_{axis}" for axis in "xyz")
_GRID = tuple(f"grid_size_{axis}" for axis in "xyz")
_PLACE = ("pid", "tid", "agent_id", "queue_id", "stream_id")
_KNOWN = (
    "rocpd_metadata", "rocpd_string", "rocpd_info_node", "rocpd_info_process", "rocpd_info_thread", "rocpd_info_agent",
    "rocpd_info_queue", "rocpd_info_stream", "rocpd_info_pmc", "rocpd_info_code_object", "rocpd_info_kernel_symbol",
    "rocpd_info_category", "rocpd_info_address_range", "rocpd_info_source_code", "rocpd_info_pc", "rocpd_track", "rocpd_event",
    "rocpd_arg", "rocpd_line_info", "rocpd_call_stack", "rocpd_region", "rocpd_sample", "rocpd_kernel_dispatch",
    "rocpd_memory_copy", "rocpd_memory_allocate", "rocpd_pmc_event",
)  # fmt: skip


def parts(tables: Collection[str]) -> list[str]:
    """Return the id suffixes of the sets of tables in a file."""
    result = {match[1] for name in tables if (match := _STRINGS.fullmatch(name))}
    return sorted(suffix for suffix in result if f"rocpd_event{suffix}" in tables or f"rocpd_region{suffix}" in tables)


def read(database: Database) -> Trace:
    """Return the Trace of all sets of tables; raise EvidenceError if they come from several hosts, whose clocks differ."""
    findings = RowsRead()
    sets = [_Set(database, suffix, findings) for suffix in parts(database.tables)]
    nodes = {node for part in sets for node in part.nodes}
    if len(nodes) > 1:
        raise EvidenceError(
            f"{database.path}: holds {len(nodes)} hosts, whose clocks differ; name the database of one host's process"
        )
    devices: dict[str, dict[str, Any]] = {}
    for part in sets:
        part.read()
        devices |= {row["device"]: row for row in part.devices()}
    schema = next((part.schema for part in sets if part.schema), None)
    return findings.trace(
        {"format": "rocpd", "tool": "rocprofv3", "version": None, "schema": schema}, sorted(devices.values(), key=_by_device)
    )


def _by_device(row: Mapping[str, Any]) -> tuple[int, str]:
    return len(row["device"]), row["device"]


@dataclass
class _Set:
    """The tables of one id."""

    database: Database
    suffix: str
    findings: RowsRead

    def load(self, table: str, needed: tuple[str, ...], others: tuple[str, ...] = ()) -> pd.DataFrame:
        return sqlite_columns.load(self.database, f"rocpd_{table}{self.suffix}", needed, others)

    def read(self) -> None:
        """Read all tables into the findings."""
        self.kernels()
        self.copies()
        self.memory()
        work.add_host_rows(self.findings, pd.concat([self.regions(), self.instants()], ignore_index=True))
        counters = sqlite_columns.count(self.database, f"rocpd_pmc_event{self.suffix}")
        self.findings.diagnostics["values of hardware counters, which are not read"] += counters
        for table, rows in work.unread(self.database, _KNOWN, self.suffix).items():
            self.findings.notes.append(f"table {table} ({rows:,} rows) is not read")

    @cached_property
    def strings(self) -> dict[int, str | None]:
        return sqlite_columns.names(self.database, f"rocpd_string{self.suffix}")

    @cached_property
    def categories(self) -> dict[int, str | None]:
        table = f"rocpd_info_category{self.suffix}"
        return sqlite_columns.names(self.database, table, "name") if self.database.columns(table) else self.strings

    @cached_property
    def nodes(self) -> set[str]:
        rows = self.load("info_node", ("id",), ("text:machine_id",))
        return set(rows["machine_id"].astype("object").dropna())

    @cached_property
    def schema(self) -> str | None:
        rows = self.load("metadata", ("text:tag", "text:value")).astype("object")
        result = rows.loc[rows["tag"] == "schema_version", "value"].tolist()
        return str(result[0]) if result else None

    @cached_property
    def agents(self) -> pd.DataFrame:
        """The devices by id, with their names in a Trace."""
        texts = ("text:type", "text:name", "text:product_name")
        rows = self.load("info_agent", ("id",), ("absolute_index", "type_index", *texts))
        gpu = rows["type"].astype("object").map({"GPU": True, "CPU": False})
        number = rows["absolute_index"].fillna(rows["id"])
        known = zip(number, gpu, strict=True)
        named = [None if pd.isna(one) else work.device(int(one), None if pd.isna(kind) else bool(kind)) for one, kind in known]
        return rows.assign(device=pd.Series(named, index=rows.index, dtype="object"))

    def devices(self) -> list[dict[str, Any]]:
        """Return what is known about each GPU."""
        gpus = self.agents[self.agents["type"].astype("object") == "GPU"]
        result = []
        for row in gpus.astype("object").to_dict("records"):
            name = row["product_name"] if isinstance(row["product_name"], str) and row["product_name"] else row["name"]
            entry = {"device": row["device"], "name": name, "architecture": row["name"]}
            result.append({key: value for key, value in entry.items() if isinstance(value, str)})
        return result

    def device_names(self, agents: pd.Series) -> pd.Categorical:
        return work.texts(agents, dict(zip(self.agents["id"].tolist(), self.agents["device"].tolist(), strict=True)))

    @cached_property
    def events(self) -> pd.DataFrame:
        """Category and stack of the events, by id."""
        rows = self.load("event", ("id",), ("category_id", "stack_id"))
        return rows.drop_duplicates("id").set_index("id")

    @cached_property
    def messages(self) -> dict[int, str | None]:
        """The texts of markers by event, from their events' data."""
        marked = [number for number, name in self.categories.items() if name and work.is_marker(name)]
        wanted = self.events.index[self.events["category_id"].isin(marked)]
        if not len(wanted):
            return {}
        rows = self.load("event", ("id",), ("text:extdata",))
        rows = rows[rows["extdata"].notna() & rows["id"].isin(wanted)]
        messages = {text: _message(text) for text in rows["extdata"].cat.remove_unused_categories().cat.categories}
        return dict(zip(rows["id"].tolist(), rows["extdata"].astype("object").map(messages), strict=True))

    @cached_property
    def tracks(self) -> pd.DataFrame:
        rows = self.load("track", ("id",), _PLACE)
        return rows.drop_duplicates("id").set_index("id")

    def timed(self, table: str, needed: tuple[str, ...], others: tuple[str, ...] = ()) -> pd.DataFrame:
        """Return rows of a table with the place where they ran, the stack_id of their events (null for 0) and their category."""
        rows = self.load(table, needed, ("event_id", "track_id", *_PLACE, *others))
        if rows["track_id"].notna().any():
            placed = self.tracks.reindex(rows["track_id"].fillna(-1))
            for name in _PLACE:
                rows[name] = rows[name].fillna(pd.Series(placed[name].array, index=rows.index))
        event = self.events.reindex(rows["event_id"].fillna(-1))
        stack = pd.Series(event["stack_id"].array, index=rows.index)
        rows["correlation"] = stack.mask((stack == 0).fillna(False))
        rows["category"] = work.texts(pd.Series(event["category_id"].array), self.categories)
        return rows.assign(process=self._real(rows["pid"], self._processes), thread_id=self._real(rows["tid"], self._threads))

    @cached_property
    def _processes(self) -> dict[int, int]:
        return self._by_id("info_process", "pid")

    @cached_property
    def _threads(self) -> dict[int, int]:
        return self._by_id("info_thread", "tid")

    def _by_id(self, table: str, column: str) -> dict[int, int]:
        rows = self.load(table, ("id", column))
        return dict(zip(rows["id"].tolist(), rows[column].tolist(), strict=True))

    @staticmethod
    def _real(ids: pd.Series, numbers: dict[int, int]) -> pd.Series:
        """Return the operating system's numbers for ids; an id without a row is taken to be such a number itself."""
        return ids.map(numbers).astype("Int64").fillna(ids)

    def kernels(self) -> None:
        """Read kernels with their launch shapes."""
        sizes = ("group_segment_size", "private_segment_size", *_SIZES, *_GRID)
        rows = self.timed("kernel_dispatch", ("start", "end", "kernel_id"), sizes)
        rows = self.findings.timed("kernels", rows.rename(columns={"start": "start_ns", "end": "end_ns"}))
        symbols = self.load(
            "info_kernel_symbol", ("id",), ("text:display_name", "text:kernel_name", "arch_vgpr_count", "accum_vgpr_count")
        )
        display, mangled = (symbols[name].astype("object") for name in ("display_name", "kernel_name"))
        chosen = display.where(display.notna() & (display != ""), mangled)
        numbers = symbols["id"].tolist()
        plain = work.kernel_names(dict(zip(numbers, (text if isinstance(text, str) else None for text in chosen), strict=True)))
        names = work.texts(rows["kernel_id"], plain)
        self.findings.diagnostics["kernels without a name"] += int(names.isna().sum())
        registers = symbols["arch_vgpr_count"] + symbols["accum_vgpr_count"].fillna(0)
        used = rows["kernel_id"].map(dict(zip(numbers, registers.tolist(), strict=True))).astype("Int64")
        frame = pd.DataFrame(
            {
                "start_ns": rows["start_ns"],
                "end_ns": rows["end_ns"],
                "duration_ns": rows["end_ns"] - rows["start_ns"],
                "count": np.ones(len(rows), dtype=np.int64),
                "device": self.device_names(rows["agent_id"]),
                "thread": work.stream(rows["stream_id"], rows["queue_id"]),
                "name": names,
                "grid": work.shape(rows, _GRID, _SIZES),
                "block": work.shape(rows, _SIZES),
                "registers": used.where(used.between(1, 0xFFFF)).astype("Int32"),
                "shared_memory": rows["group_segment_size"],
                "local_memory": rows["private_segment_size"],
                "process": rows["process"],
                "correlation": rows["correlation"],
            }
        )
        self.findings.add("kernels", frame)

    def copies(self) -> None:
        """Read copies with their direction and bytes."""
        rows = self.timed("memory_copy", ("start", "end", "name_id", "size"), ("src_agent_id", "dst_agent_id"))
        rows = self.findings.timed("copies", rows.rename(columns={"start": "start_ns", "end": "end_ns"}))
        frame = pd.DataFrame(
            {
                "start_ns": rows["start_ns"],
                "end_ns": rows["end_ns"],
                "duration_ns": rows["end_ns"] - rows["start_ns"],
                "count": np.ones(len(rows), dtype=np.int64),
                "thread": work.stream(rows["stream_id"], rows["queue_id"]),
                "bytes": rows["size"],
                "process": rows["process"],
                "correlation": rows["correlation"],
            }
        )
        sides = [np.asarray(self.device_names(rows[name]).astype(object)) for name in ("src_agent_id", "dst_agent_id")]
        self.findings.add("copies", work.copies(frame, work.texts(rows["name_id"], self.strings), sides[0], sides[1]))

    def memory(self) -> None:
        """Read allocations and frees of memory; scratch memory belongs to the runtime and has no addresses."""
        needed = ("start", "end", "text:type", "size")
        rows = self.timed("memory_allocate", needed, ("text:level", "address"))
        kind, level = rows["type"].astype("object"), rows["level"].astype("object")
        plain = kind.isin(["ALLOC", "FREE"]) & (level != "SCRATCH")
        self.findings.diagnostics["events of scratch memory, which are not read"] += int((~plain).sum())
        frame = pd.DataFrame(
            {
                "time_ns": rows["end"],
                "address": rows["address"].mask((rows["address"] == 0).fillna(False)),
                "bytes": rows["size"],
                "device": np.asarray(self.device_names(rows["agent_id"]).astype(object)),
                "thread": rows["thread_id"],
                "taken": kind == "ALLOC",
            }
        )
        work.allocations(self.findings, frame[plain])

    def regions(self) -> pd.DataFrame:
        """Return the host's API calls, ranges and functions."""
        rows = self.timed("region", ("start", "end", "name_id"))
        return self._host_rows(rows, rows["start"], rows["end"], work.texts(rows["name_id"], self.strings))

    def instants(self) -> pd.DataFrame:
        """Return host events without a duration, mainly ROCTX marks."""
        rows = self.timed("sample", ("timestamp",), ("name_id",))
        names = work.texts(rows["name_id"], self.strings)
        messages = rows["event_id"].map(self.messages)
        known = pd.notna(pd.Series(names, dtype="object")) | messages.notna().to_numpy()
        self.findings.diagnostics["samples, which are not read"] += int((~known).sum())
        return self._host_rows(rows, rows["timestamp"], rows["timestamp"], names)[known.to_numpy(bool)]

    def _host_rows(self, rows: pd.DataFrame, start: pd.Series, end: pd.Series, function: pd.Categorical) -> pd.DataFrame:
        unknown = int((rows["process"].isna() | rows["thread_id"].isna()).sum())
        self.findings.diagnostics["calls and ranges of unknown thread, which stand on thread 0"] += unknown
        return pd.DataFrame(
            {
                "start_ns": start,
                "end_ns": end,
                "process": rows["process"].fillna(0),
                "thread": rows["thread_id"].fillna(0),
                "correlation": rows["correlation"],
                "domain": pd.Series(rows["category"], dtype="object").fillna("").to_numpy(object),
                "function": pd.Series(function, dtype="object").to_numpy(object),
                "message": rows["event_id"].map(self.messages).to_numpy(object),
            }
        )


def _message(text: str) -> str | None:
    """Return the marker's text in an event's data; None if there is none."""
    try:
        result = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    message = result.get("message") if isinstance(result, dict) else None
    return message if isinstance(message, str) else None
