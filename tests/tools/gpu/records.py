"""The record of all checks: machine, versions, outcomes, as JSON and as Markdown; without names of hosts and users."""

from __future__ import annotations

import getpass
import importlib.metadata
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outcomes import FAILED, NOT_RUN, PASSED, Outcome
from place import Place

from kernelscope.nsys_wrappers import find
from kernelscope.tracer.outside import conditions

SCHEMA = "kernelscope/gpu-check/1"
ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("kernelscope", "numpy", "pandas", "pyarrow", "nvidia-ml-py")
NO_GPU = "no-gpu"
_SHOWN = 900  # characters of one cell
_PLAIN_NAMES = ("root", "user", "admin", "ubuntu", "localhost")  # they name nobody


@dataclass
class Record:
    """Everything that is written down. date: YYYY-MM-DD; gpu: its name, or NO_GPU; about: the machine and versions, by topic."""

    date: str
    gpu: str
    about: dict[str, Any]
    outcomes: list[Outcome] = field(default_factory=list)
    folders: tuple[Path, ...] = ()

    @property
    def stem(self) -> str:
        """The name of both files, without its ending."""
        return f"{self.date}-{re.sub(r'[^a-z0-9]+', '-', self.gpu.lower()).strip('-') or 'gpu'}"

    def failed(self) -> int:
        """Return how many checks failed."""
        return sum(outcome.outcome == FAILED for outcome in self.outcomes)

    def write(self, folder: Path) -> Path:
        """Write both files and return the Markdown's path; each is replaced as a whole."""
        folder.mkdir(parents=True, exist_ok=True)
        content = without_names(self.as_dict(), self.folders)
        path = folder / f"{self.stem}.md"
        for target, text in ((path.with_suffix(".json"), json.dumps(content, indent=1) + "\n"), (path, markdown(content))):
            temporary = target.with_name(target.name + ".new")
            temporary.write_text(text, encoding="utf8")
            os.replace(temporary, target)
        return path

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        results = [outcome.as_dict() for outcome in self.outcomes]
        return {"schema": SCHEMA, "date": self.date, "gpu": self.gpu, "about": self.about, "results": results}


def about(place: Place) -> dict[str, Any]:
    """Return what this machine is, and the versions of what was used."""
    machine = conditions.machine()
    gpus = [f"{gpu.name}, compute capability {gpu.compute_capability}, {gpu.memory_bytes} bytes" for gpu in place.gpus]
    versions = {name: _version(name) for name in PACKAGES}
    for name in find.NAMES:
        versions[name] = ", ".join(tool.version for tool in find.find_all(name)) or "; ".join(find.failures(name)) or "not found"
    frameworks = {
        side.framework: f"{side.environment.version} ({side.environment.variant})"
        if side.environment
        else f"not run: {side.missing}"
        for side in place.sides
    }
    return {
        "machine": {
            **{key: machine[key] for key in ("processor", "threads", "memory_bytes", "architecture")},
            "system": release(machine["system"]),
            "GPU": "; ".join(gpus) or f"none ({place.reason})",
            "divided (MIG)": any(gpu.mig for gpu in place.gpus) if place.gpus else None,
            "driver": place.gpus[0].driver if place.gpus else None,
            "CUDA of the driver": _driver_cuda() if place.gpus else None,
        },
        "versions": versions,
        "frameworks": frameworks,
    }


def release(system: str) -> str:
    """Return the system and its version without what its builder appended."""
    return re.sub(r"(\d+(?:\.\d+)+)[\w.+-]*", r"\1", system)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _driver_cuda() -> str | None:
    import pynvml

    try:
        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    except (pynvml.NVMLError, AttributeError):
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


# --- what may be written ----------------------------------------------------------------------------------------------------


def without_names(value: Any, folders: Sequence[Path] = ()) -> Any:
    """Return plain data without the home folder, the checkout's, the recordings', and the names of host and user."""
    home = Path.home()
    replaced = [(str(folder), "RUNS") for folder in folders] + [(str(ROOT), "."), (str(home), "~")]
    return _replaced(value, [pair for pair in replaced if len(pair[0]) > 1], _names())


