"""What a report says, whatever it is drawn with: sentences, orders and totals taken from a comparison's result.

A result is the plain data of `analysis.compare` (compare.json). Everything here is a selection or an addition of its numbers.
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

_MUCH = 0.25  # of all cores: a program that shares them with others for so long is measured with these
INSTRUMENTATION = "(profiling overhead)"
DISTURBED = 0.25  # a traced step that differs more than this from the clean one is pointed out
_SLOWER = 1.5  # times the other restarts' step: what one takes that met something else on the machine
EXPLAINED = 0.80  # under this share of the step with a known layer, layers explain nothing
WIDE = 0.10  # an interval is wide when it cannot show a difference of this share of the fastest step
CAUSES = 3
_NAMED = 4  # sides that one sentence can hold beside the fastest
_ONE = {"train": "A step of training", "infer": "A step of inference", WHOLE: "The program"}
KEYS = {"layers": ("layer", "phase"), "kinds": ("kind",)}
CELLS = ("layer", "phase", "kind", "library")  # keys of the table `cells`, which older comparisons have not

HOST_READING = (  # rows of the host, of whatever table
    ("(host: …)", "no kernel ran; what the host was doing, the innermost of these"),
    ("(host: in operators)", "in an operator of the framework: dispatch, checks, allocation"),
    ("(host: in layers)", "in a layer's own Python code"),
    ("(host: in phases)", "in the forward, backward or optimizer call, and in no layer and no operator"),
    ("(host: in ranges)", "in a range of the program (NVTX, record_function), and in none of the above"),
)
READING = (
    (
        "step time",
        "wall time from one batch being asked for to the next, from the clean pass, which carries no instrumentation",
    ),
    (
        "interval",
        "95% of bootstrap resamples of the median, restarts first and windows second: much of the noise is per process",
    ),
    ("quartiles", "a quarter of the steps was faster than the 1st quartile, a quarter slower than the 3rd"),
    (
        "slower by",
        "median of the differences between neighbouring windows of both frameworks, so that drift of the machine cancels",
    ),
    ("ratio", "time divided by that of the fastest framework that has this row"),
    (
        "time",
        "the row's share of the mean step: at each instant the kernels that run share it equally, and where none runs it goes "
        "to what the host was doing; so rows add up to the step exactly",
    ),
    ("duration", "sum of the kernel's own durations over all measured steps, as vendors' tools report it; kernels may overlap"),
    ("layer known for", "share of the step in rows whose layer, or kind, is known from evidence: the coverage"),
    (
        "(profiling overhead)",
        "clean step minus that of the traced pass: what tracing cost, so that columns add up to clean time",
    ),
    ("(in the framework)", "inside the framework's call, outside of any of its operators"),
    (
        "(between layers)",
        "the host, in the forward or backward call and in no layer: the framework's and the model's own code there",
    ),
    ("(synchronisation)", "the host waits for results"),
    ("(communication)", "several devices exchange what they computed, such as gradients"),
    ("(unattributed)", "no evidence says which layer this was for; shown so that nothing is lost"),
    ("(host: in no layer)", "no kernel ran, and the host was in no layer, no operator and no call that is named apart"),
    *HOST_READING,
    (units.UNKNOWN, "not known, or not there: never zero"),
)


EXPLAINED_READING = (
    ("B - A", "a difference: positive is what B takes longer"),
    (
        "parts, account",
        "cells of both steps set against each other, layer by layer; with (profiling overhead) they add up to the difference of "
        "the clean steps exactly",
    ),
    (
        "(profiling overhead) of an explanation",
        "what recording cost the two sides unequally and could not be taken out where it was",
    ),
    ("cause", "what a rule found; no two causes claim the same nanosecond, and what none claims is not explained"),
    (
        "confidence",
        "high: a setting or kernels that were recorded say so; medium: a pattern that is rarely anything else; low: plausible",
    ),
    ("outside of noise", "whether the 95% interval of the difference excludes zero; where it does not the row is no evidence"),
)


class Difference(NamedTuple):
    """One cell of the difference between two frameworks' clean steps: its label and how many ns more the slower one has."""

    label: str
    difference_ns: int


def by_speed(result: Result) -> list[Row]:
    """Return the summary's rows, fastest median step first."""
    return sorted(result["summary"], key=lambda row: int(row["step_median_ns"]))


def fastest(result: Result) -> Row:
    """Return the summary's row of the framework with the shortest median step."""
    return by_speed(result)[0]


def work(result: Result) -> str:
    """Return what was done, in one line: network, mode, batch, device, threads, conditions."""
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
    """Return how what a step is stands beside other facts."""
    return "whole program" if name == WHOLE else name


def conditions(recorded: str) -> str:
    """Return how it was recorded: with the option that keeps the machine from disturbing, or not."""
    return "recorded with --steady" if recorded == "steady" else "on the machine as it was"


