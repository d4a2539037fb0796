"""Which kernels of one side replace which of the other, from an alignment of one step's kernels in order.

Kernels of the same name are anchors. Kernels between the same two anchors replace each other, whatever their kind: an attention
kernel replaces another, or a Triton kernel replaces a norm and the arithmetic around it. analysis.explain.sequences aligns them;
the likeness of two kernels comes from their names, kinds and problems (shapes).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.device_account import ALL
from kernelscope.analysis.explain import sequences
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import DeviceCase
from kernelscope.analysis.explain.device.side import DeviceSide
from kernelscope.analysis.trace import MAIN

Int = npt.NDArray[np.int64]
Stretch = tuple[list[int], list[int]]  # rows of both sides

_MOST = 4000  # kernels in a step that is aligned: the alignment table is quadratic in them
# likeness of kernels with the same name, short name, kind and problem, or kind
_SAME, _SHORT, _PROBLEM, _KIND, _UNLIKE = 1.0, 0.9, 0.8, 0.6, 0.0
_IN_PARTS = "attention"  # kernels of this kind come in groups that do one thing together
_EQUAL = 0.1  # of the time of two kernels: if they differ by less, one may be the other under another name
_GOOD_PART = 0.05  # of the device's busy time: shorter kernels take equally long by chance
_HARDLY, _PARTLY = 0.05, 0.5  # of the time of one side, and of the other: names that share a word with one of the other's
_FEW_NAMES, _LIKE_NAMED = 50, 0.5  # kernels that only one side has; share of the words that like names have in common
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_LARGEST = 60  # kernels in a stretch: a longer one is other work, not a replacement


@dataclass(frozen=True)
class Replacement:
    """Kernels of A that B replaces with others. a, b: their names; places: where in a step; *_ns: in the whole step."""

    a: frozenset[str]
    b: frozenset[str]
    places: int
    a_count: int
    b_count: int
    a_ns: int
    b_ns: int

    def tells_apart(self) -> bool:
        """Return whether the short names of both sides differ."""
        return {words.kernel(name) for name in self.a} != {words.kernel(name) for name in self.b}

    def sentence(self) -> str:
        """Return it in words: 24 x fmha_cutlassF became 24 x flash_fwd_kernel (-1.2 ms)."""
        a, b = (words.listed(sorted(map(words.kernel, names)), 2) for names in (self.a, self.b))
        return f"{self.a_count} x {a} became {self.b_count} x {b} ({words.signed(self.b_ns - self.a_ns)})"


def replacements(a: DeviceSide, b: DeviceSide) -> list[Replacement]:
    """Return the replacements between one step of each side, largest change first; none if a step has too many kernels."""
    first, second = _one_step(a), _one_step(b)
    if not 0 < len(first) <= _MOST or not 0 < len(second) <= _MOST:
        return []
    names, kinds = ([table[name].tolist() for table in (first, second)] for name in ("name", "kind"))
    places: dict[tuple[frozenset[str], frozenset[str]], list[Stretch]] = defaultdict(list)
    for stretch in _stretches(first, second):
        mine, other = stretch
        likely = any(kinds[0][i] == kinds[1][j] for i in mine for j in other) or len(mine) > 1 or len(other) == 1
        if mine and other and max(len(mine), len(other)) <= _LARGEST and likely:
            called = frozenset(names[0][i] for i in mine), frozenset(names[1][j] for j in other)
            places[called].append(stretch)
    durations = [table["duration_ns"].to_numpy(np.int64) for table in (first, second)]
    result = [_replacement(called, stretches, durations) for called, stretches in places.items() if called[0] != called[1]]
    return sorted(result, key=lambda one: -abs(one.b_ns - one.a_ns))


def renamed(case: DeviceCase) -> list[Replacement]:
    """Return the kernel that took another's place in totals: the only one that each side has alone, equally often and long."""
    rows = case.all_kernels()
    alone = [rows[((rows[f"{key}_count"] > 0) & (rows[f"{other}_count"] <= 0)).to_numpy(bool)] for key, other in ("ab", "ba")]
    if [len(one) for one in alone] != [1, 1] or any(map(case.is_cut, "ab")):
        return []
    a, b = (one.iloc[0] for one in alone)
    kinds = {a["kind"], b["kind"]} - {"unknown", None}
    if len(kinds) > 1 and kinds & set(MAIN):  # a product is no sum
        return []
    single = len(rows) == len(alone[0]) + len(alone[1])  # all that each side executes
    equal = a["a_count"] == b["b_count"] and abs(a["a_ns"] - b["b_ns"]) <= _EQUAL * max(a["a_ns"], b["b_ns"])
    return [_renamed(a, b)] if single or equal else []


