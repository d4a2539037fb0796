"""The captures that are read: recorded ones, and large ones made of them, kept in a folder.

python tests/tools/bench/inputs.py tile TRACE.json.gz OUT.json BYTES [PERIOD]    what `tiled` does, in a process of its own
"""

from __future__ import annotations

import gzip
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

SHARED = Path(__file__).resolve().parents[4] / "shared"
NSYS = "nsys/zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite"
RANKS = "ranks/megatron_tp8"
KINETO = "kineto/AMD-AGI__TraceLens__xdit_sd_3.5_profile_trace_rank_0.json.gz"
# Where other formats' captures are, and how their names end: the largest is read
OTHERS = {
    "nvprof, SQLite": ("nvprof", (".nvvp", ".nvprof", ".sql")),
    "nvprof, text": ("nvprof", (".log", ".txt", ".csv")),
    "XPlane": ("tf", (".xplane.pb",)),
    "oneDNN, verbose": ("onednn", (".log", ".txt")),
    "TensorFlow, RunMetadata": ("tf", (".json",)),
    "MXNet, profiler": ("mxnet", (".json",)),
    "CNTK, log": ("cntk", (".txt", ".log")),
}
_COPY = 4_000_000  # bytes of a recorded rank
_COUNTED = ("correlation", "External id", "Ev Idx", "Python id", "Python parent id")


class Missing(Exception):
    """An input that cannot be had; the text says why."""


class Inputs:
    """Gives the files. given: existing ones by name (nsys30, nsys410, kineto, kineto250, ...), used in place of made ones."""

    def __init__(self, folder: Path, given: dict[str, Path]):
        self._folder = folder
        self._given = given

    def corpus(self, name: str) -> Path:
        """Return a recorded capture."""
        path = SHARED / "corpus" / name
        if not path.is_file():
            raise Missing(f"needs {os.path.relpath(path, SHARED.parent)} beside the project's folder")
        return path

    def largest(self, folder: str, endings: tuple[str, ...]) -> Path:
        """Return the largest capture of a folder of recorded ones whose name ends so."""
        found = [path for path in (SHARED / "corpus" / folder).glob("*") if path.name.endswith(endings)]
        if not found:
            raise Missing(f"needs {SHARED.name}/corpus/{folder} beside the project's folder")
        return max(found, key=lambda path: path.stat().st_size)

    def kineto(self) -> Path:
        """Return the recorded trace of torch.profiler."""
        return self._given.get("kineto") or self.corpus(KINETO)

    def nsys(self, copies: int) -> Path:
        """Return an Nsight Systems export of so many copies of a recorded one; it lies in the folder."""
        path = self._folder / f"nsys{copies}.sqlite"
        if (given := self._given.get(path.stem)) is not None:
            return _placed(given, path)
        script = SHARED / "bench" / "make_large_nsys.py"
        if not path.exists():
            if not script.is_file():
                raise Missing(f"needs {SHARED.name}/bench/{script.name} beside the project's folder")
            self._make(path, [str(script), str(self.corpus(NSYS))], ["--copies", str(copies)])
        return path

    def tiled(self, megabytes: int) -> Path:
        """Return a chrome trace of at least so many megabytes, made of copies of the recorded one."""
        path = self._folder / f"kineto{megabytes}.json"
        if (given := self._given.get(path.stem)) is not None:
            return given
        if not path.exists():
            self._make(path, [__file__, "tile", str(self.kineto())], [str(megabytes * 1_000_000)])
        return path

    def ranks(self, megabytes: int) -> list[Path]:
        """Return traces of a job's 8 ranks, of some so many megabytes each, made of copies of recorded ones; all have as many."""
        sources = [self.corpus(f"{RANKS}/megatron_kineto_{rank}.json.gz") for rank in range(8)]
        folder = self._folder / f"ranks{megabytes}"
        folder.mkdir(exist_ok=True)
        paths = [folder / f"rank_{rank}.json" for rank in range(8)]
        if not all(path.exists() for path in paths):
            period = max(map(lasting, sources))
            for source, path in zip(sources, paths, strict=True):
                self._make(path, [__file__, "tile", str(source)], [str(megabytes * 1_000_000), str(period)])
        return paths

    def _make(self, path: Path, before: list[str], after: list[str]) -> None:
        """Run a script that writes a file, which counts only when it is whole."""
        print(f"  making {path.name} ...", flush=True)
        growing = path.with_name(f"{path.name}.part")
        done = subprocess.run([sys.executable, *before, str(growing), *after], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Missing(f"{path.name} could not be made: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        growing.rename(path)


def _placed(given: Path, path: Path) -> Path:
    """Bring a file into the folder, because peers write beside what they read."""
    if path.exists() and path.stat().st_size == given.stat().st_size:
        return path
    path.unlink(missing_ok=True)
    try:
        os.link(given, path)
    except OSError:
        shutil.copyfile(given, path)
    return path


def lasting(source: Path) -> int:
    """Return how long a trace lasts, and a millisecond, in microseconds."""
    events = [event for event in _opened(source)["traceEvents"] if event.get("ph") != "M"]
    start = min(event["ts"] for event in events)
    return int(max(event["ts"] + event.get("dur", 0) for event in events) - start) + 1000


def _opened(source: Path) -> dict:
    import msgspec

    content = source.read_bytes()
    return msgspec.json.decode(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)


def tile(source: Path, target: Path, size: int, period: int | None = None) -> None:
    """Write a trace of at least `size` bytes: the events of `source` again and again, later and with fresh numbers.

    The file stays what torch.profiler writes: kernels, calls, operators and flows of each copy are tied among each other only.
    period: after how many microseconds a copy follows; with it there are size // 4 MB of them, whatever the trace's own size.
    """
    import msgspec

    trace = _opened(source)
    events = trace.pop("traceEvents")
    once = [event for event in events if event.get("ph") == "M"]
    again = [event for event in events if event.get("ph") != "M"]
    copies = None if period is None else size // _COPY
    period = period or lasting(source)
    numbers = 1 + max(number for event in again for number in _numbers(event))
    head = msgspec.json.format(msgspec.json.encode(trace), indent=0).removesuffix(b"}")
    with target.open("wb") as out:
        written = out.write(head + b', "traceEvents": [' + _listed(once))
        for number in itertools.count():
            if written >= size if copies is None else number >= copies:
                break
            written += out.write(b", " + _listed(again))
            _shift(again, period, numbers)
        out.write(b"]}")


def _listed(events: list[dict]) -> bytes:
    """Return events as JSON of a list without its brackets, spaced as torch.profiler does."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(events), indent=0)[1:-1]


def _numbers(event: dict) -> list[int]:
    """Return everything of an event that is counted and ties it to others."""
    arguments = event.get("args", {})
    return [event.get("id", 0), *(arguments.get(key) or 0 for key in _COUNTED)]


def _shift(events: list[dict], period: int, numbers: int) -> None:
    """Move events by so many microseconds, and give everything that is counted numbers that no copy before has."""
    for event in events:
        event["ts"] = round(event["ts"] + period, 3)
        if "id" in event:
            event["id"] += numbers
        arguments = event.get("args", {})
        for key in _COUNTED:
            if arguments.get(key) is not None:
                arguments[key] += numbers
        if event["name"].startswith("ProfilerStep#"):
            event["name"] = f"ProfilerStep#{int(event['name'][13:]) + 1}"


if __name__ == "__main__":
    tile(Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:]))
