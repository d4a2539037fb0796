"""Where captures are read: in this process, in processes of this machine, or on the workers of a Dask cluster.

Each engine calls one function for each capture and yields the results in any order; only paths and names are sent. If a worker
dies, the work of others is kept: its capture is tried again, and after some tries it is left out, with the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from kernelscope.analysis.errors import EvidenceError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
Function = Callable[[str, str], dict[str, Any]]
TRIES = 3  # of a capture whose worker dies
ADDRESS = "DASK_SCHEDULER_ADDRESS"  # the variable that Dask's own tools read
_DIED = "the process that read it died %d times; it may need more memory than is available"
_WITHOUT = "Dask is not installed; install it with: pip install 'kernelscope[ranks]'"


def each(
    function: Function, paths: Sequence[str], folder: str, workers: int | None = None, scheduler: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield function(path, folder) for each path.

    workers: processes (default: one per processor; 1 is this process). scheduler: the address of a Dask scheduler or the path of
    its file, used in place of processes; default: that of the environment. Raises EvidenceError if it does not answer.
    """
    scheduler = scheduler or os.environ.get(ADDRESS)
    count = min(workers or os.cpu_count() or 1, len(paths))
    if scheduler:
        yield from _on_dask(function, paths, folder, scheduler)
    elif count < 2 or not _have_locks():
        yield from (function(path, folder) for path in paths)
    else:
        yield from _in_processes(function, paths, folder, count)


def _have_locks() -> bool:
    """Return whether processes can share locks: they cannot if /dev/shm is not writable."""
    try:
        multiprocessing.Lock()
    except OSError:
        return False
    return True


def _in_processes(function: Function, paths: Sequence[str], folder: str, count: int) -> Iterator[dict[str, Any]]:
    """Yield from a pool of processes. If it breaks, the rest is tried in another, one by one on the last try."""
    tries = dict.fromkeys(paths, 0)
    left = list(paths)
    while left:
        alone = max(tries[path] for path in left) == TRIES - 1  # alone, a capture shows whether it breaks the pool
        some = left[:1] if alone else left
        with ProcessPoolExecutor(min(count, len(some)), initializer=_end_with, initargs=(os.getpid(),)) as pool:
            futures: dict[Future[dict[str, Any]], str] = {pool.submit(function, path, folder): path for path in some}
            for future in as_completed(futures):
                path = futures[future]
                try:
                    result = future.result()
                except BrokenProcessPool:
                    tries[path] += 1
                    if tries[path] < TRIES:
                        continue
                    result = _lost(path)
                left.remove(path)
                yield result


def _end_with(parent: int) -> None:
    """Let the system end this process when its parent ends for any reason: otherwise it would wait for work for ever."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _on_dask(function: Function, paths: Sequence[str], folder: str, scheduler: str) -> Iterator[dict[str, Any]]:
    """Yield from the workers of a cluster; they must see the same files."""
    try:
        import distributed
    except ImportError as error:
        raise EvidenceError(_WITHOUT) from error
    where: Mapping[str, str] = {"scheduler_file": scheduler} if os.path.isfile(scheduler) else {"address": scheduler}
    try:
        client = distributed.Client(**where, timeout="30s")
    except (OSError, ValueError) as error:
        raise EvidenceError(
            f"{scheduler}: no Dask scheduler answers there; name its address (tcp://HOST:PORT) or file"
        ) from error
    with client:
        futures = client.map(function, paths, folder=folder, pure=False, retries=TRIES - 1)
        asked = dict(zip((future.key for future in futures), paths, strict=True))
        for future in distributed.as_completed(futures):
            path = asked[future.key]
            died = isinstance(future.exception(), distributed.KilledWorker)
            yield _lost(path) if died else future.result()
            future.release()


def _lost(path: str) -> dict[str, Any]:
    return {"path": path, "digest": path, "headers": [], "reason": f"{path}: {_DIED % TRIES}"}
