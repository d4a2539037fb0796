"""The exact account of a difference: cells of both sides, layer by layer, whose differences add up to that of the wall times.

    sum(rows.delta_ns) + instrumentation_ns == wall.delta_ns

On each side, the cells of the traced pass, less the cost of recording (see instrumentation), are rounded once, so that they add
up to an integer. What is left between them and the clean step is the row "instrumentation".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import kind_labels, layer_labels
from kernelscope.analysis.accounting.levels import KEYS
from kernelscope.analysis.accounting.statistics import RESAMPLES, Turns, interval, paired_difference
from kernelscope.analysis.attribution.frameworks import CLIPPING
from kernelscope.analysis.explain import estimates, noise
from kernelscope.analysis.explain.instrumentation import factors
from kernelscope.analysis.explain.model import ROW_COLUMNS, Account, Match, Side, Wall
from kernelscope.analysis.trace import intervals

Float = npt.NDArray[np.float64]
_ROW_KEYS = ["layer", "phase", "cell"]


def account(a: Side, b: Side, matches: Sequence[Match]) -> Account:
    """Return the account of why B takes more or less time than A."""
    turns = estimates.paired(a.windows, b.windows)
    has_clean = a.clean_ns is not None and b.clean_ns is not None
    alike = a.framework != b.framework or (a.layers_ns is None) == (b.layers_ns is None)  # one way to find the cost of recording
    tables = {key: _Cells(side, has_clean, side.layers_ns if alike else None) for key, side in (("a", a), ("b", b))}
    labels = {"a": {n: m.label for m in matches for n in m.a}, "b": {n: m.label for m in matches for n in m.b}}
    cells = pd.concat([table.rounded(side, labels[side]) for side, table in tables.items()], ignore_index=True)
    floor = noise.floor(a, b, turns.restarts)
    clean = _clean_wall(a, b, floor)
    rows = _rows(cells, labels)
    cells["row"] = rows.set_index(_ROW_KEYS)["row"].reindex(pd.MultiIndex.from_frame(cells[_ROW_KEYS])).to_numpy()
    samples = by_restart = None
    if len(turns.a) > 1 or floor:
        draws = (turns.draws(RESAMPLES), turns.each_restart())
        samples, by_restart = (_differences(tables, cells, rows, turns, counts, bool(floor)) for counts in draws)
        _add_intervals(rows, samples, by_restart, floor)
    wall = clean or _recorded_wall(tables, turns)
    explained = int(rows["delta_ns"].sum())
    return Account(
        wall=wall,
        rows=rows.set_index("row", drop=False)[list(ROW_COLUMNS)],
        cells=cells.drop(columns=["layer", "phase"]).rename(columns={f"own_{key}": key for key in ("layer", "phase")}),
        instrumentation_ns=wall.delta_ns - explained,
        removed_ns={side: table.removed_ns for side, table in tables.items()},
        recorded_ns={side: round(table.recorded_ns) for side, table in tables.items()},
        samples=samples,
        by_restart=by_restart,
        restarts=turns.restarts,
        floor=floor,
        processor=noise.processor(a, b),
    )


class _Cells:
    """One side's cells as matrices over windows, and their estimate.

    keys: one row per distinct KEYS; time, count, duration: [windows, keys], per step. weights: of each window in the estimate.
    factor: to multiply each cell's time by, to take out the cost of recording.
    """

    def __init__(self, side: Side, clean: bool, layers_ns: pd.Series[float] | None) -> None:
        grouped = side.cells.groupby(list(KEYS), dropna=False, sort=False)
        number, row = grouped.ngroup().to_numpy(), side.cells["window_row"].to_numpy()
        self.keys = side.cells[~pd.Series(number).duplicated().to_numpy()][list(KEYS)].reset_index(drop=True)
        shape = (len(side.windows), len(self.keys))
        place = row * shape[1] + number
        self.time, self.count, self.duration = (
            np.bincount(place, weights=side.cells[name].to_numpy(dtype=float), minlength=shape[0] * shape[1]).reshape(shape)
            for name in ("time_ns", "count", "duration_ns")
        )
        self.wall_ns = side.windows["wall_ns"].to_numpy(dtype=float)
        self.steps = side.windows["steps"].to_numpy(dtype=np.int64)
        self.target_ns = float(side.clean_ns) if clean and side.clean_ns is not None else None
        self.weights = self.weighted(np.ones(shape[0], dtype=np.int64), self.wall_ns, self.steps)
        self.recorded_ns = float(self.weights @ self.wall_ns)
        estimate = self.weights @ self.time
        self.factor = factors(self.keys, estimate, self.target_ns, layers_ns, side.grouped, side.events, side.by_device)
        self.removed_ns = round(float((estimate * (1 - self.factor)).sum()))

    def weighted(self, counts: npt.NDArray[np.int64], wall_ns: Float, steps: npt.NDArray[np.int64]) -> Float:
        """Return the weights of windows drawn so often: with a clean step, of the closest half of them; else by their steps."""
        if self.target_ns is not None:
            return estimates.closest_half(wall_ns, self.target_ns, counts)
        weights = counts * steps
        return np.asarray(weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1), dtype=float)

    def rounded(self, side: str, labels: dict[str, str]) -> pd.DataFrame:
        """Return the cells with integer time_ns, and the layer (label of its match), phase and cell of their row.

        Kernels that clip gradients are in no layer's row, as the other side may clip with operators that are in no layer.
        """
        estimate = (self.weights @ self.time) * self.factor
        table = self.keys.assign(side=side, count=self.weights @ self.count, duration_ns=self.weights @ self.duration)
        table["time_ns"] = intervals.apportion(estimate, round(self.recorded_ns) - self.removed_ns)
        table["cell"] = kind_labels(self.keys)
        keys = self.keys.assign(layer=self.keys["layer"].mask((self.keys["layer"] == CLIPPING).fillna(False)))
        table = table.rename(columns={"layer": "own_layer", "phase": "own_phase"})
        table["layer"] = keys["layer"].map(labels).astype("string").fillna(layer_labels(keys))
        table["phase"] = table["own_phase"].fillna("other")
        return table


def _rows(cells: pd.DataFrame, labels: dict[str, dict[str, str]]) -> pd.DataFrame:
    """Return the rows with both sides' sums, largest difference first."""
    sums = cells.groupby([*_ROW_KEYS, "side"], sort=False)[["time_ns", "count"]].sum().unstack("side")
    rows = pd.DataFrame(index=sums.index)
    for side in ("a", "b"):
        for name, column in (("time_ns", f"{side}_ns"), ("count", f"{side}_count")):
            rows[column] = sums.get((name, side), np.nan)
    present = {side: rows[f"{side}_ns"].notna() for side in ("a", "b")}
    rows[["a_ns", "b_ns"]] = rows[["a_ns", "b_ns"]].fillna(0).astype("int64")
    rows["delta_ns"] = rows["b_ns"] - rows["a_ns"]
    rows = rows.reset_index()
    for side in ("a", "b"):
        names = {
            label: " + ".join(sorted(n for n, own in labels[side].items() if own == label))
            for label in set(labels[side].values())
        }
        named = rows["layer"].map(names).where(present[side].to_numpy())
        rows[f"layer_{side}"] = named.astype("string")
    rows = rows.sort_values("delta_ns", key=lambda delta: -delta.abs(), kind="stable").reset_index(drop=True)
    rows["row"] = [f"r{number}" for number in range(1, len(rows) + 1)]
    for name in ("ci_low_ns", "ci_high_ns"):
        rows[name] = pd.array([pd.NA] * len(rows), dtype="Int64")
    rows["significant"] = pd.array([pd.NA] * len(rows), dtype="boolean")
    return rows


