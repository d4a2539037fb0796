"""What a capture is to record: typed options, from which `command` builds the command of each release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CPU_TRACES = ("nvtx", "osrt")
GPU_TRACES = ("cuda", "nvtx", "osrt")


@dataclass(frozen=True)
class NvtxRange:
    """A range whose first beginning starts the recording and whose end stops it. domain: None is NVTX's default, "*" is any."""

    text: str
    domain: str | None = None


@dataclass(frozen=True)
class NsysOptions:
    """What `nsys profile` is to record. The defaults record the program's own processes and disturb them least.

    output: the report without its suffix; nsys appends ".nsys-rep" (".qdrep" before 2021.4). Nothing that exists is overwritten.
    traces: the interfaces to trace, as nsys calls them: cuda, nvtx, osrt (calls into the operating system), cudnn, cublas, ...
    capture: None records the whole program; else from a range's begin to its end, or between cudaProfilerStart and -Stop.
    cuda_graph_trace: "graph" has one interval an execution of a CUDA graph, "node" one a kernel in it, at some cost; None is
    nsys's own default. cpu_sampling: sample call stacks of the processor (needs the kernel's permission). context_switches: when
    threads run. gpu_metrics: devices whose counters are sampled, by nsys's numbers or "all" (needs the driver's permission).
    memory_usage: allocations on the GPU. delay_s, duration_s: start so long after the program's start; stop after so long, while
    the program goes on. stats: print summaries at the end. environment: variables set for the program alone; a value may hold
    no comma, at which nsys splits. session: the name by which `nsys stop` knows the run.
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
    """What nvprof is to record: kernels, copies and API calls, and NVTX ranges, of the program's own process.

    There is no option for child processes: --profile-child-processes makes a file for each of them, with its id in the name, and
    enters whatever the program starts, such as compilers and `ldconfig`. Programs that compute in child processes need nsys.

    output: the file that it writes, an SQLite database; log: the file for its own messages. Nothing that exists is overwritten.
    capture: "cudaProfilerApi" records between cudaProfilerStart and -Stop. memory_usage: allocations on the GPU.
    """

    output: Path
    log: Path
    capture: Literal["cudaProfilerApi"] | None = None
    memory_usage: bool = False
