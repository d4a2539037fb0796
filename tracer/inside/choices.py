"""Whether a program obeys its options of precision, layout and autotuning: one that it never looks up has no effect."""

from typing import Any, Dict, List, Set

CHOICES = ("precision", "layout", "autotune")  # None is the framework's own default


class Options(dict):  # type: ignore[type-arg]
    """The options of a program, as a dictionary that remembers which keys were looked up."""

    def __init__(self, values: Dict[str, Any]) -> None:
        super(Options, self).__init__(values)
        self.seen: Set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super(Options, self).__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        self.seen.add(key)
        return super(Options, self).get(key, default)

    def ignored(self) -> List[str]:
        """Return the choices that were made but never looked up, as texts such as "layout channels_last"."""
        made = [(name, dict.get(self, name)) for name in CHOICES if name not in self.seen]
        return ["%s %s" % (name, value) for name, value in made if value is not None]