def _differences(
    tables: dict[str, _Cells], cells: pd.DataFrame, rows: pd.DataFrame, turns: Turns, counts: npt.NDArray[np.int64], once: bool
) -> Float:
    """Return the difference of every row under each draw of windows: [draws, rows].

    once: each side was recorded once. Then a side's rows add up to its clean step in each draw: the total time of traced
    windows says nothing about the step, and a disturbed window would make all rows uncertain. The floor covers how processes
    differ.
    """
    position = pd.Series(np.arange(len(rows)), index=rows["row"])
    total = np.zeros((len(counts), len(rows)))
    for side, sign in (("a", -1.0), ("b", 1.0)):
        table = tables[side]
        chosen = turns.a if side == "a" else turns.b
        row = position.reindex(cells.loc[cells["side"] == side, "row"]).to_numpy()
        by_row = np.zeros((len(chosen), len(rows)))
        np.add.at(by_row.T, row, (table.time[chosen] * table.factor).T)
        drawn = table.weighted(counts, table.wall_ns[chosen], table.steps[chosen]) @ by_row
        if once and table.target_ns is not None:
            drawn *= (table.recorded_ns - table.removed_ns) / np.maximum(drawn.sum(axis=1, keepdims=True), 1.0)
        total += sign * drawn
    return total


