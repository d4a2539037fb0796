"""The meaning of result columns in CSV, JSON, Parquet and Python: a name has the same meaning everywhere.

Times are integer nanoseconds, energies integer microjoules, shares parts of 1. Unknown values are empty or null, never 0.
The columns of the Trace are declared in `analysis/trace.py`, those of sweeps in `analysis/comparisons/sweeps.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from kernelscope.analysis.energy.summary import Summary


@dataclass(frozen=True)
class DescribedColumn:
    """A column's name, unit ("" for none) and meaning."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class DescribedTable:
    """The columns of a table, described.

    what: what a row is, and where the table occurs. NAME in a column's name stands for the label of a side.
    """

    what: str
    columns: tuple[DescribedColumn, ...]


def _columns(*rows: tuple[str, str, str]) -> dict[str, DescribedColumn]:
    return {name: DescribedColumn(name, unit, meaning) for name, unit, meaning in rows}


# Keys of breakdowns: what a row is about
_KEYS = _columns(
    ("layer", "", "canonical layer; in parentheses a part of the step outside layers: (optimizer), (data), "
     "(in the framework), (synchronisation), (communication), (between layers), (in the program), "
     "(unattributed), (host: in no layer)"),
    ("phase", "", "forward, backward, optimizer, data or other; null if unknown"),
    ("kernel", "", "kernel or primitive with its implementation; in parentheses what happened while none ran"),
    ("kind", "", "one of the kinds below; in parentheses what the device or the host did while no kernel ran"),
    ("library", "", "library of the kernel: onednn, mkl, cudnn, cublas, aten, eigen, ...; null if no kernel ran"),
    ("problem", "", "dimensions of the problem, as the library writes them"),
    ("layout", "", "memory layouts that the kernel reads and writes"),
    ("algorithm", "", "direct, winograd, implicit gemm, ... if known"),
    ("dtype", "", "element type, such as f32"),
    ("transpose", "", "transposition flags of a matrix product, such as NT"),
    ("step", "", "the step's index in the pass, including warm-up"),
    ("window", "", "turn in which the step ran; null outside turns"),
    ("operator", "", "type of the framework's operator; in parentheses what happened outside operators"),
    ("range", "", "innermost range (NVTX or the like) that was open at the launch, or (no range)"),
    ("activity", "", "kernels, or in parentheses what else happened in the range"),
    ("cause", "", "what the host or the device did while no kernel ran; (computing) while one did"),
    ("file", "", "source file, relative to the project"),
    ("function", "", "function that contains the line"),
    ("line", "", "first line of the statement"),
    ("text", "", "the statement's source, on one line"),
)  # fmt: skip

# Numbers of every breakdown
_NUMBERS = _columns(
    ("count", "", "executions in all measured steps; for layers and phases the number of kernels, copies and graphs"),
    ("duration_ns", "ns", "sum of durations over all measured steps, as vendors' tools report it: overlaps count twice"),
    ("time_ns", "ns", "the row's part of the mean step: the rows of a table add up to the step's wall time exactly. Null "
     "if a capture holds only totals"),
    ("share", "", "time_ns as a part of the step; for captures with only totals, of the sum of durations"),
    ("method", "", "how the row's layer was found, the way with the most time first: launch range, operator name, sequence "
     "number, graph order, stream order, shape, time, none; or the source of the number: measured, line events, "
     "python functions, line_profiler, total"),
)  # fmt: skip

_EXECUTIONS = _columns(
    ("mean_ns", "ns", "mean duration of one execution of a kernel or copy"),
    ("median_ns", "ns", "median duration; null if the source has only totals"),
    ("min_ns", "ns", "shortest duration"),
    ("max_ns", "ns", "longest duration"),
    ("std_ns", "ns", "standard deviation, with n - 1; null for a single execution"),
    (
        "gflops_per_s",
        "GFLOP/s",
        "operations of matrix products, convolutions, recurrent cells and attention, divided by the durations of "
        "the executions whose operations are known; null if none are",
    ),
)

