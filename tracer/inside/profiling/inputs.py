"""Ranges of the phase data around the libraries' code that makes batches, whichever framework trains with them.

A JAX script may read its batches with PyTorch's DataLoader or from tf.data. So this is not an adapter's job but a table of all
libraries' iterators and data sets; the calls of those that the script has imported get ranges. Everything that runs within such
a range is input, whatever modules and operators it uses. Work in worker processes is not seen, only the step's wait for them.
"""

import sys
from typing import Any, Callable, Dict, List, Optional

from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

# module -> a class in it, whose subclasses count too if they define the method, and the methods that make a batch
MAKERS = {
    "torch.utils.data.dataloader": ("_BaseDataLoaderIter", ("__next__",)),
    "torch.utils.data.dataset": ("Dataset", ("__getitem__",)),
    "tensorflow.python.data.ops.iterator_ops": ("OwnedIterator", ("__next__", "get_next")),
    "mxnet.io.io": ("DataIter", ("__next__",)),
    "mxnet.gluon.data.dataloader": ("_MultiWorkerIter", ("__next__",)),
    "mxnet.gluon.data.dataset": ("Dataset", ("__getitem__",)),
    "grain._src.python.data_loader": ("DataLoaderIterator", ("__next__",)),
}
_LOADERS = ("torch.utils.data.dataloader", "mxnet.gluon.data.dataloader")
_WORKERS = ("_num_workers", "_worker_pool")  # of PyTorch's iterator: how many; of gluon's: the pool


class Inputs(object):
    """The ranges of one pass. batch: the batch size that a DataLoader gives. workers: whether other workers make its batches."""

    def __init__(self, recorder: Recorder) -> None:
        self.batch: Optional[int] = None
        self.workers = False
        self._recorder = recorder
        self._patches = Patches()

    def attach(self) -> None:
        """Install the ranges."""
        for module, (name, methods) in MAKERS.items():
            make = self._noting if module in _LOADERS else self._ranged
            for owner in _family(getattr(sys.modules.get(module), name, None)):
                for method in methods:
                    if method in vars(owner):
                        self._patches.wrap(owner, method, make)

    def detach(self) -> None:
        """Remove the ranges."""
        self._patches.undo()

    def batch_of_step(self, report: Dict[str, Any]) -> Dict[str, Any]:
        """Return the samples of a step, from an adapter's report or a DataLoader, and what an inferred number is based on.

        A step may use several batches of a DataLoader. An adapter's inference is useless if it is not a multiple of their size.
        """
        step, source = report.get("batch"), report.get("batch_source")
        if self.batch is None:
            return {"batch": step, "batch_source": source if step else None}
        doubtful = not step or (source and step % self.batch)
        return {"batch": self.batch if doubtful else step, "batch_source": None}

    def _ranged(self, original: Callable[..., Any]) -> Callable[..., Any]:
        push, close, loading = self._recorder.push, self._recorder.close, self._recorder.loading

        def made(maker: Any, *arguments: Any, **keywords: Any) -> Any:
            if loading():
                return original(maker, *arguments, **keywords)
            number = push("data", "data", None, "data")
            try:
                return original(maker, *arguments, **keywords)
            finally:
                close(number)

        return made

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Put ranges around a DataLoader's making of batches, and note what its iterator says about them."""
        ranged = self._ranged(original)

        def made(iterator: Any) -> Any:
            self.batch = getattr(getattr(iterator, "_index_sampler", None), "batch_size", None) or self.batch
            self.workers = self.workers or any(getattr(iterator, name, None) for name in _WORKERS)
            return ranged(iterator)

        return made


def _family(owner: Any) -> List[Any]:
    """Return a class and all its subclasses; nothing if there is no such class."""
    found = [] if owner is None else [owner]
    for kind in found:
        found += [one for one in kind.__subclasses__() if one not in found]
    return found
