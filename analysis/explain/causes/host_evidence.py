"""What rules on the host and on settings use: rows of the host, use of processors, recorded differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.accounting.amounts import duration as duration
from kernelscope.analysis.accounting.statistics import interval
from kernelscope.analysis.explain import noise
from kernelscope.analysis.explain.model import INSTRUMENTATION, Case, Side
from kernelscope.analysis.explain.noise import busy_cores as busy_cores
from kernelscope.analysis.explain.noise import clean_mean as clean_mean
from kernelscope.analysis.trace import Trace

# A cause with less than this share of the slower step is not worth a line, and less than machines drift.
LEAST_SHARE = 0.02

# Which family owns a recorded setting, version or environment variable; others are configuration.
_OWNERS = {
    "threads": (
        "threads", "interop_threads", "cores", "omp_num_threads", "engine_workers", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
        "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "KMP_AFFINITY", "KMP_BLOCKTIME", "GOMP_CPU_AFFINITY",
        "GOMP_SPINCOUNT", "OMP_PLACES", "OMP_PROC_BIND", "OMP_WAIT_POLICY", "MKL_DYNAMIC", "OMP_DYNAMIC",
        "OMP_THREAD_LIMIT", "OMP_SCHEDULE", "OPENBLAS_NUM_THREADS", "MKL_THREADING_LAYER", "MXNET_CPU_WORKER_NTHREADS",
        "TF_GPU_THREAD_MODE", "options.threads",
        "machine.allowed_threads",
    ),
    "execution": (
        "execution", "bulk_execution_train", "bulk_execution_inference", "bulk_execution_nodes", "bulk_size",
        "engine", "xla_jit", "node_timing",
        "profiler", "trace_level", "checked_mode", "anomaly_detection", "graph_optimizers", "MXNET_ENGINE_TYPE",
        "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN", "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_BWD",
        "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "PYTORCH_JIT",
        "TF_XLA_FLAGS",
        "MXNET_EXEC_BULK_EXEC_INFERENCE", "MXNET_EXEC_BULK_EXEC_TRAIN", "XLA_FLAGS",
    ),
    "libraries": (
        "onednn", "blas", "TF_ENABLE_ONEDNN_OPTS", "TF_DISABLE_MKL", "MXNET_MKLDNN_ENABLED", "MXNET_ONEDNN_ENABLED",
        "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ATEN_CPU_CAPABILITY",
        "OPENBLAS_CORETYPE",
    ),
    "precision": (
        "default_dtype", "precision", "precision_policy", "matmul_precision", "tf32", "tf32_matmul", "tf32_cudnn",
        "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    ),
    "layouts": ("memory_format", "layout"),
    "algorithms": (
        "cudnn_benchmark", "cudnn_deterministic", "cudnn_autotune", "deterministic_algorithms", "TF_DETERMINISTIC_OPS",
        "MXNET_CUDNN_AUTOTUNE_DEFAULT", "CUBLAS_WORKSPACE_CONFIG", "TF_CUDNN_USE_AUTOTUNE",
    ),
    "memory": (
        "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_CHECK_",
        "MALLOC_CONF", "MALLOC_PERTURB_", "GLIBC_TUNABLES", "PYTORCH_CUDA_ALLOC_CONF", "TF_GPU_ALLOCATOR",
        "TF_FORCE_GPU_ALLOW_GROWTH", "LD_PRELOAD", "conditions",
        "options.steady",
    ),
    "optimizer": ("optimizers",),
}  # fmt: skip
OWNER = {name: family for family, names in _OWNERS.items() for name in names}

# Options that cannot make steps faster or slower, or that differ by their nature
_WORKLESS = ("repeats", "timeout_s", "steps", "warmup", "seed", "data", "network", "mode", "batch", "device", "steady")
_UNSET = "(not set)"


def both_times(case: Case, a_ns: float | None, b_ns: float | None) -> str:
    """Format both sides' ns: `1.2 ms in A, 3.4 ms in B`."""
    a, b = ("unknown" if ns is None else duration(ns) for ns in (a_ns, b_ns))
    return f"{a} in {case.a.name}, {b} in {case.b.name}"


def slower(case: Case) -> tuple[Side, Side]:
    """Return (the slower side, the faster side) by wall time."""
    return (case.b, case.a) if case.account.wall.delta_ns >= 0 else (case.a, case.b)


def worth_ns(case: Case) -> float:
    """Return the ns below which a cause is not worth naming: LEAST_SHARE of the slower step."""
    return LEAST_SHARE * max(case.account.wall.a_ns, case.account.wall.b_ns)


# --- rows -------------------------------------------------------------------------------------------------------------------


def noticed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that may be named: all except those known not to be significant."""
    return rows[rows["significant"].astype("boolean").fillna(True).to_numpy(bool)]


def noticed_ns(case: Case, rows: pd.DataFrame) -> float:
    """Return how much these rows differ in all, or 0 if that may be noise: a sum is more certain than each of its rows."""
    account = case.account
    if account.samples is None or account.by_restart is None:
        return float(noticed(rows)["delta_ns"].sum())
    amount, place = float(rows["delta_ns"].sum()), case.rows.index.get_indexer(rows.index)
    ends = interval(amount, account.samples[:, place].sum(axis=1), account.by_restart[:, place].sum(axis=1))
    low, high = noise.widened(ends, amount, account.floor * float(rows[["a_ns", "b_ns"]].sum().max()))
    return 0.0 if low <= 0 <= high else amount


def host(case: Case, *causes: str) -> pd.DataFrame:
    """Return the host's rows with one of these causes (all its rows without causes)."""
    cells = case.rows["cell"].astype("string")
    mine = cells.isin([f"(host: {cause})" for cause in causes]) if causes else cells.str.startswith("(host: ")
    return case.rows[mine.fillna(False).to_numpy(bool)]


