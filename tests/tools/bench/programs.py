"""What is measured besides the command line, each as a process of its own.

    python tests/tools/bench/programs.py bytes FILE           read the file: the floor of every reader
    python tests/tools/bench/programs.py unpack FILE          read and gunzip it
    python tests/tools/bench/programs.py json FILE            decode its JSON with msgspec, into plain objects
    python tests/tools/bench/programs.py sqlite FILE          let SQLite walk the columns that we need, and hand out nothing
    python tests/tools/bench/programs.py rows FILE            hand out their rows, through Python's sqlite3
    python tests/tools/bench/programs.py read FILE            read a capture: ks.read(FILE)
    python tests/tools/bench/programs.py again FILE COUNT     read it once; then time reading it and its bytes, COUNT times each
    python tests/tools/bench/programs.py stages FILE          print what each stage of the table by range takes, as JSON, in s
    python tests/tools/bench/programs.py kernels FILE         print how many kernels it has, and the sum of their time, as JSON
    python tests/tools/bench/programs.py nvtx-kernels FILE    print kernels by range and name as CSV, nested ranges included

Imports stand inside of the programs: a floor shall not pay for what it does not use.
"""

from __future__ import annotations

import sys

_PIECE = 1 << 24

# What the reader of nsys's exports takes, as far as a table has it
_COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName", "gridX", "gridY",
        "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId", "eventClass"),
    "NVTX_EVENTS": ("start", "end", "globalTid", "eventType", "text", "textId", "domainId", "rangeId"),
}  # fmt: skip

# Where what is timed is looked up when it is called; what no longer exists there counts as the rest
_STAGES = (
    ("telling the format", "recordings.captures", "detect"),
    ("searching for secrets", "secrets.search", "find"),
    ("reading and decoding", "formats.nsys.sqlite", "read"),
    ("reading and decoding", "formats.kineto.trace", "read"),
    ("checking times", "recordings.captures", "set_aside_impossible"),
    ("tying kernels to calls and ranges", "attribution.launches", "relate"),
    ("naming kernels", "kernels.names", "fill"),
    ("sharing out the time", "accounting.partition", "partition"),
    ("grouping", "accounting.breakdowns", "of_cells"),
)


def read_bytes(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(_PIECE):
            pass


def unpack(path: str) -> None:
    from isal import igzip

    with igzip.open(path, "rb") as file:
        while file.read(_PIECE):
            pass


def json(path: str) -> None:
    import gc
    import gzip

    import msgspec

    gc.disable()  # it would walk through all objects again and again
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        msgspec.json.decode(file.read())


def _queries(path: str, each: str):
    import sqlite3

    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    for table, columns in _COLUMNS.items():
        existing = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        wanted = [each.format(column) for column in columns if column in existing]
        if wanted:
            yield connection.execute(f"SELECT {', '.join(wanted)} FROM {table}")


def sqlite(path: str) -> None:
    for cursor in _queries(path, "count({})"):
        cursor.fetchall()


def rows(path: str) -> None:
    for cursor in _queries(path, "{}"):
        while cursor.fetchmany(10_000):
            pass


def read(path: str):
    import kernelscope as ks

    return ks.read(path)


def again(path: str, count: str) -> None:
    import time

    def timed(function):
        start = time.perf_counter()
        function(path)
        return time.perf_counter() - start

    read(path)
    print([[timed(function) for _ in range(int(count))] for function in (read, read_bytes)])


def stages(path: str) -> None:
    import contextlib
    import importlib
    import io
    import json
    import threading
    import time

    taken: dict[str, float] = {}
    beside: dict[str, float] = {}

    def timed(name, function):
        def call(*arguments, **options):
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                where = taken if threading.current_thread() is threading.main_thread() else beside
                where[name] = where.get(name, 0.0) + time.perf_counter() - start

        return call

    begin = time.perf_counter()
    from kernelscope.cli import main

    for name, module, attribute in _STAGES:
        home = importlib.import_module(f"kernelscope.analysis.{module}")
        if hasattr(home, attribute):
            setattr(home, attribute, timed(name, getattr(home, attribute)))
    with contextlib.redirect_stdout(io.StringIO()):
        if main.main(["breakdown", path, "--by", "range", "--format", "csv"]) != 0:
            sys.exit(f"{path}: no breakdown")
    taken["imports, printing and the rest"] = time.perf_counter() - begin - sum(taken.values())
    print(json.dumps({"in turn": taken, "beside": beside}))


def kernels(path: str) -> None:
    trace = read(path)
    print([int(trace.kernels["count"].sum()), int(trace.kernels["duration_ns"].sum())])


def nvtx_kernels(path: str) -> None:
    """As `nsys stats -r nvtxkernsum` counts: a kernel belongs to every range that is open where its launch begins."""
    import csv
    from collections import defaultdict

    trace = read(path)
    ranges = trace.ranges[trace.ranges["nested"]]
    parents = _parents(ranges)
    names = ranges["name"].astype(object).to_dict()
    found = defaultdict(lambda: [0, 0])
    columns = trace.kernels[["range_id", "name", "duration_ns"]].astype(object).itertuples(index=False)
    for row, kernel, duration in columns:
        inside = [] if row is None or row != row else [int(row)]
        while inside and (parent := parents.get(inside[-1])) is not None:
            inside.append(parent)
        for name in {names[at] for at in inside} or {""}:
            found[name, kernel][0] += 1
            found[name, kernel][1] += duration
    csv.writer(sys.stdout).writerows([*key, *value] for key, value in sorted(found.items()))


def _parents(ranges) -> dict[int, int]:
    """Return of each range the next one around it on its thread, by a stack, independent of how kernels found their range."""
    parents, stack, last = {}, [], None
    order = ranges.sort_values(["thread", "start_ns", "end_ns"], ascending=[True, True, False], kind="stable")
    for row, thread, start, end in zip(order.index, order["thread"], order["start_ns"], order["end_ns"], strict=True):
        if thread != last:
            stack, last = [], thread
        while stack and (stack[-1][1] < end or stack[-1][1] <= start):
            stack.pop()
        if stack:
            parents[row] = stack[-1][0]
        stack.append((row, end))
    return parents


PROGRAMS = {
    "bytes": read_bytes, "unpack": unpack, "json": json, "sqlite": sqlite, "rows": rows, "read": read, "again": again,
    "stages": stages, "kernels": kernels, "nvtx-kernels": nvtx_kernels,
}  # fmt: skip

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
