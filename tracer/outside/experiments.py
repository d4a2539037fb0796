"""Sweeps as files: lists of what to vary, in TOML.

title = "LeNet by batch"        # of the report
experiment = "thesis"           # published numbers that the report shows beside; omit it for other experiments
framework = ["pytorch", "mxnet"]
batch = [1, 64]                 # every axis is a list or one value; omitted ones have the default
steps = 10                      # settings: see cells.Settings

[[group]]                       # optional: separate cells, with what differs from the above
network = ["lenet", "cnn"]

[[exclude]]                     # cells that match all of these are left out
framework = "mxnet"
batch = 1
reason = "takes an hour"
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from kernelscope.tracer.outside import recipes
from kernelscope.tracer.outside.cells import AXES, PASS_NAMES, Axes, Cell, Settings
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.workloads import networks

ALL, DEFAULT = "all", "default"
MOST_CELLS = 10_000
_ALL_THREADS = 0  # until the number of devices that share them is known
_ABOUT = ("title", "experiment", "group", "exclude")
_SETTINGS = tuple(field.name for field in fields(Settings))
_SUFFIX = ".toml"


@dataclass(frozen=True)
class Experiment:
    """A sweep's file. name: the file's, without its suffix. text: its content. cells: in its order, each once."""

    name: str
    title: str
    experiment: str | None
    text: str
    cells: tuple[Cell, ...]


def shipped() -> dict[str, Path]:
    """Return the experiments that come with the project, by name."""
    folder = Path(str(resources.files("kernelscope.workloads"))) / "experiments"
    return {path.stem: path for path in sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stem)}


def load(name: str) -> Experiment:
    """Read a sweep's file, or the shipped one of this name; raise UsageError that names the file, the key and valid values."""
    path = Path(name)
    if not path.is_file():
        known = shipped()
        if name not in known:
            raise UsageError(f"{name}: no such file; name a TOML file or one of {', '.join(known)}")
        path = known[name]
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); name a TOML file") from error
    return parse(text, path.stem, str(path))


def parse(text: str, name: str, place: str) -> Experiment:
    """Return the sweep that a text describes; place: its name in errors."""
    try:
        content = tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{place}: is nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or a number that is too long
        raise UsageError(f"{place}: not TOML: {error}; fix the line") from error
    _check_keys(content, (*_ABOUT, *AXES, *_SETTINGS), place)
    groups = _tables(content, "group", place) or [{}]
    shared = {key: value for key, value in content.items() if key not in _ABOUT}
    cells: dict[str, Cell] = {}
    for number, group in enumerate(groups, 1):
        where = f"{place}: [[group]] {number}" if "group" in content else place
        _check_keys(group, (*AXES, *_SETTINGS), where)
        _add(cells, {**shared, **group}, where)
    excludes = [_exclude(table, f"{place}: [[exclude]] {n}") for n, table in enumerate(_tables(content, "exclude", place), 1)]
    result = tuple(_excluded(cell, excludes) for cell in cells.values())
    title, experiment = (_text(content, key, place) for key in ("title", "experiment"))
    return Experiment(name, title or name, experiment, text, result)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}; known: {', '.join(known)}")


