"""Recordings made up for tests: a loop whose thread launches work, and a GPU whose streams do it behind the thread's back.

A step is a list of items that the thread comes to one after another. It only launches kernels and copies; each stream does its
own in that order, as soon as it can. `Wait` lets the thread wait for the GPU, so that `Host` after it leaves the GPU idle for so
long.

All times of items are µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.explain.device import CaptureSide, explain
from kernelscope.analysis.trace import Trace, conform

LOOP, LOADER = 100, 200  # threads
COMPUTE, COPIES, NETWORK = 7, 20, 21  # streams
LAUNCH = 2  # that a call takes which launches something


@dataclass(frozen=True)
class Kernel:
    """A kernel. operator: what the thread is in while it launches it. launched: whether the capture tells the launch."""

    name: str
    us: float
    kind: str = "elementwise"
    dtype: str | None = "f32"
    operator: str | None = None
    phase: str | None = None
    stream: int = COMPUTE
    thread: int = LOOP
    device: str = "cuda:0"
    launched: bool = True
    grid: str | None = None


@dataclass(frozen=True)
class Copy:
    """A copy, or memory that is set (operation "set"). operator: what the thread is in while it launches it."""

    us: float
    operation: str = "host to device"
    memory: str | None = "pinned to device"
    bytes: int = 1_000_000
    stream: int = COMPUTE
    thread: int = LOOP
    operator: str | None = None


@dataclass(frozen=True)
class Graph:
    """A CUDA graph of which the capture shows no kernel."""

    us: float


@dataclass(frozen=True)
class Host:
    """What the thread does itself: in an operator, a range or a call of the device's API of these names, or in none of them."""

    us: float
    operator: str | None = None
    range: str | None = None
    call: str | None = None


@dataclass(frozen=True)
class Wait:
    """The thread waits until all streams have done what was launched."""

    call: str = "cudaDeviceSynchronize"


@dataclass(frozen=True)
class Within:
    """Items that the thread comes to in a range."""

    name: str
    items: tuple[Any, ...]


Item = Kernel | Copy | Graph | Host | Wait | Within
Program = Sequence[Item] | Callable[[int], Sequence[Item]]


@dataclass
class Noise:
    """How much durations vary from one execution to the next, as standard deviations in shares of them."""

    kernels: float = 0.0
    host: float = 0.0
    seed: int = 0
    _random: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self):
        self._random = np.random.default_rng(self.seed)

    def of(self, us: float, share: float) -> int:
        """Return a duration (ns) as it happens to be this time."""
        factor = 1 + share * float(np.clip(self._random.standard_normal(), -2.5, 2.5)) if share else 1.0
        return round(us * 1000 * factor)


class _Recorder:
    """Plays items and writes down what a profiler would."""

    def __init__(self, noise: Noise):
        self.noise = noise
        self.now = 1_000_000
        self.free: dict[tuple[str, int], int] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("kernels", "copies", "graphs", "calls", "operators", "ranges")
        }
        self.correlation = 0

    def play(self, items: Iterable[Item]) -> None:
        for item in items:
            getattr(self, f"_{type(item).__name__.lower()}")(item)

    def _kernel(self, item: Kernel) -> None:
        begun = self.now
        row = self._launched(item, "cudaLaunchKernel", item.device, self.noise.of(item.us, self.noise.kernels))
        told = {key: getattr(item, key) for key in ("name", "kind", "dtype", "operator", "phase", "grid")}
        self.rows["kernels"].append(
            {**row, **told, "duration_ns": row["end_ns"] - row["start_ns"], "count": 1, "library": "made up"}
        )
        if item.operator is not None:
            self._spent("operators", item.operator, begun, thread=item.thread)

    def _copy(self, item: Copy) -> None:
        begun = self.now
        row = self._launched(item, "cudaMemcpyAsync", "cuda:0", self.noise.of(item.us, self.noise.kernels))
        told = {key: getattr(item, key) for key in ("operation", "memory", "bytes")}
        self.rows["copies"].append({**row, **told, "duration_ns": row["end_ns"] - row["start_ns"], "count": 1})
        if item.operator is not None:
            self._spent("operators", item.operator, begun, thread=item.thread)

    def _graph(self, item: Graph) -> None:
        stood = Kernel("", item.us)
        row = self._launched(stood, "cudaGraphLaunch", "cuda:0", self.noise.of(item.us, self.noise.kernels))
        self.rows["graphs"].append({**row, "graph": 1})

    def _host(self, item: Host) -> None:
        begun = self.now
        self.now += self.noise.of(item.us, self.noise.host)
        for table, name in (("operators", item.operator), ("ranges", item.range), ("calls", item.call)):
            if name is not None:
                self._spent(table, name, begun)

    def _wait(self, item: Wait) -> None:
        begun = self.now
        self.now = max(self.now + LAUNCH * 1000, *self.free.values(), 0)
        self._spent("calls", item.call, begun)

    def _within(self, item: Within) -> None:
        begun = self.now
        self.play(item.items)
        self._spent("ranges", item.name, begun)

    def _launched(self, item: Kernel | Copy, call: str, device: str, lasts: int) -> dict[str, Any]:
        """Launch something; return the columns that all device work has."""
        begun, stream = self.now, (device, item.stream)
        self.now += LAUNCH * 1000
        self.correlation += 1
        if getattr(item, "launched", True):
            self._spent("calls", call, begun, correlation=self.correlation, thread=item.thread)
        start = max(self.now, self.free.get(stream, 0))
        self.free[stream] = start + lasts
        row = {"start_ns": start, "end_ns": start + lasts, "device": device, "thread": item.stream, "process": 1}
        if not getattr(item, "launched", True):
            return row
        return {
            **row,
            "correlation": self.correlation,
            "launch_ns": begun,
            "launch_end_ns": self.now,
            "launch_thread": item.thread,
        }

    def _spent(self, table: str, name: str, begun: int, **more: Any) -> None:
        own = {"calls": {"process": 1, "api": "runtime"}, "ranges": {"category": "user"}, "operators": {}}[table]
        self.rows[table].append({"thread": LOOP, "start_ns": begun, "end_ns": self.now, "name": name, **own, **more})


