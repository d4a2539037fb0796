"""Keeps what is recorded within bounds: a pass that grows large is written in parts, and the oldest parts are dropped.

Each part is a repeat of the pass in the run folder, and ends when it holds a share of what may be held. The kernels pass is one
repeat, whose framework's own trace is written in parts, in files of their own: how large it is shows only when it is written, so
that a part ends when what the process has grown by would exceed the limit while it is written. Where a framework can write no
parts, the pass ends then.
"""

import shutil
from typing import List, Tuple

from kernelscope.tracer.inside.originals import load
from kernelscope.tracer.inside.own import open, os

SHARES = 8  # parts that there is room for
WRITTEN = (
    8  # times as much memory as while it was recorded a trace takes while it is written; 7 to 12 were seen of torch.profiler
)
RANGE_BYTES, EVENT_BYTES, STEP_BYTES = 250, 120, 500  # of one in memory


def repeats(folder: str, name: str) -> List[int]:
    """Return the numbers of a pass's parts, the oldest first."""
    try:
        return sorted(int(entry) for entry in os.listdir(os.path.join(folder, name)) if entry.isdigit())
    except OSError:
        return []


def new_folder(folder: str, name: str) -> str:
    """Make and return the folder of the pass's next part."""
    number = max(repeats(folder, name) or [0]) + 1
    path = os.path.join(folder, name, str(number))
    os.makedirs(path)
    return path


def size(path: str) -> int:
    """Return how many bytes the files of a folder take."""
    total = 0
    for place, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(place, file)).st_size
            except OSError:
                pass  # it is gone
    return total


def drop_old(folder: str, name: str, limit: int) -> Tuple[int, int]:
    """Drop the oldest parts of a pass while all that was recorded is larger than `limit` bytes; the newest stays.

    Return how many measured steps were dropped, and how large what remains is.
    """
    total, dropped = size(folder), 0
    for number in repeats(folder, name)[:-1]:
        if total <= limit:
            break
        path = os.path.join(folder, name, str(number))
        total -= size(path)
        try:
            with open(os.path.join(path, "child.json")) as file:
                dropped += load(file).get("measured", 0)
        except (OSError, ValueError):
            pass  # of a part that nobody finished the steps are not known
        shutil.rmtree(path, ignore_errors=True)
    return dropped, total