_LINE_NUMBERS = _columns(
    ("host_ns", "ns", "per step: time of the host in the line itself; adds up to the step"),
    ("device_ns", "ns", "per step: time of kernels, graphs or copies launched from the line, shared if several ran at once"),
    ("idle_ns", "ns", "per step: time without such work while the host was in the line; device and idle add up to the step"),
    ("profiled_ns", "ns", "per step: time in the line in the lines pass, including its calls"),
)

_SUMMARY = _columns(
    ("framework", "", "the side's label"),
    ("version", "", "the framework's version"),
    ("complete", "", "whether all passes finished"),
    ("step_median_ns", "ns", "median of the mean steps of clean windows; tables of layers and kinds add up to it"),
    ("step_mean_ns", "ns", "mean over all clean steps"),
    ("step_quartiles_ns", "ns", "first and third quartile over windows"),
    ("step_interval_ns", "ns", "95% interval of the median, over restarts first; null for a single restart"),
    ("repeat_medians_ns", "ns", "median of each restart"),
    ("steps", "", "number of clean steps measured"),
    ("repeats", "", "restarts of the clean pass"),
    ("settled", "", "whether the step time of every restart settled during warm-up"),
    ("samples_per_s", "1/s", "batch divided by the median step"),
    ("lines_of_code", "", "lines of the workload's own source for this network and mode"),
    ("peak_resident_bytes", "bytes", "peak resident memory of the process, over all restarts"),
    ("processor_ns", "ns", "processor time of all threads per step"),
    ("system_ns", "ns", "part of processor_ns in the operating system"),
    ("minor_faults", "", "page faults per step without disk access"),
    ("voluntary_switches", "", "waits per step"),
    ("involuntary_switches", "", "times per step that a thread lost its processor"),
    ("cores_busy", "", "share of the clean windows in which each core was busy"),
    ("gpu_power_w", "W", "mean power in the clean windows"),
    ("gpu_utilisation", "", "share of time with any kernel running, as NVML defines it"),
    ("gpu_memory_bytes", "bytes", "memory in use on the GPU"),
    ("gpu_temperature_c", "°C", "mean temperature"),
    ("gpu_sm_clock_hz", "Hz", "mean clock of the multiprocessors"),
    ("energy_uj", "µJ", "energy of a step, gross; null if not recorded"),
    ("energy_interval_uj", "µJ", "its 95% interval"),
    ("net_energy_uj", "µJ", "the same without idle power"),
    ("energy_unavailable", "", "why a recorded energy pass has no result"),
    ("ratio", "", "median step divided by that of the fastest side"),
    ("slower_ns", "ns", "how much longer the median step is than the fastest side's, from paired windows"),
    ("slower_interval_ns", "ns", "its 95% interval"),
    ("significant", "", "whether slower_interval_ns excludes zero"),
    ("detection_limit_ns", "ns", "smallest visible difference"),
)  # fmt: skip

_SIDES = _columns(
    ("NAME_time_ns", "ns", "part of the side's clean step; with the row (profiling overhead) the column adds up to it"),
    ("NAME_ratio", "", "that time divided by the smallest one of the row"),
)  # fmt: skip

_ACCOUNT = _columns(
    ("row", "", "identifier that causes refer to"),
    ("layer", "", "layer, or both names if the sides name it differently"),
    ("layer_a", "", "its name in A; null if A has none"),
    ("layer_b", "", "its name in B; null if B has none"),
    ("phase", "", "phase"),
    ("cell", "", "kind of kernel, or in parentheses what happened while none ran"),
    ("a_ns", "ns", "time per step in A"),
    ("b_ns", "ns", "time per step in B"),
    ("delta_ns", "ns", "B - A; all rows and instrumentation_ns add up to the difference of the clean steps"),
    ("ci_low_ns", "ns", "lower end of its 95% interval; null if there is none"),
    ("ci_high_ns", "ns", "upper end"),
    ("significant", "", "whether the interval excludes zero"),
    ("only", "", "a or b if only that side has it"),
)

