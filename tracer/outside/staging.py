"""A folder with what the child imports: code for Python 3.6 cannot be installed there by pip, so it is copied beside it."""

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
    """Copy the code for the child below `folder` and return what to put on its PYTHONPATH."""
    package = folder / "kernelscope"
    for name in ("tracer.inside", "workloads"):
        source = package_folder(f"kernelscope.{name}")
        shutil.copytree(source, package.joinpath(*name.split(".")), ignore=_IGNORED)
    shutil.copy(package_folder("kernelscope.tracer") / "__init__.py", package / "tracer" / "__init__.py")
    return folder
