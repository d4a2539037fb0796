"""Events of PyTorch's chrome traces that go into no table: always counted, reported if they may be work, and refused if device
work would be lost silently.

A complete event is device work if its process or thread is named like a device or a stream, whatever its category.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.kineto.categories import GROUPS
from kernelscope.analysis.formats.kineto.events import PHASES
from kernelscope.analysis.formats.kineto.tables import Scan

Bool = npt.NDArray[np.bool_]

_BOILERPLATE = frozenset({"M"})  # names of processes and threads
_LINKS = frozenset(
    {"Trace", "ac2g", "async_cpu_to_gpu", "async", "critical_path", "cpu_to_cuda"}
)  # the profiler's own span, and arrows that repeat correlations
_COMPLETE = ("operators", "functions", "calls", "kernels", "copies", "syncs")  # groups whose events have a begin and an end
_FORMAT = frozenset(PHASES)
_UNCATEGORISED = "(no category)"
_ASCEND = "Ascend Hardware"
_DEVICE_PROCESS = re.compile(rf"{_ASCEND}|/device:(?!CPU)|(?:[GNTXHID]PU|MLU|DCU|MUSA|MTIA)\b(?! ?functions)", re.IGNORECASE)
_STREAM = re.compile(r"stream\b[ #:]*\d+", re.IGNORECASE)
_THREAD = re.compile(r"thread \d+ \((.*)\)")
_HOST_LABEL = re.compile(r"CPU\b", re.IGNORECASE)
_FUNCTIONS = re.compile(r"\w+ functions", re.IGNORECASE)
_NAMED = 4  # categories in a warning
_SHOWN = 60  # characters of a name


@dataclass(frozen=True)
class Left:
    """Complete events that go into no table and that, by their category, may be work.

    events: columns category (empty for none), process (its names) and device (whether its track is a device's). ascend: how many
    of them are tasks of Huawei's NPUs. threads: track and name of the host's threads that the file names.
    """

    events: pd.DataFrame
    ascend: int
    threads: list[tuple[int, str]]

    @property
    def uncategorised(self) -> dict[str, int]:
        """The number of events without a category, under a name for them; empty if there are none."""
        count = int((self.events["category"] == "").sum())
        return {_UNCATEGORISED: count} if count else {}

    def refuse_host_only(self, device_rows: int) -> None:
        """Raise EvidenceError if device events are left out and no other device work was read."""
        lost = self.events[self.events["device"]]
        if device_rows or lost.empty:
            return
        if self.ascend:
            raise EvidenceError(
                f"trace_view.json of Huawei's Ascend profiler (torch_npu), with {self.ascend:,} NPU tasks that torch.profiler "
                "does not write; read it with --format ascend-trace"
            )
        where = ", ".join(repr(name[:_SHOWN]) for name in lost["process"].unique()[:_NAMED])
        raise EvidenceError(
            f"{len(lost):,} device events ({where}) have unknown categories ({_listed(lost)}), and the host's side alone would "
            "mislead; record with torch.profiler, or give them the category kernel if they are kernels"
        )

    def warning(self) -> str | None:
        """Return one line on events that may be device work or operators; None if there are none."""
        if self.events.empty:
            return None
        of_devices = int(self.events["device"].sum())
        count = f"{len(self.events):,}" + (f", {of_devices:,} on devices" if of_devices else "")
        return f"events that may be operators or device work are not read ({count}): {_listed(self.events)}"


def _listed(events: pd.DataFrame) -> str:
    """List categories with their numbers of events, the most frequent first."""
    counts = events["category"].replace("", _UNCATEGORISED).value_counts()
    named = [f"{str(name)[:_SHOWN]} {count:,}" for name, count in counts.head(_NAMED).items()]
    return ", ".join([*named, *([f"{len(counts) - _NAMED} more categories"] if len(counts) > _NAMED else [])])


def take(scan: Scan) -> Left:
    """Remove from a scan the names of tracks and the events that no other group takes; return these events."""
    labels, others, _ = (scan.tables.pop(name) for name in ("labels", "others", "no work"))
    plain = scan.tables["plain"]
    known = np.logical_or(*plain_processes(scan.tracks))
    rows = pd.concat([others[["category", "track"]], plain.loc[~known[plain["track"].to_numpy()], ["category", "track"]]])
    track = rows["track"].to_numpy()
    names, is_device = named(scan.tracks, labels)
    process = np.array(names, dtype=object)[track]
    category = rows["category"].astype("object").fillna("").to_numpy()
    events = pd.DataFrame({"category": category, "process": process, "device": is_device[track]})
    last = max((int(table["track"].max()) for table in scan.tables.values() if len(table)), default=-1)
    scan.tracks = scan.tracks.iloc[: last + 1]  # those of the two tables taken stand behind the others
    return Left(events, int(np.char.startswith(process.astype(str), _ASCEND).sum()), _threads(labels, is_device))


def plain_processes(tracks: pd.DataFrame) -> tuple[Bool, Bool]:
    """Return which tracks are the host's and which are devices' in the autograd profiler's own format.

    Its events have no category, and their processes are named "CPU functions" and "CUDA functions".
    """
    names = [str(name) for name in tracks["process"]]
    host = np.array([name.lower() == "cpu functions" for name in names], dtype=bool)
    return host, np.array([_FUNCTIONS.fullmatch(name) is not None for name in names], dtype=bool) & ~host


def named(tracks: pd.DataFrame, labels: pd.DataFrame) -> tuple[list[str], Bool]:
    """Return the name of each track's process, and whether the track is evidently a device's."""
    processes: dict[str, dict[str, None]] = {}
    threads: dict[tuple[str, str], str] = {}
    at = labels["track"].to_numpy()
    pairs = list(zip(tracks["process"].astype(str), tracks["thread"].astype(str), strict=True))
    for kind, track, text in zip(labels["name"].astype("object"), at, labels["labels"].astype("object"), strict=True):
        process, thread = pairs[track]
        if kind in ("process_name", "process_labels"):
            processes.setdefault(process, {})[text_of(text)] = None
        elif kind == "thread_name":
            threads[process, thread] = text_of(text)
    names, devices = [], []
    for process, thread in pairs:
        own = [name for name in processes.get(process, {}) if name] or [process]
        names.append(", ".join(own))
        stream = any(_STREAM.match(name) for name in (thread, threads.get((process, thread), "")))
        on_host = any(_HOST_LABEL.match(name) for name in own)
        devices.append(not on_host and (stream or any(_DEVICE_PROCESS.match(name) for name in own)))
    return names, np.array(devices, dtype=bool)


def _threads(labels: pd.DataFrame, is_device: Bool) -> list[tuple[int, str]]:
    """Return track and name of each named thread of the host; Kineto writes "thread 12 (name)"."""
    names = labels["name"].astype("object") == "thread_name"
    rows = labels[names.to_numpy(dtype=bool) & ~is_device[labels["track"].to_numpy()]]
    texts = (text_of(text) for text in rows["labels"].astype("object"))
    return [(track, _THREAD.sub(r"\1", text)) for track, text in zip(rows["track"].tolist(), texts, strict=True)]


def text_of(value: object) -> str:
    """Return the text of a name in JSON; empty if it is not a string."""
    try:
        result = msgspec.json.decode(str(value).encode("utf8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return result.strip() if isinstance(result, str) else ""


def damaged(scan: Scan) -> int:
    """Return how many events have a phase (`ph`) that is not in the format or never occurs with their category."""
    expected = {category: GROUPS[name].phases for name in _COMPLETE for category in GROUPS[name].categories or ()}
    return sum(
        count
        for (phase, category), count in scan.counts.items()
        if phase not in expected.get(category, _FORMAT) or phase not in _FORMAT
    )


def counts(scan: Scan) -> dict[str, int]:
    """Return the events that are in no table, counted by category."""
    taken = [group for name, group in GROUPS.items() if name != "no work"]
    used = {(phase, category) for group in taken for category in group.categories or () for phase in group.phases}
    left: dict[str, int] = {}
    for (phase, category), count in scan.counts.items():
        if (phase, category) not in used and phase not in _BOILERPLATE and category not in _LINKS:
            left[category or phase] = left.get(category or phase, 0) + count
    functions = len(scan.tables["functions"])
    if functions:
        left["python_function"] = left.get("python_function", 0) + functions
    return left
