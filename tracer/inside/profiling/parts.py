"""Keeps a recording within bounds: a pass that grows large is written in parts, and the oldest parts are dropped.

Each part is a repeat of the pass in the run folder and ends when it holds its share of the limit. The kernels pass is one
repeat, but the framework's own trace is written in parts, in files of their own. Its size shows only when it is written, so a
part ends when the growth of the process would exceed the limit during writing. If a framework cannot write parts, the pass ends
then.
"""

import shutil
from typing import List, Tuple

from kernelscope.tracer.inside.originals import load
from kernelscope.tracer.inside.own import open, os

SHARES = 8  # number of parts that fit
WRITTEN = 8  # a trace takes this many times its recorded memory while it is written; 7 to 12 seen with torch.profiler
RANGE_BYTES, EVENT_BYTES, STEP_BYTES = 250, 120, 500  # of each in memory


def repeats(folder: str, name: str) -> List[int]:
    """Return the numbers of a pass's parts, oldest first."""
    try:
        return sorted(int(entry) for entry in os.listdir(os.path.join(folder, name)) if entry.isdigit())
    except OSError:
        return []


def new_folder(folder: str, name: str) -> str:
    """Create and return the folder of the pass's next part."""
    number = max(repeats(folder, name) or [0]) + 1
    path = os.path.join(folder, name, str(number))
    os.makedirs(path)
    return path


def size(path: str) -> int:
    """Return the total size of a folder's files in bytes."""
    total = 0
    for place, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(place, file)).st_size
            except OSError:
                pass  # it is gone
    return total


def drop_old(folder: str, name: str, limit: int) -> Tuple[int, int]:
    """Drop the oldest parts of a pass while the whole recording is larger than `limit` bytes; the newest part stays.

    Return how many measured steps were dropped, and the remaining size.
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
            pass  # the steps of an unfinished part are unknown
        shutil.rmtree(path, ignore_errors=True)
    return dropped, total
