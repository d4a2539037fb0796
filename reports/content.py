"""Sentences, orders and totals of a comparison for every renderer.

A result is the plain data of `analysis.compare` (compare.json). This module only selects or adds up its numbers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath
from statistics import median
from typing import Any, NamedTuple

from kernelscope.analysis.explain import again
from kernelscope.analysis.recordings.run import WHOLE
from kernelscope.reports import units

Result = dict[str, Any]
Row = dict[str, Any]

_MUCH = 0.25  # of all cores: if other processes use more, the measurement includes them
INSTRUMENTATION = "(profiling overhead)"
DISTURBED = 0.25  # a traced step that differs more than this from the clean one gets a warning
_SLOWER = 1.5  # times the other restarts' step: a restart that other work disturbed
EXPLAINED = 0.80  # with a smaller share of known layers, the table of layers explains little
WIDE = 0.10  # of the fastest step: an interval is wide if it cannot show this difference
CAUSES = 3
_NAMED = 4  # sides that one sentence names besides the fastest
_ONE = {"train": "A step of training", "infer": "A step of inference", WHOLE: "The program"}
KEYS = {"layers": ("layer", "phase"), "kinds": ("kind",)}
CELLS = ("layer", "phase", "kind", "library")  # keys of the table `cells`, which older comparisons lack

HOST_READING = (  # rows of the host in any table
    ("(host: …)", "no kernel ran; what the host was doing, the innermost of the following"),
    ("(host: in operators)", "in an operator of the framework: dispatch, checks, allocation"),
    ("(host: in layers)", "in a layer's own Python code"),
    ("(host: in phases)", "in the forward, backward or optimizer call, but in no layer and no operator"),
    ("(host: in ranges)", "in a range of the program (NVTX, record_function), but in none of the above"),
)
READING = (
    (
        "step time",
        "wall time from one request for a batch to the next, in the clean pass, which has no instrumentation",
    ),
    (
        "interval",
        "95% of bootstrap resamples of the median, over restarts first and windows second, as much of the noise is per process",
    ),
    ("quartiles", "a quarter of the steps is faster than the 1st quartile, a quarter slower than the 3rd"),
    (
        "slower by",
        "median of the differences between neighbouring windows of both frameworks, which cancels drift of the machine",
    ),
    ("ratio", "time divided by that of the fastest framework that has this row"),
    (
        "time",
        "the row's part of the mean step: running kernels share each instant equally, and an instant without kernels belongs "
        "to what the host was doing; so rows add up to the step exactly",
    ),
    ("duration", "sum of the kernel's own durations over all measured steps, as vendors' tools report it; kernels may overlap"),
    ("layer known for", "coverage: share of the step in rows whose layer, or kind, is known from evidence"),
    (
        "(profiling overhead)",
        "clean step minus the step of the traced pass: the cost of tracing, with which columns add up to the clean step",
    ),
    ("(in the framework)", "inside the framework's call, outside its operators"),
    (
        "(between layers)",
        "the host, in the forward or backward call but in no layer: code of the framework and of the model itself",
    ),
    ("(synchronisation)", "the host waits for results"),
    ("(communication)", "devices exchange results, such as gradients"),
    ("(unattributed)", "no evidence for a layer; shown so that the rows stay complete"),
    ("(host: in no layer)", "no kernel ran, and the host was in no layer, operator or call that has its own row"),
    *HOST_READING,
    (units.UNKNOWN, "unknown or absent, never zero"),
)


EXPLAINED_READING = (
    ("B - A", "a difference: positive where B takes longer"),
    (
        "parts, account",
        "cells of both steps compared layer by layer; with (profiling overhead) they add up exactly to the difference of the "
        "clean steps",
    ),
    (
        "(profiling overhead) of an explanation",
        "unequal cost of recording on the two sides that could not be removed from its rows",
    ),
    ("cause", "the finding of a rule; no two causes claim the same nanosecond, and the rest is not explained"),
    (
        "confidence",
        "high: recorded settings or kernels show it; medium: a pattern that rarely means anything else; low: plausible",
    ),
    ("outside of noise", "whether the 95% interval of the difference excludes zero; if it does not, the row is no evidence"),
)


class CleanDifference(NamedTuple):
    """A cell of the difference between two frameworks' clean steps: its label, and the extra ns of the slower one."""

    label: str
    difference_ns: int


def by_speed(result: Result) -> list[Row]:
    """Return the summary's rows, fastest median step first."""
    return sorted(result["summary"], key=lambda row: int(row["step_median_ns"]))


def fastest(result: Result) -> Row:
    """Return the summary's row of the framework with the shortest median step."""
    return by_speed(result)[0]


