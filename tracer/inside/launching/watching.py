"""Samples processor, memory and GPU while a pass is recorded, from the process that started the command.

The recorded process names its current pass in a file (`recording.NOW_FILE`), which is read ten times a second; between passes
nothing is sampled. A pass shorter than that has no samples.
"""

import json
import os
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside.agent import machine, nvml
from kernelscope.tracer.inside.agent.samples import RATE_HZ, SAMPLES_FILE
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.profiling.recording import NOW_FILE


class Watcher(object):
    """Watches one run folder from the beginning of a with block to its end; may be entered again."""

    def __init__(self, folder: str) -> None:
        self.counts: Dict[str, int] = {}  # folder of a pass -> readings
        self._folder = folder
        self._sources: List[Any] = [machine.CpuSource(), nvml.NvmlSource()]
        self._over: Any = None
        self._thread: Any = None

    def __enter__(self) -> Any:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="kernelscope-watcher")
        self._thread.daemon = True
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._over.set()
        self._thread.join()

    def describe(self, place: str) -> Dict[str, Any]:
        """Describe what was sampled in the pass with this folder, and at which rate."""
        about = {"asked_period_ns": int(1e9 / RATE_HZ), "readings": self.counts.get(place, 0)}
        return dict(about, sources=[source.describe() for source in self._sources])

    def _loop(self) -> None:
        before = None
        while not self._over.wait(1.0 / RATE_HZ):
            told = self._told()
            if told is not None:
                rows = [row for source in self._sources for row in source.sample(told[0])]
                # a reading counts only if the same pass was recorded before and after it
                if told == before and self._told() == told:
                    self._write(told[1], rows)
            before = told

    def _told(self) -> Optional[Tuple[int, str]]:
        """Return (process, folder of the pass) for the pass being recorded, or None."""
        try:
            with open(os.path.join(self._folder, NOW_FILE)) as file:
                pid, place = json.load(file)
        except (OSError, ValueError):
            return None
        return int(pid), str(place)

    def _write(self, place: str, rows: Sequence[Any]) -> None:
        now = now_ns()
        try:
            with open(os.path.join(self._folder, place, SAMPLES_FILE), "a") as out:
                for metric, value, core, device in rows:
                    row = {"time_ns": now, "window": 0, "core": core, "device": device, "metric": metric, "value": value}
                    out.write(json.dumps(row) + "\n")
            self.counts[place] = self.counts.get(place, 0) + 1
        except OSError:
            pass  # the pass's folder is gone or the disk is full; the command goes on
