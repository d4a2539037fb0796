"""Changes to CNTK programs: tracing and checking of nodes, and how parameters are updated."""

from typing import Any, Callable

from kernelscope.tracer.inside.changes.calls import one_node, silent
from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]


def untraced(cntk: Any, patches: Patches, seen: Seen) -> None:
    """Keep tracing and checking of nodes off, whatever the program sets."""

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


def plain_learners(cntk: Any, patches: Patches, seen: Seen) -> None:
    """Update parameters with the library's own plain SGD, whatever learner a trainer gets."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, model: Any, criterion: Any, parameter_learners: Any = None, *arguments: Any, **named: Any) -> None:
            given = parameter_learners if isinstance(parameter_learners, (list, tuple)) else [parameter_learners]
            original(self, model, criterion, [plain(one) for one in given if one is not None], *arguments, **named)

        return init

    def plain(learner: Any) -> Any:
        if not isinstance(learner, cntk.learners.Learner):
            return learner
        seen(type(learner).__name__)
        rate = cntk.learning_parameter_schedule(learner.learning_rate(), minibatch_size=cntk.learners.IGNORE)
        return cntk.sgd(learner.parameters, rate)

    patches.wrap(cntk.Trainer, "__init__", make)


CHANGES = {"one node": one_node, "plain learners": plain_learners, "silent": silent, "untraced": untraced}
