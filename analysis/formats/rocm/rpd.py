"""Databases of rpd (rocmProfileData's rpd_tracer), also those imported from rocprof, schemas 1 to 3.

rocpd_op holds device work, rocpd_api the host's calls and ranges, and rocpd_api_ops relates them. The arguments of launches and
copies are in rocpd_kernelapi and rocpd_copyapi. Times are in ns.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
import pandas as pd

from kernelscope.analysis.files import sqlite_columns
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats.rocm import work
from kernelscope.analysis.formats.rocm.work import RowsRead
from kernelscope.analysis.trace import Trace

SIGNS = frozenset({"rocpd_string", "rocpd_api", "rocpd_op"})

_GRID = tuple(f"grid{axis}" for axis in "XYZ")
_BLOCK = tuple(f"workgroup{axis}" for axis in "XYZ")
_KNOWN = (
    "rocpd_metadata", "rocpd_string", "rocpd_ustring", "rocpd_api", "rocpd_op", "rocpd_api_ops", "rocpd_kernelapi",
    "rocpd_copyapi", "rocpd_kernelop", "rocpd_copyop", "rocpd_kernelcodeobject", "rocpd_stackframe", "rocpd_op_inputSignals",
    "rocpd_barrierop",
)  # fmt: skip
_COPY = re.compile(r"^(?:Copy|Fill|hipMemcpy|hipMemset|Memcpy|Memset)", re.IGNORECASE)
_KERNEL = re.compile(r"kernel|^Task$|^Dispatch", re.IGNORECASE)
_NO_WORK = re.compile(r"^(?:Barrier|Marker)", re.IGNORECASE)  # packets of a queue that compute nothing
_GLOBAL_SIZE = re.compile(r"hipExtModuleLaunchKernel|hipHccModuleLaunchKernel")  # their grids count work-items
_RANGES = ("UserMarker", "UserRange")  # ROCTX's marks and ranges: the text is the argument
_KINDS = {1: "HostToDevice", 2: "DeviceToHost", 3: "DeviceToDevice", 0: "HostToHost"}  # hipMemcpyKind


def read(database: Database) -> Trace:
    """Return the Trace of an rpd database."""
    source = _RpdDatabase(database)
    source.device_work()
    source.host()
    findings = source.findings
    for table, rows in work.unread(database, _KNOWN).items():
        findings.notes.append(f"table {table} ({rows:,} rows) is not read")
    version = sqlite_columns.load(database, "rocpd_metadata", (), ("text:tag", "text:value")).astype("object")
    schema = version.loc[version["tag"] == "schema_version", "value"].tolist() or ["1"]
    return findings.trace({"format": "rocpd", "tool": "rpd", "version": None, "schema": str(schema[0])}, [])


class _RpdDatabase:
    """A database with its texts."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.findings = RowsRead()
        self.strings = sqlite_columns.names(database, "rocpd_string")

    @cached_property
    def api(self) -> pd.DataFrame:
        """The host's calls and ranges, by id."""
        needed = ("id", "pid", "tid", "start", "end", "apiName_id")
        rows = sqlite_columns.load(self.database, "rocpd_api", needed, ("args_id", "domain_id"))
        return rows.drop_duplicates("id").set_index("id")

    @cached_property
    def launches(self) -> pd.DataFrame:
        """The call of each operation, by the operation's id; of several calls, the first."""
        rows = sqlite_columns.load(self.database, "rocpd_api_ops", ("api_id", "op_id"))
        return rows.dropna().drop_duplicates("op_id").set_index("op_id")

    def device_work(self) -> None:
        """Read kernels and copies; count operations that are neither."""
        needed = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
        rows = sqlite_columns.load(self.database, "rocpd_op", needed)
        rows = self.findings.timed("operations", rows.rename(columns={"start": "start_ns", "end": "end_ns"}))
        rows["correlation"] = pd.Series(self.launches["api_id"].reindex(rows["id"]).array, index=rows.index)
        rows["process"] = pd.Series(self.api["pid"].reindex(rows["correlation"].fillna(-1)).array, index=rows.index)
        processes = self.api["pid"].dropna().unique()
        if len(processes) == 1:
            rows["process"] = rows["process"].fillna(processes[0])
        kind = pd.Series(work.texts(rows["opType_id"], self.strings), dtype="object").fillna("")
        copy, idle = (kind.str.match(pattern).to_numpy(bool) for pattern in (_COPY, _NO_WORK))
        kernel = ~copy & ~idle & kind.map({text: _KERNEL.search(text) is not None for text in kind.unique()}).to_numpy(bool)
        for text, count in kind[~copy & ~kernel].value_counts().items():
            self.findings.diagnostics[f"operations of type {str(text)[:60] or '(none)'}, which are no kernels or copies"] += int(
                count
            )
        common = pd.DataFrame(
            {
                "start_ns": rows["start_ns"],
                "end_ns": rows["end_ns"],
                "duration_ns": rows["end_ns"] - rows["start_ns"],
                "count": np.ones(len(rows), dtype=np.int64),
                "device": work.texts(rows["gpuId"], {int(one): f"rocm:{one}" for one in rows["gpuId"].dropna().unique()}),
                "thread": rows["queueId"],
                "process": rows["process"],
                "correlation": rows["correlation"],
            }
        )
        self.kernels(rows[kernel], common[kernel])
        self.copies(rows[copy], common[copy], kind[copy])

    def kernels(self, rows: pd.DataFrame, common: pd.DataFrame) -> None:
        """Add kernels; those without a description get the name from their launch."""
        asked = self._asked("rocpd_kernelapi", (*_GRID, *_BLOCK, "groupSegmentSize", "kernelName_id"), rows["correlation"])
        older = self._asked("rocpd_kernelop", (*_BLOCK, "groupSegmentSize", "kernelName_id"), rows["id"], "op_ptr_id")
        name_id = asked["kernelName_id"].fillna(older["kernelName_id"])
        plain = work.kernel_names({number: self.strings.get(number) for number in self._used(rows["description_id"], name_id)})
        first, second = (pd.Series(work.texts(ids, plain), dtype="object") for ids in (rows["description_id"], name_id))
        names = first.where(first.notna(), second).to_numpy(object)
        self.findings.diagnostics["kernels without a name"] += int(pd.isna(names).sum())
        called = pd.Series(self.api["apiName_id"].reindex(rows["correlation"].fillna(-1)).array)
        items = pd.Series(work.texts(called, self.strings), dtype="object").fillna("").str.contains(_GLOBAL_SIZE).to_numpy(bool)
        in_blocks, in_items = (pd.Series(work.shape(asked, _GRID, by), dtype="object") for by in ((), _BLOCK))
        block = asked[list(_BLOCK)].fillna(older[list(_BLOCK)])
        local = asked["groupSegmentSize"].fillna(older["groupSegmentSize"])
        self.findings.add(
            "kernels",
            common.assign(
                name=names,
                grid=in_items.where(items, in_blocks).to_numpy(object),
                block=np.asarray(work.shape(block, _BLOCK).astype(object)),
                shared_memory=local.array,
            ),
        )

    def copies(self, rows: pd.DataFrame, common: pd.DataFrame, kind: pd.Series) -> None:
        """Add copies and fills with the bytes of their calls."""
        asked = self._asked("rocpd_copyapi", ("size", "kind"), rows["correlation"])
        older = self._asked("rocpd_copyop", ("size",), rows["id"], "op_ptr_id")
        kinds = pd.Series(work.texts(asked["kind"], dict(_KINDS)), dtype="object").to_numpy(object)
        plain = kind.map({text: work.operation(text) for text in kind.unique()}).to_numpy(object)
        names = np.where((plain == "other") & pd.notna(kinds), kinds, kind.to_numpy(object))
        frame = common.assign(bytes=asked["size"].fillna(older["size"]).array)
        device = np.asarray(common["device"].astype(object))
        self.findings.add("copies", work.copies(frame, pd.Categorical(names), device, device))

    def _used(self, *columns: pd.Series) -> list[int]:
        return sorted({int(number) for column in columns for number in column.dropna().unique()})

    def _asked(self, table: str, columns: tuple[str, ...], ids: pd.Series, key: str = "api_ptr_id") -> pd.DataFrame:
        """Return the arguments of calls or operations, aligned with `ids`, null where the table has none."""
        rows = sqlite_columns.load(self.database, table, (key,), columns).drop_duplicates(key).set_index(key)
        result = rows.reindex(ids.fillna(-1))
        return result.reset_index(drop=True)

    def host(self) -> None:
        """Read calls and ranges."""
        rows = self.api.reset_index()
        function = pd.Series(work.texts(rows["apiName_id"], self.strings), dtype="object")
        mine = function.isin(_RANGES).to_numpy(bool)
        newer = "rocpd_ustring" in self.database.tables
        long = sqlite_columns.names(self.database, "rocpd_ustring") if newer else self.strings
        message = pd.Series(work.texts(rows["args_id"].where(mine), long), dtype="object")
        known = pd.Series(work.texts(rows["domain_id"], self.strings), dtype="object").to_numpy(object)
        by_name = function.fillna("").str.extract(r"^_*(hip|hsa|nccl|rccl)", expand=False).fillna("hip").to_numpy(object)
        domain = np.where(mine, "roctx", np.where(pd.isna(known) | (known == ""), by_name, known))
        # a domain of another kind, such as Python's, is not an API
        work.add_host_rows(
            self.findings,
            pd.DataFrame(
                {
                    "start_ns": rows["start"],
                    "end_ns": rows["end"],
                    "process": rows["pid"].fillna(0),
                    "thread": rows["tid"].fillna(0),
                    "correlation": rows["id"],
                    "domain": domain,
                    "function": function.to_numpy(object),
                    "message": message.to_numpy(object),
                }
            ),
        )
