"""Which device and which process each plane of an XSpace file shows, and correlation ids that tell launches of several apart.

A file of one process has a plane a device. Where files of several hosts or processes were put into one, planes' names repeat: the
first plane of a name belongs to the first process, the second to the second, and each counts correlation ids of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.formats.xplane import tables as xplane

# the name of a device's plane, behind that of its host or task where the file has several
_DEVICE_PLANE = re.compile(r"^(?:/(?:host|job|replica|task)\b[^/]*)*/device:(?P<kind>\w+):(?P<number>\d{1,6})(?P<core> .*)?$")
_READ = ("GPU", "TPU")
_NO_DEVICES = ("CPU", "CUSTOM")  # CUSTOM: what plugins note of anything


class Planes:
    """Names the devices of planes in the order of the file, each once."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def device(self, plane: xplane.Plane) -> tuple[str | None, int]:
        """Return the Trace's name of the device that a plane shows, None where it shows none, and the number of its process."""
        device = self._name(plane)
        process = self._seen[device or plane.name]
        self._seen[device or plane.name] += 1
        return f"{device} of process {process}" if device and process else device, process

    def _name(self, plane: xplane.Plane) -> str | None:
        match = _DEVICE_PLANE.match(plane.name)
        if not match or match["kind"] not in _READ:
            if match and match["kind"] not in _NO_DEVICES and len(plane.events):
                self.unknown[plane.name] += len(plane.events)
            return None
        core = (match["core"] or "").lower()
        if match["kind"] == "TPU":
            return f"tpu:{match['number']}{core}"
        return f"{'rocm' if plane.stats.get('device_vendor') == 'AMD' else 'cuda'}:{match['number']}"


def described(plane: xplane.Plane, device: str) -> dict[str, Any]:
    """Return a device's entry in info["devices"]."""
    names = {"device_type_string": "name", "core_count": "core_count", "memory_size": "memory_bytes"}
    info: dict[str, Any] = {"device": device, "name": None}
    info.update({key: plane.stats[stat] for stat, key in names.items() if stat in plane.stats})
    if "compute_cap_major" in plane.stats:
        info["compute_capability"] = f"{plane.stats['compute_cap_major']}.{plane.stats.get('compute_cap_minor', 0)}"
    return info


def separate_launches(frames: dict[str, pd.DataFrame]) -> None:
    """Number correlation ids anew, in place, that calls for several devices bear in one process: they repeat by device then.

    frames: calls with column device_id, the device that each was for, and tables of device work. A graph's call may launch work
    on other devices than its own, so ids that only one device's calls bear stay as they are.
    """
    calls = frames["calls"]
    if calls.empty or not calls["device_id"].notna().any():
        return
    keys = ["process", "correlation", "device_id"]
    pairs = calls[keys].dropna().drop_duplicates()
    shared = pairs[pairs.duplicated(["process", "correlation"], keep=False).to_numpy()]
    if shared.empty:
        return
    highest = max(
        int(frame["correlation"].max()) for frame in frames.values() if len(frame) and frame["correlation"].notna().any()
    )
    new = shared.assign(new=np.arange(len(shared)) + highest + 1).astype("Int64")
    for name in ("calls", "kernels", "graphs", "copies"):
        frame = frames[name]
        if frame.empty:
            continue
        number = frame["device_id"] if name == "calls" else frame["device"].astype("string").str.extract(r":(\d+)")[0]
        own = frame[["process", "correlation"]].assign(device_id=pd.to_numeric(number)).astype("Int64")
        result = own.merge(new, on=keys, how="left")["new"].set_axis(frame.index)
        frames[name] = frame.assign(correlation=result.fillna(frame["correlation"].astype("Int64")))
