"""Has MXNet's engine run each operator by itself, so that its profiler has a row for each: switched on and off between steps.

By default the engine runs several operators as one row, and how many was decided when a graph was made. So blocks' graphs and
bound executors get a twin for as long as this is on: the same symbol on the same arrays, made to run operator by operator.
What backward passes of imperative code run as one is kept in one number of a singleton, which is set only where it is found
with the value that it must have.
"""

import ctypes
import os
from typing import Any, Dict, List, Optional

from kernelscope.tracer.inside.frameworks.unprinted import Unprinted

REMARKS = rb"graph_executor\.cc:\d+: "  # on stderr, each time that an executor is made
_IMPERATIVE = "_ZN5mxnet10Imperative3GetEv"  # Imperative::Get(), of which the library exports the name
_RECORDED, _BACKWARD_BULK = 8, 24  # offsets of the count of recorded operators and of what backward runs as one, 1.5 to 1.9
_DEFAULT_BULK = 15
_BULKING = ("static_shape", "forward_bulk_size", "backward_bulk_size")
_VARIABLES = ("MXNET_EXEC_BULK_EXEC_TRAIN", "MXNET_EXEC_BULK_EXEC_INFERENCE")


class Imperative(object):
    """What the library's singleton says of imperative code; `known` is False where it is not laid out as expected."""

    def __init__(self, mx: Any) -> None:
        self.known = False
        get = getattr(mx.base._LIB, _IMPERATIVE, None)
        if get is None or not mx.__version__.startswith(("1.8.", "1.9.")):
            return
        get.restype = ctypes.c_void_p
        address = get()
        self._recorded = ctypes.c_uint64.from_address(address + _RECORDED)
        self._bulk = ctypes.c_int.from_address(address + _BACKWARD_BULK)
        self.known = self._bulk.value == _backward_bulk()

    def recorded(self) -> Optional[int]:
        """Return how many operators were recorded for backward passes so far, or None."""
        return self._recorded.value if self.known else None

    def set_backward_bulk(self, size: int) -> Optional[int]:
        """Have backward passes run so many operators as one; return what it was, or None where that is not known."""
        if not self.known:
            return None
        before, self._bulk.value = self._bulk.value, size
        return before


def _backward_bulk() -> int:
    """Return what the environment said when mxnet was imported, by the rules of imperative.h."""
    variable = os.environ.get
    if variable("MXNET_EXEC_BULK_EXEC_TRAIN", "1").lower() in ("0", "false"):
        return 0
    sizes = [variable("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN" + end) for end in ("_BWD", "")]
    return int(next((size for size in sizes if size), _DEFAULT_BULK))


class Separate(object):
    """From `start` to `stop` operators run by themselves."""

    def __init__(self, mx: Any, imperative: Any) -> None:
        self.mx = mx
        self.symbols: Dict[Any, Any] = {}  # id of a graph's twin -> (its block, its symbol)
        self.missing: Any = None  # why some operators still run as one
        self._imperative = imperative
        self._bulk = self._backward = None
        self._blocks: List[Any] = []  # (block, its own graph, the twin)
        self._executors: Dict[Any, Any] = {}  # id -> (executor, its own handle, the twin); kept, so that no handle is freed twice

    def start(self, blocks: Any) -> None:
        """Put twins in the place of the graphs of these blocks."""
        self._bulk = self.mx.engine.set_bulk_size(0)
        self._backward = self._imperative.set_backward_bulk(0)
        if self._backward is None:
            self.missing = "imperative backward passes run several operators as one: this version cannot be told otherwise"
        for block in blocks:
            own = getattr(block, "_cached_op", None)
            if own is None:
                continue
            inside = block._cached_op_args
            indices = [[number for number, (is_data, _) in enumerate(inside) if is_data is wanted] for wanted in (True, False)]
            flags: List[Any] = [("data_indices", indices[0]), ("param_indices", indices[1])]
            flags += [flag for flag in block._flags if flag[0] not in _BULKING]
            flags += [("forward_bulk_size", 0), ("backward_bulk_size", 0)]
            symbol = block._cached_graph[1]
            twin = self.mx.nd.CachedOp(symbol, flags)
            self._blocks.append((block, own, twin))
            self.symbols[id(twin)] = (block, symbol)
            block._cached_op = twin

    def stop(self) -> None:
        """Bring back the graphs, executors and sizes."""
        self.mx.engine.set_bulk_size(self._bulk)
        if self._backward is not None:
            self._imperative.set_backward_bulk(self._backward)
        for block, own, twin in self._blocks:
            if block._cached_op is twin:
                block._cached_op = own
        for executor, own, twin in self._executors.values():
            if executor.handle is twin.handle:
                executor.handle = own  # what it computed last stays its outputs
        self._blocks, self.symbols, self._executors = [], {}, {}

    def executor_called(self, executor: Any) -> None:
        """Before an executor's forward pass: have its twin run instead."""
        if id(executor) not in self._executors:
            twin = self._twin(executor)
            self._executors[id(executor)] = (executor, executor.handle, twin)
            executor.handle = twin.handle

    def _twin(self, executor: Any) -> Any:
        """Bind the executor's symbol to its arrays once more; only the C library sees the variables that say how."""
        for name in _VARIABLES:
            os.putenv(name, "0")
        try:
            with Unprinted(REMARKS):
                return executor._symbol.bind(
                    executor._ctx,
                    args=list(executor.arg_arrays),
                    args_grad={name: grad for name, grad in executor.grad_dict.items() if grad is not None},
                    grad_req=executor._grad_req,
                    aux_states=list(executor.aux_arrays),
                    group2ctx=executor._group2ctx,
                )
        finally:
            for name in _VARIABLES:
                if name in os.environ:
                    os.putenv(name, os.environ[name])
                else:
                    os.unsetenv(name)
