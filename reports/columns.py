"""What the columns of results mean, in CSV, JSON, Parquet and in Python: one word, one meaning.

Times are integer nanoseconds, energies integer microjoules, shares parts of 1. What is not known is empty or null, never 0.
The columns of the Trace are declared in `analysis/trace.py`, those of sweeps in `analysis/comparisons/sweeps.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from kernelscope.analysis.energy.summary import Summary


@dataclass(frozen=True)
class DescribedColumn:
    """A column's name, its unit ("" for none) and what it means."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class DescribedTable:
    """The columns of a table, described.

    what: what a row is, and where the table is met. NAME in a column's name
    stands for the label of a side.
    """

    what: str
    columns: tuple[DescribedColumn, ...]


def _columns(*rows: tuple[str, str, str]) -> dict[str, DescribedColumn]:
    return {name: DescribedColumn(name, unit, meaning) for name, unit, meaning in rows}


# What a row of any breakdown is about
_KEYS = _columns(
    ("layer", "", "canonical layer; in brackets a part of the step that is no layer's: (optimizer), (data), "
     "(in the framework), (synchronisation), (communication), (between layers), (in the program), "
     "(unattributed), (host: in no layer)"),
    ("phase", "", "forward, backward, optimizer, data or other; null where nothing tells it"),
    ("kernel", "", "kernel or primitive with its implementation; in brackets what went on where none ran"),
    ("kind", "", "one of the kinds below; in brackets what the device or the host did where no kernel ran"),
    ("library", "", "whose kernel it is: onednn, mkl, cudnn, cublas, aten, eigen, ...; null where no kernel ran"),
    ("problem", "", "dimensions of the problem, as the library writes them"),
    ("layout", "", "memory layouts that it reads and writes"),
    ("algorithm", "", "direct, winograd, implicit gemm, ... as far as it is told"),
    ("dtype", "", "element type, such as f32"),
    ("transpose", "", "transposition flags of a matrix product, such as NT"),
    ("step", "", "the step's index in the pass, warm-up included"),
    ("window", "", "turn in which the step ran; null outside of turns"),
    ("operator", "", "type of the framework's operator; in brackets what went on outside of any"),
    ("range", "", "innermost range (NVTX or the like) that was open at the launch, or (no range)"),
    ("activity", "", "kernels, or in brackets what else went on within the range"),
    ("cause", "", "what the host or the device did while no kernel ran; (computing) where one did"),
    ("file", "", "source file, relative to the project"),
    ("function", "", "function that the line is in"),
    ("line", "", "first line of the statement"),
    ("text", "", "the statement's source, on one line"),
)  # fmt: skip

# What every breakdown says of it
_NUMBERS = _columns(
    ("count", "", "how often, in all measured steps; of layers and phases how many kernels, copies and graphs ran"),
    ("duration_ns", "ns", "durations added up over all measured steps, as vendors' tools report them: overlaps count twice"),
    ("time_ns", "ns", "conserved share of the mean step: the rows of a table add up to the step's wall time exactly. Null "
     "where a capture holds totals only"),
    ("share", "", "time_ns as part of the step; of durations where a capture holds totals only"),
    ("method", "", "how the row came by its layer, the way with most time first: launch range, operator name, sequence number, "
     "graph order, stream order, shape, time, none; or where the number is from: measured, line events, "
     "python functions, line_profiler, total"),
)  # fmt: skip

_EXECUTIONS = _columns(
    ("mean_ns", "ns", "of kernels and copies: duration of one, the mean"),
    ("median_ns", "ns", "the median; null where a source gives totals"),
    ("min_ns", "ns", "of the shortest execution"),
    ("max_ns", "ns", "of the longest execution"),
    ("std_ns", "ns", "their standard deviation, with n - 1; null of a single one"),
    (
        "gflops_per_s",
        "GFLOP/s",
        "operations of matrix products, convolutions, recurrent cells and attention over the durations of "
        "those executions whose operations are known; null where none are",
    ),
)

_LINE_NUMBERS = _columns(
    ("host_ns", "ns", "per step: the host was in the line itself; adds up to the step"),
    ("device_ns", "ns", "per step: kernels, graphs or copies ran that were launched from it, shared where several ran at once"),
    ("idle_ns", "ns", "per step: no such work ran while the host was in it; device and idle add up to the step"),
    ("profiled_ns", "ns", "per step: time in the line in the lines pass, its calls included"),
)