def work(result: Result) -> str:
    """Return the work in one line: network, mode, batch, device, threads, conditions."""
    network = result["network"]
    threads = result["threads"]
    parts = [
        f"{network['name']} ({network['title']})" if network.get("title") not in (None, "unknown") else network["name"],
        mode(result["mode"]),
        batch(result), result["device"],
        f"{threads} thread{'' if threads == 1 else 's'}" if threads else None, conditions(result["conditions"]),
    ]  # fmt: skip
    return " · ".join(str(part) for part in parts if part)


def mode(name: str | None) -> str | None:
    """Return the name of a mode in a list of facts."""
    return "whole program" if name == WHOLE else name


def conditions(recorded: str) -> str:
    """Return the recording conditions: with --steady or not."""
    return "recorded with --steady" if recorded == "steady" else "on the machine as it was"


def busy(result: Mapping[str, Any], turns: bool = False) -> str:
    """Warn that other processes kept cores busy; empty if they did not.

    turns: programs took turns, so the other processes disturbed all of them.
    """
    known = result.get("busy")
    if not known:
        return ""
    said = f" Other processes kept {known['others']:.1f} of {known['cores']:.0f} cores busy"
    if not turns and unreliable(result):
        return f"{said}: neither times nor advice are reliable; record again on an idle machine."
    return f"{said}: results may differ on an idle machine."


def unreliable(result: Mapping[str, Any]) -> bool:
    """Return whether other processes kept so many cores busy that neither times nor advice are reliable."""
    known = result.get("busy")
    return bool(known["others"] > _MUCH * known["cores"]) if known else False


def batch(result: Mapping[str, Any]) -> str | None:
    """Return how many samples a step has, and how many devices share them if several; None if unknown."""
    if not result.get("batch"):
        return None
    count = result.get("device_count") or 1
    return f"batch {result['batch']}" + (f" on {count} devices" if count > 1 else "")


def machine(result: Result) -> str:
    """Return the machine, as far as recorded."""
    facts = result.get("machine") or {}
    parts = [facts.get("processor"), _count(facts.get("allowed_threads"), "hardware thread"), facts.get("system")]
    if units.known(facts.get("memory_bytes")):
        parts.insert(2, f"{units.size(facts['memory_bytes'])} memory")
    return " · ".join(str(part) for part in parts if part)


def _count(number: int | None, noun: str) -> str | None:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else None


def headline(result: Result) -> str:
    """Return the answer about all sides in one sentence, and a second one if other processes disturbed them."""
    beside = busy(result)
    return f"{_speeds(result)}.{beside}" if beside else _speeds(result)


def _speeds(result: Result) -> str:
    rows = by_speed(result)
    best = rows[0]
    step = f"{units.duration(best['step_median_ns'])} per step"
    if len(rows) == 1:
        network = result["network"]["name"]
        said = f"{_ONE.get(result['mode'], 'A step')} takes {_step(best)}: {network}"
        return said if PurePath(network).stem == best["framework"] else f"{said} in {best['framework']}"  # a script's own name
    alike = [best, *takewhile(lambda row: row.get("significant") is False, rows[1:])]
    if len(alike) > 1:
        names, steps = (_listed(map(of, alike)) for of in (lambda row: str(row["framework"]), _step))
        said = f"{names} cannot be told apart: {steps} per step{_by_processor(result, alike)}"
        return f"{said}; {_following(rows[len(alike) :])}" if rows[len(alike) :] else said
    return f"{best['framework']} is fastest with {step}; {_following(rows[1:])}"


def _by_processor(result: Result, alike: Sequence[Row]) -> str:
    """Return which of sides whose steps cannot be told apart is slower by processor time, as the explanation says below."""
    names = {row["framework"] for row in alike}
    slower = []
    for one in result.get("explanations") or []:
        low, high = one.get("wall_interval_ns") or (1, 1)
        sides = [str(one[key]["name"]) for key in ("a", "b")]
        if names.issuperset(sides) and one.get("significant") and low <= 0 <= high:
            slower.append(sides[1] if one["wall_delta_ns"] > 0 else sides[0])
    return f" ({_listed(slower) if slower[1:] else slower[0]} slower by processor time)" if slower else ""


def _listed(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}"


def _following(rows: Sequence[Row]) -> str:
    """Return how much longer sides take than the fastest; of many, only the first and the slowest."""
    first, *others = rows
    said = f"{first['framework']} takes {_ratio(first)} as long"
    if len(others) > _NAMED:
        return f"{said}, {others[-1]['framework']}, the slowest of {len(others) + 2}, {_ratio(others[-1])}"
    return ", ".join([said, *(f"{row['framework']} {_ratio(row)}" for row in others)])


