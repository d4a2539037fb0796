"""Clone a job's captures into one of many ranks, with clocks that differ and one late rank, and time `kernelscope ranks` on it.

    python tests/tools/ranks/scale.py FOLDER [8 64 256]     FOLDER: captures of 8 ranks, as in corpus/ranks/megatron_tp8

Prints for each number of ranks: seconds, seconds a rank, the most memory that the command and one of its workers took, and
whether the late rank was named. Captures are made once and kept below out/ranks.
"""

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

OUT = Path("out/ranks")
LATE = 5
LATE_US = 100  # after whoever was last
MOST_SHIFT_US = 250_000


def main(source: Path, counts: list[int]) -> int:
    """Make, time and print; return 1 where the late rank was not named or clocks were not put right."""
    captures = [json.loads(gzip.decompress(path.read_bytes())) for path in sorted(source.glob("*.json.gz"))]
    failed = 0
    print("ranks      s   s/rank  MB here  MB worker  late rank")
    for count in counts:
        paths = [made(captures, rank, count) for rank in range(count)]
        began = time.monotonic()
        line = [sys.executable, "-m", "kernelscope.cli.main", "ranks", *map(str, paths), "--workers", "2", "--format", "json"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        printed, most, most_worker = _watched(process)
        taken = time.monotonic() - began
        result = json.loads(printed)
        named = {row["rank"] for row in result["blame"] if row["rank"] is not None}
        right = named == {LATE} and len(result["ranks"]) == count and result["matched"] > 0
        failed += not right
        print(
            f"{count:5} {taken:6.1f} {taken / count:8.3f} {most:8.0f} {most_worker:10.0f}  {'named' if right else sorted(named)}",
            flush=True,
        )
    return int(failed > 0)


def made(captures: list[dict], rank: int, world: int) -> Path:
    """Return the file of a rank, made if it is not there: its clock is shifted, and one rank begins every collective last."""
    path = OUT / str(world) / f"rank_{rank}.json.gz"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    base = captures[rank % len(captures)]
    shift = (rank * 7919) % (2 * MOST_SHIFT_US) - MOST_SHIFT_US
    starts = _last_starts(captures)
    events, number = [], 0
    for event in base["traceEvents"]:
        copy = dict(event)
        if rank == LATE and _talks(event):
            over = event["ts"] + event["dur"]
            copy["ts"] = min(starts[number] + LATE_US, over - 1)
            copy["dur"] = over - copy["ts"]
        number += _talks(event)
        if "ts" in copy:
            copy["ts"] += shift
        events.append(copy)
    told = {**base, "distributedInfo": {**base["distributedInfo"], "rank": rank, "world_size": world}, "traceEvents": events}
    own = path.with_suffix(".new")
    own.write_bytes(gzip.compress(json.dumps(told).encode(), 1))
    own.replace(path)
    return path


def _talks(event: dict) -> bool:
    return event.get("ph") == "X" and event.get("cat") == "kernel" and "nccl" in event["name"].lower()


def _last_starts(captures: list[dict]) -> list[float]:
    """Return when the last rank begins each collective."""
    each = [[event["ts"] for event in capture["traceEvents"] if _talks(event)] for capture in captures]
    return [max(starts) for starts in zip(*each, strict=True)]


def _watched(process: subprocess.Popen) -> tuple[str, float, float]:
    """Return what a process printed, and the most MB that it and one of its children held."""
    most = {"own": 0.0, "worker": 0.0}

    def watch() -> None:
        while process.poll() is None:
            most["own"] = max(most["own"], _resident(process.pid))
            listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout
            most["worker"] = max([most["worker"], *(_resident(int(child)) for child in listed.split())])
            time.sleep(0.1)

    thread = threading.Thread(target=watch)
    thread.start()
    printed, _ = process.communicate()
    thread.join()
    return printed, most["own"], most["worker"]


def _resident(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [int(text) for text in sys.argv[2:]] or [8, 64, 256]))
