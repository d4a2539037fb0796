"""A folder with the code that the child imports: pip cannot install it under Python 3.6, so it is copied beside the child."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from kernelscope.tracer.outside.errors import InputError

_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", "py.typed", "*.txt", "*.toml", "experiments")


def package_folder(name: str) -> Path:
    """Return the folder of one of our packages, such as kernelscope.workloads."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{name} is not installed; install kernelscope again")
    return Path(next(iter(spec.submodule_search_locations)))


def stage(folder: Path) -> Path:
    """Copy the child's code below `folder` and return its entry for PYTHONPATH; raise InputError if there is no space."""
    package = folder / "kernelscope"
    try:
        for name in ("tracer.inside", "workloads"):
            source = package_folder(f"kernelscope.{name}")
            shutil.copytree(source, package.joinpath(*name.split(".")), ignore=_IGNORED)
        shutil.copy(package_folder("kernelscope.tracer") / "__init__.py", package / "tracer" / "__init__.py")
    except OSError as error:  # for several files, a list of them, each with its reason
        first = str(error.args[0][0][2]) if isinstance(error, shutil.Error) else str(error)
        reason = first.rpartition("] ")[2].partition(":")[0]
        raise InputError(f"{folder}: cannot hold a copy of our code: {reason}; free some space, or set TMPDIR") from error
    return folder
