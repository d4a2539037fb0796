"""The framework-specific part of profiling an unmodified script: one class Adapter per framework.

Steps: `key` identifies what ends a step: an optimizer, a trainer, a model that is called. If several end in turn (two
optimizers in one loop, encoder and decoder), `rounds` chooses the one that ends a full round, so an adapter reports all of them
and chooses none. A step lasts from one end to the next and includes everything in between. `training` is False for inference
calls, which end steps only as long as nothing trains. If a framework runs on top of another that also has an adapter (Keras on
torch), the adapter with the higher `rank` ends the steps, and its framework is the run's framework.

Layers are named by their full path in the model, as the framework's users write it (features.3.conv1). Repeated calls within
one call of the model are numbered from the second on: "relu (2)". Code that Python cannot see into (torch.compile, tf.function,
hybridized blocks) is one layer, whose name and reason the methods give, unless names recorded by the framework say more.

An adapter must not change what the script computes, prints or writes, and must not keep the script's objects alive once
detached. It may raise anything: `recording` turns every exception into a reason in the run folder and lets the script go on.
"""

import contextlib
import threading
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterable, List, Optional, Set, Tuple

from kernelscope.tracer.inside.profiling import budget
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

MOST_NUMBERED = 8  # calls of a layer within one call of the model that get their own rows; later calls share one


class Base(object):
    """An adapter that finds nothing. It is created when the import of its framework has finished.

    The methods are listed in the order in which they are called. All calls come from the thread that imports or steps, and no
    method is called twice at the same time.

    Wrappers are in place for different times. searching: until it is known what ends a step; stepping: while steps are
    recorded; ranging: while ranges are recorded; profiling: while our profiler runs. library: the source of versions and
    settings.
    """

    framework = ""  # as in run.json and in the names of analysis.attribution.frameworks
    rank = 0  # of the frameworks that report steps, the one with the highest rank counts
    queues = False  # whether a step can end while its work is still queued; if so, the end of a window waits for that work

    compiled: Any = None  # all compilations so far, with mark() and since(mark) (see compilations); None if unknown
    stamps = False  # whether oneDNN is set to print the time of each call, and has printed one by the time `printing` returns
    prints = True  # whether any library prints its calls; catching that output costs time between steps

    def __init__(self, recording: Any) -> None:
        self.recording = recording
        self.library: Any = None
        self.searching, self.stepping, self.ranging, self.profiling = Patches(), Patches(), Patches(), Patches()
        self._calls = threading.local()  # depth: number of open calls on a thread

    def watch(self) -> None:
        """Look for steps: from now on, call recording.stepped(self, key) whenever a step may have ended."""
        raise NotImplementedError

    def found(self, key: Any) -> None:
        """Note the end of warm-up: from now on only recording.stepped(self, key) with this key ends steps.

        Calls with other keys may go on or not.
        """
        self.searching.undo()

    def step_end(self, key: Any) -> str:
        """Describe where a step ends if `key` ends steps, such as "with a call of Net"; empty if unknown."""
        return ""

    def unseen(self) -> ContextManager[None]:
        """Return a context that hides our own calls of the framework from anything that watches the program's calls."""
        return contextlib.suppress(*())  # does nothing; nullcontext is new in Python 3.7

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Layers and kernels passes: put ranges around phases and layers; return how each is found.

        Open a range with recorder.push(category, name, layer, phase) and close it with recorder.close(number), because a step
        may end within it.
        """
        return {"layers": "none", "phases": "none"}

    def costs(self, bare_ns: float) -> budget.Costs:
        """Return the budget.Costs of this adapter's ranges, given the cost of a bare range."""
        return budget.Costs(bare_ns)

    def keep(self, kept: Dict[str, Set[str]], phases: bool) -> bool:
        """Layers pass, between two steps: from now on, put ranges around these layers only, and around phases if `phases`.

        Return False if all ranges stay in place. See budget.Choice.
        """
        return False

    def start_operators(self, folder: str) -> None:
        """Kernels pass, after attach: start the framework's own operator trace."""

    def part_operators(self) -> List[str]:
        """Kernels pass, between two steps: write the trace so far and start another; return the names of the written files.

        An empty list means that the trace cannot be split; the pass then ends when the trace has grown large.
        """
        return []

    def printing(self, on: bool) -> Dict[str, str]:
        """Make libraries print each of their calls, or stop it; return {library: reason} for those that cannot be switched."""
        return {}

    def replaced(self) -> Optional[str]:
        """Return the name of a function that reported steps and that the script has since replaced; None if there is none."""

    def settle(self) -> None:
        """Wait for work queued on a device. Called before a pass, and at the end of its last step, as part of that step."""

    def device_clock(self) -> Any:
        """Return a clock with mark() and ends() that says when the device finished each step; None if the host's clock does."""
        return None

    def stop_operators(self) -> List[str]:
        """Stop the operator trace and write it; return the names of its files, operators.* as in a run's folder."""
        return []

    def warm_up(self) -> None:
        """Kernels pass of a whole program, before it goes on: trigger what libraries do on their first reported call.

        Some libraries measure clocks then, for example. In other passes this happens in steps that do not count.
        """

    def interruptible(self) -> bool:
        """Return whether the operator trace can be stopped here, in the middle of the program."""
        return True

    def drop_operators(self) -> None:
        """Make `stop_operators` write nothing if writing takes long: nobody will read the trace."""

    def detach(self) -> None:
        """Remove what `attach` installed."""
        self.ranging.undo()

    def stop(self) -> None:
        """End the recording: remove everything."""
        self.searching.undo()
        self.stepping.undo()

    def forked(self) -> None:
        """In a forked process: remove anything that would make it behave differently than without us."""

    def process_rank(self) -> Optional[int]:
        """Return this process's rank, from 0, among the processes that train one model together; None if unknown."""

    def versions(self) -> Dict[str, Any]:
        """Return the versions, as workload.Hooks.versions does."""
        return {} if self.library is None else self.library.versions()

    def settings(self) -> Dict[str, Any]:
        """Return the settings, as workload.Hooks.settings does."""
        return {} if self.library is None else self.library.settings()

    def described(self) -> Dict[str, Any]:
        """Describe the model and its use as {"batch", "device", "network"}; values are None if unknown.

        batch: the samples of a step. If the number is inferred and may be wrong, "batch_source" says what it is based on.

        network: as returned by `network` below, with layers named as in ranges and in the order of their calls; any other keys
        are those of workloads.networks.as_dict.
        """
        return {"batch": None, "device": "cpu", "network": None}

    # --- for the adapters themselves -------------------------------------------------------------------------------------

    def outermost(self, original: Callable[..., Any], ended: Callable[[Any, Any, Any], None]) -> Callable[..., Any]:
        """Wrap the function to call ended(owner, arguments, output) after each outermost call."""
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
        """Wrap the function: once it has been called, only training steps count."""

        def training(*arguments: Any, **keywords: Any) -> Any:
            self.recording.trains = True
            return original(*arguments, **keywords)

        return training

    def interrupting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the function: a call of it in a training loop makes that step unlike the others."""

        def evaluated(*arguments: Any, **keywords: Any) -> Any:
            if self.recording.trains:
                self.recording.interrupted("the model was evaluated", begins=True)
            return original(*arguments, **keywords)

        return evaluated

    def giving_way(self, profiler: str) -> Callable[[Any], Any]:
        """Return a wrapper for the start of the script's own profiler, which ends ours, because only one can run."""

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def started(*arguments: Any, **keywords: Any) -> Any:
                self.recording.cut("the script started %s itself, and only one can run" % profiler)
                return original(*arguments, **keywords)

            return started

        return around


