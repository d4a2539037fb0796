"""What a script may say of itself: `annotate` and `mark` as in the nvtx package, and `step` where a step cannot be found.

Where nothing records, a block costs less than 200 ns: `annotate` looks a name up, and the with statement calls two methods; all
three are then functions of the interpreter's own. `record` and `listen` put the real methods in the place of the latter.
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
    """What `annotate` returns, one object a name: making one for each use would cost more than all the rest."""

    __slots__ = ("name",)

    __enter__ = _NOTHING
    __exit__ = _NOTHING

    def __init__(self, name: str) -> None:
        self.name = " ".join(str(name).split())  # a line's end would end a line of the records

    def __call__(self, function: "Callable[..., Any]") -> "Any":
        """Decorate a function."""
        return _around(self, function)


class step(object):  # noqa: N801  used like a function, as in nvtx
    """One step of the script's loop: ``with step():``. Its end ends a step; where one is said, optimizers and models end none."""

    __slots__ = ()

    __enter__ = _NOTHING
    __exit__ = _NOTHING

    def __call__(self, function: "Callable[..., Any]") -> "Any":
        """Decorate the function that is one step."""
        return _around(self, function)


class _Known(dict):  # type: ignore[type-arg]
    """The annotation of each name, made when it is first asked for; of most of them, should a program make up ever new names."""

    __slots__ = ()

    def __missing__(self, name: str) -> "Any":
        made = Annotation(name)
        if len(self) < _MOST_KNOWN:
            self[name] = made
        return made


# annotate(name): a range around a block, or around each call of a function: `with annotate("load"):`, `@annotate("load")`.
# A function that looks up in a dict would take half as long again as the dict itself, with Python 3.6 more than 200 ns.
annotate = _Known().__getitem__


def mark(name: str) -> None:
    """Say that something happens now: a range of no length."""
    if _recorder is not None:
        with annotate(name):
            pass


def record(recorder: "Optional[Recorder]") -> None:
    """Open ranges in this ranges.Recorder from now on; None for none."""
    global _recorder, _open
    _recorder, _open = recorder, {}
    made: "Any" = Annotation
    made.__enter__ = _NOTHING if recorder is None else _enter
    made.__exit__ = _NOTHING if recorder is None else _leave


def listen(stepped: "Optional[Callable[[], None]]") -> None:
    """Call this function at the end of each step that the script marks; None for none."""
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