_FINDINGS = _columns(
    ("cause", "", "fixed name of the cause"),
    ("title", "", "the cause in a sentence"),
    ("explains_ns", "ns", "part of the difference that the cause claims; no nanosecond is claimed twice"),
    ("interval_ns", "ns", "its 95% interval"),
    ("share", "", "share of the whole difference; negative causes make B faster"),
    ("confidence", "", "high, medium or low"),
    ("layers", "", "layers concerned"),
    ("evidence", "", "sentences with numbers of both sides"),
    ("remedy", "", "what to try"),
    ("rows", "", "rows of the account that contain the time"),
)

_ROOFLINE = _columns(
    ("name", "", "kernel or primitive"),
    ("m", "", "rows of the result of a matrix product"),
    ("n", "", "its columns"),
    ("k", "", "its inner dimension"),
    ("tensor_core", "", "whether it uses tensor cores, if its name says so"),
    ("known_ns", "ns", "part of duration_ns with known operations or bytes"),
    ("flops", "", "operations of all executions; null if unknown"),
    ("bytes", "bytes", "algorithmic bytes of all executions: inputs read once, outputs written once"),
    ("intensity", "flop/byte", "operations per byte"),
    ("gflops_per_s", "Gflop/s", "attained rate of operations"),
    ("gbytes_per_s", "GB/s", "attained rate of bytes"),
    ("of_product", "", "rate of operations divided by that of the measured product"),
    ("of_copy", "", "rate of bytes divided by that of the measured copy"),
    ("of_roofline", "", "share of the ceiling that limits at this intensity"),
    ("bound", "", "that ceiling: product or copy"),
    ("product_ceiling", "", "name of the product that the rate is compared with"),
    ("copy_ceiling", "", "name of the copy that the rate is compared with"),
    ("reason", "", "why a rate or a ceiling is missing"),
)

_DEVICE = _columns(
    ("device", "", "cpu, cuda:N, rocm:N, ..."),
    ("grid", "", "blocks of the launch, as x,y,z; a single number if only their total is known"),
    ("block", "", "threads of a block, as x,y,z; a single number if only their total is known"),
    ("registers", "", "registers per thread"),
    ("shared_memory", "bytes", "shared memory per block, static and dynamic"),
    ("occupancy", "", "theoretical: resident warps divided by the maximum"),
    ("blocks", "", "blocks resident on a multiprocessor"),
    ("limiter", "", "what limits resident blocks: registers, shared memory, warps or blocks"),
    ("waves", "", "blocks of the grid divided by those resident on the whole device"),
    ("tail", "", "share of the device that the last wave fills, 1 if full"),
    (
        "mean_occupancy",
        "",
        "occupancy that the grid can reach at most, spread over all multiprocessors (PyTorch: estimated achieved occupancy)",
    ),
    ("achieved_occupancy", "", "measured: resident warps divided by the maximum, mean over the kernels' time"),
    ("sm_throughput", "", "measured: the busiest unit of the multiprocessors relative to its peak"),
    ("memory_throughput", "", "measured: the busiest unit of caches and memory relative to its peak"),
    ("theoretical_occupancy", "", "resident warps divided by the maximum, as the launch allows"),
    ("dram_throughput", "", "measured: the device's memory relative to its peak"),
    ("l2_throughput", "", "measured: the second-level cache relative to its peak"),
    ("l1_throughput", "", "measured: the first-level cache, shared and local memory relative to their peak"),
    ("threads_per_warp", "", "measured: active threads of an instruction, of 32"),
    ("tensor_pipe", "", "measured: the busiest tensor-core pipe relative to its peak"),
    ("dram_bytes", "bytes", "measured: traffic between the device's memory and its cache"),
    ("tensor_cores", "", "yes, no or unknown"),
    ("of", "", "matrix products or convolutions"),
    ("state", "", "on, off or unknown"),
    ("evidence", "", "where that is known from"),
    ("streams", "", "number of streams (threads of a processor) with work at once"),
    ("operation", "", "direction of the copy; set fills memory"),
    ("memory", "", "kinds of memory, as source to destination"),
    ("size", "", "size class of one copy"),
    ("allocated_bytes", "bytes", "maximum allocated"),
    ("reserved_bytes", "bytes", "maximum reserved by the framework's allocator"),
    ("events", "", "number of memory events recorded"),
    ("how", "", "source of the number"),
)

