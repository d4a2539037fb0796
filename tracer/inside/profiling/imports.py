"""Calls back when a module has been imported, whoever imports it and however."""

import sys

MYPY = False  # spares every process the import of typing
if MYPY:
    from typing import Any, Callable, Iterable, Set


class Watcher(object):
    """Comes first on sys.meta_path, lets the other finders find a module, and adds a call to the end of its execution."""

    def __init__(self, names: "Iterable[str]", imported: "Callable[[str], None]") -> None:
        self.waiting = set(names)
        self._imported = imported
        self._looking: "Set[str]" = set()

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Return the other finders' result with its loader prepared; None for modules that nobody waits for."""
        if name not in self.waiting or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = self._found(name, path, target)
        finally:
            self._looking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._prepare(spec.loader, name)
        return spec

    @staticmethod
    def _found(name: str, path: "Any", target: "Any") -> "Any":
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None

    def _prepare(self, loader: "Any", name: str) -> None:
        """Override the loader's function with ours, on this instance only and until it is called."""
        execute = loader.exec_module

        def exec_module(module: "Any") -> None:
            vars(loader).pop("exec_module", None)  # another hook may have removed it already
            execute(module)
            self.done(name)

        loader.exec_module = exec_module

    def done(self, name: str) -> None:
        """Call back, once, for a module that has been imported."""
        if name in self.waiting:
            self.waiting.discard(name)
            self._imported(name)
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)


def watch(names: "Iterable[str]", imported: "Callable[[str], None]") -> None:
    """Call imported(name) after each of these modules has been imported, or now if it already has been."""
    watcher = Watcher(names, imported)
    sys.meta_path.insert(0, watcher)
    for name in [name for name in names if name in sys.modules]:
        watcher.done(name)
