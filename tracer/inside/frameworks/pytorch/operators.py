"""torch.profiler in the kernels pass of a script: its trace is written in parts, so that memory does not grow with the steps.

The profiler keeps a small object for every tensor that an operator took. These lie between the large blocks of the heap that
tensors leave after a step, and the holes are then too small for the next step's tensors: a residual network's process grew by
130 MB a step, of which the profiler held 1 MB. When a part is written its objects go, and the holes are whole again.

An annotation (record_function) that is open when one profiler stops must not be open when the next one runs: its end would be
written where the first one's records were, and destroy the heap. PyTorch itself opens one around each step of an optimizer, in
which our steps end. So open annotations are ended before the profiler stops; their own end then does nothing.
"""

import re
from typing import Any, Callable, List

from kernelscope.tracer.inside.frameworks.pytorch.library import TRACE_FILE, Library
from kernelscope.tracer.inside.frameworks.pytorch.unseen import unseen
from kernelscope.tracer.inside.originals import get_ident
from kernelscope.tracer.inside.profiling import muted
from kernelscope.tracer.inside.profiling.patches import Patches

# What libkineto says when it starts and stops: that it does, with the time of day and its process and thread; and where that is
# another thread than that which loaded it, what matters for its daemon alone
_SAYS = re.compile(rb"[A-Z]+:\d+-\d+-\d+ [\d:]+ \d+:\d+ |ERROR: External init callback must run in same thread as registerClient")
PART_FILE = "operators.%d.pt.trace.json.gz"  # of parts after the first, which is TRACE_FILE


class Operators(object):
    """The profiler of one kernels pass. giving_way: wraps what starts one of the script's own."""

    def __init__(self, library: Library, folder: str, on_gpu: bool, giving_way: Callable[..., Any]) -> None:
        self._module = library.torch.autograd.profiler
        self._task = getattr(library.torch._C, "_current_graph_task_id", lambda: -1)
        self._library, self._folder, self._on_gpu = library, folder, on_gpu
        self._giving_way = giving_way
        self._patches = Patches()
        self._thread: Any = None
        self._open: List[Any] = []  # annotations of the loop's thread, the outermost first
        self._parts = 0
        self._dropped = False

    def start(self) -> None:
        """Start the profiler, between two steps."""
        self._library.refuse_a_second_profiler(prepared=self._parts == 0)
        self._thread = get_ident()
        with muted.without(_SAYS, self._folder):
            self._library.start_profiler(self._on_gpu)
        # two at once crash: when the script starts its own, ours ends
        self._patches.wrap(self._module.profile, "_prepare_trace", self._giving_way)
        self._patches.wrap(self._module.record_function, "__enter__", self._opening)
        self._patches.wrap(self._module.record_function, "__exit__", self._closing)

    def stop(self) -> List[str]:
        """Stop the profiler and write its trace; return the names of the files, none where it was not started."""
        if self._thread is None:
            return []
        self._patches.undo()
        with unseen(self._library.torch):
            while self._open:
                self._open.pop().__exit__(None, None, None)
        self._parts += 1
        name = TRACE_FILE if self._parts == 1 else PART_FILE % self._parts
        with muted.without(_SAYS, self._folder):
            return self._library.stop_profiler(self._folder, None if self._dropped else name)

    def drop(self) -> None:
        """Write nothing when the profiler stops."""
        self._dropped = True

    def in_backward(self) -> bool:
        """Return whether backward is going on, whose operators are open."""
        return self._task() != -1

    def part(self) -> List[str]:
        """Write the trace so far and start another; return the names of its files, none where that cannot be done here."""
        if self.in_backward():
            return []  # an optimizer that steps inside of backward, whose operators are open
        files = self.stop()
        self.start()
        return files

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def opened(annotation: Any) -> Any:
            if get_ident() == self._thread:
                self._open.append(annotation)
            return original(annotation)

        return opened

    def _closing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def closed(annotation: Any, *arguments: Any) -> Any:
            if self._open and self._open[-1] is annotation:
                self._open.pop()
            return original(annotation, *arguments)

        return closed
