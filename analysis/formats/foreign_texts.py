"""Texts of tools that no format reads: how to tell them, and what to record in their place."""

from __future__ import annotations

import re
from typing import NamedTuple


class ForeignText(NamedTuple):
    """pattern: anywhere in the text, MULTILINE; tool: what the text is; remedy: what to record or print that is read."""

    pattern: str
    tool: str
    remedy: str


_TENSORFLOW = "record the model in TensorFlow with tf.profiler.experimental, and name its .xplane.pb"
_TORCH = "record some steps with torch.profiler, and name its chrome trace or its printed table"
_TEXTS = (
    ForeignText(
        r"\bstat_summarizer\.cc:\d+\] (?:=+ |Number of nodes executed)",
        "TensorFlow's StatSummarizer (benchmark_model)",
        _TENSORFLOW,
    ),
    ForeignText(
        r"^=+ (?:Run Order|Top by Computation Time|Summary by node type) =+[ \r]*$"
        r"|^(?:Operator-wise Profiling Info|Profiling Info) for |^Number of nodes executed: \d",
        "the operator profile of TensorFlow Lite's or TensorFlow's benchmark_model",
        f"{_TENSORFLOW}; or run the model in ONNX Runtime with SessionOptions.enable_profiling",
    ),
    ForeignText(
        r"\b(?:EXECUTED|NOT_RUN|OPTIMIZED_OUT) *layerType: \S.*\b(?:realTime|execType): ",
        "performance counts of OpenVINO (benchmark_app -pc)",
        "run the model in ONNX Runtime with SessionOptions.enable_profiling, and name the JSON that it writes",
    ),
    ForeignText(
        r"^\w+ Profiler Report[ \r]*$|^\|? *Action[ \t]*\|[ \t]*Mean duration \(s\)",
        "a table of PyTorch Lightning's profiler",
        "Trainer(profiler='pytorch') records with torch.profiler: name its chrome trace or the table that it prints",
    ),
    ForeignText(
        r"^-+ DeepSpeed Flops Profiler -+|\btime \(ms\) \| [\w -]{1,60}: -?\d",
        "times of DeepSpeed's or Megatron-LM's timers or flops profiler",
        _TORCH,
    ),
    ForeignText(
        r"^ *-+> +Profiling Report +<-+|^-+ *(?:Operator|Model|Overview|Kernel) Summary *-+[ \r]*$[\s\S]{0,400}^Time unit: ",
        "a table of Paddle's profiler",
        "record the program with nsys profile (GPU), or print what oneDNN computes with ONEDNN_VERBOSE=1 (processor)",
    ),
    ForeignText(
        r"^(?:[\d/-]+ [\d:]+ )?RAM \d+/\d+MB .*\bGR3D_FREQ \d",
        "samples of NVIDIA's tegrastats",
        "they have no times of kernels: record the program with nsys profile",
    ),
    ForeignText(
        r"^prim_kind +(?:\w+ +)*ncalls +time\(ms\) +overall%",
        "what oneDNN's verbose_converter makes of a verbose log",
        "name that log itself (ONEDNN_VERBOSE=1)",
    ),
    ForeignText(
        r"^(?: *\d+\.\d+%){3} \w+ +\d+(?:\.\d+)?ms[ \r]*$",
        "the profile that CTranslate2 prints",
        "record the program with nsys profile (GPU), or print what its libraries compute with ONEDNN_VERBOSE=1 or MKL_VERBOSE=1 "
        "(processor)",
    ),
    ForeignText(
        r"^MIOpenDriver\S* +\w+ -",
        "the output of MIOpenDriver",
        "record it with rocprofv3 --kernel-trace --output-format csv (or rocprof --stats)",
    ),
    ForeignText(
        r"^ {2,}Section: (?:GPU Speed Of Light|Launch Statistics|Occupancy|Memory Workload|Compute Workload)",
        "Nsight Compute's text without the line above the sections that names the kernel",
        "keep that line, or print ncu --csv --page raw",
    ),
)


def told(text: str) -> str | None:
    """Return what a text is and what to record in its place; None if it is of none of these tools."""
    found = next((one for one in _TEXTS if re.search(one.pattern, text, re.MULTILINE)), None)
    return f"{found.tool}, which no format here reads; {found.remedy}" if found else None