_ENERGY = _columns(
    ("source", "", "the counter: of a GPU, a processor package or memory"),
    ("energy_uj", "µJ", "energy of a step, including idle power; null if not resolved"),
    ("low_uj", "µJ", "lower end of its 95% interval"),
    ("high_uj", "µJ", "upper end; for a row that is not resolved, its upper bound"),
    ("least_uj", "µJ", "lower bound from the counter's updates, without assuming steady power"),
    ("most_uj", "µJ", "upper bound"),
    ("net_uj", "µJ", "without idle power"),
    ("net_low_uj", "µJ", "lower end of its 95% interval"),
    ("net_high_uj", "µJ", "upper end"),
    ("sample_uj", "µJ", "energy of one sample of the batch"),
    ("net_sample_uj", "µJ", "the same without idle power"),
    ("power_w", "W", "mean power"),
    ("idle_w", "W", "idle power, measured before the windows"),
    ("idle_low_w", "W", "lower end of its 95% interval"),
    ("idle_high_w", "W", "upper end"),
    ("windows", "", "number of energy windows measured"),
    ("steps", "", "number of steps in them"),
    ("step_ns", "ns", "mean step of the energy pass"),
    ("update_ns", "ns", "time between updates of the counter"),
    ("steady", "", "whether temperature and power settled before"),
    ("idle_uj", "µJ", "part of energy_uj that the idle device would have used in that time"),
    ("replay_uj", "µJ", "energy of the layer run alone, without idle power"),
    ("replay_low_uj", "µJ", "its lower bound from the counter"),
    ("replay_high_uj", "µJ", "its upper bound"),
    ("replay_note", "", "note if both methods disagree, or why there is no replay"),
)  # fmt: skip

_SAID = {
    **_columns(
        ("framework", "", "the side's label"),
        ("check", "", "what was checked"),
        ("status", "", "pass, fail or not available (which does not count as a pass)"),
        ("value", "", "what was found"),
        ("limit", "", "what is required"),
        ("detail", "", "where and what"),
        ("setting", "", "name of the setting, version or option"),
        ("NAME", "", "its value on that side; empty if the side does not have it"),
        ("pass", "", "clean, layers, kernels or lines"),
        ("overhead", "", "its median step divided by the clean one's, minus 1"),
        ("layer_coverage", "", "share of the step in rows whose layer is known"),
        ("kind_coverage", "", "share of the step in rows whose kind is known"),
        ("reason", "", "why the pass was not recorded, or why something is unknown"),
    ),
    **_KEYS,
    **_NUMBERS,
}


def _table(what: str, names: str, *described: Mapping[str, DescribedColumn]) -> DescribedTable:
    """Return a table of the named columns, each as described in the first of `described` that has it, else as everywhere."""
    known = {name: column for part in reversed((*described, _SAID)) for name, column in part.items()}
    return DescribedTable(what, tuple(known[name] for name in names.split()))


