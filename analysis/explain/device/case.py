"""The case that rules look at: the rows in which two accounts differ, their noise, and which rows no finding has taken yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE, TOTALS, DeviceAccount
from kernelscope.analysis.accounting.statistics import reach_of_difference
from kernelscope.analysis.explain.device.side import DeviceSide
from kernelscope.analysis.trace import CONVOLUTIONS, UNLISTED

if TYPE_CHECKING:
    from kernelscope.analysis.explain.device.alignment import Replacement

Float = npt.NDArray[np.float64]
SIDES = ("a", "b")
# Idle time for the host's own work: a difference may be the host's pace alone
PACE = (idle_causes.LAUNCHING, idle_causes.OPERATOR, idle_causes.RANGE, idle_causes.PROGRAM, idle_causes.UNSEEN)
_KEY = ("part", "kind", "name", "cause", "detail")
_SUMS = ("count", "duration_ns", "bytes", "time_ns")

MAIN_NAMES = {
    "convolutions": CONVOLUTIONS, "products": ("gemm",), "attention": ("attention",), "recurrent layers": ("recurrent",),
}  # fmt: skip
SMALL = ("elementwise", "activation", "optimizer", "copy", "cast", "reduction", "random", "fused", "normalisation", "softmax")

# Noise between two recordings of one program, as shares: kernels repeat well, hosts do not
KERNEL_NOISE = 0.02  # of the time that the device is busy
OWN_NOISE = 0.03  # of the rows' own time
CPU_NOISE = 0.05  # of the rows' own time, if processors compute: two processes of one program differ by as much
IDLE_NOISE = 0.10
HOST_NOISE = 0.15  # of idle time for the host's own pace, which differs from machine to machine and day to day
STEP_NOISE = 0.03  # of the step, for rows other than kernels
ONE_STEP_PACE = 0.08  # of the step, for the host's own pace in captures of one step, which do not show how it varies
ONE_STEP_LEAST = 0.05  # of the step or of the difference of the steps, for any cause in captures of one step
ONE_STEP_NOISE = 0.05  # of the step, for idle time in captures with too few steps to show how it varies
_SURE = 2.0  # standard errors by which the share of steps that stall must differ
FEW = 4  # steps: with fewer, their spread says little about further steps
_ALL = 0.3  # of the steps' difference: rows within this distance of it are all of it
_RENAMED = 0.5  # of the idle time, by which idle time of other causes must move the opposite way
_WRAPS = 0.1  # of the longest execution of a kind: an operator that takes less itself only calls others
_MOST_UNPRINTED = 1000  # rows that a summary leaves out; more mean that it is not sorted by time
_BATCHES = 7  # of steps: times that alternate from step to step are steadier over several


@dataclass(frozen=True)
class DeviceFinding:
    """A cause with the rows that it accounts for: the difference, its evidence and the remedy. confidence: high, medium, low.

    structural: its rows replace each other, so they belong together even if they cost the same and there is no cause.
    follows: not a cause of its own, but a consequence of others, which come first.
    told: operators tell that the other side does without what one side alone prints, even if rows were not printed.
    """

    cause: str
    title: str
    rows: list[str]
    confidence: str
    evidence: list[str]
    remedy: str
    structural: bool = False
    follows: bool = False
    told: bool = False


@dataclass
class DeviceCase:
    """Two sides and the rows of their difference.

    rows: row, part, kind, name, cause, detail, a_ns, b_ns, delta_ns (per step; these add up to the difference of the steps), and
    per side count, duration_ns, bytes (per step), dtype, library, grid. taken: rows that a finding has. replaced: which kernels
    replace which in a step (see alignment). processes: the step of each recorded process of both sides, ns (see repeated);
    empty if there is one a side.
    """

    a: DeviceSide
    b: DeviceSide
    rows: pd.DataFrame
    taken: set[str] = field(default_factory=set)
    replaced: list[Replacement] = field(default_factory=list)
    processes: tuple[Sequence[int], Sequence[int]] = ((), ())
    _series: dict[str, dict[str, Float]] = field(default_factory=dict)

    @property
    def left(self) -> pd.DataFrame:
        """The rows that no finding has taken yet."""
        return self.rows[~self.rows["row"].isin(self.taken).to_numpy(bool)]

    @cached_property
    def waits(self) -> set[str]:
        """The layers of TensorRT's engines whose time is the wait for a DLA."""
        return {name for side in (self.a, self.b) for name in (side.facts.get("dla") or {}).get("waits", [])}

    def rows_of(self, finding: DeviceFinding) -> pd.DataFrame:
        """Return the rows that a finding accounts for."""
        return self.rows[self.rows["row"].isin(finding.rows).to_numpy(bool)]

    @property
    def step_ns(self) -> int:
        """The longer step."""
        return max(self.a.account.step_ns, self.b.account.step_ns)

    @property
    def busy_ns(self) -> int:
        """The busy time per step of the busier device."""
        return max(self.a.account.busy_ns, self.b.account.busy_ns)

    @cached_property
    def on_cpu(self) -> str | None:
        """The key of the side that computes on the CPU; None if both or neither do."""
        sides = [key for key in SIDES if self.side(key).on_cpu]
        return sides[0] if len(sides) == 1 else None

    @cached_property
    def on_cpus(self) -> bool:
        """Whether both sides compute on the CPU."""
        return all(side.on_cpu for side in (self.a, self.b))

    @cached_property
    def totals(self) -> bool:
        """Whether both are totals: durations are added up, even of work that ran at the same time."""
        return all(side.account.basis == TOTALS for side in (self.a, self.b))

    @cached_property
    def same_device(self) -> bool:
        """Whether both ran on the same model of device, as far as known."""
        if self.on_cpu:
            return False
        made = (self.a.makes, self.b.makes), (self.a.makers, self.b.makers)
        if any(mine and other and not mine & other for mine, other in made):
            return False
        facts = ((self.a.hardware, self.b.hardware), (self.a.capability, self.b.capability))
        known = next((pair for pair in facts if None not in pair), None)
        return known is None or known[0] == known[1]

    @property
    def per(self) -> str:
        """What times and counts refer to: a step, or the whole capture if it has no steps."""
        return "a step" if self.a.detected is not None and self.b.detected is not None else "in all"

    @cached_property
    def by_operators(self) -> bool:
        """Whether both are tables of operators, which also list those that only call others."""
        return all(side.lists_operators for side in (self.a, self.b))

    @cached_property
    def counted_apart(self) -> bool:
        """Whether the sides' totals add up work in two ways, as by kernel and by operator, which does not mean other work."""
        ways = [side.facts.get("counted") for side in (self.a, self.b)]
        return all(ways) and len(set(ways)) > 1

    @property
    def comparable(self) -> bool:
        """Whether rows of one side have counterparts on the other: not of tables that were cut and count in two ways."""
        return not self.counted_apart or not any(map(self.is_cut, SIDES))

    @cached_property
    def counts(self) -> bool:
        """Whether both sides tell how often their kernels ran."""
        return self.a.counts and self.b.counts

    @cached_property
    def of_functions(self) -> bool:
        """Whether both are functions of Python, with their own times."""
        return all(side.facts.get("counted") == "functions" for side in (self.a, self.b))

    @property
    def what(self) -> str:
        """What the rows of computing work are, in words."""
        if self.of_functions:
            return "functions"
        return "operators" if self.by_operators else "kernels"

    def without_wrappers(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows without operators that only call others, such as aten::linear, so that work counts once.

        Their own time per execution is short beside that of the operator of their kind that computes.
        """
        if not self.by_operators:
            return rows
        wraps = np.zeros(len(rows), dtype=bool)
        for key in SIDES:
            each = rows[f"{key}_ns"] / rows[f"{key}_count"].where(rows[f"{key}_count"] > 0)
            longest = each.groupby(rows["kind"].astype("string")).transform("max")
            wraps |= (each < _WRAPS * longest).fillna(False).to_numpy(bool)
        return rows[~wraps]

    def kernels(self, kinds: Collection[str] | None = None) -> pd.DataFrame:
        """Return the rows of computing kernels that no finding has taken; only of these kinds, if given."""
        return _computing(self.left, kinds)

    def unlisted_ns(self, key: str) -> int:
        """Return a side's time in rows that a summary did not print."""
        return int(self.rows.loc[_is_unlisted(self.rows), f"{key}_ns"].sum())

    def unsure_ns(self, rows: pd.DataFrame) -> int:
        """Return how much of the difference may vanish, as the other side may have rows unprinted that the slower one prints.

        If tables are sorted by time, an unprinted row takes no longer than the shortest printed one.
        """
        key, other = ("b", "a") if float(rows["delta_ns"].sum()) > 0 else ("a", "b")
        if not self.is_cut(other):
            return 0
        alone = rows[f"{key}_ns"][(rows[f"{other}_count"] <= 0).to_numpy(bool)]
        unprinted = int(alone.clip(upper=self.longest_unprinted_ns(other)).sum())
        return min(unprinted, self.unlisted_ns(other) or unprinted)

    def is_cut(self, key: str) -> bool:
        """Return whether a side may have rows that it does not print, whether or not their time is known."""
        return bool(self.unlisted_ns(key)) or self.side(key).prints_longest_only

    def longest_unprinted_ns(self, key: str) -> float:
        """Return how long a row that a cut side does not print may take: no longer than its shortest, if it is sorted by time."""
        whole = self.unlisted_ns(key)
        printed = self.rows[f"{key}_ns"][((self.rows[f"{key}_ns"] > 0) & ~_is_unlisted(self.rows)).to_numpy(bool)]
        least = float(printed.min()) if len(printed) else 0.0
        return least if least * _MOST_UNPRINTED >= whole else float(whole)

    def below_cut(self) -> npt.NDArray[np.bool_]:
        """Return which rows one side alone prints that are too short for the other's list, which may have them, too."""
        result = np.zeros(len(self.rows), dtype=bool)
        for key, other in (SIDES, SIDES[::-1]):
            if self.is_cut(other):
                short = (self.rows[f"{key}_ns"] > 0) & (self.rows[f"{key}_ns"] <= self.longest_unprinted_ns(other))
                result |= (short & (self.rows[f"{other}_count"] <= 0)).to_numpy(bool)
        return result & (self.rows["part"] == COMPUTE).to_numpy(bool) & ~_is_unlisted(self.rows)

    def idle(self, causes: Collection[str]) -> pd.DataFrame:
        """Return the rows of idle time with these causes that no finding has taken."""
        left = self.left
        return left[((left["part"] == IDLE) & left["cause"].isin(list(causes))).to_numpy(bool)]

    def all_kernels(self, kinds: Collection[str] | None = None) -> pd.DataFrame:
        """Return the rows of computing kernels, taken or not."""
        return _computing(self.rows, kinds)

    def side(self, key: str) -> DeviceSide:
        """Return side "a" or "b"."""
        return self.a if key == "a" else self.b

    def reach_ns(self, rows: pd.DataFrame) -> float | None:
        """Return how far the rows' difference may be off (95%), from its variation over steps; None with one step a side."""
        return reach(*(self._of_steps(rows, key) for key in SIDES))

    @property
    def reach_of_processes_ns(self) -> float | None:
        """How far the difference may be off (95%) because processes of one program differ; None with one process a side."""
        return reach_of_difference(*(np.asarray(side, dtype=float) for side in self.processes))

    @property
    def reach_of_steps_ns(self) -> float | None:
        """How far the difference may be off (95%), from its variation over steps and over processes; None if it has neither."""
        lengths = (side.account.lengths.astype(float) for side in (self.a, self.b))
        known = [one for one in (reach(*lengths), self.reach_of_processes_ns) if one is not None]
        return max(known, default=None)

    @property
    def few(self) -> bool:
        """Whether a side has so few steps that their spread says little about further steps."""
        return min(len(side.account.lengths) for side in (self.a, self.b)) < FEW

    def stands_out(self, rows: pd.DataFrame, told: bool = False) -> bool:
        """Return whether the rows differ by more than two recordings of one program do. told: see DeviceFinding."""
        if rows.empty:
            return False
        delta = abs(int(rows["delta_ns"].sum())) - (0 if told else self.unsure_ns(rows))
        own = max(float(rows["a_ns"].sum()), float(rows["b_ns"].sum()))
        off = self.reach_ns(rows)
        idle = bool((rows["part"] == IDLE).any())
        if idle and self._changes_its_name(rows):
            return False
        if (rows["part"] == COMPUTE).all():
            of_all = 0.0 if told else KERNEL_NOISE * self._varying_ns(rows)  # what operators tell to be other kernels is no noise
            least = max(of_all, (CPU_NOISE if self.on_cpus else OWN_NOISE) * own, 0.005 * self.step_ns)
        else:
            of_step = ONE_STEP_NOISE if idle and self.few else STEP_NOISE
            pace = bool(rows["cause"].isin(PACE).any())
            share = HOST_NOISE if pace else IDLE_NOISE if idle else OWN_NOISE
            least = max(of_step * self.step_ns, share * own)
        if delta <= max(least, self._least_of_one(rows) if off is None else 0.0):
            return False
        sure = off is None or delta > off or self._is_the_difference(rows)
        return sure or self._outranks(rows) or (idle and self._stalls_more(rows))

    def _varying_ns(self, rows: pd.DataFrame) -> int:
        """Return the busy time beside which kernels' differences may be noise.

        In totals copies do not hide whether each side computes by kernels that the other does not have.
        """
        alone = ((rows["a_count"] > 0) != (rows["b_count"] > 0)).to_numpy(bool)
        other_kernels = alone.all() and (rows["a_count"] > 0).any() and (rows["b_count"] > 0).any()
        if not self.totals or not other_kernels:
            return self.busy_ns
        return int(max(self.all_kernels()[f"{key}_ns"].sum() for key in SIDES))

    def _least_of_one(self, rows: pd.DataFrame) -> float:
        """Return the least difference that counts with one step a side, where nothing shows how rows vary."""
        apart = abs(self.b.account.step_ns - self.a.account.step_ns)
        pace = ONE_STEP_PACE * self.step_ns if bool(rows["cause"].isin(PACE).any()) else 0.0
        return max(pace, min(ONE_STEP_LEAST * self.step_ns, ONE_STEP_LEAST * apart))

    def _is_the_difference(self, rows: pd.DataFrame) -> bool:
        """Return whether the steps differ for sure, and by about as much as these rows.

        Parts that trade time with each other vary more than their steps.
        """
        lengths = [self.side(key).account.lengths.astype(float) for key in SIDES]
        off, delta = reach(*lengths), float(lengths[1].mean() - lengths[0].mean())
        return off is not None and abs(delta) > off and abs(float(rows["delta_ns"].sum()) - delta) < _ALL * abs(delta)

    def _changes_its_name(self, rows: pd.DataFrame) -> bool:
        """Return whether the other side has this idle time under another cause, as if only the evidence differed.

        For example, one capture has no ranges of the loader, or its steps were found in another way.
        """
        own = rows[(rows["part"] == IDLE).to_numpy(bool)]
        others = self.rows[((self.rows["part"] == IDLE) & ~self.rows["row"].isin(own["row"])).to_numpy(bool)]
        delta, opposite = (float(table["delta_ns"].sum()) for table in (own, others))
        if abs(delta) < _RENAMED * abs(float(rows["delta_ns"].sum())):
            return False  # most of the difference is not idle time, for example around copies
        if delta * opposite >= 0 or abs(opposite) < _RENAMED * abs(delta):
            return False
        sums = [sorted((float(table["a_ns"].sum()), float(table["b_ns"].sum()))) for table in (own, others)]
        gone = any(least < 0.05 * most for least, most in sums)
        methods = [side.detected.method if side.detected else None for side in (self.a, self.b)]
        return gone or methods[0] != methods[1]

    def _outranks(self, rows: pd.DataFrame) -> bool:
        """Return whether the rows take longer in nearly all steps of one side. A stall in a few steps makes the mean unsure.

        Source: Mann and Whitney's test, Ann. Math. Stat. 18 (1947), by its normal approximation, over batches of steps.
        """
        a, b = (batches(self._of_steps(rows, key)) for key in SIDES)
        above = float((b[:, None] > a).sum() + 0.5 * (b[:, None] == a).sum())
        middle, spread = len(a) * len(b) / 2, (len(a) * len(b) * (len(a) + len(b) + 1) / 12) ** 0.5
        return (above > middle) == (float(rows["delta_ns"].sum()) > 0) and abs(above - middle) - 0.5 > _SURE * spread

    def _of_steps(self, rows: pd.DataFrame, key: str) -> Float:
        """Return the rows' time in each step of a side."""
        series = self._series.get(key, {})
        result = [series[row] for row in rows["row"] if row in series]
        return np.asarray(np.sum(result, axis=0) if result else np.zeros(len(self.side(key).account.lengths)))

    def _stalls_more(self, rows: pd.DataFrame) -> bool:
        """Return whether significantly more of one side's steps stall: rare long waits blur the mean, but not their number.

        Source: the test for the difference of two proportions, with their pooled variance.
        """
        limit = STEP_NOISE * self.step_ns
        a, b = (self._of_steps(rows, key) > limit for key in SIDES)
        share = float(a.sum() + b.sum()) / (len(a) + len(b))
        error = (share * (1 - share) * (1 / len(a) + 1 / len(b))) ** 0.5
        return (float(b.mean() - a.mean()) > 0) == (float(rows["delta_ns"].sum()) > 0) and abs(
            a.mean() - b.mean()
        ) > _SURE * error


def _computing(rows: pd.DataFrame, kinds: Collection[str] | None) -> pd.DataFrame:
    rows = rows[(rows["part"] == COMPUTE).to_numpy(bool) & ~_is_unlisted(rows)]
    return rows if kinds is None else rows[rows["kind"].isin(list(kinds)).to_numpy(bool)]


def _is_unlisted(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    return (rows["name"].fillna("") == UNLISTED).to_numpy(bool)


def batches(values: Float) -> Float:
    """Return the means of batches of consecutive steps.

    The first and the last step are both set to their mean: the edge of a capture adds to one, such as a wait for the first
    batch, what the other lacks. The overall mean does not change.
    """
    if len(values) >= FEW:
        ends = (values[0] + values[-1]) / 2
        values = np.concatenate([[ends], values[1:-1], [ends]])
    return np.array([part.mean() for part in np.array_split(values, min(_BATCHES, len(values)))])


def reach(a: Float, b: Float) -> float | None:
    """Return how far the difference of the means of two series of steps may be off (95%), ns; None if neither has two steps.

    Source: the method of batch means (P. W. Glynn and W. Whitt, Oper. Res. Lett. 10, 1991). Steps are not independent (a loader's
    workers make them alternate), so means of consecutive steps say more than single steps.
    """
    return reach_of_difference(batches(a), batches(b))


Rule = Callable[[DeviceCase], Iterator[DeviceFinding]]


def case_of(a: DeviceSide, b: DeviceSide) -> DeviceCase:
    """Return the case of two sides. Rows with the same part, kind, name, cause and detail are one.

    Where a side does not tell how often its kernels ran, counts only say which side has a kernel.
    """
    tables, numbers = [], {}
    kinds = _kinds(a.account, b.account)
    for key, side in zip(SIDES, (a, b), strict=True):
        table, number = _summed(side.account, kinds)
        tables.append(table.add_prefix(f"{key}_").rename(columns={f"{key}_{name}": name for name in _KEY}))
        numbers[key] = number
    rows = tables[0].merge(tables[1], on=list(_KEY), how="outer")
    for key in SIDES:
        for name in _SUMS:
            rows[f"{key}_{name}"] = rows[f"{key}_{name}"].fillna(0)
        rows[f"{key}_ns"] = rows.pop(f"{key}_time_ns").astype("int64")
        if not (a.counts and b.counts):
            rows[f"{key}_count"] = rows[f"{key}_count"].mask(rows["part"] == COMPUTE, rows[f"{key}_count"].clip(upper=1))
    rows["delta_ns"] = rows["b_ns"] - rows["a_ns"]
    rows = rows.sort_values("delta_ns", key=lambda delta: -delta.abs(), kind="stable").reset_index(drop=True)
    rows["row"] = [f"r{number}" for number in range(1, len(rows) + 1)]
    series = {
        key: {
            row: side.account.by_window[numbers[key] == int(place)].sum(axis=0)
            for row, place in zip(rows["row"], rows[f"{key}_place"].fillna(-1), strict=True)
            if place >= 0
        }
        for key, side in zip(SIDES, (a, b), strict=True)
    }
    return DeviceCase(a, b, rows, _series=series)


def _kinds(a: DeviceAccount, b: DeviceAccount) -> dict[str, str]:
    """Return one kind by name for kernels whose kinds differ between the sides, as where only one side has optimizer ranges.

    The side that sees fewer kinds of a kernel decides; of these, the kind that takes longest.
    """
    result = {}
    sums = [account.of(part=COMPUTE).groupby(["name", "kind"])["time_ns"].sum() for account in (a, b)]
    for name in set(sums[0].index.get_level_values(0)) & set(sums[1].index.get_level_values(0)):
        mine = [side.loc[name] for side in sums]
        if set(mine[0].index) != set(mine[1].index):
            result[str(name)] = str(min(mine, key=len).idxmax())
    return result


def _summed(account: DeviceAccount, kinds: dict[str, str]) -> tuple[pd.DataFrame, npt.NDArray[np.int64]]:
    """Return an account's rows added up by _KEY, and for each row of the account the number of its sum.

    Other columns hold the value of the row that takes longest. kinds: the one kind of kernels that have several.
    """
    rows = account.rows
    kind = rows["name"].map(kinds).where(rows["part"] == COMPUTE)
    rows = rows.assign(kind=kind.astype("string").fillna(rows["kind"]))
    grouped = rows.groupby(list(_KEY), dropna=False, sort=False)
    number = grouped.ngroup().to_numpy().astype(np.int64)
    table = grouped[list(_SUMS)].sum().reset_index()
    for name in ("dtype", "library", "grid", "operator", "phase"):
        known = rows.assign(number=number).sort_values("time_ns", ascending=False, kind="stable").dropna(subset=[name])
        table[name] = known.drop_duplicates("number").set_index("number")[name].reindex(range(len(table))).astype("string")
    return table.assign(place=np.arange(len(table))), number