def by_names(case: DeviceCase) -> list[Replacement]:
    """Return kernels that others replace, executed as often: joined in one, taking as long, or of like names and unknown kind.

    Each kernel is in one of them only.
    """
    rows = case.all_kernels()
    unknown = (rows["kind"].isna() | (rows["kind"] == "unknown")).to_numpy(bool)
    own = rows[["a_library", "b_library"]].isna().all(axis=1).to_numpy(bool) & ~rows["kind"].isin(MAIN).to_numpy(bool)
    found: list[Replacement] = []
    whole = case.counts and case.totals and not case.by_operators and not any(map(case.is_cut, "ab"))
    for rule in (_joined, _as_long, like_named):
        known = {name for one in found for name in one.a | one.b}
        left = rows[~rows["name"].isin(known).to_numpy(bool) & (unknown if rule is like_named else own)]
        if rule is _as_long:
            left = left[(left[["a_ns", "b_ns"]].max(axis=1) >= _GOOD_PART * case.busy_ns).to_numpy(bool)]
        alone = [left[((left[f"{key}_count"] > 0) & (left[f"{other}_count"] <= 0)).to_numpy(bool)] for key, other in ("ab", "ba")]
        if all(0 < len(one) <= _FEW_NAMES for one in alone) and (whole or rule is like_named):
            found += rule(*alone)
    return found


def _joined(a: pd.DataFrame, b: pd.DataFrame) -> list[Replacement]:
    """Return kernels whose names together have the words of one kernel of the other side: scale and shift of scale_shift."""
    found: list[Replacement] = []
    for key, one, other, many in (("b", b, "a", a), ("a", a, "b", b)):
        for place in range(len(one)):
            whole = one.iloc[place : place + 1]
            said, known = words_of(whole["name"].iloc[0]), {name for pair in found for name in pair.a | pair.b}
            fits = [name not in known and words_of(name) < said for name in many["name"]]
            parts = many[(many[f"{other}_count"] == whole[f"{key}_count"].iloc[0]).to_numpy(bool) & np.array(fits, dtype=bool)]
            own = [words_of(name) for name in parts["name"]]
            if len(own) > 1 and frozenset().union(*own) == said and all(mine - frozenset.intersection(*own) for mine in own):
                found.append(_replaced_by(parts, whole) if key == "b" else _replaced_by(whole, parts))
    return found


def _as_long(a: pd.DataFrame, b: pd.DataFrame) -> list[Replacement]:
    """Return kernels that take about as long as one of the other side, executed as often, if there is only one such pair."""
    times = a["a_ns"].to_numpy(float), b["b_ns"].to_numpy(float)
    near = np.abs(times[0][:, None] - times[1]) <= _EQUAL * np.maximum(times[0][:, None], times[1])
    near &= a["a_count"].to_numpy(float)[:, None] == b["b_count"].to_numpy(float)
    near &= (near.sum(axis=1) == 1)[:, None] & (near.sum(axis=0) == 1)
    return [_renamed(a.iloc[place], b.iloc[other]) for place, other in zip(*np.nonzero(near), strict=True)]


def like_named(a: pd.DataFrame, b: pd.DataFrame) -> list[Replacement]:
    """Return kernels that took another's place, executed as often under a name of mostly the same words.

    Each is the other's most similar one: blur_global of blur_constant. By the column said, if there is one, in place of the name.
    """
    names = [[words_of(name) for name in one["said" if "said" in one else "name"]] for one in (a, b)]
    counts = [one[f"{key}_count"].to_numpy(float) for key, one in (("a", a), ("b", b))]
    likeness = np.array([[len(one & other) / max(len(one | other), 1) for other in names[1]] for one in names[0]])
    likeness[counts[0][:, None] != counts[1]] = 0.0
    best = likeness.argmax(axis=1)
    return [
        _renamed(a.iloc[place], b.iloc[other])
        for place, other in enumerate(best.tolist())
        if likeness[place, other] >= _LIKE_NAMED and likeness[:, other].argmax() == place
    ]


def hardly_alike(rows: pd.DataFrame, said: pd.Series) -> tuple[bool, bool]:
    """Return whether the sides' names have words in common, and whether these are in names of hardly any of the time.

    rows: all of both sides; said: the words of each row's name, as sets.
    """
    there = [(rows[f"{key}_count"] > 0).to_numpy(bool) for key in "ab"]
    both = frozenset().union(*said[there[0]]) & frozenset().union(*said[there[1]])
    shared = said.map(lambda one: bool(one & both)).to_numpy(bool)
    shares = [float(rows.loc[shared, f"{key}_ns"].sum()) / max(float(rows[f"{key}_ns"].sum()), 1.0) for key in "ab"]
    return bool(both), min(shares) < _HARDLY and max(shares) < _PARTLY


def words_of(name: object) -> frozenset[str]:
    """Return the words of a kernel's short name: gpu_joinData has gpu, join and data."""
    return frozenset(word.lower() for word in _WORD.findall(words.kernel(name)))


