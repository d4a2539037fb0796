"""Show what can be measured on this machine: processors, GPUs, interpreters, environments, profilers, counters."""

from __future__ import annotations

import argparse
import platform
import textwrap
from collections.abc import Iterator
from typing import Any

from kernelscope.analysis.accounting.amounts import size
from kernelscope.cli import noise
from kernelscope.cli.output import write_rows
from kernelscope.nsys_wrappers import find
from kernelscope.tracer.inside.frameworks import described
from kernelscope.tracer.outside import collectors, conditions, counters, environments, gpu, interpreters, process_noise, recipes

_WIDTH = 100  # characters of the summary
Row = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--format", choices=("table", "csv", "json", "markdown"), default="table", help="output format (default: table)"
    )
    parser.add_argument(
        "--noise", nargs="?", const="", metavar="FRAMEWORKS",
        help="measure how much processes of one program differ, for these frameworks (default: all that are ready; 1 to 2 "
        "minutes each on a quiet machine), and store it: explain needs it to compare single recordings",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; a machine that lacks something is no error."""
    if arguments.noise is not None:
        noise.measure(arguments.noise)
    sections = (_machine, _gpus, _interpreters, _environments, _profilers, _collectors, _counters, _noise)
    rows = [row for section in sections for row in section()]
    if arguments.format in ("table", "markdown"):
        print("\n".join([*(textwrap.fill(line, _WIDTH, break_on_hyphens=False) for line in _summary(rows)), ""]))
        rows = _grouped(rows)
    write_rows(rows, arguments.format, "What can be measured here", "doctor", elsewhere=_WIDTH)
    return 0


def _row(section: str, item: str, available: bool, value: str | None, reason: str | None = None) -> Row:
    """Return one finding: whether the item is available, what it is, and why it is missing or limited."""
    return {"section": section, "item": item, "available": available, "value": value, "reason": reason}


def _summary(rows: list[Row]) -> list[str]:
    """Return what one can do here, what is missing for the rest, and how to get it."""
    named: dict[tuple[str, bool], list[str]] = {}
    for row in rows:
        named.setdefault((row["section"], row["available"]), []).append(row["item"])
    ready, absent = (named.get(("frameworks", there), []) for there in (True, False))
    gpus = named.get(("GPUs", True), [])
    where = f"on {', '.join(gpus)} and the processor" if gpus else "on the processor; there is no NVIDIA GPU to record on"
    lines = [f"Ready to record: {', '.join(ready) or 'no framework'} {where}."]
    lines.append("Captures of other tools and your own scripts (`kernelscope profile`) need nothing more.")
    if absent:
        lines.append(f"Not set up: {', '.join(absent)}; `kernelscope env create NAME` sets one up.")
    tools = [item for item in named.get(("profilers", False), []) if item in find.NAMES]
    if tools:
        lines.append(f"Profilers not found: {', '.join(tools)}.")
    return lines


def _grouped(rows: list[Row]) -> list[Row]:
    """Return the rows for reading: each section is named once, value and reason share a column."""
    shown, before = [], None
    for row in rows:
        text = "; ".join(part for part in (row["value"], row["reason"]) if part)
        section = "" if row["section"] == before else row["section"]
        shown.append({"": section, "what": row["item"], "found": text if row["available"] else f"no: {text}"})
        before = row["section"]
    return shown


def _machine() -> Iterator[Row]:
    found = conditions.machine()
    cores = (
        f"{found['cores'] or 'unknown number of'} cores, {found['threads']} threads, {found['allowed_threads']} of them allowed"
    )
    yield _row("machine", "processor", True, found["processor"] or found["architecture"])
    yield _row("machine", "cores", True, cores)
    yield _row("machine", "memory", True, size(found["memory_bytes"]))
    yield _row("machine", "system", True, f"{_distribution()}{found['system']} ({found['architecture']})")
    yield _row("machine", "environments are kept in", True, str(environments.home()))


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"] + ", "
    except (OSError, KeyError):
        return ""


def _gpus() -> Iterator[Row]:
    found = gpu.find()
    if not found.devices:
        yield _row("GPUs", "NVIDIA GPU", False, None, found.reason)
    for device in found.devices:
        memory = size(device.memory_bytes) if device.memory_bytes else None
        facts = (device.name, memory, device.compute_capability, device.driver)
        labels = ("", " of memory", "compute capability ", "driver ")
        told = [
            fact + label if label.startswith(" ") else label + fact for fact, label in zip(facts, labels, strict=True) if fact
        ]
        yield _row("GPUs", f"cuda:{device.index}", True, ", ".join(told))


def _interpreters() -> Iterator[Row]:
    for found in interpreters.candidates():
        where = f"{found.path} ({found.source})"
        yield _row("interpreters", f"Python {found.version}", found.unusable is None, where, found.unusable)


def _environments() -> Iterator[Row]:
    found = environments.list_all()
    ready = {row["framework"] for row in found if row["ready"]}
    for row in found:
        if row["framework"] in ready and not row["ready"]:
            continue  # out of date: `env list` shows it
        if row["ready"]:
            value = f"{row['version']} ({row['variant']}, Python {row['python_version']}): {described(row['framework']).reveals}"
        else:
            value = None
        yield _row("frameworks", row["framework"], row["ready"], value, row["reason"])


def _profilers() -> Iterator[Row]:
    missing = {
        "nsys": "not found in PATH, /opt/nvidia or a CUDA toolkit; set KERNELSCOPE_NSYS to its path",
        "nvprof": "not found in PATH or a CUDA toolkit; it supports only GPUs before compute capability 8.0",
    }
    for name in find.NAMES:
        tools = find.find_all(name)
        used = find.find(name)
        for tool in tools:
            note = None if used is not None and tool.path == used.path else "another one is preferred"
            yield _row("profilers", name, True, f"{tool.version}, {tool.path} ({tool.source})", note)
        failures = find.failures(name)
        for failure in failures:
            yield _row("profilers", name, False, None, failure)
        if not tools and not failures:
            yield _row("profilers", name, False, None, missing[name])
    library = find.nvtx_library()
    lacks = "nsys sees ranges only with libnvtx3interop.so (pip install nvidia-nvtx) or KERNELSCOPE_NVTX_LIBRARY"
    yield _row("profilers", "NVTX library", library is not None, library, None if library else lacks)


def _collectors() -> Iterator[Row]:
    """Say what can record the kernels pass: a row for each collector and each reason, with the frameworks that it applies to.

    Frameworks that do not run on this device are left out.
    """

    device = "cuda" if gpu.find().devices else "cpu"
    running = [name for name in environments.FRAMEWORKS if device == "cuda" or "cpu" in recipes.variants(name)]
    for collector in collectors.NAMES:
        answers: dict[str | None, list[str]] = {}
        for framework in running:
            answer = collectors.usable(collector, framework, device, environments.find(framework))
            answers.setdefault(answer, []).append(framework)
        for reason, frameworks in answers.items():
            if reason is not None and len(answers) > 1:
                reason = f"{', '.join(frameworks)}: {reason}"
            value = f"on {'a GPU' if device == 'cuda' else 'the CPU'}, for {', '.join(frameworks)}"
            yield _row("collectors", collector, reason is None, value if reason is None else None, reason)


def _counters() -> Iterator[Row]:
    reason = counters.hardware_counters()
    yield _row("counters", "hardware counters", reason is None, None if reason else "cycles can be counted", reason)
    names, why = counters.energy_counters()
    yield _row("counters", "processor energy (RAPL)", bool(names), ", ".join(names) or None, why)


def _noise() -> Iterator[Row]:
    known = process_noise.known()
    for framework in environments.FRAMEWORKS:
        if framework in known:
            yield _row("noise", framework, True, noise.in_words(known[framework]))
    if not known:
        yield _row("noise", "between processes", False, None, "not measured; kernelscope doctor --noise measures it")
