"""Whether a program is compiled, as the names of operators, ranges and kernels in a recording show."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.device.compiled import REGION
from kernelscope.analysis.trace import Trace

REGIONS = rf"{REGION}|^## Call CompiledFx"  # the latter is a range around one execution of a TorchInductor graph
KERNELS = r"^triton_|^fused_computation|^wrapped_"  # TorchInductor's and XLA's
_KEY = "advise: compiled"
_LEAST = 0.01  # of the kernels' time
_CALL = "PjitFunction("  # JAX's calls of compiled functions; single operations are such calls, too
_MANY = 8  # kernels a call, on average: far more than a single operation has


def is_compiled(trace: Trace) -> bool:
    """Return whether the program runs code that a compiler made."""
    if _KEY not in trace.derived:
        named = any(_any(table["name"], REGIONS) for table in (trace.operators, trace.ranges, trace.totals))
        trace.derived[_KEY] = named or _share(trace.kernels) > _LEAST or _few_calls(trace) or _on_tpu(trace)
    return bool(trace.derived[_KEY])


def _share(kernels: pd.DataFrame) -> float:
    """Return the share of the kernels' time in compiled kernels; libraries bring a few, which say nothing about the program."""
    lasted = kernels.groupby("name", observed=True)["duration_ns"].sum()
    mine = np.asarray(lasted.index.astype("string").str.contains(KERNELS), dtype=bool)
    return float(lasted[mine].sum()) / max(float(lasted.sum()), 1.0)


def _few_calls(trace: Trace) -> bool:
    """Return whether each of JAX's calls starts many kernels on average."""
    calls = sum(int(number) for name, number in trace.ranges["name"].value_counts().items() if str(name).startswith(_CALL))
    return bool(calls) and max(len(trace.kernels), len(trace.operators)) > _MANY * calls


def _on_tpu(trace: Trace) -> bool:
    """Return whether a TPU computes: XLA compiles everything that it runs."""
    return bool(pd.Series(trace.kernels["device"].unique()).astype("string").str.startswith("tpu").fillna(False).any())


def _any(names: pd.Series, pattern: str) -> bool:
    distinct = pd.Series(names.unique()).dropna().astype("string")
    return bool(distinct.str.contains(pattern).any())