def _ratio(row: Row) -> str:
    """Return a side's ratio to the fastest step, marked as unsure if noise could hide so large a difference."""
    unsure = (row.get("detection_limit_ns") or 0) > abs(row.get("slower_ns") or 0)
    return units.ratio(row["ratio"]) + (" (unsure)" if unsure else "")


def _step(row: Row) -> str:
    return units.duration(row["step_median_ns"])


def verdicts(result: Result) -> list[tuple[str, str]]:
    """Return (name, how much slower it is and how certain that is) for each framework but the fastest."""
    return [(row["framework"], _verdict(row)) for row in by_speed(result)[1:]]


def _verdict(row: Row) -> str:
    if row.get("slower_ns") is None:
        return f"{units.ratio(row.get('ratio'))} as long; not recorded side by side, so the difference includes machine drift"
    much = f"{units.ratio(row['ratio'])} as long, {units.signed(row['slower_ns'])} per step"
    ends = row.get("slower_interval_ns")
    if ends is None:
        return f"{much}; recorded once each, which does not show how processes of one program differ"
    within = f"{much} (95% interval {units.interval(ends)})"
    return within if row.get("significant") else f"{within}: not a visible difference here"


def total(result: Result, table: str, framework: str) -> int:
    """Return the sum of a framework's column in `layers` or `kinds`, in ns per step."""
    return sum(row["time_ns"].get(framework) or 0 for row in result[table])


def longest(result: Result, table: str) -> int:
    """Return the longest time in `layers` or `kinds`, the scale of bars, without the cost of tracing."""
    rows = [row for row in result[table] if INSTRUMENTATION not in row.values()]
    return max((time for row in rows for time in row["time_ns"].values() if time), default=1)


def conserved(result: Result, table: str) -> bool:
    """Return whether every column of a table adds up to the clean step."""
    return all(total(result, table, row["framework"]) == row["step_median_ns"] for row in result["summary"])


def label(row: Row, table: str) -> str:
    """Return the name of a row of `layers` or `kinds`: layer with phase, or kind."""
    if table == "kinds":
        return str(row["kind"])
    name, phase = str(row["layer"]), row["phase"]
    if phase is None:
        return name
    return name if name.startswith("(") and (phase == "other" or phase == name.strip("()")) else f"{name} {phase}"


def causes(result: Result, framework: str) -> list[CleanDifference]:
    """Return the CAUSES cells (layer and phase) in which a framework loses most time to the fastest one."""
    base = fastest(result)["framework"]
    found = [
        CleanDifference(label(row, "layers"), (row["time_ns"].get(framework) or 0) - (row["time_ns"].get(base) or 0))
        for row in result["layers"]
        if row["layer"] != INSTRUMENTATION
    ]
    slower = [cause for cause in found if cause.difference_ns > 0]
    return sorted(slower, key=lambda cause: -cause.difference_ns)[:CAUSES]


def step_difference(result: Result, framework: str) -> int:
    """Return how many ns a framework's clean step exceeds the fastest one, which the cells add up to."""
    steps = {row["framework"]: int(row["step_median_ns"]) for row in result["summary"]}
    return steps[framework] - steps[fastest(result)["framework"]]


def coverage(result: Result) -> dict[str, float | None]:
    """Return each framework's share of the traced step with a known layer or named part."""
    found = {row["framework"]: row["layer_coverage"] for row in result["passes"] if "layer_coverage" in row}
    return {name: found.get(name) for name in result["frameworks"]}


def warnings(result: Result, traced: bool = True) -> list[str]:
    """Return the warnings about the numbers; an empty list if there are none.

    traced: whether to warn of traced steps that differ from clean ones.
    """
    found = [f"fairness: {text}" for text in failures(result)]
    found += [f"{row['framework']}: the run is marked incomplete" for row in result["summary"] if row.get("complete") is False]
    unsettled = [row["framework"] for row in result["summary"] if row.get("settled") is False]
    if unsettled and result["mode"] != WHOLE:
        found.append(f"step times had not settled after warm-up ({', '.join(unsettled)}); raise --warmup")
    for name, share in coverage(result).items():
        if units.known(share) and share < EXPLAINED:
            found.append(
                f"{name}: only {units.percent(share)} of the step has a known layer: the table of layers explains little"
            )
    found += _slow_restarts(result["summary"])
    found += [text for name in result["frameworks"] if traced and (text := _disturbed(result, name))]
    found += [f"the columns of {table} do not add up to the clean step" for table in KEYS if not conserved(result, table)]
    return found + _hints(result)


def _slow_restarts(rows: Sequence[Row]) -> list[str]:
    """Warn of sides with one much slower restart, which distorts means but hardly medians."""
    found = []
    for row in rows:
        *others, slowest = sorted(row.get("repeat_medians_ns") or [0])
        if others and slowest >= _SLOWER * median(others):
            found.append(f"{row['framework']} ({units.duration(slowest)} a step, else {units.duration(round(median(others)))})")
    if not found:
        return []
    said = f"one restart was much slower than the others, so means are too large: {', '.join(found)}"
    return [f"{said}; record again on a quiet machine"]


