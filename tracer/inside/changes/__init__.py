"""Changes to a program, made from outside in its own process, to try a remedy before touching the source.

One module per framework, with CHANGES: {name: function(framework's module, patches, seen)}. The function installs wrappers that
the program will call. `seen(what)` is called for each thing that was changed, so a change that met nothing is recognised.
Wrappers stay until the process ends.
"""

import importlib

MYPY = False  # typing is not imported by every process that starts
if MYPY:
    from typing import Any, Callable, Sequence

MODULES = {"torch": "pytorch", "tensorflow": "tensorflow", "keras": "keras", "mxnet": "mxnet", "jax": "jax", "cntk": "cntk"}


def apply(imported: str, names: "Sequence[str]", patches: "Any", seen: "Callable[[str, str], None]") -> None:
    """Make those of the named changes that belong to this framework, whose import has ended.

    names: such as "pytorch:channels last". seen: called with the change's name and what was changed.
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
