"""What can be changed of a program of CNTK: what it checks and prints of each node."""

from typing import Any, Callable

from kernelscope.tracer.inside.changes.calls import one_node, silent
from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]


def untraced(cntk: Any, patches: Patches, seen: Seen) -> None:
    """Keep the tracing and the checking of nodes off, whatever the program says."""

    def kept(name: str, off: Any) -> Callable[..., Callable[[Any], None]]:
        def make(original: Callable[[Any], None]) -> Callable[[Any], None]:
            def set_(value: Any) -> None:
                if value:
                    seen(name)
                original(off)

            return set_

        return make

    for name, off in (("set_computation_network_trace_level", 0), ("set_checked_mode", False)):
        patches.wrap(cntk.debugging, name, kept(name, off))


CHANGES = {"one node": one_node, "silent": silent, "untraced": untraced}
