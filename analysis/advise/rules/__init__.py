"""Rules of advice: a module a topic, each with RULES, functions from a Subject to pieces of advice; found by discovery."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from kernelscope.analysis.advise.model import Rule


def rules() -> Iterator[Rule]:
    """Yield all rules, module by module."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        yield from importlib.import_module(f"{__name__}.{module.name}").RULES
