"""Accelerators beside the GPU: a DLA runs layers of an engine of TensorRT, and the GPU's stream waits for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding

_JOINED = re.compile(r" (?:\+|\|\|) ")
_NOT_OWN = ("layout", "copy")  # kinds of what stands between a network's layers
_REMEDY = (
    "compare engines for one unit of one chip: trtexec without --useDLACore builds all layers for the GPU, and --dumpLayerInfo "
    "shows where each layer runs"
)


def on_a_dla(case: DeviceCase) -> Iterator[DeviceFinding]:
    """What a DLA computes, with the wait for it, is compared with the same layers of the other side, wherever they run."""
    found = [side.facts.get("dla") or {} for side in (case.a, case.b)]
    if not any(one.get("computes") for one in found):
        return
    inside = {layer for one in found for name in one.get("computes", []) for layer in re.split(r"[{},]", name) if layer}
    rows = case.kernels()
    chosen = pd.Series(False, index=rows.index)
    for key, one in zip(SIDES, found, strict=True):
        there = (rows[f"{key}_count"] > 0).to_numpy(bool)
        named = {name for names in one.values() for name in names}
        alike = rows["name"].isin(named) if one.get("computes") else _same_layers(rows, inside)
        chosen |= alike.to_numpy(bool) & there
    mine = rows[chosen.to_numpy(bool)]
    if len(mine):
        yield _finding(case, mine, [side.name for side, one in zip((case.a, case.b), found, strict=True) if one.get("computes")])


def _same_layers(rows: pd.DataFrame, inside: set[str]) -> pd.Series:
    """Return which rows of a side without a DLA do the DLA's work of the other: compiled blocks, and layers of those names."""
    named = rows["name"].astype("string").fillna("")
    shared = named.map(lambda name: any(part in inside for part in _JOINED.split(name)))
    return (named.str.startswith("{") | shared.astype(bool)) & ~rows["kind"].isin(_NOT_OWN)


def _finding(case: DeviceCase, rows: pd.DataFrame, users: list[str]) -> DeviceFinding:
    """Return the finding on these rows. users: the sides with a DLA."""
    slow, slower, fast, faster = words.slower(case, rows)
    ratio = case.side(slow).account.step_ns / max(case.side(fast).account.step_ns, 1)
    waits = rows.loc[rows["name"].isin(case.waits).to_numpy(bool), ["a_ns", "b_ns"]].sum()
    told = [f"{words.duration(waits[f'{key}_ns'])} in {case.side(key).name}" for key in SIDES if waits[f"{key}_ns"] > 0]
    using = " and ".join(users)
    said = [f"The GPU's stream waits for the DLA: {', '.join(told)}."] if told else []
    said += [f"In all, {faster} is {ratio:.3g} times as fast as {slower}."] if ratio > 1 else []
    compared = f"take longer in {slower} than in {faster}" if (rows[f"{fast}_ns"] > 0).any() else f"have no like in {faster}"
    title = f"layers that run on a DLA in {using} {compared}, waits included: {words.of_rows(case, rows)}"
    evidence = [*said, *words.both(case, rows)]
    return DeviceFinding("layers on a DLA", title, rows["row"].tolist(), "medium", evidence, _REMEDY, structural=True)


RULES = (on_a_dla,)
