"""Tensor cores and TF32: the share of the kernels' time on tensor cores, by element type, and whether TF32 is on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from kernelscope.analysis.trace import CONVOLUTIONS, Trace

YES, NO, UNKNOWN = "yes", "no", "unknown"
ON, OFF = "on", "off"

# Settings of a run (child.json) and what they control: matrix products or convolutions
_SETTINGS = {
    "tf32_matmul": "matrix products", "tf32_cudnn": "convolutions", "tf32": "all", "tf32_execution": "all",
    "tensor_float_32": "all",
}  # fmt: skip


def table(trace: Trace) -> pd.DataFrame:
    """Return rows dtype, tensor_cores (yes, no, unknown), count, duration_ns, share; durations add up to those of all kernels.

    "no" are kernels that use none by their name, or by their kind if they multiply nothing.
    """
    kernels = trace.kernels
    uses = kernels["tensor_core"].map({True: YES, False: NO}).astype("string").fillna(UNKNOWN)
    rows = pd.DataFrame({
        "dtype": kernels["dtype"].astype("string"), "tensor_cores": uses,
        "count": kernels["count"], "duration_ns": kernels["duration_ns"],
    })  # fmt: skip
    sums = rows.groupby(["dtype", "tensor_cores"], dropna=False, sort=False)[["count", "duration_ns"]].sum().reset_index()
    sums["share"] = sums["duration_ns"] / max(int(sums["duration_ns"].sum()), 1)
    return sums.sort_values("duration_ns", ascending=False, kind="stable").reset_index(drop=True)


def tf32(trace: Trace, settings: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return whether TF32 is on for matrix products and for convolutions: of (what), state (on, off, unknown) and evidence.

    settings: those of the run, as its child process reported them.

    Kernels named for TF32 are the strongest evidence, then the framework's settings. float32 kernels without tensor cores say off
    only for what they compute. Processors have no TF32, so both are unknown.
    """
    kernels = trace.kernels
    gpu = kernels[kernels["device"].astype("string").str.startswith("cuda").fillna(False)]
    rows = []
    for what, chosen in (("matrix products", gpu["kind"] == "gemm"), ("convolutions", gpu["kind"].isin(CONVOLUTIONS))):
        state, evidence = _by_names(gpu[chosen])
        if state == UNKNOWN and len(gpu):
            state, evidence = _by_settings(settings or {}, what, evidence)
        rows.append({"of": what, "state": state, "evidence": evidence})
    return rows


def _by_names(kernels: pd.DataFrame) -> tuple[str, str]:
    """Return the state by the kernels' names, and the evidence in words."""
    if kernels.empty:
        return UNKNOWN, "no kernels of a GPU that compute this"
    single = kernels["dtype"].isin(["f32", "tf32"])
    using = (kernels["dtype"] == "tf32") | (single & kernels["tensor_core"].fillna(False))
    plain = (kernels["dtype"] == "f32") & ~kernels["tensor_core"].fillna(True)
    if using.any():
        count, name = int(kernels.loc[using, "count"].sum()), str(kernels.loc[using, "name"].iloc[0])
        return ON, f"{count} kernels such as {name[:80]}"
    if plain.any():
        return OFF, f"{int(kernels.loc[plain, 'count'].sum())} float32 kernels, none on tensor cores"
    return UNKNOWN, "no float32 kernels whose names show it"


def _by_settings(settings: Mapping[str, Any], what: str, otherwise: str) -> tuple[str, str]:
    for name, of in _SETTINGS.items():
        if of in (what, "all") and isinstance(settings.get(name), bool):
            return (ON if settings[name] else OFF), f"setting {name}; {otherwise}"
    return UNKNOWN, otherwise
