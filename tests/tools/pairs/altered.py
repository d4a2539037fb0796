"""Make real captures slower in known ways, explain each against itself, and judge what is said.

    python tests/tools/pairs/altered.py [CAPTURE...] [--only CHANGE]

A capture is torch.profiler's trace or nsys's SQLite; default: those of ../shared/corpus that hold enough. A change lets time
pass within what a capture holds: all that comes later is moved, and whatever goes on then takes longer, on the device and on the
host alike. So the difference is known to the nanosecond. It is found when the first cause is one of those that fit the change,
and explains 70% to 130% of the difference of the steps. A control is right when it gets no cause. What changes steps by less than
3% is not judged: two runs may differ by as much, or it lies outside of them.

Exits with 1 where a difference is not found, or a control gets a cause.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import shutil
import sqlite3
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.trace import intervals
from kernelscope.cli.explain import explained

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT.parent / "shared/corpus"
CAPTURES = (
    "kineto/pytorch__kineto__resnet50_nw0_worker0.1623143089861.pt.trace.json.gz",
    "kineto/AMD-AGI__TraceLens__h100_timesformer.json.gz",
    "kineto/AMD-AGI__TraceLens__b200_eager_trace.json.gz",
    "kineto/AMD-AGI__TraceLens__h100_Qwen1.5-0.5B.json.gz",
    "kineto/AMD-AGI__TraceLens__xdit_sd_3.5_profile_trace_rank_0.json.gz",
    "kineto/facebookresearch__HolisticTraceAnalysis__trace_diff_test.json.gz",
    "kineto/facebookresearch__HolisticTraceAnalysis__negative_queue_length_values_check_rank0.json.gz",
    "nsys/zx3xyy__assignment2-systems__result.sqlite",
    "nsys/zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite",
)
WITHIN = 0.3  # of the difference: what was launched before a step and runs in it is a row of its own
_SEEN = 0.03  # of a step: two runs of one program may differ by less
_COLLECTIVE = re.compile(r"(?i)nccl|rccl")
_FROM_HOST = re.compile(r"(?i)HtoD|Host ?-> ?Device")
_EACH_LONGER, _ALL_LONGER, _IDLE, _NOISE = 0.6, 0.25, 0.3, 0.015  # of kernels, of a step and, on average, of all work

_NEARLY_ALL = 0.9

Int = NDArray[np.int64]
Passing = list[tuple[int, int]]  # when time passes, and for how long, both in ns


class Work(NamedTuple):
    """Something that the device did. kind: kernel, copy or set."""

    start: int
    end: int
    name: str
    kind: str


class Recorded(Protocol):
    """A capture that can be altered. steps: their starts and ends, ns, where the capture marks them."""

    work: list[Work]
    steps: list[tuple[int, int]]

    def write(self, path: Path, moved: Callable[[Int], Int]) -> None:
        """Write the capture with all times moved."""


class Kineto:
    """A trace of torch.profiler."""

    suffix = ".json"
    _KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set"}

    def __init__(self, path: Path):
        content = path.read_bytes()
        self._trace = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content, strict=False)
        self._timed = [event for event in self._trace["traceEvents"] if "ts" in event]
        self._start = np.array([round(float(event["ts"]) * 1000) for event in self._timed], dtype=np.int64)
        self._end = self._start + np.array([round(float(event.get("dur", 0)) * 1000) for event in self._timed], dtype=np.int64)
        edges = list(zip(self._start.tolist(), self._end.tolist(), strict=True))
        self.work, self.steps = [], []
        for event, (start, end) in zip(self._timed, edges, strict=True):
            kind = self._KINDS.get(str(event.get("cat")).lower())
            if event.get("ph") == "X" and kind:
                self.work.append(Work(start, end, event["name"], kind))
            elif str(event.get("name")).startswith("ProfilerStep#") and event.get("cat") != "gpu_user_annotation":
                self.steps.append((start, end))

    def write(self, path: Path, moved: Callable[[Int], Int]) -> None:
        start, end = moved(self._start).tolist(), moved(self._end).tolist()
        events = []
        for event, first, last in zip(self._timed, start, end, strict=True):
            events.append({**event, "ts": first / 1000, **({"dur": (last - first) / 1000} if "dur" in event else {})})
        events += [event for event in self._trace["traceEvents"] if "ts" not in event]
        path.write_text(json.dumps({**self._trace, "traceEvents": events}))


class Nsys:
    """A SQLite file of nsys."""

    suffix = ".sqlite"
    _KINDS = {"KERNEL": "kernel", "MEMCPY": "copy", "MEMSET": "set"}
    _OPERATIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD"}

    def __init__(self, path: Path):
        self._path = path
        self.work, self.steps = [], []
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            texts = dict(database.execute("SELECT id, value FROM StringIds"))
            for table, kind in self._KINDS.items():
                if (full := f"CUPTI_ACTIVITY_KIND_{table}") in tables:
                    named = {"kernel": "demangledName", "copy": "copyKind"}.get(kind, "0")
                    names = {"kernel": texts, "copy": self._OPERATIONS}.get(kind, {})
                    rows = database.execute(f"SELECT start, [end], {named} FROM {full}")
                    self.work += [Work(start, end, str(names.get(name, name)), kind) for start, end, name in rows]

    def write(self, path: Path, moved: Callable[[Int], Int]) -> None:
        shutil.copyfile(self._path, path)
        with closing(sqlite3.connect(path)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                columns = {name for _, name, *_ in database.execute(f"PRAGMA table_info([{table}])")}
                for column in {"start", "end"} & columns:
                    rows = database.execute(f"SELECT rowid, [{column}] FROM [{table}] WHERE [{column}] IS NOT NULL").fetchall()
                    times = moved(np.array([time for _, time in rows], dtype=np.int64)).tolist()
                    new = zip(times, [row for row, _ in rows], strict=True)
                    database.executemany(f"UPDATE [{table}] SET [{column}] = ? WHERE rowid = ?", new)
            database.commit()


class Change(NamedTuple):
    """A way to alter a capture. causes: those that fit it, as expressions; none of a control."""

    name: str
    passing: Callable[[Recorded], Passing]
    causes: str | None


def _running(recorded: Recorded, times: Int) -> Int:
    """Return how much work of the device is going on at these times."""
    start, end = (np.sort([getattr(work, name) for work in recorded.work]) for name in ("start", "end"))
    return np.searchsorted(start, times, side="right") - np.searchsorted(end, times, side="right")


def _longer(recorded: Recorded, chosen: list[Work], share: float) -> Passing:
    """Return what makes work longer by a share, of that beside whose middle nothing else runs, which would get longer too."""
    middle = np.array([(work.start + work.end) // 2 for work in chosen], dtype=np.int64)
    whole = zip(chosen, middle.tolist(), (_running(recorded, middle) == 1).tolist(), strict=True)
    return [(at, round((work.end - work.start) * share)) for work, at, is_alone in whole if is_alone]


def _calls_of_most(recorded: Recorded) -> list[Work]:
    """Return the calls of the kernel that takes most."""
    total: dict[str, int] = defaultdict(int)
    for work in recorded.work:
        if work.kind == "kernel" and not _COLLECTIVE.search(work.name):
            total[work.name] += work.end - work.start
    most = max(total, key=total.__getitem__)
    return [work for work in recorded.work if work.kind == "kernel" and work.name == most]


def one_kernel(recorded: Recorded) -> Passing:
    """The kernel that takes most takes longer, in each of its calls."""
    return _longer(recorded, _calls_of_most(recorded), _EACH_LONGER)


def all_kernels(recorded: Recorded) -> Passing:
    """All kernels take longer by the same factor: none where many run beside others."""
    kernels = [work for work in recorded.work if work.kind == "kernel" and not _COLLECTIVE.search(work.name)]
    passing = _longer(recorded, kernels, _ALL_LONGER)
    return passing if len(passing) >= _NEARLY_ALL * len(kernels) else []


def collectives(recorded: Recorded) -> Passing:
    """All collectives take longer."""
    return _longer(recorded, [work for work in recorded.work if _COLLECTIVE.search(work.name)], 2 * _EACH_LONGER)


def copies_from_host(recorded: Recorded) -> Passing:
    """Copies to the device take longer, so that they take a fifth of the kernels' time more."""
    copies = [work for work in recorded.work if work.kind == "copy" and _FROM_HOST.search(work.name)]
    kernels = sum(work.end - work.start for work in recorded.work if work.kind == "kernel")
    own = sum(work.end - work.start for work in copies)
    return _longer(recorded, copies, max(0.2 * kernels / max(own, 1), _EACH_LONGER))


