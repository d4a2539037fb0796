"""SQLite files of Ascend's profilers: ascend_pytorch_profiler_*.db, ascend_mindspore_profiler_*.db and msprof_*.db.

TASK has the tasks of all NPUs; COMPUTE_TASK_INFO and COMMUNICATION_TASK_INFO describe them by their global number, and
COMMUNICATION_OP has the collectives. CANN_API and PYTORCH_API have the host's calls and operators. Times are ns since 1970;
texts are ids of STRING_IDS. Schema: Ascend/msprof docs/en/user_guide/profile_data_file_references_db.md, and CANN's page on
ascend_pytorch_profiler_{Rank_ID}.db.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import sqlite_columns
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats.ascend import launches, tasks
from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.trace import Trace, conform

_WORK = frozenset({"TASK", "COMMUNICATION_OP"})
_TOTALS = re.compile(r"StepTraceTime|CommAnalyzer\w+|CommunicationGroupMapping", re.IGNORECASE)
_BESIDE = "name ascend_pytorch_profiler_*.db, kernel_details.csv or trace_view.json beside it"
_OPERATOR, _QUEUE, _PYTHON = 50001, 50002, 50003  # ENUM_API_TYPE
_NO_CONNECTION = 0xFFFFFFFF
_STEP_NAME = re.compile(r"ProfilerStep#(\d{1,18})$")
_COPIES = {
    0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device", 4: "unified memory",
    5: "device to device", 6: "host to device", 7: "device to host",
}  # fmt: skip
_TYPES = {0: "s8", 1: "s16", 2: "s32", 3: "f16", 4: "f32", 5: "s64", 7: "u8", 10: "f64", 11: "bf16", 15: "f8_e4m3", 16: "f8_e5m2"}


def matches(head: Head) -> bool:
    """Return whether this is a database with tables that only Ascend's profilers have."""
    return (bool(_WORK & head.tables) and "STRING_IDS" in head.tables) or any(_TOTALS.fullmatch(name) for name in head.tables)


def read(path: Path) -> Trace:
    """Read a database; raise EvidenceError if it is damaged or has no NPU work."""
    with Database(path) as database:
        if not _WORK & database.tables:
            match = ", ".join(sorted(name for name in database.tables if _TOTALS.fullmatch(name)))
            raise EvidenceError(
                f"{path}: analysis.db of Ascend's profiler, which has only totals of steps and of communication ({match}) and no "
                f"NPU work; {_BESIDE}"
            )
        return _DatabaseReader(database).trace()


