"""Pairs of captures whose difference is known, and whether an explanation of them names its cause, with its sign and size.

A folder of pairs holds `truth.csv` and a folder for each of its rows, with `a.*` and `b.*`. The truth gives both steps, the ms a
step by which the cause makes B slower (negative: faster), and words for it, as a person wrote them down.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEPS_WITHIN = 0.03
SIZE = (0.5, 2.0)  # of the known ms
RANKS = 2  # a cause counts among the first two

# What a finding may say for a main word of the truth: an expression that is searched for without regard to case. A word that is
# not here stands for itself at the beginning of a word, without its plural's s (`kernels` for `kernel`).
MEANINGS = {
    "idle": r"\bidl(?:e|es|ing)\b",
    "loading": r"\b(?:data )?load|\binput\b",
    "num_workers": r"num_workers|\bworkers\b",
    "conv": r"\bconv",
    "gemm": r"\bgemm|\bmatrix products?\b",
    "memcpy": r"\bmemcpy|\bcop(?:y|ies)\b",
    "copy": r"\bmemcpy|\bcop(?:y|ies)\b",
    "copies": r"\bmemcpy|\bcop(?:y|ies)\b",
    "htod": r"\bHtoD\b|\bhost to device\b",
    "dtoh": r"\bDtoH\b|\bdevice to host\b",
    "copycpu2gpu": r"\bCopyCPU2GPU\b|\bHtoD\b|\bhost to device\b",  # as MXNet calls such a copy
    "dtod": r"\bDtoD\b|\bdevice to device\b",
    "overlap": r"\boverlap|\bhid(?:e|es|den)\b|\bexposed\b",
    "overlapped": r"\boverlap|\bhid(?:e|es|den)\b|\bexposed\b",
    "fusion": r"\bfus(?:ion|e|es|ed)\b",
    "fused": r"\bfus(?:ion|e|es|ed)\b",
}
# Words that tell no cause from another
EMPTY = frozenset({"a", "an", "and", "by", "data", "half", "in", "kernel", "kernels", "of", "on", "other", "the", "to", "with"})


@dataclass(frozen=True)
class Pair:
    """What is known of a pair. steps_ms: of A and B. keywords: each of them names the cause; none for a control."""

    name: str
    folder: Path
    steps_ms: tuple[float, float]
    keywords: tuple[str, ...]
    cause_ms: float
    control: bool

    def captures(self) -> tuple[Path, Path] | None:
        """Return where both captures are; None where one is absent."""
        found = [sorted(self.folder.glob(f"{side}.*"))[:1] for side in "ab"]
        return (found[0][0], found[1][0]) if all(found) else None


@dataclass(frozen=True)
class Judgement:
    """What is right about an explanation: both steps, and the cause (of a control: that there is none). said: in a few words."""

    steps: bool
    cause: bool
    said: str


def read(folder: Path) -> list[Pair]:
    """Return the pairs that a folder's truth.csv lists; OSError where there is none."""
    with (folder / "truth.csv").open(encoding="utf8", newline="") as file:
        return [_pair(folder, row) for row in csv.DictReader(file)]


def _pair(folder: Path, row: dict[str, str]) -> Pair:
    control = row["control"].strip().lower() in ("1", "yes", "true")
    words = tuple(text.strip() for text in row["cause_keywords"].split(";") if text.strip())
    steps = float(row["step_ms_a"]), float(row["step_ms_b"])
    return Pair(row["pair"], folder / row["pair"], steps, () if control else words, float(row["cause_ms"] or 0), control)


def judge(pair: Pair, explanation: dict[str, Any]) -> Judgement:
    """Compare an explanation (`explain --format json`) with what is known of the pair."""
    ratios = step_ratios(pair, explanation)
    steps = all(abs(ratio - 1) <= STEPS_WITHIN for ratio in ratios)
    cause, said = _control(explanation) if pair.control else _difference(pair, explanation)
    return Judgement(steps, cause, said if steps else f"step time off; {said}")


def step_ratios(pair: Pair, explanation: dict[str, Any]) -> list[float]:
    """Return both steps as shares of the known ones."""
    return [explanation[side]["step_ns"] / 1e6 / known for side, known in zip("ab", pair.steps_ms, strict=True)]


def _control(explanation: dict[str, Any]) -> tuple[bool, str]:
    findings = explanation["findings"]
    return not findings, "false accusation" if findings else "nothing said, as it should be"


def _difference(pair: Pair, explanation: dict[str, Any]) -> tuple[bool, str]:
    findings = explanation["findings"]
    if not findings:
        return False, f"nothing said: {explanation['abstained'] or 'no cause found'}"
    ranks = [rank for rank, finding in enumerate(findings, 1) if names_cause(pair, finding)]
    sized = [rank for rank in ranks if _right_size(pair, findings[rank - 1])]
    if sized and sized[0] <= RANKS:
        return True, f"found, {'first' if sized[0] == 1 else 'second'}"
    if ranks and ranks[0] <= RANKS:
        return False, "size wrong"
    return False, f"ranked {ranks[0]}" if ranks else "not named"


def _right_size(pair: Pair, finding: dict[str, Any]) -> bool:
    """Return whether a finding's ms have the known sign and are 50% to 200% of the known ones."""
    return bool(pair.cause_ms) and SIZE[0] <= finding["explains_ns"] / 1e6 / pair.cause_ms <= SIZE[1]


def names_cause(pair: Pair, finding: dict[str, Any]) -> bool:
    """Return whether a finding says all main words of one of the pair's keywords, in its cause, title or evidence."""
    text = " ".join([finding["cause"], finding["title"], *finding["evidence"]])
    return any(_says(text, keyword) for keyword in pair.keywords)


def _says(text: str, keyword: str) -> bool:
    words = [word for word in re.findall(r"[\w-]+", keyword.lower()) if word not in EMPTY]
    return bool(words) and all(re.search(_meaning(word), text, re.IGNORECASE) for word in words)


def _meaning(word: str) -> str:
    return MEANINGS.get(word) or r"(?:\b|_)" + re.escape(word[:-1] if word.endswith("s") and len(word) > 3 else word)