def recording(
    step: Program, steps: int = 8, *, before: Sequence[Item] = (), after: Sequence[Item] = (), marked: bool = True,
    noise: Noise | None = None, hardware: str = "NVIDIA A100-SXM4-40GB", **info: Any,
) -> Trace:  # fmt: skip
    """Return the Trace of a loop. step: what a step does, or a function of its number. before, after: what comes around the loop.

    marked: whether the profiler marks the steps. hardware: the device's name.
    """
    recorder = _Recorder(noise or Noise())
    recorder.play(before)
    edges = [recorder.now]
    for number in range(steps):
        recorder.play(step(number) if callable(step) else step)
        edges.append(recorder.now)
    recorder.play(after)
    marks = [
        {"step": number, "warmup": False, "thread": LOOP, "start_ns": start, "end_ns": end}
        for number, (start, end) in enumerate(pairwise(edges))
    ]
    tables = {name: conform(name, rows) for name, rows in recorder.rows.items() if rows}
    if marked:
        tables["steps"] = conform("steps", marks)
    about = {"framework": "pytorch", "devices": [{"device": "cuda:0", "name": hardware}], **info}
    trace = Trace(**tables, info=about)
    trace.check()
    return trace


def explained(a: Trace, b: Trace, request: Request | None = None) -> dict[str, Any]:
    """Return the explanation of two recordings, once it is sure that it adds up. request: what to take as steps."""
    said = explain(CaptureSide("first.json", a), CaptureSide("second.json", b), request)
    delta = said["wall_delta_ns"]
    assert sum(row["delta_ns"] for row in said["rows"]) == delta
    assert sum(one["explains_ns"] for one in said["findings"]) + said["unexplained_ns"] == delta
    named = [row for one in said["findings"] for row in one["rows"]]
    assert len(named) == len(set(named))
    return said


def causes(said: dict[str, Any]) -> dict[str, float]:
    """Return what is found: cause -> ms per step; several findings of one cause are added up."""
    found: dict[str, float] = {}
    for one in said["findings"]:
        found[one["cause"]] = found.get(one["cause"], 0.0) + one["explains_ns"] / 1e6
    return found


def assert_named(said: dict[str, Any], cause: str, ms: float, within: float = 0.10) -> dict[str, Any]:
    """Return the finding of a cause, which must be among the first two and explain these ms per step, within a share of them."""
    mine = [one for one in said["findings"][:2] if one["cause"] == cause]
    assert mine, f"{cause} is not among the first two of {causes(said)}"
    assert abs(mine[0]["explains_ns"] / 1e6 - ms) <= within * abs(ms), f"{cause}: {causes(said)}, planted {ms:+.3f} ms"
    return dict(mine[0])


# --- a step to change -----------------------------------------------------------------------------------------------------------


def training() -> list[Item]:
    """Return a step of training a small network: some 15 ms of kernels; then the thread waits for them, and works for 0.8 ms."""
    items: list[Item] = [Copy(300)]
    for layer in range(4):
        items += [
            Kernel(f"implicit_convolve_sgemm_{layer}", 900, "convolution forward", operator="aten::convolution", phase="forward"),
            Kernel("bn_fw_tr", 200, "normalisation", operator="aten::batch_norm", phase="forward"),
            Kernel("relu_kernel", 150, "activation", operator="aten::relu", phase="forward"),
        ]
    items += [Kernel("sgemm_128x64_tn", 600, "gemm", operator="aten::addmm"), Kernel("softmax_warp_forward", 60, "softmax")]
    items += [
        Kernel("sgemm_128x64_nt", 600, "gemm", operator="aten::mm"),
        Kernel("sgemm_128x64_nn", 600, "gemm", operator="aten::mm"),
    ]
    for layer in range(4):
        items += [
            Kernel("relu_backward", 150, "activation", phase="backward"),
            Kernel(
                f"dgrad_engine_{layer}", 900, "convolution data gradient", operator="aten::convolution_backward", phase="backward"
            ),
            Kernel(
                f"wgrad_engine_{layer}",
                900,
                "convolution weight gradient",
                operator="aten::convolution_backward",
                phase="backward",
            ),
        ]
    items += [Kernel("vectorized_elementwise_add", 40, operator="aten::add_", phase="optimizer") for _ in range(12)]
    return [*items, Wait(), Host(800)]


def changed(items: Iterable[Item], change: Callable[[Item], Item | Sequence[Item] | None]) -> list[Item]:
    """Return items each of which is replaced by what a function returns for it: another item, several, or None for no change."""
    result: list[Item] = []
    for item in items:
        new = change(item)
        result += [item] if new is None else list(new) if isinstance(new, Sequence) else [new]
    return result


def scaled(items: Iterable[Item], kernels: float = 1.0, host: float = 1.0) -> list[Item]:
    """Return items whose kernels and whose gaps on the host take so many times as long."""
    return changed(
        items, lambda item: replace(item, us=item.us * (kernels if isinstance(item, Kernel) else host))
        if isinstance(item, (Kernel, Host)) else None,
    )  # fmt: skip
