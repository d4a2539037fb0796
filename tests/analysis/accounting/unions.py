"""What an account of a device must be, found by other means: unions of intervals on a grid of all their edges."""

from __future__ import annotations

import numpy as np
import pytest

from kernelscope.analysis.accounting.device_account import COMMUNICATION, COMPUTE, COPY, GRAPH, IDLE, OUTSIDE, account
from kernelscope.analysis.attribution import device_steps

TIMED = ("steps", "window")  # bases of an account with a time axis


def intervals_of(table, device):
    """Return starts and ends of a table's timed rows on a device, and of those of which the device is not told."""
    rows = table[table["start_ns"].notna().to_numpy(bool)]
    if device not in (None, "all"):
        rows = rows[(rows["device"].isna() | (rows["device"] == device)).to_numpy(bool)]
    return rows["start_ns"].to_numpy(np.int64), rows["end_ns"].to_numpy(np.int64)


def covered(groups, windows):
    """Return the time in windows during which any interval of any group is active: by counting opens and closes at each edge."""
    start = np.concatenate([group[0] for group in groups])
    end = np.concatenate([group[1] for group in groups])
    edges = np.unique(np.concatenate([start, end, *windows]))
    if len(edges) < 2:
        return 0

    def active(begins, ends):
        place = np.searchsorted(edges, begins), np.searchsorted(edges, ends)
        size = len(edges)
        return np.cumsum(np.bincount(place[0], minlength=size) - np.bincount(place[1], minlength=size))[:-1] > 0

    return int(np.diff(edges)[active(start, end) & active(*windows)].sum())


def expected(trace, device):
    """Return the ns per step of each part as the unions tell, and how many steps there are."""
    measured = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    communicates = (trace.kernels["kind"] == "communication").fillna(False).to_numpy(bool)
    tables = (trace.kernels[~communicates], trace.graphs, trace.kernels[communicates], trace.copies)
    groups = [intervals_of(table, device) for table in tables]
    if len(measured):
        windows = device_steps.bounds(measured)
    else:
        windows = (
            np.array([min(g[0].min() for g in groups if len(g[0]))]),
            np.array([max(g[1].max() for g in groups if len(g[1]))]),
        )
    reached = [covered(groups[: level + 1], windows) for level in range(4)]
    parts = dict(zip((COMPUTE, GRAPH, COMMUNICATION, COPY), np.diff([0, *reached]), strict=True))
    whole = int((windows[1] - windows[0]).sum())
    return {**parts, IDLE: whole - reached[-1]}, whole, reached[-1], len(windows[0])


def assert_adds_up(trace, device=None):
    """The rows add up to the step, and each part is what the unions say; a ns a step may be rounded in each of a part's rows."""
    done = account(trace, device)
    assert int(done.rows["time_ns"].sum()) == done.step_ns
    assert done.by_window.sum(axis=0) == pytest.approx(done.lengths, abs=1)
    assert done.step_ns == round(int(done.lengths.sum()) / len(done.lengths))
    assert (done.rows["time_ns"] >= 0).all()
    if done.basis not in TIMED or str((trace.info.get("source") or {}).get("format")) == "mxnet":
        return done  # durations are added up, or kernels and copies share a level, because none of them hides another
    parts, whole, busy, count = expected(trace, done.device)
    assert int(done.lengths.sum()) == whole
    assert abs(done.busy_ns - busy / count) <= 1
    earlier = done.of(part=OUTSIDE)
    if len(earlier):  # kernels of no step that run in one: they share instants with the step's own, communication or not
        parts[(COMPUTE, COMMUNICATION, OUTSIDE)] = parts.pop(COMPUTE) + parts.pop(COMMUNICATION)
        assert (earlier["count"] == 0).all()
        assert (done.of(part=(COMPUTE, COMMUNICATION))["count"] > 0).all(), "what has time in a step is of it"
    for part, ns in parts.items():
        mine = done.of(part=part)
        assert abs(int(mine["time_ns"].sum()) - ns / count) <= 1 + len(mine), part
    assert done.time_ns(part=IDLE) == pytest.approx(done.step_ns - done.busy_ns, abs=1 + len(done.of(part=IDLE)))
    return done


def assert_counts_every_kernel(trace, done):
    """Of the kernels of the device each is in the steps or outside of them, once, with its whole duration."""
    start, end = intervals_of(trace.kernels, done.device)
    rows, outside = done.of(part=(COMPUTE, COMMUNICATION)), done.outside
    outside = outside[outside["part"].isin([COMPUTE, COMMUNICATION])]
    count = float(rows["count"].sum()) * len(done.lengths) + float(outside["count"].sum())
    lasted = float(rows["duration_ns"].sum()) * len(done.lengths) + float(outside["duration_ns"].sum())
    assert count == pytest.approx(len(start))
    assert lasted == pytest.approx(float((end - start).sum()), abs=1)
