"""toyframe in scripts: steps end with train_step, or where nothing trains with calls of a Net.

Its Nets run their layers from Python, one after the other: wrappers around the methods of their classes see everything.
"""

from typing import Any, Callable, Dict, List

from kernelscope.tracer.inside.frameworks import timed
from kernelscope.tracer.inside.frameworks.script import Base, elements, network
from kernelscope.tracer.inside.frameworks.workload import versions_of
from kernelscope.tracer.inside.ranges import Recorder

_PHASES = {"__call__": "forward", "backward": "backward", "update": "optimizer"}


class Adapter(Base):
    """See `Base` for the order of calls."""

    framework = "toyframe"
    prints = False  # it is Python alone

    def __init__(self, recording: Any) -> None:
        super(Adapter, self).__init__(recording)
        import toyframe

        self.toyframe = toyframe
        self._operators: Any = None  # of the kernels pass
        self._folder = ""
        self._batch: Any = None
        self._layers: Dict[str, Any] = {}  # name -> type and number of parameters, in the order of calls

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch train_step, and calls of Nets outside of it."""
        self.stepping.wrap(self.toyframe, "train_step", lambda original: self.outermost(original, self._trained))
        self.stepping.wrap(self.toyframe.Net, "__call__", lambda original: self.outermost(original, self._called))

    def _trained(self, net: Any, arguments: Any, output: Any) -> None:
        self.recording.trains = True
        self._batch = len(arguments[0]) if arguments else None
        self.recording.stepped(self, id(net))

    def _called(self, net: Any, arguments: Any, output: Any) -> None:
        if self.recording.trains:
            self.recording.interrupted("the model was evaluated")
        else:
            self._batch = len(arguments[0]) if arguments else None
            self.recording.stepped(self, id(net), training=False)

    def step_end(self, key: Any) -> str:
        """Return where a step ends."""
        return "with train_step" if self.recording.trains else "with a call of a Net"

    # --- layers ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around the phases of Nets and around the methods of all classes of layers that there are by now."""
        self._operators = timed.Operators(recorder) if kernels else None
        for name, phase in _PHASES.items():
            self.ranging.wrap(self.toyframe.Net, name, recorder.around("phase", phase, phase))
        for kind in _derived(self.toyframe.Layer):
            for name, phase in _PHASES.items():
                if name in vars(kind):
                    self.ranging.wrap(kind, name, self._ranged(recorder, phase))
        return dict.fromkeys(("layers", "phases"), "calls of toyframe's layers")

    def _ranged(self, recorder: Recorder, phase: str) -> Callable[..., Any]:
        """Return what puts a range around a method of a layer; in the kernels pass each call is an operator, too."""

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def method(layer: Any, *arguments: Any, **keywords: Any) -> Any:
                operators, kind = self._operators, type(layer).__name__
                if layer.name not in self._layers:
                    self._layers[layer.name] = kind, sum(elements(shape) for shape in layer.shapes())
                number = recorder.push("layer", layer.name, layer.name, phase)
                if operators is not None:
                    operators.enter("%s %s" % (kind.lower(), phase), layer.name, phase)
                try:
                    return original(layer, *arguments, **keywords)
                finally:
                    if operators is not None:
                        operators.leave()
                    recorder.close(number)

            return method

        return around

    def detach(self) -> None:
        """Take the ranges away."""
        super(Adapter, self).detach()
        self._operators = None

    def start_operators(self, folder: str) -> None:
        """Keep operators from now on."""
        self._folder = folder
        self._operators.tracing = True

    def stop_operators(self) -> List[str]:
        """Write the operators."""
        self._operators.tracing = False
        return [self._operators.write(self._folder)]

    # --- facts -----------------------------------------------------------------------------------------------------------

    def versions(self) -> Dict[str, Any]:
        """Return toyframe's version."""
        return versions_of("toyframe")

    def described(self) -> Dict[str, Any]:
        """Return the size of the last batch and the layers that were called."""
        layers = [(name,) + known for name, known in self._layers.items()]
        return {"batch": self._batch, "device": "cpu", "network": network("net", layers) if layers else None}


def _derived(base: Any) -> List[Any]:
    """Return a class and all that are derived from it."""
    return [base] + [one for kind in base.__subclasses__() for one in _derived(kind)]