class Seen(object):
    """The script's objects of one kind, in the order in which they were first seen. It keeps none of them alive."""

    def __init__(self) -> None:
        self._known: List[Any] = []

    def add(self, one: Any) -> bool:
        """Remember an object; return whether it is new."""
        if any(known() is one for known in self._known):
            return False
        self._known.append(weakref.ref(one))
        return True

    def __contains__(self, one: Any) -> bool:
        return any(known() is one for known in self._known)

    def alive(self) -> List[Any]:
        """Return the objects that are still alive."""
        return [one for one in (known() for known in self._known) if one is not None]


def numbered(layer: str, count: int) -> str:
    """Return the name of a layer's call; count: its number within one call of the model, from 1."""
    if count == 1:
        return layer
    return "%s (%d)" % (layer, count) if count <= MOST_NUMBERED else "%s (%d and later)" % (layer, MOST_NUMBERED + 1)


def network(title: str, layers: Iterable[Tuple[str, str, Optional[int]]], parameters: Optional[int] = None) -> Dict[str, Any]:
    """Describe a model with these (layer, type, parameters). parameters: the model's total, if it is not their sum."""
    rows: List[Dict[str, Any]] = [{"name": name, "type": kind, "parameters": count} for name, kind, count in layers]
    total = sum(row["parameters"] for row in rows) if parameters is None else parameters
    return {"name": title, "title": title, "parameters": total, "layers": rows}


def elements(shape: Iterable[Any]) -> int:
    """Return the number of elements of an array of this shape; 0 if a size is still unknown (-1 or 0)."""
    count = 1
    for size in shape:
        count *= max(int(size), 0)
    return count
