"""Changes to MXNet programs: whether blocks run as graphs."""

from typing import Any, Callable, List

from kernelscope.tracer.inside.changes.calls import VALUES, around_outermost, one_node, silent
from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]


def hybridized(mxnet: Any, patches: Patches, seen: Seen) -> None:
    """Hybridize blocks when they are first called, and plan their memory once."""
    done = set()

    def outermost(call: Callable[..., Any], block: Any, *arguments: Any, **named: Any) -> Any:
        if id(block) not in done and list(block.collect_params()):
            done.add(id(block))
            block.hybridize(static_alloc=True, static_shape=True)
            seen(type(block).__name__)
        return call(block, *arguments, **named)

    patches.wrap(mxnet.gluon.HybridBlock, "__call__", lambda original: around_outermost(original, outermost))


def values(mxnet: Any, patches: Patches, seen: Seen) -> None:
    """Note the first losses whose gradients are taken."""
    noted: List[int] = []

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(self: Any, *arguments: Any, **named: Any) -> Any:
            if len(noted) < VALUES:
                noted.append(1)
                seen(repr(float(self.abs().mean().asscalar())))
            return original(self, *arguments, **named)

        return backward

    patches.wrap(mxnet.nd.NDArray, "backward", make)


CHANGES = {"one node": one_node, "hybridized": hybridized, "silent": silent, "values": values}