def _tables(content: Mapping[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    result = content.get(key, [])
    if not isinstance(result, list) or not all(isinstance(table, dict) for table in result):
        raise UsageError(f"{place}: key {key!r}: write it as tables, [[{key}]]")
    return result


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{where}: key {key!r}: {value!r} is not a text; put it into quotes")
    return value


def _add(cells: dict[str, Cell], table: Mapping[str, Any], where: str) -> None:
    """Add a group's cells; a cell in several groups must have the same settings in all."""
    settings = Settings(**{key: _value(key, table[key], where) for key in _SETTINGS if key in table})
    columns = [_axis(key, table, where) for key in AXES]
    for values in itertools.product(*columns):
        cell = Cell(_with_threads(Axes(*values)), settings)
        if cells.setdefault(cell.key, cell) != cell:
            raise UsageError(f"{where}: cell {cell.key} is in an earlier group with other settings; remove it from one")
        if len(cells) > MOST_CELLS:
            raise UsageError(f"{where}: more than {MOST_CELLS:,} cells; shorten the lists")


def _with_threads(axes: Axes) -> Axes:
    """Return the axes with the number of threads per device, if the file says "all"."""
    if axes.threads != _ALL_THREADS:
        return axes
    return replace(axes, threads=max(1, len(os.sched_getaffinity(0)) // axes.devices))


_DEFAULTS: Mapping[str, Any] = {
    "mode": "train", "batch": 64, "threads": ALL, "device": "cpu", "devices": 1, "precision": DEFAULT, "layout": DEFAULT,
    "autotune": DEFAULT,
}  # fmt: skip


def _axis(key: str, table: Mapping[str, Any], where: str) -> list[Any]:
    """Return the values of one axis, each once."""
    if key not in table and key not in _DEFAULTS:
        raise UsageError(f"{where}: key {key!r} is missing; add {key} = [...]")
    given = table.get(key, _DEFAULTS.get(key))
    values = given if isinstance(given, list) else [given]
    if not values:
        raise UsageError(f"{where}: key {key!r}: an empty list makes no cells; name at least one value")
    return list(dict.fromkeys(_value(key, value, where) for value in values))


def _value(key: str, value: Any, where: str) -> Any:
    """Return an axis's value as cells have it; raise UsageError for an invalid one."""
    try:
        return _MEANINGS[key](value)
    except ValueError as error:
        raise UsageError(f"{where}: key {key!r}: {value!r} is not valid; {error}") from None


def _framework(value: Any) -> str:
    known = (*recipes.FRAMEWORKS, *recipes.ALIASES)
    return recipes.full_name(_one_of(value, known))


def _network(value: Any) -> str:
    return _one_of(value, tuple(networks.NETWORKS))


def _one_of(value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"known: {', '.join(known)}")
    return value


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def whole(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"name a whole number between {low} and {high}")
        return value

    return whole


def _threads(value: Any) -> int:
    return _ALL_THREADS if value == ALL else _whole(1, 4096)(value)


def _or_default(*known: str) -> Callable[[Any], str | None]:
    def choice(value: Any) -> str | None:
        return None if value == DEFAULT else _one_of(value, (*known, DEFAULT))

    return choice


def _autotune(value: Any) -> bool | None:
    if value == DEFAULT:
        return None
    if not isinstance(value, bool):
        raise ValueError(f"name true, false or {DEFAULT!r}")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ValueError("name a positive number")
    return float(value)


def _passes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or "clean" not in value:
        raise ValueError('name a list that has "clean", such as ["clean", "kernels"]')
    return tuple(_one_of(name, PASS_NAMES) for name in value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("name true or false")
    return value


_MEANINGS: Mapping[str, Callable[[Any], Any]] = {
    "framework": _framework,
    "network": _network,
    "mode": lambda value: _one_of(value, ("train", "infer")),
    "batch": _whole(1, 1 << 20),
    "threads": _threads,
    "device": lambda value: _one_of(value, ("cpu", "cuda")),
    "devices": _whole(1, 1024),
    "precision": _or_default("float32", "float16", "bfloat16"),
    "layout": _or_default("channels_first", "channels_last"),
    "autotune": _autotune,
    "steps": _whole(1, 1 << 20),
    "warmup": _whole(0, 1 << 20),
    "warmup_seconds": _seconds,
    "repeats": _whole(1, 1000),
    "passes": _passes,
    "memory_gib": _seconds,
    "timeout": _seconds,
    "seed": _whole(0, (1 << 31) - 1),
    "steady": _truth,
}


@dataclass(frozen=True)
class _Exclude:
    """Values that a cell must have, by axis, and why it is then left out."""

    values: dict[str, list[Any]]
    reason: str

    def fits(self, cell: Cell) -> bool:
        """Return whether the cell has one of the given values on each axis: replacing its value by that changes nothing."""
        axes = cell.axes
        return all(
            any(_with_threads(replace(axes, **{key: value})) == axes for value in values) for key, values in self.values.items()
        )


def _exclude(table: Mapping[str, Any], where: str) -> _Exclude:
    _check_keys(table, (*AXES, "reason"), where)
    values = {key: _axis(key, table, where) for key in AXES if key in table}
    if not values:
        raise UsageError(f"{where}: would leave out every cell; name what to leave out, such as framework = [...]")
    return _Exclude(values, _text(table, "reason", where) or "left out by the sweep's file")


def _excluded(cell: Cell, excludes: list[_Exclude]) -> Cell:
    batch, devices = cell.axes.batch, cell.axes.devices
    if batch % devices:
        return replace(cell, excluded=f"a batch of {batch} cannot be divided among {devices} devices")
    return next((replace(cell, excluded=exclude.reason) for exclude in excludes if exclude.fits(cell)), cell)
