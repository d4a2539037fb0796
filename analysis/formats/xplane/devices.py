"""The device and the process of each plane of an XSpace file, and correlation ids that are unique across devices.

A file of one process has one plane per device. If files of several hosts or processes were merged, planes' names repeat: the
first plane of a name belongs to the first process, the second to the second, and each process has its own correlation ids.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.formats.xplane import tables as xplane

# the name of a device's plane, after that of its host or task if the file has several
_DEVICE_PLANE = re.compile(r"^(?:/(?:host|job|replica|task)\b[^/]*)*/device:(?P<kind>\w+):(?P<number>\d{1,6})(?P<core> .*)?$")
_READ = ("GPU", "TPU")
_NO_DEVICES = ("CPU", "CUSTOM")  # CUSTOM: plugins' notes of any kind


class Planes:
    """Names the devices of planes; each plane must be asked for once, in the order of the file."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def device(self, plane: xplane.Plane) -> tuple[str | None, int]:
        """Return the Trace's name for a plane's device, None if it has none, and the number of its process."""
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
    """Renumber, in place, correlation ids that one process uses for calls on several devices: these ids count per device.

    frames: calls with a column device_id, the device of each, and tables of device work. A graph's call may launch work on other
    devices than its own, so ids that only calls on one device use stay unchanged.
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