_SUMMARY = _columns(
    ("framework", "", "the side's label"),
    ("version", "", "the framework's version"),
    ("complete", "", "whether all passes came to their end"),
    ("step_median_ns", "ns", "median over clean windows of their mean steps; tables of layers and kinds add up to it"),
    ("step_mean_ns", "ns", "mean over all clean steps"),
    ("step_quartiles_ns", "ns", "first and third quartile over windows"),
    ("step_interval_ns", "ns", "95% interval of the median, over restarts first; null with a single restart"),
    ("repeat_medians_ns", "ns", "median of each restart"),
    ("steps", "", "clean steps that were measured"),
    ("repeats", "", "restarts of the clean pass"),
    ("settled", "", "whether the warm-up of every restart became steady"),
    ("samples_per_s", "1/s", "batch divided by the median step"),
    ("lines_of_code", "", "lines of the workload's own source that network and mode need"),
    ("peak_resident_bytes", "bytes", "most memory that the process held, over restarts"),
    ("processor_ns", "ns", "processor time of all threads per step"),
    ("system_ns", "ns", "of it in the operating system"),
    ("minor_faults", "", "page faults per step that no disk was needed for"),
    ("voluntary_switches", "", "waits per step"),
    ("involuntary_switches", "", "times per step that a thread was put off its processor"),
    ("cores_busy", "", "share of the clean windows in which each core was busy"),
    ("gpu_power_w", "W", "mean power in the clean windows"),
    ("gpu_utilisation", "", "share of time with any kernel, as NVML defines it"),
    ("gpu_memory_bytes", "bytes", "memory in use on the GPU"),
    ("gpu_temperature_c", "°C", "mean temperature"),
    ("gpu_sm_clock_hz", "Hz", "mean clock of the multiprocessors"),
    ("energy_uj", "µJ", "energy of a step, gross; null where it was not recorded"),
    ("energy_interval_uj", "µJ", "its 95% interval"),
    ("net_energy_uj", "µJ", "the same without idle power"),
    ("energy_unavailable", "", "why a recorded energy pass does not tell it"),
    ("ratio", "", "median step by that of the fastest side"),
    ("slower_ns", "ns", "by how much the median step is longer than the fastest side's, from paired windows"),
    ("slower_interval_ns", "ns", "its 95% interval"),
    ("significant", "", "whether that interval excludes zero"),
    ("detection_limit_ns", "ns", "smaller differences cannot be seen"),
)  # fmt: skip

_SIDES = _columns(
    ("NAME_time_ns", "ns", "share of the side's clean step, to which the column adds up with its row (profiling overhead)"),
    ("NAME_ratio", "", "that time by the smallest one of the row"),
)  # fmt: skip

_ACCOUNT = _columns(
    ("row", "", "identifier, to which causes refer"),
    ("layer", "", "layer, or both names where the sides call it differently"),
    ("layer_a", "", "its name in A; null where A has none"),
    ("layer_b", "", "its name in B; null where B has none"),
    ("phase", "", "phase"),
    ("cell", "", "kind of kernel, or in brackets what went on where none ran"),
    ("a_ns", "ns", "time per step in A"),
    ("b_ns", "ns", "time per step in B"),
    ("delta_ns", "ns", "B - A; all rows and instrumentation_ns add up to the difference of the clean steps"),
    ("ci_low_ns", "ns", "lower end of its 95% interval; null where there is no interval"),
    ("ci_high_ns", "ns", "upper end"),
    ("significant", "", "whether the interval excludes zero"),
    ("only", "", "a or b where only that side has it"),
)

_FINDINGS = _columns(
    ("cause", "", "fixed name of the rule's cause"),
    ("title", "", "the cause in a sentence"),
    ("explains_ns", "ns", "part of the difference that it claims; no nanosecond is claimed twice"),
    ("interval_ns", "ns", "its 95% interval"),
    ("share", "", "of the whole difference; negative causes make B faster"),
    ("confidence", "", "high, medium or low"),
    ("layers", "", "which layers"),
    ("evidence", "", "sentences with the numbers of both sides"),
    ("remedy", "", "what to try"),
    ("rows", "", "rows of the account that hold the time"),
)

