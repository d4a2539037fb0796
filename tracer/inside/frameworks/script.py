"""What differs between frameworks when a script is profiled that knows nothing of us: one class Adapter each.

Steps. `key` is whatever ends: an optimizer, a trainer, a model that is called. Where several end in turn (two optimizers of one
loop, encoder and decoder), `rounds` chooses the one that ends a round of all, so an adapter tells all of them and chooses none.
A step lasts from one end to the next; everything in between belongs to it. `training` is False for calls that only infer: these
end steps as long as nothing trains. If a framework runs on top of another that has an adapter too (Keras on torch), the one
with the higher `rank` ends the steps and is the run's framework.

Layers have the full path of the model, as the framework's users write it (features.3.conv1). A call that is repeated within one
call of the model is numbered from the second on: "relu (2)". What Python does not see into (torch.compile, tf.function,
hybridised blocks) is one layer with its name and the reason in the methods, unless names recorded by the framework tell more.

An adapter must not change what the script computes, prints or writes, nor keep the script's objects alive once detached. It
raises what it likes: `recording` turns every exception into a reason in the run folder and lets the script go on.
"""

import contextlib
import threading
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterable, List, Optional, Set, Tuple

from kernelscope.tracer.inside.profiling import budget
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

MOST_NUMBERED = 8  # calls of one layer within one call of the model that have rows of their own; later ones share one


