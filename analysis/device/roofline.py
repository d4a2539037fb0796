"""Attained rates of kernels and layers against measured ceilings (the roofline model, Williams, Waterman and Patterson 2009).

Operations and (algorithmic) bytes are those of analysis.kernels.work; time is that of the rows whose numbers are known, so that
both are of the same work. A row's ceiling is the lower one of the product and of the copy times its operations per byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.device.ceilings import REFUSED, Ceiling, Ceilings
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.kernels import work
from kernelscope.analysis.trace import Trace, plain

SCHEMA = "kernelscope/roofline/1"
BY = ("kernel", "layer")
_KERNEL_KEYS = ["name", "kind", "library", "operator", "layer", "phase", "dtype", "algorithm", "transpose", "tensor_core"]
_WORK_KEYS = ["problem", "m", "n", "k"]
RATES = (
    "flops", "bytes", "intensity", "gflops_per_s", "gbytes_per_s", "of_product", "of_copy", "of_roofline", "bound",
    "product_ceiling", "copy_ceiling", "reason",
)  # fmt: skip


@dataclass
class Roofline:
    """table: a row per kernel and problem, or per layer and phase; durations add up to kernel_ns, in integer ns.

    Columns: the keys; count; duration_ns (all repetitions); flops and bytes (of all repetitions; null if unknown); known_ns (the
    part of duration_ns whose flops or bytes are known); intensity (flops per byte); gflops_per_s and gbytes_per_s; of_product,
    of_copy and of_roofline (shares of the ceilings named beside them); bound: product or copy, whichever limits at this
    intensity; reason: why a rate is withheld or a ceiling is missing.

    By layer there is also time_ns: the layer's conserved share of the mean step, which adds up to step_ns.
    """

    by: str
    table: pd.DataFrame
    kernel_ns: int
    steps: int
    step_ns: int | None
    ceilings: Ceilings | None
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON envelope."""
        rows = plain.rows(self.table)
        known = int(self.table["known_ns"].sum())
        ceilings = None
        if self.ceilings is not None:
            ceilings = {
                "source": self.ceilings.source, "framework": self.ceilings.framework, "device": self.ceilings.device,
                "threads": self.ceilings.threads, "measured": self.ceilings.measured,
                "copies": [{"bytes": size, "bytes_per_s": result.rate} for size, result in sorted(self.ceilings.copies.items())],
                "products": [{"dtype": kind, "flops_per_s": result.rate} for kind, result in self.ceilings.products.items()],
            }  # fmt: skip
        return {
            "schema": SCHEMA, "by": self.by, "kernel_ns": self.kernel_ns, "known_ns": known, "steps": self.steps,
            "step_ns": self.step_ns, "ceilings": ceilings, "notes": self.notes, "rows": rows,
        }  # fmt: skip


def roofline(trace: Trace, by: str = "kernel", ceilings: Ceilings | None = None) -> Roofline:
    """Return the rates of a trace's kernels by one of BY; only of the measured steps if it has steps.

    Raises EvidenceError if there are no kernels.
    """
    if by not in BY:
        raise EvidenceError(f"unknown roofline by {by!r}; known: {', '.join(BY)}")
    measured = trace.steps.loc[~trace.steps["warmup"], "step"]
    kernels = trace.kernels
    chosen = kernels["step"].isin(measured).to_numpy() if len(measured) else np.ones(len(kernels), dtype=bool)
    if ceilings is not None:
        _check_device(kernels, ceilings)
    if not chosen.any():
        raise EvidenceError("the capture holds no kernels in measured steps; there is nothing to compare with a ceiling")
    rows = _with_work(trace).iloc[np.flatnonzero(chosen)]
    keys = [*_KERNEL_KEYS, *_WORK_KEYS] if by == "kernel" else ["layer", "phase"]
    table = _summed(rows, keys)
    step_ns = None
    if by == "layer":
        table, step_ns = _with_steps(table, trace)
    table = _rated(table, rows, keys, ceilings)
    notes = list(ceilings.notes) if ceilings else ["no ceilings: rates are not compared with any; see `roofline --help`"]
    if not chosen.all():
        notes.append(f"{int((~chosen).sum())} kernels outside of measured steps are left out")
    beyond = int(table["reason"].str.contains("not possible", regex=False).fillna(False).sum()) if len(table) else 0
    if ceilings is not None and beyond:
        notes.append(
            f"{beyond} of {len(table)} rows exceed a ceiling, see their reasons; if many do, ceilings were measured too low"
        )
    order = "time_ns" if step_ns is not None else "duration_ns"
    table = table.sort_values(order, ascending=False, kind="stable").reset_index(drop=True)
    return Roofline(by, table, int(rows["duration_ns"].sum()), len(measured), step_ns, ceilings, notes)