_ROOFLINE = _columns(
    ("name", "", "kernel or primitive"),
    ("m", "", "rows of a matrix product's result"),
    ("n", "", "its columns"),
    ("k", "", "its inner dimension"),
    ("tensor_core", "", "whether it uses tensor cores, as far as its name tells"),
    ("known_ns", "ns", "part of duration_ns of which operations or bytes are known"),
    ("flops", "", "operations of all repetitions; null unknown"),
    ("bytes", "bytes", "algorithmic bytes of all repetitions: inputs read once, outputs written once"),
    ("intensity", "flop/byte", "operations per byte"),
    ("gflops_per_s", "Gflop/s", "attained rate of operations"),
    ("gbytes_per_s", "GB/s", "attained rate of bytes"),
    ("of_product", "", "rate of operations as part of the measured product's"),
    ("of_copy", "", "rate of bytes as part of the measured copy's"),
    ("of_roofline", "", "part of whichever ceiling limits at this intensity"),
    ("bound", "", "that ceiling: product or copy"),
    ("product_ceiling", "", "name of the product that it is set against"),
    ("copy_ceiling", "", "name of the copy"),
    ("reason", "", "why a rate is withheld or a ceiling is missing"),
)

_DEVICE = _columns(
    ("device", "", "cpu, cuda:N, rocm:N, ..."),
    ("grid", "", "blocks of the launch, as x,y,z"),
    ("block", "", "threads of a block, as x,y,z"),
    ("registers", "", "registers of a thread"),
    ("shared_memory", "bytes", "shared memory of a block, static and dynamic"),
    ("occupancy", "", "theoretical: resident warps over the most there can be"),
    ("blocks", "", "blocks resident on a multiprocessor"),
    ("limiter", "", "what holds their number down: registers, shared memory, warps or blocks"),
    ("waves", "", "blocks of the grid over those resident on the whole device"),
    ("tail", "", "share of the device that the last wave fills, 1 where it is full"),
    (
        "mean_occupancy",
        "",
        "what the grid can fill at most, spread over all multiprocessors (PyTorch: estimated achieved occupancy)",
    ),
    ("achieved_occupancy", "", "measured: resident warps over the most there can be, mean over the kernels' time"),
    ("sm_throughput", "", "measured: the busiest part of the multiprocessors over its peak"),
    ("memory_throughput", "", "measured: the busiest part of caches and memory over its peak"),
    ("tensor_pipe", "", "measured: the busiest pipe of tensor cores over its peak"),
    ("dram_bytes", "bytes", "measured: between the device's memory and its cache"),
    ("tensor_cores", "", "yes, no or unknown"),
    ("of", "", "matrix products or convolutions"),
    ("state", "", "on, off or unknown"),
    ("evidence", "", "what says so"),
    ("streams", "", "how many streams (threads of a processor) had work at once"),
    ("operation", "", "direction of the copy; set fills memory"),
    ("memory", "", "kinds of memory, as source to destination"),
    ("size", "", "class of size of one copy"),
    ("allocated_bytes", "bytes", "allocated at most"),
    ("reserved_bytes", "bytes", "held by the framework's allocator at most"),
    ("events", "", "memory events that were recorded"),
    ("how", "", "where the number is from"),
)

_ENERGY = _columns(
    ("source", "", "which counter: a GPU's, a processor package's, memory's"),
    ("energy_uj", "µJ", "of a step, idle power included; null where it is not resolved"),
    ("low_uj", "µJ", "lower end of its 95% interval"),
    ("high_uj", "µJ", "upper end; of a row that is not resolved, the most that it can be"),
    ("least_uj", "µJ", "lower bound by the counter's updates, without assuming steady power"),
    ("most_uj", "µJ", "upper bound"),
    ("net_uj", "µJ", "without idle power"),
    ("net_low_uj", "µJ", "lower end of its 95% interval"),
    ("net_high_uj", "µJ", "upper end"),
    ("sample_uj", "µJ", "of one sample of the batch"),
    ("net_sample_uj", "µJ", "the same without idle power"),
    ("power_w", "W", "mean power"),
    ("idle_w", "W", "idle power, measured before the windows"),
    ("idle_low_w", "W", "lower end of its 95% interval"),
    ("idle_high_w", "W", "upper end"),
    ("windows", "", "energy windows that were measured"),
    ("steps", "", "steps in them"),
    ("step_ns", "ns", "mean step of the energy pass"),
    ("update_ns", "ns", "time between updates of the counter"),
    ("steady", "", "whether temperature and power settled before"),
    ("idle_uj", "µJ", "part of energy_uj that the idle device would have taken in that time"),
    ("replay_uj", "µJ", "of the layer run alone, without idle power"),
    ("replay_low_uj", "µJ", "the counter's lower bound of it"),
    ("replay_high_uj", "µJ", "the upper bound"),
    ("replay_note", "", "where both ways disagree, or why there is no replay"),
)  # fmt: skip