class Base(object):
    """An adapter that finds nothing, made when its framework's import has ended. The methods stand in the order of their calls,
    all of them on the thread that imports or steps, and none of them twice at the same time.

    searching: wrappers until it is known what ends a step; stepping: for as long as steps are recorded; ranging: while ranges
    are; profiling: while our profiler runs. library: what tells versions and settings.
    """

    framework = ""  # as in run.json and in the names of analysis.attribution.frameworks
    rank = 0  # of the frameworks that tell steps the one with the highest rank counts
    queues = False  # whether steps end while their work still waits, so that it has to be waited for at each window's end

    compiled: Any = None  # what was compiled so far, with mark() and since(mark) (see compilations); None where that is not told
    stamps = False  # whether oneDNN is told to print the time of each call, and has printed one when `printing` returns
    prints = True  # whether there are libraries that print their calls: catching what they print costs time between steps

    def __init__(self, recording: Any) -> None:
        self.recording = recording
        self.library: Any = None
        self.searching, self.stepping, self.ranging, self.profiling = Patches(), Patches(), Patches(), Patches()
        self._calls = threading.local()  # depth: how many calls are open on a thread

    def watch(self) -> None:
        """Find steps: from now on call recording.stepped(self, key) where a step may have ended."""
        raise NotImplementedError

    def found(self, key: Any) -> None:
        """Warm-up is over: only recording.stepped(self, key) with this key ends steps from here on; others may go on or not."""
        self.searching.undo()

    def step_end(self, key: Any) -> str:
        """Return in some words where a step ends, "with a call of Net", if `key` ends steps; nothing where that is not told."""
        return ""

    def unseen(self) -> ContextManager[None]:
        """Return what keeps that which we call of the framework in between from what watches its calls for the program."""
        return contextlib.suppress(*())  # which does nothing; nullcontext is of Python 3.7

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Layers and kernels passes: put ranges around phases and layers; return how they are found.

        Ranges are opened by recorder.push(category, name, layer, phase), and closed by recorder.close(number), as a step may end
        within them.
        """
        return {"layers": "none", "phases": "none"}

    def costs(self, bare_ns: float) -> budget.Costs:
        """Return the budget.Costs of this adapter's ranges, given what a bare one costs."""
        return budget.Costs(bare_ns)

    def keep(self, kept: Dict[str, Set[str]], phases: bool) -> bool:
        """Layers pass, between two steps: from now on put ranges around these layers only, and phases (see budget.Choice).

        Return False where all stay.
        """
        return False

    def start_operators(self, folder: str) -> None:
        """Kernels pass, after attach: start the framework's own operator trace."""

    def part_operators(self) -> List[str]:
        """Kernels pass, between two steps: write the trace so far and go on with another one; return the names of its files.

        Without any that cannot be done: the pass ends when the trace has grown large.
        """
        return []

    def printing(self, on: bool) -> Dict[str, str]:
        """Let libraries print each of their calls, or stop them; return {library: reason} of those that cannot be told to."""
        return {}

    def replaced(self) -> Optional[str]:
        """Return what told of steps and what the script has since put a function of its own in the place of; None for nothing."""

    def settle(self) -> None:
        """Wait for work that is queued on a device: before a pass and at the end of its last step, inside it."""

    def device_clock(self) -> Any:
        """Return what tells when a device was done with each step: mark() and ends(); None where the host's clock tells it."""
        return None

    def stop_operators(self) -> List[str]:
        """End the operator trace and write it; return the names of its files, operators.* as in a run's folder."""
        return []

    def warm_up(self) -> None:
        """Kernels pass of a whole program, before it goes on: let libraries do what they do with the first call that they report.

        They measure clocks then, say. In other passes that falls into steps that do not count.
        """

    def interruptible(self) -> bool:
        """Return whether the operator trace can be ended here, in the middle of the program."""
        return True

    def drop_operators(self) -> None:
        """Let `stop_operators` write nothing, where what is written takes long: nobody will read it."""

    def detach(self) -> None:
        """Take away what attach put there."""
        self.ranging.undo()

    def stop(self) -> None:
        """Nothing more is recorded: take away everything."""
        self.searching.undo()
        self.stepping.undo()

    def forked(self) -> None:
        """In a forked process: take away what would keep it from doing what it does without us."""

    def process_rank(self) -> Optional[int]:
        """Return this process's number among those that train one model together, from 0; None where nothing says so."""

    def versions(self) -> Dict[str, Any]:
        """Return versions as workload.Hooks.versions does."""
        return {} if self.library is None else self.library.versions()

    def settings(self) -> Dict[str, Any]:
        """Return settings as workload.Hooks.settings does."""
        return {} if self.library is None else self.library.settings()

    def described(self) -> Dict[str, Any]:
        """Return what is known of the model and its use: {"batch", "device", "network"}; null where it is not.

        batch: the samples of a step; with "batch_source" beside it, if they are concluded from something that could be otherwise.

        network: as the function below makes it, with layers as they are named in ranges, in the order of their calls; other keys
        as workloads.networks.as_dict has them.
        """
        return {"batch": None, "device": "cpu", "network": None}

    # --- for the adapters themselves -------------------------------------------------------------------------------------

    def outermost(self, original: Callable[..., Any], ended: Callable[[Any, Any, Any], None]) -> Callable[..., Any]:
        """Return the function, with ended(owner, arguments, output) after each call that is not inside of another's."""
        calls = self._calls

        def called(owner: Any, *arguments: Any, **keywords: Any) -> Any:
            depth = getattr(calls, "depth", 0)
            calls.depth = depth + 1
            try:
                output = original(owner, *arguments, **keywords)
            finally:
                calls.depth = depth
            if depth == 0:
                ended(owner, arguments, output)
            return output

        return called

    def trained(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, whose call tells that from now on only steps that train count."""

        def training(*arguments: Any, **keywords: Any) -> Any:
            self.recording.trains = True
            return original(*arguments, **keywords)

        return training

    def interrupting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, whose call within a loop that trains makes a step unlike others."""

        def evaluated(*arguments: Any, **keywords: Any) -> Any:
            if self.recording.trains:
                self.recording.interrupted("the model was evaluated", begins=True)
            return original(*arguments, **keywords)

        return evaluated

    def giving_way(self, profiler: str) -> Callable[[Any], Any]:
        """Return what wraps the start of the script's own profiler: ours ends, as only one can run."""

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def started(*arguments: Any, **keywords: Any) -> Any:
                self.recording.cut("the script started %s itself, and only one can run" % profiler)
                return original(*arguments, **keywords)

            return started

        return around


class Seen(object):
    """The script's objects of one kind in the order in which they were seen; it keeps none of them alive."""

    def __init__(self) -> None:
        self._known: List[Any] = []

    def add(self, one: Any) -> bool:
        """Remember an object; return whether it was not known."""
        if any(known() is one for known in self._known):
            return False
        self._known.append(weakref.ref(one))
        return True

    def __contains__(self, one: Any) -> bool:
        return any(known() is one for known in self._known)

    def alive(self) -> List[Any]:
        """Return those that are still there."""
        return [one for one in (known() for known in self._known) if one is not None]


def numbered(layer: str, count: int) -> str:
    """Return what the call of this number of a layer is called, within one call of the model."""
    if count == 1:
        return layer
    return "%s (%d)" % (layer, count) if count <= MOST_NUMBERED else "%s (%d and later)" % (layer, MOST_NUMBERED + 1)


def network(title: str, layers: Iterable[Tuple[str, str, Optional[int]]], parameters: Optional[int] = None) -> Dict[str, Any]:
    """Return the description of a model with these (layer, type, parameters); parameters: of the whole, if not their sum."""
    rows: List[Dict[str, Any]] = [{"name": name, "type": kind, "parameters": count} for name, kind, count in layers]
    total = sum(row["parameters"] for row in rows) if parameters is None else parameters
    return {"name": title, "title": title, "parameters": total, "layers": rows}


def elements(shape: Iterable[Any]) -> int:
    """Return how many numbers an array of this shape holds; none where a size is not known yet, -1 or 0."""
    count = 1
    for size in shape:
        count *= max(int(size), 0)
    return count