def _disturbed(result: Result, framework: str) -> str | None:
    """Warn if the traced step differs so much from the clean one that its parts may not apply to the clean step."""
    found = {row["pass"]: row for row in result["passes"] if row["framework"] == framework}
    cost = found.get("kernels", {}).get("overhead")
    if not units.known(cost) or abs(cost) <= DISTURBED:
        return None
    text = (
        f"{framework}: the traced step took {units.ratio(1 + cost)} the clean one, so its parts may not apply to the clean step"
    )
    faults, clean_faults = (found.get(name, {}).get("minor_faults") for name in ("kernels", "clean"))
    if units.known(faults) and units.known(clean_faults) and faults > 100 + 2 * clean_faults:
        text += f" ({faults:,.0f} page faults a step against {clean_faults:,.0f}: memory is returned and faulted in again)"
    return text


def _hints(result: Result) -> list[str]:
    """Return what to do if the noise is too large for the question."""
    rows = result["summary"]
    fewest = min(int(row.get("repeats") or 1) for row in rows)
    remedy = again.advice({result.get("recorder") or again.RUN}, fewest, result["conditions"] == "steady")
    if len(rows) > 1 and fewest == 1:
        return [f"one restart per side does not show how processes of one program differ; {remedy}"]
    blurred = [row for row in rows if (row.get("detection_limit_ns") or 0) > WIDE * int(row["step_median_ns"])]
    if not blurred:
        return []
    shown = ", ".join(f"{units.duration(row['detection_limit_ns'])} ({row['framework']})" for row in blurred)
    return [f"noise hides differences from {fastest(result)['framework']} below {shown}; to see smaller ones, {remedy}"]


def resolution(result: Result) -> str | None:
    """Return the smallest difference that can be seen for each pair with the fastest, in one sentence."""
    limits = [(row["framework"], row.get("detection_limit_ns")) for row in by_speed(result)[1:]]
    shown = [f"{units.duration(limit)} ({name})" for name, limit in limits if limit is not None]
    return f"Differences from {fastest(result)['framework']} under {', '.join(shown)} cannot be seen here." if shown else None


def failures(result: Result) -> list[str]:
    """Return the failed fairness checks as sentences."""
    rows = result["fairness"]["rows"]
    return [f"{row['framework']}: {row['check']} failed: {_found(row)}" for row in rows if row["status"] == "fail"]


def _found(row: Row) -> str:
    detail = str(row.get("detail") or "")
    value, limit = row.get("value"), row.get("limit")
    if value is None:
        return detail
    wanted = "at most " if isinstance(limit, float) else ""
    return f"{quantity(value)}, required {wanted}{quantity(limit)}" + (f" ({detail})" if detail else "")


def quantity(value: float | int | str | None) -> str:
    """Return a value of a fairness check."""
    if value is None:
        return units.UNKNOWN
    return f"{value:.3g}" if isinstance(value, float) else units.count(value) if isinstance(value, int) else str(value)


def fairness_line(result: Result) -> str:
    """Return the outcome of the fairness checks in one line."""
    rows = result["fairness"]["rows"]
    tally = {status: sum(1 for row in rows if row["status"] == status) for status in ("pass", "fail", "not available")}
    checks = list(dict.fromkeys(str(row["check"]) for row in rows))
    if not rows:
        return "not checked: no check pass was recorded"
    text = f"{tally['pass']} of {len(rows)} checks passed ({', '.join(checks)})"
    if tally["not available"]:
        text += f"; {tally['not available']} not available"
    return text + (f"; {tally['fail']} FAILED" if tally["fail"] else "")


def differences(result: Result) -> list[Row]:
    """Return the settings that differ between frameworks, without versions, which always do and have their own table."""
    return [row for row in result["fairness"]["differences"] if not str(row["setting"]).startswith("version of ")]


def setting(value: object) -> str | None:
    """Return a setting for reading: yes and no, lists and mappings without brackets; None if unknown."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {setting(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(str(setting(part)) for part in value) or "none"
    return str(value)


def command(result: Result) -> str:
    """Return the command line that repeats the comparison, ready for a shell."""
    parts = [str(part) for part in result.get("command") or []]
    return shlex.join(["kernelscope", *parts[1:]]) if parts else units.UNKNOWN


def short_path(path: object) -> str:
    """Return the last two parts of a source file's path."""
    return "/".join(PurePath(str(path)).parts[-2:]) if path is not None else units.UNKNOWN