_SAID = {
    **_columns(
        ("framework", "", "the side's label"),
        ("check", "", "what was checked"),
        ("status", "", "pass, fail or not available, which is no pass"),
        ("value", "", "what was found"),
        ("limit", "", "what is demanded"),
        ("detail", "", "where and what"),
        ("setting", "", "name of the setting, version or option"),
        ("NAME", "", "its value on that side; empty where the side does not have it"),
        ("pass", "", "clean, layers, kernels or lines"),
        ("overhead", "", "its median step by the clean one's, less 1"),
        ("layer_coverage", "", "share of the step in rows whose layer is known"),
        ("kind_coverage", "", "share of the step in rows whose kind is known"),
        ("reason", "", "why the pass was not recorded, or something is not known"),
    ),
    **_KEYS,
    **_NUMBERS,
}


def _table(what: str, names: str, *described: Mapping[str, DescribedColumn]) -> DescribedTable:
    """Return a table of the columns named, each as the first of `described` that has it says, else as everywhere."""
    known = {name: column for part in reversed((*described, _SAID)) for name, column in part.items()}
    return DescribedTable(what, tuple(known[name] for name in names.split()))


TABLES: Mapping[str, DescribedTable] = {
    "breakdown": DescribedTable(
        "One row per key; `kernelscope breakdown --by` names the table, and each has the keys that stand below.",
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
    "settings": _table("What is set differently: comparisons.", "setting NAME"),
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
        "One row per kernel with hardware counters (Nsight Compute); null is what was not measured.",
        "device kernel count duration_ns achieved_occupancy sm_throughput memory_throughput tensor_pipe dram_bytes",
        _DEVICE,
    ),
    "tensor-cores": _table("Kernels by element type.", "dtype tensor_cores count duration_ns share", _DEVICE),
    "tf32": _table("Whether TF32 is on.", "of state evidence", _DEVICE),
    "streams": _table(
        "How many streams were busy at once; rows of a device add up to the window.", "device streams time_ns share", _DEVICE
    ),
    "overlap": _table(
        "Computing, communicating and copying at once; rows of a device add up to the window.",
        "device activity time_ns share",
        _columns(("activity", "", "compute, communication, copy, what of these went on at once, or idle")),
        _DEVICE,
    ),
    "copies": _table(
        "Copies by direction, memory and size.",
        "device operation memory size count duration_ns bytes gbytes_per_s",
        _columns(
            ("bytes", "bytes", "moved or set"), ("gbytes_per_s", "GB/s", "bytes of copies whose size is told by their time")
        ),
        _DEVICE,
    ),
    "peak": _table(
        "Memory at most, per device.",
        "device allocated_bytes reserved_bytes time_ns step phase events",
        _columns(
            ("time_ns", "ns", "when, since the first memory event"),
            ("step", "", "step in which it was"),
            ("phase", "", "phase in which it was"),
        ),
        _DEVICE,
    ),
    "memory": _table(
        "Memory at the peak by what it is for; rows of a device add up to the peak.",
        "device kind bytes blocks how",
        _columns(
            ("kind", "", "weights, activations, gradients, optimizer state, workspace, ..."),
            ("bytes", "bytes", "held at the peak"),
            ("blocks", "", "how many blocks"),
        ),
        _DEVICE,
    ),
    "energy": _table("One row per source of `kernelscope energy`.", " ".join(field.name for field in fields(Summary)), _ENERGY),
    "energy by layer": _table(
        "One row per layer or kind of `kernelscope energy --by`; rows add up to the step's energy.",
        "layer kind energy_uj low_uj high_uj idle_uj time_ns power_w reason replay_uj replay_low_uj replay_high_uj replay_note",
        _columns(("time_ns", "ns", "time per step that its kernels ran")),
        _ENERGY,
    ),
}
