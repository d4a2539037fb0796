"""The environments that frameworks run in: one virtual environment each, in the user's cache directory.

    $KERNELSCOPE_HOME, else $XDG_CACHE_HOME/kernelscope, else ~/.cache/kernelscope
        environments/<framework>-<key>/      the environment; ready when its environment.json is there
        environments/<framework>-<key>.lock  held while it is built or removed
        logs/<framework>-<key>.log           what pip and others printed

The key is a hash of the pinned requirements, the variant and the interpreter's version, so changed pins give a new environment.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelscope.tracer.outside import interpreters, locks, recipes
from kernelscope.tracer.outside.building import (
    MARKER,
    SCHEMA,
    Builder,
    BuildProgress,
    Silent,
    library_variables,
    probe,
    remove_folder,
)
from kernelscope.tracer.outside.errors import ChildError, InputError, UsageError
from kernelscope.tracer.outside.interpreters import Interpreter
from kernelscope.tracer.outside.recipes import FRAMEWORKS, Recipe

__all__ = ["FRAMEWORKS", "Environment", "create", "find", "home", "list_all", "remove", "resolve"]


@dataclass(frozen=True)
class Environment:
    """An interpreter that has a framework.

    `variables` must be added to the child's environment; `variant` is cpu, cuda, or given (the user's own interpreter).
    """

    framework: str
    python: Path
    version: str
    variables: dict[str, str] = field(default_factory=dict)
    variant: str = "cpu"


def home() -> Path:
    """Return the folder for everything that kernelscope stores; raise InputError for one that cannot hold environments."""
    named = os.environ.get("KERNELSCOPE_HOME")
    if named:
        path = Path(named).expanduser().absolute()
    else:
        cache = os.environ.get("XDG_CACHE_HOME", "")
        path = (Path(cache) if os.path.isabs(cache) else Path("~/.cache").expanduser()) / "kernelscope"
    if ":" in str(path):
        raise InputError(f"{path}: a folder with a colon cannot hold environments; set KERNELSCOPE_HOME to another")
    return path


def create(
    framework: str, python: str | None = None, *, variant: str | None = None, progress: BuildProgress | None = None,
    hashed: bool = True,
) -> Environment:  # fmt: skip
    """Return a framework's ready environment; build it if there is none.

    `python`: the interpreter to build it from (default: this machine's best one of an acceptable version). `variant`: cpu or
    cuda (default: by the GPUs that NVML sees). `hashed`: whether files must have the known digests (see building.Builder).
    Raises UsageError for unknown names, ChildError if it cannot be built, InputError if the folder is unusable; nothing
    half-built is left behind.
    """
    progress = progress or Silent()
    refusal = recipes.why_not_here(framework)
    if refusal is not None and variant is None:
        raise ChildError(refusal)
    recipe = recipes.recipe(framework, variant or recipes.wanted_variant(framework)[0])
    if python is None:
        ready = _ready(recipe)
        if ready:
            return _named(framework, ready[0])
    interpreter = _interpreter(recipe, python)
    environments = _folder()
    key = recipe.key(interpreter.version)
    folder, log = environments / key, home() / "logs" / f"{key}.log"

    def waiting() -> None:
        progress.stage(f"another process is building the environment of {framework}: waiting for it")

    with locks.exclusive(_lock_of(folder), waiting) as lock:
        marker = _marker(folder)
        if not isinstance(marker, dict):
            if folder.exists():
                progress.stage(f"removing a half-built environment ({folder})")
                remove_folder(folder)
            Builder(recipe, interpreter, folder, log, lock, progress, hashed).build()
            marker = _marker(folder)
    if not isinstance(marker, dict):
        raise InputError(f"{folder}: {marker}")
    return _named(framework, _environment(folder, marker))


def find(framework: str, variant: str | None = None) -> Environment | None:
    """Return a framework's ready environment: of this variant or, if not given, the machine's, else any; None without one."""
    first = variant or recipes.wanted_variant(framework)[0]
    others = () if variant else recipes.variants(framework)
    for candidate in dict.fromkeys((first, *others)):
        ready = _ready(recipes.recipe(framework, candidate))
        if ready:
            return _named(framework, ready[0])
    return None


def resolve(framework: str, python: str | None = None) -> Environment:
    """Return where to run a framework: the interpreter at `python`, checked to have it, or the ready environment.

    Raises UsageError if the framework or the path is unknown, and ChildError that names the failed import or the command that
    creates the environment.
    """
    recipes.check_known(framework)
    if python is not None:
        return _given(framework, python)
    refusal = recipes.why_not_here(framework)
    if refusal is not None:
        raise ChildError(refusal)
    result = find(framework)
    if result is None:
        raise ChildError(f"{framework} is not set up; run `kernelscope env create {framework}` or give --python PATH")
    return result


def list_all() -> list[dict[str, Any]]:
    """Return a row for each environment, and one with the reason for each framework without one.

    Columns: framework, variant, version, python (path of its interpreter), python_version, ready, reason (None if ready),
    size_bytes, path.
    """
    rows: list[dict[str, Any]] = []
    for framework in FRAMEWORKS:
        folders = _folders(recipes.owner(framework))
        rows += [_row(framework, folder) for folder in folders] or [_missing_row(framework)]
    return rows


def remove(framework: str) -> list[Path]:
    """Remove all environments of a framework; return their folders. Raises ChildError if one is being built."""
    recipes.check_known(framework)
    if recipes.owner(framework) != recipes.full_name(framework):
        raise UsageError(f"{framework} has no environment of its own; remove that of {recipes.owner(framework)}")
    removed = []
    for folder in _folders(framework):
        lock = _lock_of(folder)
        try:
            with locks.exclusive(lock):
                remove_folder(folder)
                (home() / "logs" / f"{folder.name}.log").unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
        except BlockingIOError:
            raise ChildError(f"{folder}: another process is building it; stop that, or wait and try again") from None
        removed.append(folder)
    return removed


def _folder() -> Path:
    """Create and return the folder of the environments."""
    path = home() / "environments"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be created ({error.strerror}); set KERNELSCOPE_HOME to a writable folder") from error
    if not os.access(path, os.W_OK):
        raise InputError(f"{path}: cannot be written; set KERNELSCOPE_HOME to another folder")
    return path


def _folders(framework: str) -> list[Path]:
    path = home() / "environments"
    return sorted(folder for folder in path.glob(f"{framework}-*") if folder.is_dir()) if path.is_dir() else []


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".lock")


def _interpreter(recipe: Recipe, python: str | None) -> Interpreter:
    """Return the interpreter to build from: the given one, or the best of an acceptable version."""
    wanted = " or ".join(recipe.pythons)
    if python is not None:
        result = interpreters.probe(_path_of(python))
        if result is None or result.minor not in recipe.pythons or result.unusable:
            what = "is not a 64-bit CPython 3" if result is None else result.unusable or f"is Python {result.version}"
            raise UsageError(f"--python {python}: {what}; the environment of {recipe.framework} needs Python {wanted}")
        return result
    for minor in recipe.pythons:
        result = interpreters.find(minor)
        if result is not None:
            return result
    raise ChildError(f"{recipe.framework} needs Python {wanted}: {interpreters.why_none(recipe.pythons[0])}")


def _path_of(python: str) -> str:
    """Return the absolute path of an executable file; links are kept, as a virtual environment's interpreter is one."""
    path = os.path.abspath(os.path.expanduser(python)) if os.sep in python else shutil.which(python)
    if path is None or not os.path.exists(path):
        raise UsageError(f"--python {python}: there is no such file")
    if os.path.isdir(path):
        raise UsageError(f"--python {python}: is a folder; give the interpreter in it, such as {python.rstrip('/')}/bin/python")
    if not os.access(path, os.X_OK):
        raise UsageError(f"--python {python}: cannot be run")
    return path


def _given(framework: str, python: str) -> Environment:
    recipe = recipes.recipe(framework, recipes.variants(framework)[0])
    path = Path(_path_of(python))
    variables = _borrowed_variables(recipe)
    result = probe(path, recipe.imports, {**variables, **recipe.variables})
    if result.version is None:
        raise ChildError(f"--python {python}: {result.failure}; create an environment with `kernelscope env create {framework}`")
    return Environment(recipes.full_name(framework), path, result.version, variables, "given")


def _named(framework: str, result: Environment) -> Environment:
    """Return the environment as that of a framework that shares it with another one."""
    marker = _marker(result.python.parent.parent)
    version = _version(framework, marker) if isinstance(marker, dict) else result.version
    return replace(result, framework=recipes.full_name(framework), version=version)


def _version(framework: str, marker: dict[str, Any]) -> str:
    """Return a framework's version: that of the package that determines it, else of the imported module."""
    package = recipes.VERSION_OF.get(recipes.full_name(framework))
    return str(marker["packages"].get(package) or marker["version"])


def _borrowed_variables(recipe: Recipe) -> dict[str, str]:
    """Return what the user's own interpreter may need from our environment: CNTK's MPI, unless they set a path to theirs."""
    if "openmpi" not in recipe.needs or "mpi" in os.environ.get("LD_LIBRARY_PATH", ""):
        return {}
    ready = find(recipe.framework)
    return dict(ready.variables) if ready else {}


def _ready(recipe: Recipe) -> list[Environment]:
    """Return the ready environments made from this recipe, those of preferred interpreters first."""
    result = []
    for folder in _folders(recipe.framework):
        marker = _marker(folder)
        if isinstance(marker, dict) and marker["requirements_sha256"] == recipe.digest:
            minor = marker["python"].rpartition(".")[0]
            rank = recipe.pythons.index(minor) if minor in recipe.pythons else len(recipe.pythons)
            result.append((rank, folder.name, _environment(folder, marker)))
    return [environment for _, _, environment in sorted(result, key=lambda item: item[:2])]


def _marker(folder: Path) -> dict[str, Any] | str:
    """Return the facts of a finished environment, or why it is not ready."""
    try:
        content = json.loads((folder / MARKER).read_text(encoding="utf8"))
    except FileNotFoundError:
        if locks.is_locked(_lock_of(folder)):
            return "another process is building it"
        return "half-built: `kernelscope env create` rebuilds it"
    except (OSError, ValueError) as error:
        return f"its {MARKER} cannot be read ({error})"
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        return f"its {MARKER} is of another version of kernelscope"
    if not os.access(folder / "bin" / "python", os.X_OK):
        return f"the interpreter it was made from is gone ({content.get('interpreter')})"
    return content


def _environment(folder: Path, marker: dict[str, Any]) -> Environment:
    variables = library_variables(marker["library_folders"])
    return Environment(marker["framework"], folder / "bin" / "python", marker["version"], variables, marker["variant"])


def _row(framework: str, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        ("framework", "variant", "version", "python", "python_version", "ready", "reason", "size_bytes")
    )
    marker = _marker(folder)
    row.update(framework=framework, ready=False, path=str(folder))
    if not isinstance(marker, dict):
        row["reason"] = marker
        return row
    row.update(
        variant=marker["variant"], version=_version(framework, marker), python=str(folder / "bin" / "python"),
        python_version=marker["python"], size_bytes=marker["size_bytes"],
    )  # fmt: skip
    if marker["requirements_sha256"] in _digests(framework):
        row["ready"] = True
    else:
        row["reason"] = f"made from other pinned requirements: run `kernelscope env create {framework}` for the current ones"
    return row


def _digests(framework: str) -> Iterator[str]:
    return (recipes.recipe(framework, variant).digest for variant in recipes.variants(framework))


def _missing_row(framework: str) -> dict[str, Any]:
    variant = recipes.wanted_variant(framework)[0]
    try:
        _interpreter(recipes.recipe(framework, variant), None)
        reason = recipes.why_not_here(framework) or f"not created: run `kernelscope env create {framework}`"
    except ChildError as error:
        reason = str(error)
    return {
        "framework": framework, "variant": variant, "version": None, "python": None, "python_version": None,
        "ready": False, "reason": reason, "size_bytes": None, "path": None,
    }  # fmt: skip
