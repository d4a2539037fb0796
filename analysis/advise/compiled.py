"""Whether a program is compiled, as far as a recording shows it: what its compiler calls operators, ranges and kernels."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.trace import Trace

REGIONS = r"CompiledFunction|Torch-Compiled Region|## Call CompiledFx|XlaLaunch|_XlaRun"
KERNELS = r"^triton_|^fused_computation|^wrapped_"  # TorchInductor's and XLA's
_KEY = "advise: compiled"


def is_compiled(trace: Trace) -> bool:
    """Return whether a compiler made code that this program runs."""
    if _KEY not in trace.derived:
        named = ((trace.operators, REGIONS), (trace.ranges, REGIONS), (trace.kernels, KERNELS))
        trace.derived[_KEY] = any(_any(table["name"], pattern) for table, pattern in named)
    return bool(trace.derived[_KEY])


def _any(names: pd.Series, pattern: str) -> bool:
    distinct = pd.Series(names.unique()).dropna().astype("string")
    return bool(distinct.str.contains(pattern).any())
