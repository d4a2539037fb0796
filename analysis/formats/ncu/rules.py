"""What Nsight Compute's own rules say of a launch: their text, the saving that they estimate, and facts that only they print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

BEGINS = re.compile(r"^\s*(?P<type>OPT|WRN|INF|ERR) {2,}(?P<text>\S.*)$")
_TOLD = ("OPT", "WRN")  # INF explains what is well, or what a number means
_LINES = 12  # of one rule; ncu's own are shorter
_LONGEST = 1000  # characters of a rule that are kept
_OF_KERNEL, _KERNELS = 8, 100  # the most rules of one kernel, and the most kernels, that are kept
_SAVING = re.compile(r"^(?:Est\.|Estimated) (?P<local>Local )?Speedup: +(?P<percent>\d{1,3}(?:\.\d{1,4})?)% *")
_PROCESSORS = re.compile(r"less than the GPU's (\d{1,4}) multiprocessors")


@dataclass
class Rule:
    """A rule's output. launch: its number. kind: OPT, WRN, INF or ERR. saving: as a share of the time; None if not told."""

    launch: int
    kind: str
    lines: list[str] = field(default_factory=list)
    saving: float | None = None

    def takes(self, line: str) -> bool:
        """Add a line of the text; return False if the rule has ended before it."""
        if len(self.lines) >= _LINES:
            return False
        self.lines.append(line.strip()[:_LONGEST])
        return True

    @property
    def text(self) -> str:
        """The text in one line, without the saving before it."""
        return _SAVING.sub("", self._all)[:_LONGEST]

    @property
    def told_saving(self) -> float | None:
        """The estimated saving of the kernel's time; None for one of a part of it only (local)."""
        found = _SAVING.match(self._all)
        return self.saving if found is None or found["local"] else float(found["percent"]) / 100

    @property
    def _all(self) -> str:
        return " ".join(" ".join(self.lines).split())


def of_rows(rows: pd.DataFrame, launches: Sequence[int]) -> list[Rule]:
    """Return the rules of a table of `ncu --csv`. rows: those without a metric. launches: the number of each row's launch."""
    if not {"Rule Type", "Rule Description"} <= set(rows.columns):
        return []
    savings = rows["Estimated Speedup"] if "Estimated Speedup" in rows else pd.Series(None, index=rows.index, dtype="str")
    kinds = rows.get("Estimated Speedup Type", savings)
    made = []
    for launch, kind, text, saving, of in zip(launches, rows["Rule Type"], rows["Rule Description"], savings, kinds, strict=True):
        if isinstance(kind, str) and isinstance(text, str):
            made.append(Rule(int(launch), kind.strip(), [text[:_LONGEST]], _share(saving) if of != "local" else None))
    return made


def _share(percent: Any) -> float | None:
    """Return a saving in percent as a share; None if it is no number up to 100."""
    found = re.fullmatch(r"\d{1,3}(?:\.\d{1,9})?", percent.strip()) if isinstance(percent, str) else None
    return float(found[0]) / 100 if found and float(found[0]) <= 100 else None


def kept(rules: Iterable[Rule], kernels: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what the rules say of each kernel's longest launch, as plain data: kernel, text, saving. kernels: the launches."""
    timed = kernels[kernels["duration_ns"].notna().to_numpy(bool)]
    longest = timed.sort_values("duration_ns", ascending=False, kind="stable").drop_duplicates("name").head(_KERNELS)
    longest = longest[longest["name"].notna().to_numpy(bool)]
    names = dict(zip(longest.index.tolist(), longest["name"].astype(str), strict=True))
    result: dict[tuple[str, str], dict[str, Any]] = {}
    number = dict.fromkeys(names.values(), 0)
    for rule in rules:
        name = names.get(rule.launch)
        if name is None or rule.kind not in _TOLD or not rule.text or (name, rule.text) in result or number[name] >= _OF_KERNEL:
            continue
        number[name] += 1
        result[name, rule.text] = {"kernel": name, "text": rule.text, "saving": rule.told_saving}
    return list(result.values())


def processors(rules: Iterable[Rule], count: int) -> pd.Series:
    """Return the number of multiprocessors that a rule names, for each of so many launches; NaN if none does."""
    told = {rule.launch: int(found[1]) for rule in rules if (found := _PROCESSORS.search(rule.text))}
    return pd.Series(told, index=range(count), dtype="float64")