class _DatabaseReader:
    """Makes the tables of a Trace from a database; counts oddities in diagnostics."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.diagnostics: dict[str, int] = {}
        strings = self._rows("STRING_IDS", ("id",), ("value",))
        self._strings = strings.dropna(subset=["id"]).drop_duplicates("id").set_index("id")["value"]

    def _rows(self, table: str, integers: Sequence[str], texts: Sequence[str] = ()) -> pd.DataFrame:
        """Return columns of a table; null if the table lacks them. torch_npu's first versions wrote integers as texts."""
        columns = (*integers, *(f"text:{name}" for name in texts))
        return sqlite_columns.load(self.database, table, (), columns, numbers_as_texts=True).astype(
            dict.fromkeys(texts, "object")
        )

    def _text(self, numbers: pd.Series) -> pd.Series:
        """Return the texts of ids of STRING_IDS; null if there is none."""
        return numbers.map(self._strings).astype("object")

    def _timed(self, table: str, more: Sequence[str]) -> pd.DataFrame:
        """Return rows with start_ns and end_ns; those without a usable time are counted and left out."""
        rows = self._rows(table, ("startNs", "endNs", *more)).rename(columns={"startNs": "start_ns", "endNs": "end_ns"})
        usable = (rows["start_ns"].notna() & rows["end_ns"].notna() & (rows["end_ns"] >= rows["start_ns"])).to_numpy(dtype=bool)
        if not usable.all():
            self.diagnostics[f"{table}: rows without a usable time"] = int((~usable).sum())
        return rows[usable].astype({"start_ns": "int64", "end_ns": "int64"}).reset_index(drop=True)

    def trace(self) -> Trace:
        """Return the Trace; raise EvidenceError if no task has a time."""
        hardware, collectives = self._tasks(), self._collectives()
        if not len(hardware) and not len(collectives):
            raise EvidenceError(f"{self.database.path}: its table TASK holds no NPU task; record with ProfilerActivity.NPU")
        torch = self._torch()
        operators, connections = self._operators(torch)
        arrows = _arrows(operators, connections, hardware, collectives)
        calls = launches.correlate(self._calls(torch), operators, arrows, [hardware, collectives])
        made = tasks.sort(hardware, collectives, self.diagnostics)
        steps = self._steps(operators)
        stepping = autograd.where_text(operators["name"], _STEP_NAME.match)
        return Trace(
            steps=conform("steps", steps),
            ranges=conform("ranges", self._ranges()),
            operators=conform("operators", operators[~stepping].reset_index(drop=True)),
            kernels=conform("kernels", made.kernels),
            copies=conform("copies", made.copies),
            syncs=conform("syncs", made.syncs),
            calls=conform("calls", calls),
            info=self._info([hardware, collectives], len(operators)),
            diagnostics={name: count for name, count in self.diagnostics.items() if count},
        )

    # --- the device -------------------------------------------------------------------------------------------------------

    def _tasks(self) -> pd.DataFrame:
        """Return the tasks, named by their computation or communication, else by their type."""
        rows = self._timed("TASK", ("deviceId", "connectionId", "globalTaskId", "taskType", "streamId"))
        computing = self._rows(
            "COMPUTE_TASK_INFO", ("globalTaskId", "name", "opType", "taskType", "inputShapes", "inputDataTypes")
        ).drop_duplicates("globalTaskId")
        info = rows[["globalTaskId"]].merge(computing, on="globalTaskId", how="left")
        small = self._rows("COMMUNICATION_TASK_INFO", ("globalTaskId", "name", "taskType", "opId")).drop_duplicates(
            "globalTaskId"
        )
        part = rows[["globalTaskId"]].merge(small, on="globalTaskId", how="left")
        has_operation = part["opId"].isin(self._rows("COMMUNICATION_OP", ("opId",))["opId"].dropna())
        kind = self._text(rows["taskType"])
        # the host's name for the core is more precise: MIX_AIC where the device says AI_CORE
        task_types = self._text(info["taskType"]).where(info["name"].notna())
        name = self._text(info["name"])
        name = name.where(name.notna(), self._text(part["name"]).where(name.isna(), name))
        copied = self._rows("MEMCPY_INFO", ("globalTaskId", "size", "memcpyOperation")).drop_duplicates("globalTaskId")
        copy = rows[["globalTaskId"]].merge(copied, on="globalTaskId", how="left")
        result = self._placed(rows).assign(
            name=name.where(name.notna(), kind),
            task_type=task_types.where(task_types.notna(), kind).fillna(""),
            operator=self._text(info["opType"]),
            problem=self._text(info["inputShapes"]),
            dtype=autograd.of_text(self._text(info["inputDataTypes"]), tasks.dtype),
            operation=copy["memcpyOperation"].map(_COPIES).astype("object"),
            bytes=copy["size"],
        )
        by_connection = result["connection"].isin(self._rows("COMMUNICATION_OP", ("connectionId",))["connectionId"].dropna())
        return result.assign(part=(has_operation | (by_connection & info["name"].isna())).fillna(False).to_numpy(dtype=bool))

    def _collectives(self) -> pd.DataFrame:
        rows = self._timed("COMMUNICATION_OP", ("deviceId", "connectionId", "opName", "opType", "dataType"))
        return self._placed(rows.assign(streamId=pd.Series(pd.NA, index=rows.index, dtype="Int64"))).assign(
            name=self._text(rows["opName"]),
            operator=self._text(rows["opType"]),
            dtype=rows["dataType"].map(_TYPES).astype("object"),
        )

    def _placed(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return times, device, stream and connection, and track, by which arrows find rows."""
        number = rows["deviceId"].where(rows["deviceId"] >= 0)
        connection = rows["connectionId"].where((rows["connectionId"] != _NO_CONNECTION) & (rows["connectionId"] >= 0))
        return pd.DataFrame(
            {
                "start_ns": rows["start_ns"],
                "end_ns": rows["end_ns"],
                "device": ("npu:" + number.astype("string")).fillna("npu").astype("category"),
                "thread": rows["streamId"],
                "connection": connection,
                "track": 0,
            }
        )

    # --- the host ---------------------------------------------------------------------------------------------------------

    def _host(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return times, process and thread of calls: globalTid has the process above the lower 32 bits."""
        known = rows[rows["globalTid"].notna().to_numpy(dtype=bool)].reset_index(drop=True)
        if len(known) < len(rows):
            self.diagnostics["calls without a thread"] = (
                self.diagnostics.get("calls without a thread", 0) + len(rows) - len(known)
            )
        number = known["globalTid"].to_numpy(np.int64)
        return known.assign(process=number >> 32, thread=number & 0xFFFFFFFF)

    def _torch(self) -> pd.DataFrame:
        return self._host(
            self._timed(
                "PYTORCH_API",
                ("globalTid", "connectionId", "name", "sequenceNumber", "fwdThreadId", "inputShapes", "inputDtypes", "type"),
            )
        )

    def _operators(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return torch's operators, and the connections that begin in each: columns row and connection."""
        python = int((rows["type"] == _PYTHON).sum())
        if python:
            self.diagnostics["Python's functions, not read"] = python
        rows = rows[(rows["type"].fillna(_OPERATOR) == _OPERATOR).to_numpy(dtype=bool)].reset_index(drop=True)
        operators = rows[["start_ns", "end_ns", "process", "thread"]].assign(
            name=self._text(rows["name"]).fillna("unknown"),
            shapes=self._text(rows["inputShapes"]),
            types=self._text(rows["inputDtypes"]),
        )
        several = self._rows("CONNECTION_IDS", ("id", "connectionId"))
        named = rows[["connectionId"]].assign(row=rows.index).dropna()
        result = named.merge(several.rename(columns={"connectionId": "connection"}), left_on="connectionId", right_on="id")
        return operators, result[["row", "connection"]].dropna().drop_duplicates("connection")

    def _calls(self, queue: pd.DataFrame) -> pd.DataFrame:
        """Return the calls of CANN and of torch's task queue."""
        cann = self._host(self._timed("CANN_API", ("globalTid", "connectionId", "name")))
        queue = queue[(queue["type"] == _QUEUE).fillna(False).to_numpy(dtype=bool)].reset_index(drop=True)
        none = pd.Series(pd.NA, index=queue.index, dtype="Int64")
        connection = cann["connectionId"].where((cann["connectionId"] != _NO_CONNECTION) & (cann["connectionId"] >= 0))
        name = self._text(queue["name"]).fillna("")
        leaving = name.str.startswith("Dequeue").to_numpy(dtype=bool)
        tables = [
            cann.assign(name=self._text(cann["name"]), category="cann", api="cann", connection=connection, queue=None),
            queue.assign(
                name=name, category=np.where(leaving, "dequeue", "enqueue"), api="task queue", connection=none,
                queue=queue["connectionId"],
            ),
        ]  # fmt: skip
        columns = ["start_ns", "end_ns", "process", "thread", "name", "category", "api", "connection", "queue"]
        filled = [table[columns] for table in tables if len(table)] or [tables[0][columns]]
        return pd.concat(filled, ignore_index=True).astype({"connection": "Int64", "queue": "Int64"})

    def _steps(self, operators: pd.DataFrame) -> pd.DataFrame:
        """Return the profiler's steps, on the thread where torch annotated them, if it did."""
        rows = self._timed("STEP_TIME", ("id",))
        stepping = autograd.where_text(operators["name"], _STEP_NAME.match)
        marks = operators[stepping]
        thread = int(marks["thread"].mode().iloc[0]) if len(marks) else 0
        rows = rows.sort_values("start_ns", ignore_index=True).dropna(subset=["id"])
        end = np.minimum(rows["end_ns"], rows["start_ns"].shift(-1, fill_value=np.iinfo(np.int64).max))
        return rows.rename(columns={"id": "step"}).assign(end_ns=end, warmup=False, thread=thread).astype({"step": "int64"})

    def _ranges(self) -> pd.DataFrame:
        """Return the program's own ranges (mstx)."""
        rows = self._host(self._timed("MSTX_EVENTS", ("globalTid", "message", "domainId", "eventType")))
        mark = rows["end_ns"] == rows["start_ns"]
        return rows[["start_ns", "end_ns", "thread"]].assign(
            name=self._text(rows["message"]).fillna(""),
            category=np.where(mark, "mark", "user"),
            nested=(rows["eventType"] == 1).fillna(False).to_numpy(dtype=bool),
        )

    # --- the file's own description ---------------------------------------------------------------------------------------

    def _info(self, work: list[pd.DataFrame], operators: int) -> dict[str, Any]:
        names = self._rows("NPU_INFO", ("id",), ("name",)).dropna()
        chips = {f"npu:{number}": str(name) for number, name in zip(names["id"], names["name"], strict=True)}
        devices = sorted({str(device) for table in work for device in table["device"].unique()})
        info: dict[str, Any] = {
            "source": {"format": "ascend-db", "tool": "torch_npu.profiler" if operators else "msprof", "version": None},
            "clock": "wall",
            "devices": [{"device": name} | ({"name": chips[name]} if name in chips else {}) for name in devices],
            "unavailable": {},
            "notes": ["collectives (HCCL) are kernels, including their waiting; their tasks are not counted again"],
        }
        if operators:
            info["framework"] = "pytorch"
        return info


def _arrows(operators: pd.DataFrame, connections: pd.DataFrame, *work: pd.DataFrame) -> pd.DataFrame:
    """Return an arrow from each operator to the tasks of its connections, as in a chrome trace."""
    rows = pd.concat([table[["start_ns", "connection", "track"]] for table in work], ignore_index=True)
    result = rows.merge(connections, on="connection").assign(category="async_npu")
    at = result["row"].to_numpy(np.int64)
    result["thread"], result["start_ns_host"] = (operators[name].to_numpy(np.int64)[at] for name in ("thread", "start_ns"))
    return result[["category", "track", "start_ns", "thread", "start_ns_host"]]
