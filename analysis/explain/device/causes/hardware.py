"""Other devices: the change that their ceilings predict for each kind of kernel, and the one that is measured."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.accounting.device_account import is_host_timed
from kernelscope.analysis.device.datasheets import Datasheet, lookup
from kernelscope.analysis.explain.device import counted, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import MAIN

REMEDY = "compare on one device to see what the programs themselves differ by"


def other_device(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The sides ran on different models of device: compare each kind of kernel with the prediction of their ceilings."""
    if case.same_device:
        return
    sheets = lookup(case.a.hardware), lookup(case.b.hardware)
    rows = case.kernels()
    if any(is_host_timed(side.trace) for side in (case.a, case.b)):
        rows = rows[(rows["kind"] != "copy").to_numpy(bool)]  # these count as copies (see copies)
    for kind in rows["kind"].dropna().unique():
        mine = rows[(rows["kind"] == kind).to_numpy(bool)]
        if not (mine["a_ns"].any() and mine["b_ns"].any()):
            continue  # work that one side does not do at all is not due to its device
        yield _of_kind(case, str(kind), mine, sheets)


def _of_kind(case: DeviceCase, kind: str, rows: pd.DataFrame, sheets: tuple[Datasheet | None, Datasheet | None]) -> DeviceFinding:
    a, b = float(rows["a_ns"].sum()), float(rows["b_ns"].sum())
    counts = [float(rows[f"{key}_count"].sum()) for key in ("a", "b")]
    seen = words.percent(b / a)
    predicted, why = _predicted(kind, rows, sheets)
    near = predicted is not None and 0.5 < (b / a) / predicted < 2.0
    named = [side.computes_on if case.on_cpu else side.model for side in (case.a, case.b)]
    where = f"{str(named[0])[:1].upper()}{str(named[0])[1:]} in {case.a.name}, {named[1]} in {case.b.name}"
    title = f"other hardware: {kind} kernels take {words.of_rows(case, rows)} ({seen}{f'; {why}' if near else ''})"
    sentences = [f"{where}{_types(case, kind, rows)}.", *words.both(case, rows)]
    same_count = min(counts) > 0.9 * max(counts)
    if not same_count:
        sentences.append(
            f"Not the device alone: {words.count(counts[0])} kernels {case.per} in {case.a.name},"
            f" {words.count(counts[1])} in {case.b.name}."
        )
    if predicted is not None and not near:
        sentences.append(f"Their ceilings do not explain it: {why}.")
    if predicted is None:
        sentences.append("How much faster one of these devices can be is unknown: the peaks of both are needed.")
    elif near and predicted:
        sentences.append(f"Left beyond the ceilings: {words.percent((b / a) / predicted)}.")
    return DeviceFinding(
        "other hardware", title, rows["row"].tolist(), "high" if near and same_count else "medium", sentences,
        counted.remedy(case, rows) or REMEDY,
    )  # fmt: skip


def _predicted(kind: str, rows: pd.DataFrame, sheets: tuple[Datasheet | None, Datasheet | None]) -> tuple[float | None, str]:
    """Return the ratio of times that ceilings predict, and the reason in words; (None, "") if they are unknown."""
    a, b = sheets
    if a is None or b is None:
        return None, ""
    if kind not in MAIN:
        if not a.bandwidth or not b.bandwidth:
            return None, ""
        ratio = a.bandwidth / b.bandwidth
        rates = f"{_tera(a.bandwidth)} against {_tera(b.bandwidth)} TB/s"
        return ratio, f"memory bandwidth, {rates}, predicts {words.percent(ratio)}"
    types = [_type(rows, key) or "f32" for key in SIDES]
    peaks = [sheet.flops(kind_, None) for sheet, kind_ in zip((a, b), types, strict=True)]
    if None in peaks or not all(peaks):
        return None, ""
    ratio = float(peaks[0]) / float(peaks[1])  # type: ignore[arg-type]
    rates = f"{_tera(peaks[0])} ({types[0]}) against {_tera(peaks[1])} ({types[1]}) TFLOP/s"
    return ratio, f"peak, {rates}, predicts {words.percent(ratio)}"


def _type(rows: pd.DataFrame, key: str) -> str | None:
    """Return the type in which a side spends most time; None if none is known."""
    times = rows.groupby(f"{key}_dtype")[f"{key}_ns"].sum()
    return str(times.idxmax()) if len(times) and times.max() > 0 else None


def _types(case: DeviceCase, kind: str, rows: pd.DataFrame) -> str:
    """Return the types in which the sides compute, as the end of a sentence; "" if they are the same or unknown."""
    a, b = (_type(rows, key) for key in SIDES)
    if kind not in MAIN or not a or not b or a == b:
        return ""
    return f"; {case.a.name} computes mostly in {a}, {case.b.name} in {b}"


def _tera(value: float | None) -> str:
    return "?" if value is None else f"{value / 1e12:.3g}"


RULES = (other_device,)