def idle(recorded: Recorded) -> Passing:
    """The device does nothing for a while, once in each step, when it did nothing before either.

    Where no steps are marked, before each call of the kernel that takes most, so that all steps get the same.
    """
    if not recorded.steps:
        calls = _calls_of_most(recorded)
        before = np.array([work.start - 1 for work in calls], dtype=np.int64)
        whole = zip(calls, before.tolist(), (_running(recorded, before) == 0).tolist(), strict=True)
        return [(at, round((work.end - work.start) * _EACH_LONGER)) for work, at, is_free in whole if is_free]
    start, end = (np.array([getattr(work, name) for work in recorded.work], dtype=np.int64) for name in ("start", "end"))
    begins, ends = intervals.uncovered(start, end, np.array([start.min()]), np.array([end.max()]))
    gaps = list(zip(begins.tolist(), ends.tolist(), strict=True))
    result = []
    for first, last in recorded.steps:
        inside = [gap for gap in gaps if first < gap[0] and gap[1] < last]
        if inside:
            begin, over = max(inside, key=lambda gap: gap[1] - gap[0])
            result.append(((begin + over) // 2, round((last - first) * _IDLE)))
    return result


def noise(recorded: Recorded) -> Passing:
    """All work of the device takes longer by a little, by chance."""
    chance = random.Random(1)
    return [(at, round(ns * chance.random())) for at, ns in _longer(recorded, recorded.work, 2 * _NOISE)]


def later(recorded: Recorded) -> Passing:
    """All of it happens an hour later."""
    return [(0, 3_600_000_000_000)]


CHANGES = (
    Change("one kernel", one_kernel, r"^slower .* kernels$|^more or slower"),
    Change("all kernels", all_kernels, r"^clocks$"),
    Change("collectives", collectives, r"communication"),
    Change("copies from host", copies_from_host, r"^copies between host and device$"),
    Change("idle", idle, r"host-bound|input pipeline|gaps between kernels|synchronisation|slow copying|compilation|allocator"),
    Change("noise", noise, None),
    Change("later", later, None),
)  # fmt: skip


def mapping(passing: Passing) -> Callable[[Int], Int]:
    """Return the function from times as they were to times as they are when so much time passes."""
    at, longer = (np.array(column, dtype=np.int64) for column in zip(*sorted(passing), strict=True))
    moved = np.concatenate([[0], np.cumsum(longer)])
    return lambda times: times + moved[np.searchsorted(at, times, side="right")]


def judged(change: Change, said: dict[str, Any]) -> tuple[bool, str]:
    """Return whether what is said of a change is right, and what that is, in words."""
    first = next(iter(said["findings"]), None)
    words = f"{first['cause']}, {first['explains_ns'] / 1e6:+.4g} ms" if first else "no cause"
    if change.causes is None:
        return first is None, words
    right = first is not None and re.search(change.causes, first["cause"]) is not None
    return right and abs(first["explains_ns"] - said["wall_delta_ns"]) <= WITHIN * abs(said["wall_delta_ns"]), words


def tried(path: Path, only: list[str] | None) -> Iterator[tuple[bool, str]]:
    """Yield, for each change of a capture, whether it was found, and a line about it."""
    recorded: Any = (Nsys if path.suffix == ".sqlite" else Kineto)(path)
    for change in CHANGES:
        passing = change.passing(recorded) if not only or change.name in only else []
        if not passing:
            continue
        with tempfile.TemporaryDirectory(prefix="altered-") as folder:
            a, b = (Path(folder) / f"{side}{recorded.suffix}" for side in "ab")
            recorded.write(a, lambda times: times)
            recorded.write(b, mapping(passing))
            said = explained((a, b), None, False)
        if change.causes and abs(said["wall_delta_ns"]) < _SEEN * said["a"]["step_ns"]:
            continue
        right, words = judged(change, said)
        step, more = said["a"]["step_ns"] / 1e6, said["wall_delta_ns"] / 1e6
        yield right, f"{path.name[:48]:48}  {step:9.4g}  {change.name:16}  {more:+9.4g}  {'right' if right else 'WRONG'}: {words}"


def main() -> int:
    """Do what the command line says; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=Path, metavar="CAPTURE")
    parser.add_argument("--only", action="append", metavar="CHANGE", help="changes of this name (repeatable)")
    arguments = parser.parse_args()
    there = arguments.captures or [path for path in (CORPUS / name for name in CAPTURES) if path.is_file()]
    if not there:
        print(f"skipped: no captures in {CORPUS}; name some of your own")
        return 0
    print(f"{'capture':48}  {'step, ms':>9}  {'change':16}  {'more, ms':>9}  first cause")
    right = []
    for path in there:
        for found, line in tried(path, arguments.only):
            print(line, flush=True)
            right.append(found)
    print(f"\n{sum(right)} of {len(right)} right")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
