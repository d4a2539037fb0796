"""A script's own annotations: `annotate` and `mark` as in the nvtx package, and `step` if its steps cannot be detected.

While nothing records, a block costs less than 200 ns: `annotate` looks up a name and the with statement calls two methods, and
all three are then the interpreter's built-in functions. `record` and `listen` replace the two methods by the real ones.
"""

import functools
from threading import get_ident

MYPY = False  # typing is not imported by every process that starts
if MYPY:
    from typing import Any, Callable, Dict, Optional

    from kernelscope.tracer.inside.ranges import Recorder


_NOTHING: "Any" = "".format
_MOST_KNOWN = 1000
_recorder: "Any" = None
_open: "Dict[Any, Any]" = {}  # thread -> [(annotation, number of its range)], innermost last
_stepped: "Any" = None


class Annotation(object):
    """What `annotate` returns, one object per name: creating one for each use would cost more than everything else."""

    __slots__ = ("name",)

    __enter__ = _NOTHING
    __exit__ = _NOTHING

    def __init__(self, name: str) -> None:
        self.name = " ".join(str(name).split())  # a newline would split a line of the records

    def __call__(self, function: "Callable[..., Any]") -> "Any":
        """Decorate a function."""
        return _around(self, function)


class step(object):  # noqa: N801  used like a function, as in nvtx
    """One step of the script's loop: ``with step():``. Leaving it ends the step; optimizers and models then end none."""

    __slots__ = ()

    __enter__ = _NOTHING
    __exit__ = _NOTHING

    def __call__(self, function: "Callable[..., Any]") -> "Any":
        """Decorate the function that is one step."""
        return _around(self, function)


class _Known(dict):  # type: ignore[type-arg]
    """The annotation of each name, created on first use. Keeps _MOST_KNOWN at most, as a program may keep inventing names."""

    __slots__ = ()

    def __missing__(self, name: str) -> "Any":
        made = Annotation(name)
        if len(self) < _MOST_KNOWN:
            self[name] = made
        return made


# annotate(name): a range around a block, or around each call of a function: `with annotate("load"):`, `@annotate("load")`.
# A function around the dict's own lookup would take half as long again, with Python 3.6 more than 200 ns.
annotate = _Known().__getitem__


def mark(name: str) -> None:
    """Mark the present moment with an empty range."""
    if _recorder is not None:
        with annotate(name):
            pass


def record(recorder: "Optional[Recorder]") -> None:
    """Open ranges in this ranges.Recorder from now on; with None, open none."""
    global _recorder, _open
    _recorder, _open = recorder, {}
    made: "Any" = Annotation
    made.__enter__ = _NOTHING if recorder is None else _enter
    made.__exit__ = _NOTHING if recorder is None else _leave


def listen(stepped: "Optional[Callable[[], None]]") -> None:
    """Call this function at the end of each step that the script marks; with None, call nothing."""
    global _stepped
    _stepped = stepped
    step.__exit__ = _NOTHING if stepped is None else _end_step


def _around(context: "Any", function: "Callable[..., Any]") -> "Callable[..., Any]":
    @functools.wraps(function)
    def around(*arguments: "Any", **keywords: "Any") -> "Any":
        with context:
            return function(*arguments, **keywords)

    return around


def _enter(annotation: "Any") -> None:
    number = _recorder.push("annotation", annotation.name)
    _open.setdefault(get_ident(), []).append((annotation, number))


def _leave(annotation: "Any", kind: "Any", error: "Any", trace: "Any") -> None:
    opened = _open.get(get_ident())
    if opened and opened[-1][0] is annotation:  # else it was entered before ranges were recorded
        _recorder.close(opened.pop()[1])


def _end_step(marked: "Callable[[], None]", kind: "Any", error: "Any", trace: "Any") -> None:
    if kind is None:
        _stepped()