def _check_device(kernels: pd.DataFrame, ceilings: Ceilings) -> None:
    """Raise EvidenceError if the ceilings are of another kind of device than the kernels ran on."""
    kinds = {str(device).partition(":")[0] for device in kernels["device"].dropna().unique()}
    if ceilings.device and kinds and ceilings.device.partition(":")[0] not in kinds:
        raise EvidenceError(f"ceilings of {ceilings.device} do not apply to kernels on {', '.join(sorted(kinds))}; name others")


def _with_work(trace: Trace) -> pd.DataFrame:
    """Return the kernels with their operations and bytes, as far as known; sums and counts as integers."""
    result = work.of_kernels(trace)
    kernels = trace.kernels.drop(columns=[*_WORK_KEYS, "transpose"])
    return pd.concat([kernels, result.drop(columns="source")], axis=1)


def _summed(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Add rows up by keys. Sums of flops or bytes are over the rows that have them; flops_ns and bytes_ns are their durations."""
    parts = rows[[*keys, "count", "duration_ns", "flops", "bytes"]].copy()
    duration = parts["duration_ns"]
    for name in ("flops", "bytes"):
        parts[f"{name}_ns"] = duration.where(parts[name].notna(), 0)
    parts["known_ns"] = duration.where(parts["flops"].notna() | parts["bytes"].notna(), 0)
    group = parts.groupby(keys, dropna=False, observed=True, sort=False)
    sums = group[["count", "duration_ns", "flops_ns", "bytes_ns", "known_ns"]].sum()
    for name in ("flops", "bytes"):
        sums[name] = group[name].sum(min_count=1)
    return sums.reset_index()


def _with_steps(table: pd.DataFrame, trace: Trace) -> tuple[pd.DataFrame, int | None]:
    """Add each layer's conserved share of the mean step, and the parts of the step without a layer's kernels as rows."""
    if not trace.has_timeline():
        return table, None
    result = breakdown(trace, "layer")
    if result.step_ns is None:
        return table, None
    named = result.table.astype({"layer": "string", "phase": "string"})
    in_brackets = named["layer"].str.startswith("(").fillna(False)
    # work without a layer is in parentheses there; its kernels are one row here
    shares = named.assign(layer=named["layer"].mask(in_brackets)).groupby(["layer", "phase"], dropna=False)["time_ns"].sum()
    table = table.astype({"layer": "string", "phase": "string"})
    joined = table.merge(shares.reset_index(), on=["layer", "phase"], how="outer", sort=False)
    for name in ("count", "duration_ns", "flops_ns", "bytes_ns", "known_ns", "time_ns"):
        joined[name] = joined[name].fillna(0).astype("int64")
    return joined, result.step_ns


def _rated(table: pd.DataFrame, rows: pd.DataFrame, keys: list[str], ceilings: Ceilings | None) -> pd.DataFrame:
    """Add RATES, and drop the columns that they are made of."""
    kinds = None
    if "dtype" not in keys:  # a layer's type is that of most of its operations
        known = rows[rows["flops"].notna()].assign(dtype=rows["dtype"].astype("string"), flops=rows["flops"].astype("float64"))
        sums = known.groupby([*keys, "dtype"], observed=True, dropna=False)["flops"].sum().reset_index()
        most = sums.sort_values("flops").drop_duplicates(keys, keep="last")
        kinds = {_key(row, keys): row["dtype"] for row in plain.rows(most)}
    result = []
    for row in plain.rows(table):
        dtype = row["dtype"] if kinds is None else kinds.get(_key(row, keys))
        result.append(_rates(row, dtype, row.get("tensor_core"), ceilings))
    kept = table.drop(columns=["flops", "bytes", "flops_ns", "bytes_ns"])
    rates = pd.DataFrame(result, columns=list(RATES), index=table.index)
    rates = rates.astype({"flops": "Int64", "bytes": "Int64"})
    return pd.concat([kept, rates], axis=1)


def _key(row: dict[Any, Any], keys: list[str]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


def _rates(row: dict[Any, Any], dtype: str | None, tensor_core: bool | None, ceilings: Ceilings | None) -> dict[str, Any]:
    """Return RATES of one row: unknown and impossible values are None, and `reason` says why."""
    flops, moved = row["flops"], row["bytes"]
    result: dict[str, Any] = {**dict.fromkeys(RATES), "flops": flops, "bytes": moved}
    if flops is None and moved is None:
        return {**result, "reason": "its operations and bytes are unknown" if row["count"] else "no kernels"}
    reasons: list[str] = []
    product = copy = None
    if ceilings is not None:
        product = ceilings.product(dtype, tensor_core) if flops is not None else None
        copy = ceilings.copy(max(1, moved // max(int(row["count"]), 1))) if moved is not None else None
        if flops is not None and product is None:
            reasons.append(f"no product of {dtype or 'an unknown type'} was measured")
    flop_rate, result["of_product"] = _attained(flops, row["flops_ns"], product, "Gflop/s", reasons)
    byte_rate, result["of_copy"] = _attained(moved, row["bytes_ns"], copy, "GB/s", reasons)
    result |= {
        "intensity": flops / moved if flops is not None and moved else None,
        "gflops_per_s": flop_rate and flop_rate / 1e9, "gbytes_per_s": byte_rate and byte_rate / 1e9,
        "product_ceiling": product and product.name, "copy_ceiling": copy and copy.name,
    }  # fmt: skip
    result |= _bound(result, product, copy)
    return {**result, "reason": "; ".join(reasons) or None}


def _attained(
    amount: int | None, duration_ns: int, ceiling: Ceiling | None, unit: str, reasons: list[str]
) -> tuple[float | None, float | None]:
    """Return a rate per second and its share of the ceiling; neither if it exceeds the ceiling, with the reason added."""
    if not amount or not duration_ns:
        return None, None
    rate = amount / duration_ns * 1e9
    if ceiling is None:
        return rate, None
    share = rate / ceiling.rate
    if share <= REFUSED:
        return rate, share
    why = "the data came from a cache or was not all moved" if unit == "GB/s" else "it computes less than counted"
    measured = f"{ceiling.name} ({ceiling.rate / 1e9:.3g} {unit})"
    reasons.append(f"{share:.0%} of the {measured}: not possible; {why}, the time is too short, or the ceiling too low")
    return None, None


def _bound(rates: dict[str, Any], product: Ceiling | None, copy: Ceiling | None) -> dict[str, Any]:
    """Return what limits a row at its intensity, and the share of that limit that it attains."""
    if copy is not None and rates["flops"] is None:
        return {"bound": "copy", "of_roofline": rates["of_copy"]}
    if product is None or copy is None or rates["intensity"] is None:
        return {}
    bound = "product" if product.rate <= copy.rate * rates["intensity"] else "copy"
    withheld = rates["of_product"] is None or rates["of_copy"] is None
    return {"bound": bound, "of_roofline": None if withheld else rates[f"of_{bound}"]}
