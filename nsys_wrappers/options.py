"""What a capture should record: typed options, from which `command` builds each release's command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CPU_TRACES = ("nvtx", "osrt")
GPU_TRACES = ("cuda", "nvtx", "osrt")


@dataclass(frozen=True)
class NvtxRange:
    """A range that starts the recording when it first begins, and stops it at its end. domain: None: the default, "*": any."""

    text: str
    domain: str | None = None


@dataclass(frozen=True)
class NsysOptions:
    """What `nsys profile` should record. The defaults record the program's own processes and disturb them least.

    output: the report without its suffix; nsys appends ".nsys-rep" (".qdrep" before 2021.4). Existing files are not
    overwritten. traces: the interfaces to trace, by nsys's names: cuda, nvtx, osrt (calls into the operating system), cudnn,
    cublas, ... capture: None records the whole program; else from a range's begin to its end, or between cudaProfilerStart and
    -Stop. cuda_graph_trace: "graph" records one interval per execution of a CUDA graph, "node" one per kernel in it, at some
    cost; None is nsys's own default. cpu_sampling: sample CPU call stacks (needs the kernel's permission). context_switches:
    record when threads run. gpu_metrics: devices whose counters are sampled, by nsys's numbers or "all" (needs the driver's
    permission). memory_usage: allocations on the GPU. delay_s, duration_s: start this long after the program's start; stop
    after this time, while the program goes on. stats: print summaries at the end. environment: variables set only for the
    program; values must not contain commas, at which nsys splits. session: the name by which `nsys stop` knows the run.
    """

    output: Path
    traces: tuple[str, ...] = GPU_TRACES
    capture: NvtxRange | Literal["cudaProfilerApi"] | None = None
    cuda_graph_trace: Literal["graph", "node"] | None = None
    cpu_sampling: bool = False
    context_switches: bool = False
    gpu_metrics: tuple[str, ...] = ()
    memory_usage: bool = False
    delay_s: int = 0
    duration_s: int = 0
    stats: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    session: str = ""


@dataclass(frozen=True)
class NvprofOptions:
    """What nvprof should record: kernels, copies, API calls and NVTX ranges of the program's own process.

    There is no option for child processes: --profile-child-processes makes one file per process, with its id in the name, and
    also attaches to everything else the program starts, such as compilers and `ldconfig`. Programs that compute in child
    processes need nsys.

    output: the SQLite database that it writes. log: the file for its own messages. Existing files are not overwritten.
    capture: "cudaProfilerApi" records between cudaProfilerStart and -Stop. memory_usage: allocations on the GPU.
    """

    output: Path
    log: Path
    capture: Literal["cudaProfilerApi"] | None = None
    memory_usage: bool = False
