"""Functions that TensorFlow retraces while steps are recorded, and why: how their argument types differ from earlier ones.

`tf.function` builds a graph for each combination of argument types: a tensor's shape and element type, any other argument's
value. Tracing calls the Python function; the same call then optimizes the graph and runs it for the first time.
"""

import sys
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks import compilations
from kernelscope.tracer.inside.profiling.patches import Patches

_MODULE = "tensorflow.python.eager.polymorphic_function.tracing_compilation"
_TRACES = "_create_concrete_function"  # builds a graph in TensorFlow 2.13 and later
_LONGEST = 60  # characters shown of a type


class Tracings(compilations.Compilations):
    """The tracing so far. count: graphs made; ns: the time of the outermost calls that made any."""

    def __init__(self, tf: Any) -> None:
        super(Tracings, self).__init__(None)
        self._eager = tf.executing_eagerly
        self._types: Dict[Any, Any] = {}  # (name, code) of a function -> [(number of the function object, its parameters' types)]

    def watch(self, patches: Patches) -> bool:
        """Watch graphs being built; return False if this TensorFlow builds them elsewhere."""
        module = sys.modules.get(_MODULE)
        if not hasattr(module, _TRACES):
            return False
        patches.wrap(module, _TRACES, self._tracing)
        return True

    def _tracing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def traced(function_type: Any, context: Any, graph: Any, options: Any, *arguments: Any, **keywords: Any) -> Any:
            if self._eager():  # otherwise this is part of tracing another function
                self.count += 1
                try:
                    self._note(options.python_function, options.name, function_type)
                except Exception:
                    self._add(str(options.name), compilations.UNKNOWN)
            return original(function_type, context, graph, options, *arguments, **keywords)

        return traced

    def timed(self, before: Optional[int], begun: int) -> None:
        """Add the time of an outermost call if it made graphs. before: the count when it began; begun: its start in ns."""
        if self.count != before:
            self.ns += now_ns() - begun

    def _note(self, function: Callable[..., Any], name: str, function_type: Any) -> None:
        inner = getattr(function, "__wrapped__", function)
        name = str(getattr(inner, "__name__", name))
        types = {label: str(one.type_constraint) for label, one in function_type.parameters.items()}
        seen = self._types.setdefault((name, compilations.code_of(inner)), [])
        self._add(name, *_why(seen, id(inner), types))
        seen.append((id(inner), types))
        del seen[: -compilations.MOST_SEEN]


def _why(seen: Sequence[Tuple[int, Dict[str, str]]], number: int, types: Dict[str, str]) -> Tuple[Tuple[str, str], Optional[str]]:
    """Return why a graph was made, and an example or None."""
    if not seen:
        return compilations.FIRST, None
    if all(other != number for other, _ in seen):
        return compilations.NEW, None
    before = seen[-1][1]
    changed = [label for label in types if label in before and before[label] != types[label]]
    if not changed:
        return compilations.UNKNOWN, None
    old, new = before[changed[0]], types[changed[0]]
    kind = "shape" if old.startswith("TensorSpec") and new.startswith("TensorSpec") else "static value"
    return (kind, "the %s of %s changes" % (kind, changed[0])), "%s after %s" % (new[:_LONGEST], old[:_LONGEST])