def device(case: Case, *operations: str) -> pd.DataFrame:
    """Return the rows in which the device did one of these operations ("copy host to device") while no kernel ran."""
    return case.rows[case.rows["cell"].isin([f"({levels.DEVICE}{operation})" for operation in operations]).to_numpy(bool)]


def computing(case: Case) -> pd.DataFrame:
    """Return the rows of kernels."""
    return case.rows[~case.rows["cell"].astype("string").str.startswith("(").fillna(False).to_numpy(bool)]


def claims(rows: pd.DataFrame, share: float = 1.0) -> dict[str, float]:
    """Claim this share of the difference of every one of `rows`."""
    return {str(row): float(delta) * share for row, delta in zip(rows["row"], rows["delta_ns"], strict=True) if delta}


def everything(case: Case, share: float = 1.0) -> dict[str, float]:
    """Claim this share of the whole difference, including what recording hides."""
    hidden = case.account.instrumentation_ns * share
    return {**claims(case.rows, share), **({INSTRUMENTATION: hidden} if hidden else {})}


def towards(case: Case, amount_ns: float, rows: pd.DataFrame | None = None) -> dict[str, float]:
    """Claim `amount_ns` in all, spread by size over those of `rows` (default: all) that differ in its direction."""
    rows = case.rows if rows is None else rows
    rows = rows[((rows["delta_ns"] > 0) if amount_ns > 0 else (rows["delta_ns"] < 0)).to_numpy(bool)]
    whole = float(rows["delta_ns"].sum())
    return claims(rows, min(1.0, amount_ns / whole)) if whole else {}


# --- recorded differences ---------------------------------------------------------------------------------------------------


def recorded(side: Side) -> dict[str, Any]:
    """Return everything that a side states and that can make a difference, by name, without nulls."""
    facts = side.facts
    result: dict[str, Any] = dict(facts.get("settings") or {})
    result.update({f"version of {name}": value for name, value in (facts.get("versions") or {}).items()})
    result.update({f"options.{name}": value for name, value in (facts.get("options") or {}).items() if name not in _WORKLESS})
    result["conditions"] = facts.get("conditions")
    result["machine.allowed_threads"] = (facts.get("machine") or {}).get("allowed_threads")
    return {name: value for name, value in result.items() if value is not None}


def differing(case: Case) -> dict[str, tuple[Any, Any]]:
    """Return the recorded differences: name -> (value of A, value of B). What only one side states is no difference.

    Environment variables also differ if only one side has them, as runs record all that are allowed.
    """
    a, b = recorded(case.a), recorded(case.b)
    result = {name: (a[name], b[name]) for name in a if name in b and a[name] != b[name]}
    variables = [side.facts.get("variables") for side in (case.a, case.b)]
    if None not in variables:
        mine, other = ({**values} for values in variables if values is not None)
        for name in sorted({*mine, *other}):
            if mine.get(name) != other.get(name) and "VERBOSE" not in name:  # the kernels pass sets those itself
                result[name] = (mine.get(name, _UNSET), other.get(name, _UNSET))
    return result


def owned(differences: Iterable[str], family: str) -> list[str]:
    """Return which differences a family owns; "configuration" owns those that no other family does."""
    return [name for name in differences if OWNER.get(name, "configuration") == family]


def only_difference(case: Case, family: str) -> bool:
    """Return whether all recorded differences between runs of the same framework belong to one family."""
    result = differing(case)
    return case.same_framework and bool(result) and len(owned(result, family)) == len(result)


def stated(case: Case, names: Iterable[str]) -> str:
    """Format recorded differences: `threads: 2 for A, 1 for B`."""
    result = differing(case)
    shown = [
        f"{name}: {result[name][0]} for {case.a.name}, {result[name][1]} for {case.b.name}" for name in names if name in result
    ]
    return "; ".join(shown)


Values = tuple[float | None, float | None]


def both(case: Case, of: Callable[[Side], float | None]) -> Values:
    """Return a figure for A and for B; None if unknown."""
    return of(case.a), of(case.b)


def known(values: Values) -> tuple[float, float] | None:
    """Return both values if both are known, else None."""
    a, b = values
    return None if a is None or b is None else (a, b)


# --- the clean pass and the samples -----------------------------------------------------------------------------------------


def per_step(trace: Trace, table: pd.DataFrame) -> float:
    """Return how many rows of a timed table begin in measured steps, per step; a capture without steps counts as one."""
    steps = trace.steps[~trace.steps["warmup"]]
    if steps.empty:
        return float(len(table))
    start, begins = steps["start_ns"].min(), table["start_ns"]
    return float(((begins >= start) & (begins < steps["end_ns"].max())).sum()) / len(steps)


def plain_number(value: float) -> str:
    """Format a number with four digits, large ones without decimals."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def pair(case: Case, values: Values, unit: str = "") -> str:
    """Format both sides' values: `12 for A, 340 for B`, or unknown."""
    texts = ["unknown" if value is None else f"{plain_number(value)}{unit}" for value in values]
    return f"{texts[0]} for {case.a.name}, {texts[1]} for {case.b.name}"
