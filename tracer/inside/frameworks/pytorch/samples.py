"""How many samples a step of a script has, where no DataLoader says it: by the first axis of what the model is called with."""

import weakref
from typing import Any, Callable, Iterable, Optional

from kernelscope.tracer.inside.frameworks.pytorch.objects import held, is_tensor, modules, stored

SOURCE = "the first axis of the model's input"


class Samples(object):
    """Samples of steps, counted call by call until it is known what ends a step.

    step: of the step that ended last; None where its calls do not tell. They do where one model is called with a tensor whose
    first axis its output has too, and none of its layers takes the batch in another axis.
    """

    def __init__(self, torch: Any) -> None:
        self.step: Optional[int] = None
        self._torch = torch
        self._counted: Optional[int] = 0  # since a step ended
        self._model: Optional[Callable[[], Any]] = None  # a weak reference to what was called since
        self._known: Optional[Callable[[], Any]] = None  # the same to that of which the next is known
        self._elsewhere = False  # whether a layer of it takes the batch in another axis than the first

    def called(self, model: Any, given: Iterable[Any], output: Any) -> None:
        """Count what a model was called with."""
        first = next((one for one in given if is_tensor(self._torch, type(one))), None)
        another = self._model is not None and self._model() is not model
        self._model = weakref.ref(model)
        if self._known is None or self._known() is not model:
            self._known, self._elsewhere = self._model, _batch_elsewhere(model)
        if another or first is None or first.dim() < 2 or self._elsewhere or not self._has(output, first.shape[0]):
            self._counted = None
        elif self._counted is not None:
            self._counted += int(first.shape[0])

    def unknown(self) -> None:
        """Count no samples of the present step: what the model was called with does not tell."""
        self._counted = None

    def stepped(self) -> None:
        """End a step; nothing where no model was called in it, as between the steps of two optimizers."""
        if self._counted != 0:
            self.step = self._counted
        self._counted, self._model = 0, None

    def _has(self, output: Any, samples: int) -> bool:
        """Return whether a tensor in what a model returns has this many rows."""
        tensors = [one for one in held(output) or (output,) if is_tensor(self._torch, type(one))]
        return any(one.dim() > 0 and one.shape[0] == samples for one in tensors)


def _batch_elsewhere(model: Any) -> bool:
    """Return whether a layer, as a recurrent or attention layer may, takes the sequence in the first axis."""
    return any(stored(layer, "batch_first") is False for _, layer in modules(model))