def _replaced_by(a: pd.DataFrame, b: pd.DataFrame) -> Replacement:
    """Return that these kernels of B do what those of A do."""
    counts = int(a["a_count"].sum()), int(b["b_count"].sum())
    names = frozenset(map(str, a["name"])), frozenset(map(str, b["name"]))
    return Replacement(*names, min(counts), *counts, int(a["a_ns"].sum()), int(b["b_ns"].sum()))


def _renamed(a: pd.Series, b: pd.Series) -> Replacement:
    """Return that one kernel takes another's place."""
    counts = round(float(a["a_count"])), round(float(b["b_count"]))
    return Replacement(frozenset([a["name"]]), frozenset([b["name"]]), counts[0], *counts, int(a["a_ns"]), int(b["b_ns"]))


def _replacement(names: tuple[frozenset[str], frozenset[str]], stretches: list[Stretch], durations: list[Int]) -> Replacement:
    rows = [[row for stretch in stretches for row in stretch[side]] for side in (0, 1)]
    times = [int(mine[there].sum()) for mine, there in zip(durations, rows, strict=True)]
    return Replacement(*names, len(stretches), *map(len, rows), *times)


def _one_step(side: DeviceSide) -> pd.DataFrame:
    """Return the computing kernels of the middle measured step, or of the whole capture, in order of their start."""
    kernels = side.trace.kernels
    steps = side.trace.steps[~side.trace.steps["warmup"]].sort_values("start_ns")
    rows = kernels[kernels["start_ns"].notna().to_numpy(bool) & (kernels["kind"] != "communication").fillna(True).to_numpy(bool)]
    if len(steps):
        rows = rows[(rows["step"] == int(steps["step"].iloc[len(steps) // 2])).fillna(False).to_numpy(bool)]
    if side.account.device not in (ALL, "cpu"):
        rows = rows[(rows["device"] == side.account.device).to_numpy(bool)]
    rows = rows.sort_values("start_ns", kind="stable")[["name", "kind", "problem", "duration_ns"]]
    texts = {"name": "", "kind": "unknown", "problem": ""}
    return rows.astype(dict.fromkeys(texts, "string")).fillna(texts).reset_index(drop=True)


def _stretches(a: pd.DataFrame, b: pd.DataFrame) -> list[Stretch]:
    """Return the stretches of both sides, in turns: the kernels between two anchors, then an anchor, and so on.

    Anchors are aligned kernels that share their short name or do the main work.
    """
    alike = _likeness(a, b)
    gaps = np.full(len(a), sequences.GAP), np.full(len(b), sequences.GAP)
    mine: list[int] = []
    other: list[int] = []
    main = a["kind"].isin(MAIN).to_numpy(bool)
    found: list[Stretch] = []
    for left, right in sequences.best([sequences.Move(1, 1, alike)], *gaps):
        if len(left) and len(right) and (alike[left[0], right[0]] >= _SHORT or main[left[0]]):
            found += [(mine, other), ([*left], [*right])]
            mine, other = [], []
        else:
            mine += left
            other += right
    found.append((mine, other))
    for side, kinds in ((0, a["kind"].tolist()), (1, b["kind"].tolist())):
        for place in range(1, len(found), 2):
            before, aligned, after = (found[place + step][side] for step in (-1, 0, 1))
            _take_neighbours(before, aligned, after, kinds)
    return found


def _take_neighbours(before: list[int], aligned: list[int], after: list[int], kinds: list[str]) -> None:
    """Join attention kernels to the aligned one next to them: one side may use several where the other uses one."""
    if kinds[aligned[0]] != _IN_PARTS:
        return
    while before and kinds[before[-1]] == _IN_PARTS:
        aligned.insert(0, before.pop())
    while after and kinds[after[0]] == _IN_PARTS:
        aligned.append(after.pop(0))


def _likeness(a: pd.DataFrame, b: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the likeness of each kernel of A to each of B."""
    alike = np.full((len(a), len(b)), _UNLIKE)
    for column, worth in (("kind", _KIND), ("problem", _PROBLEM), ("short", _SHORT), ("name", _SAME)):
        texts = [
            table["name"].map({name: words.kernel(name) for name in table["name"].unique()})
            if column == "short"
            else table[column]
            for table in (a, b)
        ]
        codes, _ = pd.factorize(pd.concat(texts, ignore_index=True))
        same = codes[: len(a), None] == codes[None, len(a) :]
        if column == "kind":
            same &= (a["kind"] != "unknown").to_numpy(bool)[:, None]
        if column == "problem":  # counts only between kernels of one kind
            same &= (a["problem"] != "").to_numpy(bool)[:, None] & (alike == _KIND)
        alike[same] = worth
    return alike
