"""Changes that are made to a program from outside, in its own process, so that a remedy is tried before its source is touched.

A module a framework, with CHANGES: {name: function(framework's module, patches, seen)}. The function puts wrappers where the
program will call; `seen(what)` is called for each thing that was changed, so that a change that met nothing is known as such.
Wrappers stay until the process ends.
"""

import importlib

MYPY = False  # typing is not imported by every process that starts
if MYPY:
    from typing import Any, Callable, Sequence

MODULES = {"torch": "pytorch", "tensorflow": "tensorflow", "keras": "keras", "mxnet": "mxnet", "jax": "jax", "cntk": "cntk"}


def apply(imported: str, names: "Sequence[str]", patches: "Any", seen: "Callable[[str, str], None]") -> None:
    """Make those of the named changes that are of the framework whose import has ended.

    names: as "pytorch:channels last". seen: called with the change's name and what was changed.
    """
    family = MODULES.get(imported)
    mine = [name for name in names if name.partition(":")[0] == family]
    if not mine:
        return
    module = importlib.import_module("kernelscope.tracer.inside.changes." + str(family))
    for name in mine:
        module.CHANGES[name.partition(":")[2]](importlib.import_module(imported), patches, _of(name, seen))


def _of(name: str, seen: "Callable[[str, str], None]") -> "Callable[[str], None]":
    def noted(what: str) -> None:
        seen(name, what)

    return noted