def busy(result: Mapping[str, Any], turns: bool = False) -> str:
    """Return that other processes kept cores busy, where they did: what was measured then is no idle machine's.

    turns: programs took turns, so that these were in the way of all of them.
    """
    known = result.get("busy")
    if not known:
        return ""
    said = f" Other processes kept {known['others']:.1f} of {known['cores']:.0f} cores busy"
    if not turns and unreliable(result):
        return f"{said}: neither the times nor what to do is to be relied on; record it again on an idle machine."
    return f"{said}: on an idle machine it may differ."


def unreliable(result: Mapping[str, Any]) -> bool:
    """Return whether other processes kept so many cores busy that neither times nor advice are to be relied on."""
    known = result.get("busy")
    return bool(known["others"] > _MUCH * known["cores"]) if known else False


def batch(result: Mapping[str, Any]) -> str | None:
    """Return how many samples a step has, and how many devices share them where these are several; None where nothing tells."""
    if not result.get("batch"):
        return None
    count = result.get("device_count") or 1
    return f"batch {result['batch']}" + (f" on {count} devices" if count > 1 else "")


def machine(result: Result) -> str:
    """Return what it ran on, as far as recorded."""
    facts = result.get("machine") or {}
    parts = [facts.get("processor"), _count(facts.get("allowed_threads"), "hardware thread"), facts.get("system")]
    if units.known(facts.get("memory_bytes")):
        parts.insert(2, f"{units.size(facts['memory_bytes'])} memory")
    return " · ".join(str(part) for part in parts if part)


def _count(number: int | None, noun: str) -> str | None:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else None


def headline(result: Result) -> str:
    """Return the answer in one sentence, about all sides, and another where other processes were in the way."""
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
        said = f"{names} cannot be told apart: {steps} per step"
        return f"{said}; {_following(rows[len(alike) :])}" if rows[len(alike) :] else said
    return f"{best['framework']} is fastest with {step}; {_following(rows[1:])}"


def _listed(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}"


def _following(rows: Sequence[Row]) -> str:
    """Return how much longer sides take than the fastest; of many, the first of them and the slowest."""
    first, *others = rows
    said = f"{first['framework']} takes {_ratio(first)} as long"
    if len(others) > _NAMED:
        return f"{said}, {others[-1]['framework']}, the slowest of {len(others) + 2}, {_ratio(others[-1])}"
    return ", ".join([said, *(f"{row['framework']} {_ratio(row)}" for row in others)])


def _ratio(row: Row) -> str:
    """Return how many times the fastest step a side takes; unsure where noise could hide as large a difference."""
    unsure = (row.get("detection_limit_ns") or 0) > abs(row.get("slower_ns") or 0)
    return units.ratio(row["ratio"]) + (" (unsure)" if unsure else "")


def _step(row: Row) -> str:
    return units.duration(row["step_median_ns"])


def verdicts(result: Result) -> list[tuple[str, str]]:
    """Return for each framework but the fastest (name, by how much it is slower and how sure that is)."""
    return [(row["framework"], _verdict(row)) for row in by_speed(result)[1:]]


def _verdict(row: Row) -> str:
    if row.get("slower_ns") is None:
        return f"{units.ratio(row.get('ratio'))} as long; not recorded side by side, so machine drift is in the difference"
    much = f"{units.ratio(row['ratio'])} as long, {units.signed(row['slower_ns'])} per step"
    ends = row.get("slower_interval_ns")
    if ends is None:
        return f"{much}; recorded once each, which does not tell how processes of one program differ"
    within = f"{much} (95% interval {units.interval(ends)})"
    return within if row.get("significant") else f"{within}: not a visible difference here"


def total(result: Result, table: str, framework: str) -> int:
    """Return the sum of a framework's column in `layers` or `kinds`, in ns per step."""
    return sum(row["time_ns"].get(framework) or 0 for row in result[table])


def longest(result: Result, table: str) -> int:
    """Return the longest time in `layers` or `kinds`, against which bars are drawn; what tracing cost has no part in it."""
    rows = [row for row in result[table] if INSTRUMENTATION not in row.values()]
    return max((time for row in rows for time in row["time_ns"].values() if time), default=1)


def conserved(result: Result, table: str) -> bool:
    """Whether every column of a table adds up to the clean step."""
    return all(total(result, table, row["framework"]) == row["step_median_ns"] for row in result["summary"])


def label(row: Row, table: str) -> str:
    """Return how a row of `layers` or `kinds` is called: layer with phase, or kind."""
    if table == "kinds":
        return str(row["kind"])
    name, phase = str(row["layer"]), row["phase"]
    if phase is None:
        return name
    return name if name.startswith("(") and (phase == "other" or phase == name.strip("()")) else f"{name} {phase}"


