"""Rules of advice. Each module has RULES, functions that turn a Subject into pieces of advice; `rules` discovers them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from kernelscope.analysis.advise.model import Rule


def rules() -> Iterator[Rule]:
    """Yield all rules, module by module."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        yield from importlib.import_module(f"{__name__}.{module.name}").RULES