TABLES: Mapping[str, DescribedTable] = {
    "breakdown": DescribedTable(
        "One row per key; `kernelscope breakdown --by` chooses the table, and each table has some of these keys.",
        (*_KEYS.values(), *_NUMBERS.values(), *_EXECUTIONS.values(), *_LINE_NUMBERS.values()),
    ),
    "summary": DescribedTable("One row per side of a comparison, from its clean pass.", tuple(_SUMMARY.values())),
    "layers": _table(
        "One row per layer and phase, with a column per side: comparisons.", "layer phase NAME_time_ns NAME_ratio", _SIDES
    ),
    "kinds": _table("One row per kind, with a column per side: comparisons.", "kind NAME_time_ns NAME_ratio", _SIDES),
    "kernels": _table(
        "The kernels of each side with the most time: comparisons.",
        "framework kernel kind library layer phase problem layout algorithm dtype transpose count duration_ns time_ns share "
        "mean_ns median_ns min_ns max_ns std_ns gflops_per_s method",
        _EXECUTIONS,
    ),
    "lines": _table(
        "Host lines of each side: comparisons.", "framework file function line text count duration_ns time_ns share method"
    ),
    "fairness": _table("Whether the sides do the same work: comparisons.", "check framework status value limit detail"),
    "settings": _table("Settings that differ: comparisons.", "setting NAME"),
    "passes": _table(
        "What each pass cost: comparisons.",
        "framework pass step_median_ns overhead minor_faults layer_coverage kind_coverage reason",
        {name: _SUMMARY[name] for name in ("minor_faults",)},
        _columns(("step_median_ns", "ns", "median step of the pass")),
    ),
    "account": DescribedTable(
        "One row per layer, phase and cell of an explanation: `rows` in its JSON.", tuple(_ACCOUNT.values())
    ),
    "findings": DescribedTable("One row per cause of an explanation: `findings` in its JSON.", tuple(_FINDINGS.values())),
    "roofline": _table(
        "One row per kernel and problem, or per layer and phase: `kernelscope roofline`.",
        "name kind library operator layer phase dtype algorithm transpose tensor_core problem m n k count duration_ns time_ns "
        "known_ns flops bytes intensity gflops_per_s gbytes_per_s of_product of_copy of_roofline bound product_ceiling "
        "copy_ceiling reason",
        _ROOFLINE,
    ),
    "occupancy": _table(
        "One row per kernel and launch geometry: `kernelscope device --table occupancy`.",
        "device kernel grid block registers shared_memory count duration_ns occupancy blocks limiter waves tail mean_occupancy "
        "reason",
        _DEVICE,
    ),
    "metrics": _table(
        "One row per kernel with hardware counters (Nsight Compute); null if not measured.",
        "device kernel count duration_ns achieved_occupancy theoretical_occupancy sm_throughput memory_throughput "
        "dram_throughput l2_throughput l1_throughput tensor_pipe waves threads_per_warp dram_bytes",
        _DEVICE,
    ),
    "tensor-cores": _table("Kernels by element type.", "dtype tensor_cores count duration_ns share", _DEVICE),
    "tf32": _table("Whether TF32 is on.", "of state evidence", _DEVICE),
    "streams": _table(
        "Number of streams busy at once; rows of a device add up to the window.", "device streams time_ns share", _DEVICE
    ),
    "overlap": _table(
        "Computing, communicating and copying at once; rows of a device add up to the window.",
        "device activity time_ns share",
        _columns(("activity", "", "compute, communication, copy, a combination of them, or idle")),
        _DEVICE,
    ),
    "copies": _table(
        "Copies by direction, memory and size.",
        "device operation memory size count duration_ns bytes gbytes_per_s",
        _columns(
            ("bytes", "bytes", "moved or set"), ("gbytes_per_s", "GB/s", "bytes of copies with known size divided by their time")
        ),
        _DEVICE,
    ),
    "peak": _table(
        "Peak memory per device.",
        "device allocated_bytes reserved_bytes time_ns step phase events",
        _columns(
            ("time_ns", "ns", "time of the peak, since the first memory event"),
            ("step", "", "step of the peak"),
            ("phase", "", "phase of the peak"),
        ),
        _DEVICE,
    ),
    "memory": _table(
        "Memory at the peak by purpose; rows of a device add up to the peak.",
        "device kind bytes blocks how",
        _columns(
            ("kind", "", "weights, activations, gradients, optimizer state, workspace, ..."),
            ("bytes", "bytes", "held at the peak"),
            ("blocks", "", "number of blocks"),
        ),
        _DEVICE,
    ),
    "energy": _table("One row per source of `kernelscope energy`.", " ".join(field.name for field in fields(Summary)), _ENERGY),
    "energy by layer": _table(
        "One row per layer or kind of `kernelscope energy --by`; rows add up to the step's energy.",
        "layer kind energy_uj low_uj high_uj idle_uj time_ns power_w reason replay_uj replay_low_uj replay_high_uj replay_note",
        _columns(("time_ns", "ns", "time of its kernels per step")),
        _ENERGY,
    ),
}