def _names() -> list[tuple[re.Pattern[str], str]]:
    """Return patterns of names that stand alone: as parts of other words they are something else."""
    known = {"HOST": {socket.gethostname(), socket.getfqdn()}}
    with suppress(KeyError, OSError):
        known["USER"] = {getpass.getuser()}
    return [
        (re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])"), shown)
        for shown, names in known.items()
        for name in names
        if len(name) > 2 and name not in _PLAIN_NAMES
    ]


def _replaced(value: Any, folders: list[tuple[str, str]], names: list[tuple[re.Pattern[str], str]]) -> Any:
    if isinstance(value, Mapping):
        return {_replaced(key, folders, names): _replaced(item, folders, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, folders, names) for item in value]
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str):
        return value.item() if hasattr(value, "item") else value
    for folder, shown in folders:
        value = re.sub(rf"{re.escape(folder)}(?![\w.-])", shown, value)
    for pattern, shown in names:
        value = pattern.sub(shown, value)
    return value


# --- for reading ------------------------------------------------------------------------------------------------------------


def markdown(content: Mapping[str, Any]) -> str:
    """Return the record for reading."""
    results = content["results"]
    counts = {outcome: sum(row["outcome"] == outcome for row in results) for outcome in (PASSED, FAILED, NOT_RUN)}
    gpu = "a machine without a GPU" if content["gpu"] == NO_GPU else content["gpu"]
    minutes = sum(row["seconds"] for row in results) / 60
    lines = [
        f"# GPU checks on {gpu}, {content['date']}", "",
        f"Written by `make gpu-check`: {counts[PASSED]} passed, {counts[FAILED]} failed, {counts[NOT_RUN]} not run, "
        f"in {minutes:.0f} min. The JSON beside it holds the same.", "",
    ]  # fmt: skip
    for topic, facts in content["about"].items():
        lines += [f"## {topic.capitalize()}", "", "| | |", "|---|---|"]
        lines += [f"| {_cell(key)} | {_cell(value)} |" for key, value in facts.items()] + [""]
    lines += _section("Failed", [row for row in results if row["outcome"] == FAILED])
    lines += _section("Passed", [row for row in results if row["outcome"] == PASSED])
    return "\n".join([*lines, *_not_run([row for row in results if row["outcome"] == NOT_RUN])])


def _section(title: str, rows: list[Mapping[str, Any]]) -> list[str]:
    lines = [f"## {title}", ""]
    if not rows:
        return [*lines, "Nothing.", ""]
    lines += ["| check | of | wrong | s | measured |" if title == "Failed" else "| check | of | s | measured |"]
    lines += ["|" + "---|" * (5 if title == "Failed" else 4)]
    for row in rows:
        wrong = [_cell("; ".join(row["reasons"]))] if title == "Failed" else []
        measured = "; ".join(f"{key}: {_plain(value)}" for key, value in row["measured"].items() if value not in (None, [], {}))
        lines.append(
            "| " + " | ".join([row["check"], _cell(row["subject"]), *wrong, f"{row['seconds']:g}", _cell(measured)]) + " |"
        )
    return [*lines, ""]


def _not_run(rows: list[Mapping[str, Any]]) -> list[str]:
    """Return what was not run, those of one reason together."""
    lines = ["## Not run", ""]
    by_reason: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        by_reason.setdefault(row["reasons"][0], {}).setdefault(row["check"], []).append(row["subject"])
    for reason, checks in by_reason.items():
        lines += [f"{_cell(reason)}:", ""]
        lines += [f"- {check}: {'; '.join(_cell(subject) for subject in subjects)}" for check, subjects in checks.items()] + [""]
    return lines if rows else [*lines, "Nothing.", ""]


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(item)}" for key, item in value.items()) + "}"
    return str(value)


def _cell(value: Any) -> str:
    """Return a value as the cell of a table: one line, not too long, and nothing that Markdown or a browser would act on."""
    text = "-" if value is None else " ".join(_plain(value).split())
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
    return text.replace("|", "\\|").replace("<", "&lt;")
