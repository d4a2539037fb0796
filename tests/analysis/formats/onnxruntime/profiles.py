"""Profiles of ONNX Runtime in the forms of its versions and providers, made from its documentation and from posted ones."""

from __future__ import annotations

import json
from typing import Any

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_RUN_US = 1000
# operator, node, provider, begin within the run, duration; kernels that it launched: name, begin within the run, duration
GPU_NODES: tuple[tuple[Any, ...], ...] = (
    ("MemcpyFromHost", "Memcpy_token_1", CUDA, 10, 20, [("MemcpyHostToDevice", 15, 5)]),
    ("Conv", "/conv1/Conv", CUDA, 40, 30, [("void implicit_convolve_sgemm<float>()", 60, 300), ("void bias<float>()", 361, 40)]),
    ("Shape", "/Shape", CPU, 75, 5, []),
    ("Gemm", "/fc/Gemm", CUDA, 90, 20, [("ampere_sgemm_128x64_tn", 410, 200)]),
    ("MemcpyToHost", "Memcpy", CUDA, 120, 500, [("MemcpyDeviceToHost", 612, 4)]),
)
SHAPES = {
    "Conv": ([{"float": [8, 3, 32, 32]}, {"float": [16, 3, 3, 3]}], [{"float": [8, 16, 32, 32]}]),
    "Gemm": ([{"float16": [8, 64]}, {"float16": [64, 10]}], [{"float16": [8, 10]}]),
}


def event(category: str, name: str, ts: int, dur: int, tid: int = 7, **args: Any) -> dict[str, Any]:
    """Return an event; times in microseconds."""
    pid = -1 if tid == -1 else 7
    return {"cat": category, "pid": pid, "tid": tid, "dur": dur, "ts": ts, "ph": "X", "name": name, "args": args}


def node(operator: str, name: str, ts: int, dur: int, provider: str = CPU, tid: int = 7, **more: Any) -> dict[str, Any]:
    """Return the event of a node."""
    inputs, outputs = SHAPES.get(operator, ([{"float": [4]}], [{"float": [4]}]))
    args = {"op_name": operator, "provider": provider, "node_index": "1", **more}
    return event(
        "Node", f"{name}_kernel_time", ts, dur, tid, input_type_shape=inputs, output_type_shape=outputs,
        thread_scheduling_stats="", **args,
    )  # fmt: skip


def kernel(name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    """Return the event of a CUDA kernel or copy."""
    size = "-1" if name.startswith("Memcpy") else "4"
    shape = {f"{what}_{axis}": size for what in ("grid", "block") for axis in "xyz"}
    return event("Kernel", name, ts, dur, -1, stream="7", **shape, **args)


def run(ts: int, dur: int, tid: int = 7) -> list[dict[str, Any]]:
    """Return the events of a run, which stand behind those of its nodes."""
    return [event("Session", "SequentialExecutor::Execute", ts + 5, dur - 10, tid), event("Session", "model_run", ts, dur, tid)]


def loading() -> list[dict[str, Any]]:
    """Return the events of a session that is made."""
    return [event("Session", "model_loading_uri", 3, 300), event("Session", "session_initialization", 310, 500)]


def cuda(runs: int = 4, with_kernels: bool = True, clock: str = "true") -> list[dict[str, Any]]:
    """Return a profile of the CUDA provider.

    clock: how kernels begin: "true", "behind" (in a row from their node's begin on, as in late 2022), "ends" (of 2021), "other"
    (a device's own clock).
    """
    result = loading()
    for number in range(runs):
        begin = _RUN_US * (number + 1)
        for operator, name, provider, at, dur, launched in GPU_NODES:
            result.append(node(operator, name, begin + at, dur, provider))
            behind = 1
            for kernel_name, kernel_at, kernel_dur in launched if with_kernels else ():
                ts = {
                    "true": begin + kernel_at, "behind": begin + at + behind, "ends": begin + kernel_at + kernel_dur,
                    "other": kernel_at + number - 500_000,
                }[clock]  # fmt: skip
                behind += kernel_dur
                result.append(kernel(kernel_name, ts, kernel_dur, op_name=operator, parent_name=f"{name}_kernel_time"))
        result += run(begin, 700)
    return result


def text(events: list[dict[str, Any]]) -> str:
    """Return a profile as ONNX Runtime writes it: one event a line."""
    return "[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n"
