"""The backward passes of layers, found through hooks on the tensors between them.

Autograd processes operations in reverse order of creation. A layer's gradients are therefore computed from the moment when the
gradient of its output is ready until that of its input is. Hooks on these tensors open the layer's range and close the one
before. The gradients of its parameters fall inside. This also works for first layers, whose input has no gradient, and for
in-place operations.

A tensor's dictionary of hooks is set as Tensor.register_hook does, but without its handles: this takes one microsecond instead
of several. Nothing else of a tensor is changed, because everything stored in it is saved with it. Hooks are not saved, and
PyTorch warns about hooks that are not marked as unserializable.
"""

from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, Optional

from kernelscope.tracer.inside.frameworks.pytorch.objects import held, is_tensor
from kernelscope.tracer.inside.frameworks.pytorch.unseen import unseen
from kernelscope.tracer.inside.originals import get_ident
from kernelscope.tracer.inside.ranges import Recorder

MARK = "_kernelscope"  # on a module: its layer
# Key of our hook in the dictionary of a tensor's first version, -2 for its second: torch's own handles count up from 0
_KEY = -1


def ranks_of(torch: Any) -> int:
    """Return the number of processes that share a step."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def compiling(torch: Any) -> Callable[[], bool]:
    """Return a function that tells whether code is being traced or compiled; the compiler itself understands the call."""
    compiles = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
    traced = torch._C._get_tracing_state  # torch.jit.trace records whatever is read from a tensor
    return lambda: bool(compiles() or traced() is not None)


class BackwardLayers(object):
    """Ranges for the backward pass of layers, from hooks on the tensors between them."""

    def __init__(self, recorder: Recorder, torch: Any) -> None:
        self.recorder = recorder
        self.thread: Optional[int] = None  # the thread that called backward, while it runs
        self.shared = ranks_of(torch) > 1
        self._waiting: Optional[int] = None  # number of the range around a wait for other ranks, while it is open
        self._compiling = compiling(torch)
        self._torch, self._tensor = torch, torch.Tensor
        self._plain = (torch.Tensor, torch.nn.Parameter)  # classes whose attributes no other code can intercept
        self._modes = getattr(torch._C, "_len_torch_function_stack", lambda: 0)
        self._queue_callback = torch.autograd.Variable._execution_engine.queue_callback
        self._open: Dict[int, str] = {}  # thread -> layer whose range is open there
        self._openers: Dict[Any, Any] = {}  # layer -> dictionary of hooks
        self._unsaved = getattr(torch.utils.hooks, "unserializable_hook", lambda hook: hook)
        self._closer = OrderedDict([(_KEY, self._unsaved(lambda gradient: self.close()))])

    def enter(self, values: Iterable[Any], around: Optional[str] = None) -> None:
        """Handle the start of a layer on `values`: at a tensor that no layer made, backward leaves this layer.

        around: the layer whose own code calls this one and made such tensors; if None, they belong to no layer.
        """
        self._mark(values, self._closer if around is None else self._hooks_of(around))

    def leave(self, layer: str, output: Any) -> None:
        """Handle a layer's `output`: backward enters the layer there, except through tensors that it only passed on."""
        self._mark((output,), self._hooks_of(layer))

    def _hooks_of(self, layer: str) -> Any:
        hooks = self._openers.get(layer)
        if hooks is None:
            hooks = self._openers[layer] = OrderedDict([(_KEY, self._unsaved(self._opener(layer)))])
        return hooks

    def _mark(self, values: Iterable[Any], hooks: Any) -> None:
        """Set the hooks on tensors that have none yet, including those stored in tuples, lists and dictionaries."""
        watched = self._modes() > 0  # by a mode of the program's own
        for value in values:
            kind = type(value)
            if kind in self._plain and not watched:
                self._mark_tensor(value, hooks)
            elif issubclass(kind, self._tensor):
                if is_tensor(self._torch, kind):
                    with unseen(self._torch):
                        self._mark_tensor(value, hooks)
            else:
                inner = held(value)
                if inner is not None:
                    self._mark(inner, hooks)

    def _mark_tensor(self, tensor: Any, hooks: Any) -> None:
        """Set the hooks; an in-place operation makes a new version, which backward treats as another tensor."""
        if tensor.is_leaf:
            return
        key, present = _KEY - tensor._version, tensor._backward_hooks
        if present is not None:
            if key not in present:
                present[key] = hooks[_KEY]
            return
        tensor._backward_hooks = hooks.copy() if key == _KEY else OrderedDict([(key, hooks[_KEY])])
        tensor.grad_fn._register_hook_dict(tensor)

    def _opener(self, layer: str) -> Callable[..., Any]:
        """Return a hook that closes the open range and opens the layer's; an open range of the same layer goes on."""
        opened_by, push, pop, ident = self._open, self.recorder.push, self.recorder.pop, get_ident

        def hook(gradient: Any) -> None:
            thread = ident()
            opened = opened_by.get(thread)
            if opened == layer:
                return
            if opened is not None:
                pop()
            elif thread != self.thread:
                self._queue_callback(self.close)  # a thread of the engine: no code of ours runs there when backward ends
            elif self.shared:
                self._queue_callback(self._wait)
            opened_by[thread] = layer
            push("layer", layer, layer, "backward")

        return hook

    def around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that runs backward in the range of its phase; one backward may run inside another (checkpointing)."""
        recorder, is_compiling, opened = self.recorder, self._compiling, self._open

        def called(*arguments: Any, **keywords: Any) -> Any:
            if is_compiling():
                return original(*arguments, **keywords)
            number = recorder.push("phase", "backward", None, "backward")
            before, self.thread = self.thread, get_ident()
            layer = opened.pop(self.thread, None)
            try:
                return original(*arguments, **keywords)
            finally:
                self.close()
                if layer is not None:
                    opened[self.thread] = layer
                self.thread = before
                recorder.close(number)

        return called

    def close(self) -> None:
        """Close the range that is open on this thread, if any."""
        if self._open.pop(get_ident(), None) is not None:
            self.recorder.pop()
        if self._waiting is not None:
            self.recorder.close(self._waiting)
            self._waiting = None

    def _wait(self) -> None:
        """Handle the last gradient: all that backward still does is wait until the ranks have exchanged all gradients."""
        self.close()
        self._waiting = self.recorder.push("sync", "other ranks", None, "backward")
