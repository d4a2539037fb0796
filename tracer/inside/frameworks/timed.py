"""Operators timed one by one on our clock: for frameworks that have hooks around operators but no operator trace."""

from typing import Any, Callable, Iterable, List, Optional

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.originals import dumps
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.ranges import Recorder, native_thread_id

OPERATORS_FILE = "operators.jsonl"
_FIELDS = ("start_ns", "end_ns", "name", "layer", "phase", "shapes", "computes")


class Operators(object):
    """The operators that run inside steps on the loop's thread. Operators nest; inner ones inherit layer and phase.

    rows: tuples of the fields in _FIELDS, times in ns. tracing: whether operators are being recorded.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.rows: List[Any] = []
        self.tracing = False
        self._open: List[Any] = []

    def enter(self, name: str, layer: Optional[str] = None, phase: Optional[str] = None, shapes: Optional[str] = None) -> None:
        """Begin an operator. shapes: the shapes of its inputs, as text."""
        if not (self.tracing and self.recorder.in_step):
            self._open.append(None)
            return
        around = self._open[-1] if self._open else None
        if around is not None:
            layer, phase = layer or around[2], phase or around[3]
            around[5] = True
        self._open.append([now_ns(), name, layer, phase, shapes, False])

    def leave(self, computes: Optional[bool] = None) -> None:
        """End the innermost operator. computes: whether its own time is computation; by default, if it called no other one."""
        opened = self._open.pop()
        if opened is not None:
            start, name, layer, phase, shapes, called = opened
            self.rows.append((start, now_ns(), name, layer, phase, shapes, not called if computes is None else computes))

    def timed(
        self,
        function: Callable[..., Any],
        name: str,
        phase: Optional[str] = None,
        shapes: Optional[Callable[..., Any]] = None,
        layer: Optional[str] = None,
    ) -> Callable[..., Any]:
        """Wrap the function to record each call as an operator that computes. shapes: makes their text from the arguments."""

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.enter(name, layer, phase, shapes=shapes(*arguments) if shapes and self.tracing else None)
            try:
                return function(*arguments, **keywords)
            finally:
                self.leave(True)

        return call

    def write(self, folder: str) -> str:
        """Write the operators as JSON Lines to the pass's folder; return the file's name."""
        thread = native_thread_id()
        with open(os.path.join(folder, OPERATORS_FILE), "w") as out:
            for row in self.rows:
                out.write(dumps(dict(zip(_FIELDS, row), thread=thread)) + "\n")
        return OPERATORS_FILE


def shape_text(values: Iterable[Any]) -> str:
    """Return the shapes of arrays as text, such as 64x1x28x28 6x1x5x5; values without a shape are left out."""
    shapes = [getattr(value, "shape", None) for value in values]
    return " ".join("x".join(str(size) for size in shape) or "1" for shape in shapes if shape is not None)