def _add_intervals(rows: pd.DataFrame, samples: Float, by_restart: Float, floor: float) -> None:
    larger = rows[["a_ns", "b_ns"]].max(axis=1) * floor
    result = [
        noise.widened(interval(float(delta), samples[:, number], by_restart[:, number]), delta, least)
        for number, (delta, least) in enumerate(zip(rows["delta_ns"], larger, strict=True))
    ]
    rows["ci_low_ns"], rows["ci_high_ns"] = (pd.array([pair[end] for pair in result], dtype="Int64") for end in (0, 1))
    rows["significant"] = ~((rows["ci_low_ns"] <= 0) & (rows["ci_high_ns"] >= 0))


# --- wall times -----------------------------------------------------------------------------------------------------------


def _clean_wall(a: Side, b: Side, floor: float) -> Wall | None:
    """Return both sides' clean steps, medians over windows, and the interval of their difference from paired windows.

    floor: for sides that were recorded once each; then the interval comes from it and from the variation of windows.
    """
    if a.clean_ns is None or b.clean_ns is None:
        return None
    if floor:
        delta, least = b.clean_ns - a.clean_ns, floor * max(a.clean_ns, b.clean_ns)
        return Wall(a.clean_ns, b.clean_ns, noise.widened((delta, delta), delta, noise.reach(least, a.clean[0], b.clean[0])))
    difference = paired_difference(b.clean, a.clean)
    return Wall(a.clean_ns, b.clean_ns, difference.interval_ns if difference else None)


def _recorded_wall(tables: dict[str, _Cells], turns: Turns) -> Wall:
    """Return the steps as recorded, if not both sides have a clean pass."""
    a, b = tables["a"], tables["b"]
    ends = round(a.recorded_ns), round(b.recorded_ns)
    if len(turns.a) < 2:
        return Wall(*ends, None)
    samples, by_restart = (
        b.weighted(counts, b.wall_ns[turns.b], b.steps[turns.b]) @ b.wall_ns[turns.b]
        - a.weighted(counts, a.wall_ns[turns.a], a.steps[turns.a]) @ a.wall_ns[turns.a]
        for counts in (turns.draws(RESAMPLES), turns.each_restart())
    )
    return Wall(*ends, interval(ends[1] - ends[0], samples, by_restart))


@dataclass(frozen=True)
class Part:
    """A bar of the waterfall."""

    part: str
    delta_ns: int


PARTS = 8


def parts(account: Account) -> tuple[str, list[Part]]:
    """Return what to sum the rows by (layer or kind), and the largest parts; the rest is one part. They add up to the rows.

    The grouping is the one whose largest parts hold more of the difference.
    """
    rows = account.rows
    layer = rows["layer"] + " " + rows["phase"]
    groups = {"layer": layer.where(rows["phase"] != "other", rows["layer"]), "kind": rows["cell"]}
    sums = {by: rows.groupby(group, sort=False)["delta_ns"].sum() for by, group in groups.items()}
    ordered = {by: result.reindex(result.abs().sort_values(ascending=False, kind="stable").index) for by, result in sums.items()}
    by = max(ordered, key=lambda name: ordered[name].abs().iloc[:PARTS].sum() / max(ordered[name].abs().sum(), 1))
    largest, rest = ordered[by].iloc[:PARTS], ordered[by].iloc[PARTS:]
    result = [Part(str(part), int(delta)) for part, delta in largest.items()]
    if len(rest):
        result.append(Part(f"({len(rest)} more)", int(rest.sum())))
    return by, result
