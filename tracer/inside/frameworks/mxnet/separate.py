"""Makes MXNet's engine run each operator separately, so that its profiler has a row for each. Switched between steps.

By default the engine runs several operators as one row, and a graph's number is fixed when the graph is created. While this is
on, blocks' graphs and bound executors are therefore replaced by twins: the same symbol on the same arrays, created to run
operator by operator. For backward passes of imperative code the number is a field of a singleton in the library; it is written
only if it is found with the expected value.
"""

import ctypes
import os
from typing import Any, Dict, List, Optional

from kernelscope.tracer.inside.frameworks.unprinted import Unprinted

REMARKS = rb"graph_executor\.cc:\d+: "  # printed to stderr whenever an executor is created
_IMPERATIVE = "_ZN5mxnet10Imperative3GetEv"  # Imperative::Get(), whose name the library exports
_RECORDED, _BACKWARD_BULK = 8, 24  # offsets: count of recorded operators, operators that backward runs as one; 1.5 to 1.9
_DEFAULT_BULK = 15
_BULKING = ("static_shape", "forward_bulk_size", "backward_bulk_size")
_VARIABLES = ("MXNET_EXEC_BULK_EXEC_TRAIN", "MXNET_EXEC_BULK_EXEC_INFERENCE")


class Imperative(object):
    """The library's singleton for imperative code. known: False if its memory layout is not the expected one."""

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
        """Return how many operators have been recorded for backward passes; None if unknown."""
        return self._recorded.value if self.known else None

    def set_backward_bulk(self, size: int) -> Optional[int]:
        """Make backward passes run this many operators as one; return the previous number, or None (no change) if unknown."""
        if not self.known:
            return None
        before, self._bulk.value = self._bulk.value, size
        return before


def _backward_bulk() -> int:
    """Return the number that MXNet took from the environment at its import, by the rules of imperative.h."""
    variable = os.environ.get
    if variable("MXNET_EXEC_BULK_EXEC_TRAIN", "1").lower() in ("0", "false"):
        return 0
    sizes = [variable("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN" + end) for end in ("_BWD", "")]
    return int(next((size for size in sizes if size), _DEFAULT_BULK))


class Separate(object):
    """From `start` to `stop`, operators run separately."""

    def __init__(self, mx: Any, imperative: Any) -> None:
        self.mx = mx
        self.symbols: Dict[Any, Any] = {}  # id of a graph's twin -> (its block, its symbol)
        self.missing: Any = None  # why some operators still run as one, or None
        self._imperative = imperative
        self._bulk = self._backward = None
        self._blocks: List[Any] = []  # (block, its own graph, the twin)
        self._executors: Dict[Any, Any] = {}  # id -> (executor, its own handle, the twin); kept: no handle is freed twice

    def start(self, blocks: Any) -> None:
        """Replace the graphs of these blocks by twins."""
        self._bulk = self.mx.engine.set_bulk_size(0)
        self._backward = self._imperative.set_backward_bulk(0)
        if self._backward is None:
            self.missing = "imperative backward passes run several operators as one, which this version cannot switch off"
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
        """Restore the graphs, executors and sizes."""
        self.mx.engine.set_bulk_size(self._bulk)
        if self._backward is not None:
            self._imperative.set_backward_bulk(self._backward)
        for block, own, twin in self._blocks:
            if block._cached_op is twin:
                block._cached_op = own
        for executor, own, twin in self._executors.values():
            if executor.handle is twin.handle:
                executor.handle = own  # its outputs stay the arrays that were computed last
        self._blocks, self.symbols, self._executors = [], {}, {}

    def executor_called(self, executor: Any) -> None:
        """Before an executor's forward pass: make its twin run instead."""
        if id(executor) not in self._executors:
            twin = self._twin(executor)
            self._executors[id(executor)] = (executor, executor.handle, twin)
            executor.handle = twin.handle

    def _twin(self, executor: Any) -> Any:
        """Bind the executor's symbol to its arrays again, without bulking; only the C library sees the changed variables."""
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
