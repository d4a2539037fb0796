"""torch.profiler in the kernels pass of a script. Its trace is written in parts to keep memory from growing with the steps.

The profiler keeps a small object for every tensor that an operator took. These objects lie between the large heap blocks that
tensors free after a step, and the holes become too small for the next step's tensors: a residual network's process grew by
130 MB a step, although the profiler held only 1 MB of that. Writing a part frees its objects, and the holes are whole again.

An annotation (record_function) that is open when one profiler stops must not be open when the next one runs: its end would be
written where the first one's records were, and corrupt the heap. PyTorch itself opens one around each optimizer step, in which
our steps end. So open annotations are ended before the profiler stops; their own end then does nothing.
"""

import re
from typing import Any, Callable, List

from kernelscope.tracer.inside.frameworks.pytorch.library import TRACE_FILE, Library
from kernelscope.tracer.inside.frameworks.pytorch.unseen import unseen
from kernelscope.tracer.inside.originals import get_ident
from kernelscope.tracer.inside.profiling import muted
from kernelscope.tracer.inside.profiling.patches import Patches

# Messages of libkineto: a line with the time of day, process and thread when it starts or stops, and an error, relevant only to
# its daemon, if that is not the thread that loaded it
_SAYS = re.compile(rb"[A-Z]+:\d+-\d+-\d+ [\d:]+ \d+:\d+ |ERROR: External init callback must run in same thread as registerClient")
PART_FILE = "operators.%d.pt.trace.json.gz"  # of parts after the first, which is TRACE_FILE


class Operators(object):
    """The profiler of one kernels pass. giving_way: a wrapper for the start of the script's own profiler."""

    def __init__(self, library: Library, folder: str, on_gpu: bool, giving_way: Callable[..., Any]) -> None:
        self._module = library.torch.autograd.profiler
        self._task = getattr(library.torch._C, "_current_graph_task_id", lambda: -1)
        self._library, self._folder, self._on_gpu = library, folder, on_gpu
        self._giving_way = giving_way
        self._patches = Patches()
        self._thread: Any = None
        self._open: List[Any] = []  # open annotations of the loop's thread, outermost first
        self._parts = 0
        self._dropped = False

    def start(self) -> None:
        """Start the profiler, between two steps."""
        self._library.refuse_a_second_profiler(prepared=self._parts == 0)
        self._thread = get_ident()
        with muted.without(_SAYS, self._folder):
            self._library.start_profiler(self._on_gpu)
        # two profilers at once crash: ours ends when the script starts its own
        self._patches.wrap(self._module.profile, "_prepare_trace", self._giving_way)
        self._patches.wrap(self._module.record_function, "__enter__", self._opening)
        self._patches.wrap(self._module.record_function, "__exit__", self._closing)

    def stop(self) -> List[str]:
        """Stop the profiler and write its trace; return the names of the files, [] if it was not started."""
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
        """Return whether backward is running: its operators are open then."""
        return self._task() != -1

    def part(self) -> List[str]:
        """Write the trace so far and start another; return the names of its files, [] if that is not possible here."""
        if self.in_backward():
            return []  # the optimizer steps inside backward, whose operators are open
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
