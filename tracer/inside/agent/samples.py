"""A thread that reads all sources at a steady rate while a window of the child is open, and writes JSON Lines."""

import json
import threading
from typing import Any, Dict, Optional, Sequence

from kernelscope.tracer.inside.clock import now_ns

SAMPLES_FILE = "samples.jsonl"
RATE_HZ = 10.0


class Sampler(object):
    """Samples from `open` to `close`; the caller's thread reads at a window's edges."""

    def __init__(self, sources: Sequence[Any], path: str) -> None:
        self._sources = sources
        self._path = path
        self._lock = threading.Lock()
        self._closed: Any = None
        self._thread: Any = None
        self._pid: Optional[int] = None
        self._window: Optional[int] = None

    def open(self, pid: int, window: int) -> None:
        """Start sampling; this first reading only resets what is measured since the previous one."""
        self._pid, self._window = pid, window
        for source in self._sources:
            source.sample(None)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="kernelscope-sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take the window's last reading and stop."""
        self._closed.set()
        self._thread.join()
        self._read()

    def _loop(self) -> None:
        while not self._closed.wait(1.0 / RATE_HZ):
            self._read()

    def _read(self) -> None:
        now = now_ns()
        rows = [row for source in self._sources for row in source.sample(self._pid)]
        with self._lock, open(self._path, "a") as out:
            for metric, value, core, device in rows:
                row = {"time_ns": now, "window": self._window, "core": core, "device": device, "metric": metric, "value": value}
                out.write(json.dumps(row) + "\n")

    def describe(self) -> Dict[str, Any]:
        """Describe the sources and the requested period."""
        return {"asked_period_ns": int(1e9 / RATE_HZ), "sources": [source.describe() for source in self._sources]}
