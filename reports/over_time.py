"""Memory, power and utilisation over time of one or several runs: a part of a page with a panel per quantity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernelscope.reports import units
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.text import printable

TITLES = {
    "memory": "Memory", "allocator": "Memory handed out by the framework's allocator", "power": "Power",
    "utilisation": "Utilisation",
}  # fmt: skip
_DIGITS = {"B": 0, "W": 2, "": 4}
_Found = list[tuple[str, Mapping[str, Any]]]


def over_time(sides: Sequence[tuple[str, Mapping[str, Any] | str]]) -> list[Interactive]:
    """Return the part of a page: (name, result of analysis.timeline.over_time or the reason why there is none) for each run.

    The note lists quantities that no run has, with the reasons.
    """
    missing = [f"{name}: {side}" for name, side in sides if isinstance(side, str)]
    charts, said = [], []
    for key, title in TITLES.items():
        found = [(name, quantity) for name, side in sides if not isinstance(side, str) for quantity in _of(side, key)]
        charts += [_chart(title, found, len(sides) > 1)] if any(quantity["series"] for _, quantity in found) else []
        missing += _missing(title, found)
        said += _most(title, found)
    data = {"stacked": True, "charts": charts} if charts else {}
    alternative = f"Lines over time. {'; '.join(said)}. Peaks and means of the clean pass are in the summary's table."
    note = f"Not shown: {'; '.join(missing)}" if missing else None
    return [Interactive("over-time", "Memory, power and utilisation over time", "series", data, alternative, note)]


def _of(side: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    return (quantity for quantity in side["quantities"] if quantity["key"] == key)


def _chart(title: str, found: _Found, several: bool) -> dict[str, Any]:
    """Return one panel: the lines of all runs, each from its own start. several: whether the page has several runs."""
    shown = [(name, quantity) for name, quantity in found if quantity["series"]]
    unit = shown[0][1]["unit"]
    lines = [
        {
            "name": printable(f"{name}: {line['name']}" if several else line["name"]),
            "x": line["time_ns"],
            "y": [None if value is None else round(value, _DIGITS[unit]) for value in line["value"]],
        }
        for name, quantity in shown
        for line in quantity["series"]
    ]
    about = "; ".join(dict.fromkeys(quantity["about"] for _, quantity in shown))
    return {
        "title": title, "about": about, "x": {"name": "", "unit": "ns"}, "y": {"name": "", "unit": unit or "share"},
        "series": lines, "steps": title == TITLES["allocator"], "spans": shown[0][1]["spans"] if len(shown) == 1 else [],
    }  # fmt: skip


def _missing(title: str, found: _Found) -> list[str]:
    """Return why a quantity is missing, once for all runs with the same reason."""
    reasons: dict[str, list[str]] = {}
    for name, quantity in found:
        if quantity["unavailable"]:
            reasons.setdefault(str(quantity["unavailable"]), []).append(name)
    everywhere = len(reasons) == 1 and len(next(iter(reasons.values()))) == len(found)
    what = title[0].lower() + title[1:]
    return [f"{what}{'' if everywhere else ' of ' + ', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _most(title: str, found: _Found) -> list[str]:
    """Return the maximum of each line in words."""
    show = {"B": units.size, "W": units.watts, "": units.percent}
    said = []
    for name, quantity in found:
        for line in quantity["series"]:
            most = max((value for value in line["value"] if value is not None), default=None)
            said.append(f"{title.lower()} of {name}, {line['name']}: at most {show[quantity['unit']](most)}")
    return said
