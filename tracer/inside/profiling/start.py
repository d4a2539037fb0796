"""The first code of ours that runs in a profiled interpreter. It imports little: every child process pays for it.

`kernelscope.tracer` is made importable from the staged copy without being on sys.path, so that the script's own packages,
whatever their names, and its sys.path are as they would be without us.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

MYPY = False  # spares every process the import of typing
if MYPY:
    from typing import Any, Optional

VARIABLE = "KERNELSCOPE_PROFILE"  # the path of the specification, see recording
PACKAGE = "kernelscope"


class Staged(object):
    """Finds kernelscope.tracer in the staged copy, and the package around it if the script's environment has none."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._asking = False

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Optional[ModuleSpec]":
        """Return the spec of our modules, None for others."""
        if name == PACKAGE + ".tracer":
            return self._tracer(path)
        if name != PACKAGE or self._asking or PathFinder.find_spec(name) is not None:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [os.path.join(self.root, PACKAGE)]
        return spec

    def _tracer(self, path: "Any") -> ModuleSpec:
        """Return the spec of our copy; the rest of an installed kernelscope's tracer is found behind it."""
        folder = os.path.join(self.root, PACKAGE, "tracer")
        file = os.path.join(folder, "__init__.py")
        spec = ModuleSpec(PACKAGE + ".tracer", SourceFileLoader(PACKAGE + ".tracer", file), origin=file, is_package=True)
        others = [os.path.join(entry, "tracer") for entry in path or ()]
        spec.submodule_search_locations = [folder] + [other for other in others if other != folder]
        spec.has_location = True
        return spec


def main() -> None:
    """Watch this interpreter's imports for frameworks."""
    root = __file__
    for _ in range(5):  # kernelscope/tracer/inside/profiling/start.py
        root = os.path.dirname(root)
    sys.meta_path.insert(0, Staged(root))
    from kernelscope.tracer.inside import own
    from kernelscope.tracer.inside.frameworks import SCRIPTS
    from kernelscope.tracer.inside.profiling import imports

    spec = os.environ[VARIABLE]
    with open(spec + ".seen", "a") as out:
        out.write("%d %d.%d\n" % ((os.getpid(),) + sys.version_info[:2]))

    def imported(name: str) -> None:
        try:
            from kernelscope.tracer.inside import temporary  # imported late: no framework, no cost
            from kernelscope.tracer.inside.profiling import recording

            temporary.keep(root)  # still needed if the command that staged our code is killed
            recording.of(spec).imported(name)
        except Exception as error:  # for example, the run folder was removed meanwhile: the script goes on all the same
            told(error)

    def told(error: "Exception") -> None:
        try:
            with own.open(spec + ".failed", "a") as out:
                out.write("%s: %s\n" % (type(error).__name__, error))
        except Exception:  # noqa: S110  there is nowhere to say it
            pass

    imports.watch(SCRIPTS, imported)
