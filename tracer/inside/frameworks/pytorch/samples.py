"""The number of samples in a script's step if no DataLoader says it: the first axis of the model's input."""

import weakref
from typing import Any, Callable, Iterable, Optional

from kernelscope.tracer.inside.frameworks.pytorch.objects import held, is_tensor, modules, stored

SOURCE = "the first axis of the model's input"


class Samples(object):
    """The samples of each step, counted call by call until it is known what ends a step.

    step: the samples of the last completed step; None if its calls do not tell. They do if a single model is called with a
    tensor whose first axis its output shares, and none of its layers has the batch in another axis.
    """

    def __init__(self, torch: Any) -> None:
        self.step: Optional[int] = None
        self._torch = torch
        self._counted: Optional[int] = 0  # since the last step ended
        self._model: Optional[Callable[[], Any]] = None  # weak reference to the model called since then
        self._known: Optional[Callable[[], Any]] = None  # weak reference to the model that `_elsewhere` is about
        self._elsewhere = False  # whether one of its layers has the batch in another axis than the first

    def called(self, model: Any, given: Iterable[Any], output: Any) -> None:
        """Count the samples of a model's call."""
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
        """Count no samples for the current step: the model's input does not tell."""
        self._counted = None

    def stepped(self) -> None:
        """End a step; keep the last count if no model was called in it, as between the steps of two optimizers."""
        if self._counted != 0:
            self.step = self._counted
        self._counted, self._model = 0, None

    def _has(self, output: Any, samples: int) -> bool:
        """Return whether a tensor in the model's output has this many rows."""
        tensors = [one for one in held(output) or (output,) if is_tensor(self._torch, type(one))]
        return any(one.dim() > 0 and one.shape[0] == samples for one in tensors)


def _batch_elsewhere(model: Any) -> bool:
    """Return whether a layer has the sequence in the first axis, as recurrent and attention layers may."""
    return any(stored(layer, "batch_first") is False for _, layer in modules(model))
