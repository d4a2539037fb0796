"""Verdicts that were kept: how often each kind of finding was confirmed, and what it claimed against what was seen.

A verdict is a line of JSON without names of programs or files: when, framework, source (what found it: "advice" or
"explanation"), topic, confidence, change, claimed_ns, saved_ns, interval_ns, verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from kernelscope.analysis.confirm.verdicts import VERDICTS
from kernelscope.analysis.files import json_text

ADVICE, EXPLANATION = "advice", "explanation"
_KEYS = ("topic", "confidence", "change", "claimed_ns", "saved_ns", "interval_ns", "verdict")


def lines(result: Mapping[str, Any], source: str) -> list[str]:
    """Return the verdicts in a result (confirm.result) that came from a trial, as lines to keep."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"when": when, "framework": result["framework"], "source": source}
    tried = [one for one in result["findings"] if one["verdict"] in VERDICTS]
    return [json.dumps({**about, **{key: one[key] for key in _KEYS}}) for one in tried]


def read(text: str) -> list[dict[str, Any]]:
    """Return the verdicts in lines, without unreadable ones, such as a line that was being written when a process died."""
    found = []
    for line in text.splitlines():
        try:
            one = json_text.parsed(line)
        except ValueError:
            continue
        if isinstance(one, dict) and one.get("verdict") in VERDICTS:
            found.append(one)
    return found


def summary(verdicts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each source, topic and confidence, most tried first.

    Keys: source, topic, confidence, tried, how many of these got each verdict, and seen_share: the median ratio of what was
    seen to what was claimed, as programs differ in size; None if nothing was claimed.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in verdicts:
        groups.setdefault((one["source"], one["topic"], one["confidence"]), []).append(one)
    rows = []
    for (source, topic, confidence), mine in groups.items():
        counts = {verdict: sum(one["verdict"] == verdict for one in mine) for verdict in VERDICTS}
        shares = [one["saved_ns"] / one["claimed_ns"] for one in mine if one["claimed_ns"]]
        row = {"source": source, "topic": topic, "confidence": confidence, "tried": len(mine), **counts}
        rows.append({**row, "seen_share": median(shares) if shares else None})
    return sorted(rows, key=lambda row: -row["tried"])
