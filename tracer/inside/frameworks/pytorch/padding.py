"""The share of padding in a model's input: texts of different lengths are filled up with one number to a common length."""

import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional

from kernelscope.tracer.inside.frameworks.pytorch.objects import is_tensor, modules

_CALLS = 20  # only the first calls are inspected
_LARGEST = 1 << 16  # most positions of a tensor that is inspected
_SHORTEST = 16  # fewest positions of a text
_DISTINCT = 3  # a tensor with at most so many distinct numbers is taken for a mask


class Padding(object):
    """Positions in the first calls: all, those that are padding, and those beyond the longest text of their call.

    Only integer tensors with two axes (texts and positions) are inspected, and only in calls of models with embeddings. Padding
    is the number that is repeated most at the ends of the texts, or at their beginnings, whichever is more.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._left = _CALLS
        self._model: Optional[Callable[[], Any]] = None  # weak reference to the model called last
        self._looks_up = False  # whether it has embeddings
        self._positions = self._padded = self._beyond = 0

    def told(self) -> Optional[Dict[str, int]]:
        """Return the counts: positions, padded, beyond_longest; None if no positions were counted."""
        if not self._positions:
            return None
        return {"positions": self._positions, "padded": self._padded, "beyond_longest": self._beyond}

    def called(self, model: Any, given: Iterable[Any]) -> None:
        """Count the padding in a model's arguments, while calls are still inspected."""
        if not self._left:
            return
        self._left -= 1
        if self._model is None or self._model() is not model:
            self._model = weakref.ref(model)
            self._looks_up = any(issubclass(type(one), self._torch.nn.Embedding) for _, one in modules(model))
        if self._looks_up:
            self._count(one.tolist() for one in given if self._are_texts(one))

    def stop(self) -> None:
        """Inspect no further calls."""
        self._left = 0

    def _are_texts(self, one: Any) -> bool:
        torch = self._torch
        if not is_tensor(torch, type(one)) or one.dtype not in (torch.int64, torch.int32) or one.dim() != 2:
            return False
        if getattr(one, "is_meta", False):  # it has no values
            return False
        capturing = one.is_cuda and torch.cuda.is_current_stream_capturing()
        return _SHORTEST <= one.shape[1] and one.numel() <= _LARGEST and not capturing

    def _count(self, tensors: Iterable[List[List[int]]]) -> None:
        texts = next((one for one in tensors if len(set().union(*one)) > _DISTINCT), None)
        if texts is None:
            return
        runs = max((_runs([text[::-1] for text in texts]), _runs(texts)), key=sum)
        self._positions += sum(map(len, texts))
        self._padded += sum(runs)
        self._beyond += len(texts) * min(runs)


def _runs(texts: List[List[int]]) -> List[int]:
    """Return how often each text repeats the most common filler at its beginning; 0 if it begins with another number."""
    runs = [next((place for place, number in enumerate(text) if number != text[0]), len(text)) for text in texts]
    filled: Dict[int, int] = {}
    for text, run in zip(texts, runs):
        filled[text[0]] = filled.get(text[0], 0) + run
    padding = max(filled, key=lambda number: filled[number])
    return [run if text[0] == padding else 0 for text, run in zip(texts, runs)]
