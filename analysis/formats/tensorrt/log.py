"""What trtexec's log says beside the layers: versions, device, allowed precisions, and the times of whole iterations."""

from __future__ import annotations

import re
from typing import Any

from kernelscope.analysis.formats.tensorrt.layers import DEVICE

PREFIX = re.compile(r"^[ \t]*(?:\[[\d/:.\- ]{10,30}\] )?\[[VIWEF]\] ?", re.MULTILINE)
_VERSION = re.compile(r"^TensorRT version: (\d[\d.]*)", re.MULTILINE)
_BANNER = re.compile(r"^&&&& \w+ TensorRT\.\w+ \[TensorRT v(?P<number>\d{4,6})\](?: \[b\d+\])? # (?P<command>.*)", re.MULTILINE)
_SELECTED = re.compile(r"^Selected Device: (.{1,200})", re.MULTILINE)
_PRECISION = re.compile(r"^Precision: ([A-Z][A-Z0-9+ ]*)", re.MULTILINE)
_LOADS = re.compile(r"--loadEngine=|^Load engine: \S", re.MULTILINE)
_FLAGS = {"fp16": "FP16", "bf16": "BF16", "int8": "INT8", "fp8": "FP8", "int4": "INT4"}
_QPS = re.compile(r"^[Tt]hroughput: ([\d.]+) qps", re.MULTILINE)
_TIMES = re.compile(
    r"^(?P<what>Latency|GPU Compute Time): .*?\bmean = (?P<mean>[\d.]+) ms, median = (?P<median>[\d.]+) ms", re.MULTILINE
)
_TIMES_BELOW = re.compile(  # before TensorRT 8
    r"^(?P<what>Host Latency|GPU Compute)[ \r]*\n(?:m(?:in|ax): .*\n){2}"
    r"mean: (?P<mean>[\d.]+) ms.*\nmedian: (?P<median>[\d.]+) ms",
    re.MULTILINE,
)
_MOST = 4  # of each sort that are quoted


def facts(text: str) -> dict[str, Any]:
    """Return what a log states, for layers.trace_of. text: without trtexec's prefixes.

    The precisions that the builder may use are known only if the same run built the engine: with a loaded one, the log states
    the defaults.
    """
    banner = _BANNER.search(text)
    result: dict[str, Any] = {"tensorrt": _version(text, banner), "notes": _whole(text)}
    if device := _SELECTED.search(text):
        result["devices"] = [{"device": DEVICE, "name": device[1].strip()}]
    precision = None if _LOADS.search(text) else _precision(text, banner)
    if precision:
        result["settings"] = {"precision": precision}
        result["notes"].append(f"the engine's builder could choose among {precision}; which layer uses which is not in the table")
    return result


def _version(text: str, banner: re.Match[str] | None) -> str | None:
    """Return the version such as 8.5.2; None if the log has none."""
    if stated := _VERSION.search(text):
        return stated[1]
    if banner is None:
        return None
    digits = banner["number"]  # 8502 is 8.5.2, 100300 is 10.3.0
    major, rest = (digits[:-4], digits[-4:]) if len(digits) > 5 else (digits[:-3], digits[-3:])
    pieces = (rest[:2], rest[2:]) if len(rest) == 4 else (rest[:1], rest[1:])
    return ".".join(str(int(piece)) for piece in (major, *pieces))


def _precision(text: str, banner: re.Match[str] | None) -> str | None:
    """Return the precisions that the builder could choose among; None if unknown."""
    if stated := _PRECISION.search(text):
        return stated[1].strip()
    command = banner["command"] if banner else ""
    if not re.search(r"--(?:onnx|deploy|uff|model)=", command) or "--stronglyTyped" in command:
        return None
    if re.search(r"--best\b", command):
        return "FP32+FP16+INT8"
    return "+".join(["FP32", *(name for flag, name in _FLAGS.items() if re.search(rf"--{flag}\b", command))])


def _whole(text: str) -> list[str]:
    """Return a note on the times of whole iterations, if the log has them."""
    said = [f"throughput {speed} iterations a second" for speed in _QPS.findall(text)[:_MOST]]
    for pattern in (_TIMES, _TIMES_BELOW):
        said += [f"{what} {mean} ms (median {median} ms)" for what, mean, median in pattern.findall(text)[:_MOST]]
    return [f"the log also gives, for whole iterations: {'; '.join(dict.fromkeys(said))}"] if said else []