def causes(result: Result, framework: str) -> list[Difference]:
    """Return the CAUSES cells (layer and phase) in which a framework loses most time against the fastest one."""
    base = fastest(result)["framework"]
    found = [
        Difference(label(row, "layers"), (row["time_ns"].get(framework) or 0) - (row["time_ns"].get(base) or 0))
        for row in result["layers"]
        if row["layer"] != INSTRUMENTATION
    ]
    slower = [cause for cause in found if cause.difference_ns > 0]
    return sorted(slower, key=lambda cause: -cause.difference_ns)[:CAUSES]


def step_difference(result: Result, framework: str) -> int:
    """Return how many ns a framework's clean step is longer than that of the fastest one: what the cells add up to."""
    steps = {row["framework"]: int(row["step_median_ns"]) for row in result["summary"]}
    return steps[framework] - steps[fastest(result)["framework"]]


def coverage(result: Result) -> dict[str, float | None]:
    """Return for each framework the share of the traced step with a known layer or named part."""
    found = {row["framework"]: row["layer_coverage"] for row in result["passes"] if "layer_coverage" in row}
    return {name: found.get(name) for name in result["frameworks"]}


def warnings(result: Result, traced: bool = True) -> list[str]:
    """Return what a reader must know before believing the numbers; an empty list when there is nothing.

    traced: whether to say of traced steps that they are unlike clean ones.
    """
    found = [f"fairness: {text}" for text in failures(result)]
    found += [f"{row['framework']}: the run is marked incomplete" for row in result["summary"] if row.get("complete") is False]
    unsettled = [row["framework"] for row in result["summary"] if row.get("settled") is False]
    if unsettled and result["mode"] != WHOLE:
        found.append(f"step times had not settled after warm-up ({', '.join(unsettled)}); raise --warmup")
    for name, share in coverage(result).items():
        if units.known(share) and share < EXPLAINED:
            found.append(f"{name}: only {units.percent(share)} of the step has a known layer: the table of layers tells little")
    found += _slow_restarts(result["summary"])
    found += [text for name in result["frameworks"] if traced and (text := _disturbed(result, name))]
    found += [f"the columns of {table} do not add up to the clean step" for table in KEYS if not conserved(result, table)]
    return found + _hints(result)


def _slow_restarts(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on sides of which one restart was much slower than the others: that is in means, hardly in medians."""
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
    """Return a sentence when the traced step is so unlike the clean one that its parts may not be the clean step's."""
    found = {row["pass"]: row for row in result["passes"] if row["framework"] == framework}
    cost = found.get("kernels", {}).get("overhead")
    if not units.known(cost) or abs(cost) <= DISTURBED:
        return None
    text = f"{framework}: the traced step took {units.ratio(1 + cost)} the clean one, so its parts may not be the clean step's"
    faults, clean_faults = (found.get(name, {}).get("minor_faults") for name in ("kernels", "clean"))
    if units.known(faults) and units.known(clean_faults) and faults > 100 + 2 * clean_faults:
        text += f" ({faults:,.0f} page faults a step against {clean_faults:,.0f}: memory that is given back and faulted in again)"
    return text


def _hints(result: Result) -> list[str]:
    """Return what to do where the noise is too large for the question."""
    rows = result["summary"]
    fewest = min(int(row.get("repeats") or 1) for row in rows)
    remedy = again.advice({result.get("recorder") or again.RUN}, fewest, result["conditions"] == "steady")
    if len(rows) > 1 and fewest == 1:
        return [f"one restart a side does not tell how processes of one program differ; {remedy}"]
    blurred = [row for row in rows if (row.get("detection_limit_ns") or 0) > WIDE * int(row["step_median_ns"])]
    if not blurred:
        return []
    shown = ", ".join(f"{units.duration(row['detection_limit_ns'])} ({row['framework']})" for row in blurred)
    return [f"noise hides differences from {fastest(result)['framework']} under {shown}; to see smaller ones, {remedy}"]


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
    return f"{quantity(value)}, demanded {wanted}{quantity(limit)}" + (f" ({detail})" if detail else "")


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
    """Return the settings on which frameworks differ; versions, which always do, are left to their own table."""
    return [row for row in result["fairness"]["differences"] if not str(row["setting"]).startswith("version of ")]


def setting(value: object) -> str | None:
    """Return a setting as people read it: yes and no, lists and mappings without their brackets; None where unknown."""
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
    """Return the command line that repeats the comparison, to be pasted into a shell."""
    parts = [str(part) for part in result.get("command") or []]
    return shlex.join(["kernelscope", *parts[1:]]) if parts else units.UNKNOWN


def short_path(path: object) -> str:
    """Return the last two parts of a source file's path."""
    return "/".join(PurePath(str(path)).parts[-2:]) if path is not None else units.UNKNOWN
