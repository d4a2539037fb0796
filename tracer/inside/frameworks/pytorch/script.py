"""PyTorch in scripts: steps end with an optimizer's step or, if no optimizer is created, with backward or calls of a model.

A loop that updates parameters by hand has no optimizer. There a step ends when the outermost module is next called in training
mode after a backward: the step then includes its update, and evaluation ends no step. Without a module, the backward ends it.
"""

import functools
import sys
import weakref
from typing import Any, Callable, ContextManager, Dict, List, Optional, Set, Tuple

from kernelscope.tracer.inside import interrupts
from kernelscope.tracer.inside.frameworks.pytorch import forks
from kernelscope.tracer.inside.frameworks.pytorch.backward import compiling
from kernelscope.tracer.inside.frameworks.pytorch.device_clock import DeviceClock
from kernelscope.tracer.inside.frameworks.pytorch.library import Library
from kernelscope.tracer.inside.frameworks.pytorch.modules import Layers
from kernelscope.tracer.inside.frameworks.pytorch.objects import only_hands_on, parameters
from kernelscope.tracer.inside.frameworks.pytorch.operators import Operators
from kernelscope.tracer.inside.frameworks.pytorch.padding import Padding
from kernelscope.tracer.inside.frameworks.pytorch.samples import SOURCE, Samples
from kernelscope.tracer.inside.frameworks.pytorch.unseen import unseen
from kernelscope.tracer.inside.frameworks.script import Base, Seen
from kernelscope.tracer.inside.originals import get_ident
from kernelscope.tracer.inside.own import os
from kernelscope.tracer.inside.plan import WHOLE
from kernelscope.tracer.inside.profiling import budget, printed, processes
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

# Cost relative to a bare range: of a range around a module, of a range of its gradients, and of the hook that opens the latter.
# The hook is set on a tensor and turns its gradient into a Python object. Measured with policy gradients on CartPole.
FORWARD, BACKWARD, HOOK = 7.0, 2.0, 4.0
_KEY = -1  # of our hooks: PyTorch counts its own from 0, and a program's models are saved with theirs
_WITHOUT_STEP = 40  # calls of backward without an optimizer's step, if torch.compile is used
_CANNOT_PRINT = "this build of PyTorch cannot switch them on"
_BACKWARD = "backward"  # ends steps if no optimizer is created


class Adapter(Base):
    """See `Base` for the order of calls."""

    framework = "pytorch"
    stamps = True

    def __init__(self, recording: Any) -> None:
        super(Adapter, self).__init__(recording)
        import torch

        self.torch = torch
        self.library = Library(torch)
        self.roots = Seen()  # outermost modules that were called
        self.samples = Samples(torch)
        self.padding = Padding(torch)
        self._optimizes = False  # whether an optimizer was created
        self._tells = True  # whether PyTorch has hooks for optimizers' steps
        self._watched: Set[type] = set()  # optimizer classes whose steps are wrapped because it has none
        self._kinds: Any = weakref.WeakSet()  # classes of the optimizers that were created
        self._differentiated = False  # whether a backward ran since the last step ended
        self._trained: Callable[[], Any] = lambda: None  # weak reference to the model whose calls follow a backward
        self._records: Optional[bool] = None  # whether autograd recorded the last call of a model after which a step ended
        self._operators: Any = None  # of the kernels pass
        self._watching = Patches()  # in place once it is known what ends a step, if no optimizer does
        self._hooked: List[Any] = []  # PyTorch's hooks of optimizers, and ours among them
        self._functional = False  # whether gradients are those of functions (torch.func.grad): no backward is called
        self._compiled = False  # whether the optimizer's steps are
        self._waits = 0  # calls of backward since an optimizer's step was last seen
        self._in_hook = self._stopped = False
        self._layers: Any = None  # installed by `attach`
        self._on_gpu = False

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch the creation and steps of optimizers, backward, calls of outermost modules, and switches to evaluation."""
        torch = self.torch
        from torch.optim import optimizer

        self._tells = hasattr(optimizer, "register_optimizer_step_post_hook")  # since PyTorch 2.0
        if self._tells:
            before, after = self._hooks()
            self._hooked = [(optimizer._global_optimizer_pre_hooks, before), (optimizer._global_optimizer_post_hooks, after)]
            for hooks, hook in self._hooked:
                hooks[_KEY] = hook
        self.searching.wrap(torch.nn.Module, "__call__", self._looking)
        self.searching.wrap(torch.autograd, "backward", self._differentiating)
        self.stepping.wrap(optimizer.Optimizer, "__init__", self._making)
        self.stepping.wrap(torch.nn.Module, "eval", self._evaluating)

    def _hooks(self) -> Tuple[Callable[..., Any], Callable[..., Any]]:
        """Return what PyTorch calls before and after each step of an optimizer, in all passes.

        No hook may be added or removed while PyTorch iterates over them: one of the program's own might not be called. A
        compiled step calls neither: the compiler leaves them out, and any other hooks would make it compile the step again.
        """
        is_compiling, library, handle = compiling(self.torch), self.library, self._optimizer_stepped
        running: Dict[int, int] = {}  # thread -> identity of the frame of its outermost call of a step

        def before(_: Any, arguments: Any, keywords: Any) -> Any:
            if is_compiling():
                return None
            frame = sys._getframe(1)
            if not _calls(running.get(get_ident()), frame.f_back):  # else a step calls that of its base class
                running[get_ident()] = id(frame)
                if library.before_optimizer is not None:
                    return library.before_optimizer(arguments, keywords)
            return None

        def after(optimizer: Any, *_: Any) -> None:
            if not is_compiling() and running.get(get_ident()) == id(sys._getframe(1)):
                del running[get_ident()]
                handle(optimizer)

        return before, after

    def _optimizer_stepped(self, optimizer: Any) -> None:
        """Handle the end of an optimizer's step."""
        if self._stopped:
            return
        self._waits, self._optimizes = 0, True
        self._in_hook = True
        try:
            if self.library.after_optimizer is not None:  # the range must be closed before the step ends
                self.library.after_optimizer()
            self.samples.stepped()
            self.recording.stepped(self, id(optimizer))
        finally:
            self._in_hook = False

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def made(optimizer: Any, *arguments: Any, **keywords: Any) -> Any:
            self.recording.trains = self._optimizes = True
            output = original(optimizer, *arguments, **keywords)
            kind = type(optimizer)
            self._kinds.add(kind)
            if not self._tells and kind not in self._watched:
                self._watched.add(kind)
                self.stepping.wrap(kind, "step", self._stepping)
            return output

        return made

    def replaced(self) -> Optional[str]:
        """Return the optimizer class whose step was replaced since PyTorch wrapped it with its hooks; None if there is none."""
        lost = [kind.__name__ for kind in self._kinds if self._tells and not hasattr(getattr(kind, "step", None), "hooked")]
        return lost[0] + ".step" if lost else None

    def _stepping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the step of an optimizer class if PyTorch has no hooks for it."""

        def stepped(optimizer: Any, *arguments: Any, **keywords: Any) -> Any:
            output = original(optimizer, *arguments, **keywords)
            self._optimizer_stepped(optimizer)
            return output

        return stepped

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap backward: without an optimizer, the script itself updates the parameters after it."""

        def differentiated(*arguments: Any, **keywords: Any) -> Any:
            output = original(*arguments, **keywords)
            roots = self.roots.alive()
            self._waits += 1
            if self._waits == _WITHOUT_STEP and self.library.compiles():
                self._optimizes, self._compiled = False, True
            if not self._optimizes and (not roots or any(root.training for root in roots)):
                self.recording.trains = self._differentiated = True
                if not roots:
                    self.recording.stepped(self, _BACKWARD)
            return output

        return differentiated

    def _begins(self, module: Any) -> None:
        """Handle a model's call that follows a backward: in training mode it ends a step."""
        if module.training:
            self._differentiated = False
            self._trained = weakref.ref(module)
            self.samples.stepped()
            self.recording.stepped(self, _BACKWARD)

    def _evaluating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def evaluated(module: Any, *arguments: Any, **keywords: Any) -> Any:
            self.recording.interrupted("a model was switched to evaluation")
            return original(module, *arguments, **keywords)

        return evaluated

    def _looking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call of modules: outermost modules with parameters are models."""
        is_compiling, calls, hands_on = compiling(self.torch), self._calls, only_hands_on(original)
        in_gradient = _in_gradient(self.torch)

        def called(module: Any, *arguments: Any, **keywords: Any) -> Any:
            if is_compiling():
                return original(module, *arguments, **keywords)
            depth = getattr(calls, "depth", 0)
            if depth == 0 and self._differentiated and self._is_model(module):
                self._begins(module)
            calls.depth = depth + 1
            try:
                if hands_on and module._compiled_call_impl is None:
                    output = module._call_impl(*arguments, **keywords)
                else:
                    output = original(module, *arguments, **keywords)
            finally:
                calls.depth = depth
            if depth == 0 and self._is_model(module):
                self._functional = self._functional or in_gradient()
                self._called_model(module, (*arguments, *keywords.values()), output)
            return output

        return called

    def _called_model(self, model: Any, given: Tuple[Any, ...], output: Any) -> None:
        trains = (self.recording.trains or self._functional) and self.recording.spec["mode"] != "infer"
        if model.training or not trains:  # otherwise it is being evaluated
            self._looked_at(model, given, output)
        if not trains or self._functional:
            self.samples.stepped()
        self.recording.stepped(self, id(model), training=self._functional)

    def _looked_at(self, model: Any, given: Tuple[Any, ...], output: Any) -> None:
        """Inspect a model's arguments; some tensors cannot be inspected, such as nested ones and those without values."""
        try:
            with unseen(self.torch):
                self.samples.called(model, given, output)
                self.padding.called(model, given)
        except Exception as error:  # the program must not fail because of this
            if interrupts.raised_by_a_handler(error):
                raise
            self.samples.unknown()
            self.padding.stop()

    def unseen(self) -> ContextManager[None]:
        """Hide what we call in the context from the program's own modes."""
        return unseen(self.torch)

    def _is_model(self, module: Any) -> bool:
        if module in self.roots:
            return True
        if next(parameters(module), None) is None:
            return False
        return self.roots.add(module)

    def found(self, key: Any) -> None:
        """Stop searching; without an optimizer, go on watching backward and the calls of one model's class."""
        super(Adapter, self).found(key)
        self._watching.undo()
        called = self._called(key)
        if called is not None or key == _BACKWARD:
            self._watching.wrap(self.torch.autograd, "backward", self._differentiating)
        root = self._trained() if key == _BACKWARD else called
        if root is not None:
            self._watch_calls(root, key)

    def _called(self, key: Any) -> Any:
        """Return the model that this key stands for, or None."""
        return next((root for root in self.roots.alive() if id(root) == key), None)

    def _watch_calls(self, root: Any, key: Any) -> None:
        owner, known, base = type(root), weakref.ref(root), self.torch.nn.Module
        enabled = self.torch.is_grad_enabled
        own = vars(owner).get("__call__")

        def called(module: Any, *arguments: Any, **keywords: Any) -> Any:
            watched = module is known()
            if watched and self._differentiated:
                self._begins(module)
            output = (own or base.__call__)(module, *arguments, **keywords)
            if watched and key != _BACKWARD:
                self._records = enabled()
                self.recording.stepped(self, key, training=self._functional)
            return output

        if owner is not base:
            self._watching.set(owner, "__call__", functools.wraps(own or base.__call__)(called))

    def step_end(self, key: Any) -> str:
        """Describe where a step ends."""
        if key == _BACKWARD:
            trained = self._trained()
            model = "" if trained is None else "where %s is called in training mode after " % type(trained).__name__
            why = "as the optimizer's step is compiled" if self._compiled else "as no optimizer is made"
            return (model or "with ") + "a backward, " + why
        called = self._called(key)
        return "with an optimizer's step" if called is None else "with a call of %s" % type(called).__name__

    def process_rank(self) -> Optional[int]:
        """Return the rank in the process group, or the index that torch.multiprocessing.spawn gave this process."""
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        process = processes.started_by_multiprocessing()
        spawned = getattr(getattr(process, "_target", None), "__module__", None) == "torch.multiprocessing.spawn"
        return process._args[1] if spawned else None  # _wrap(function, number, ...)

    # --- layers ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around modules, losses, backward and optimizers."""
        self._layers = Layers(self.library, recorder, self.roots.alive(), self.on_gpu(), kernels)
        return self._layers.attach()

    def costs(self, bare_ns: float) -> budget.Costs:
        """Return what ranges cost: one of a module looks up its name and marks tensors, whose hooks then open backward's."""
        return budget.Costs(bare_ns, FORWARD, BACKWARD, HOOK)

    def keep(self, kept: Dict[str, Set[str]], phases: bool) -> bool:
        """Keep only the wrappers of these layers, and those of phases if `phases`."""
        return self._layers.keep(kept, phases)

    def warm_up(self) -> None:
        """Call oneDNN and MKL once: the first line of MKL's verbose mode takes some 0.4 s."""
        torch, own = self.torch, printed.asked_for()
        with torch.no_grad():
            if printed.ONEDNN not in own:
                torch.nn.functional.conv2d(torch.ones(1, 8, 8, 8), torch.ones(8, 8, 3, 3))
            if printed.MKL not in own:
                torch.mm(torch.ones(32, 32), torch.ones(32, 32))

    def interruptible(self) -> bool:
        """Return whether no backward operator is open."""
        return self._operators is None or not self._operators.in_backward()

    def detach(self) -> None:
        """Remove the ranges; what is known of layers stays for `described`."""
        self._layers.detach()

    def start_operators(self, folder: str) -> None:
        """Start torch.profiler."""
        whole = self.recording.spec["mode"] == WHOLE and self.torch.cuda.is_available()  # the program has yet to begin
        self._operators = Operators(self.library, folder, self.on_gpu() or whole, self.giving_way("torch.profiler"))
        self._operators.start()

    def part_operators(self) -> List[str]:
        """Write torch.profiler's trace so far."""
        return self._operators.part()

    def forked(self) -> None:
        """Let this forked process exit if torch.profiler ran in its parent."""
        if self._operators is not None:
            forks.leave_without_destructors()

    def drop_operators(self) -> None:
        """Discard the profiler's trace."""
        if self._operators is not None:
            self._operators.drop()

    def stop_operators(self) -> List[str]:
        """Stop torch.profiler."""
        return self._operators.stop()

    def printing(self, on: bool) -> Dict[str, str]:
        """Switch the printing of oneDNN and MKL on or off, except where the script's environment already makes them print."""
        if on:
            self.library.refuse_a_second_profiler()
        missing, own = {}, printed.asked_for()
        for name, library in (("mkldnn", printed.ONEDNN), ("mkl", printed.MKL)):
            switch = getattr(getattr(self.torch._C, "_verbose", None), name + "_set_verbose", None)
            if switch is None or not getattr(self.torch.backends, name).is_available():
                missing[library] = _CANNOT_PRINT
            elif library not in own and not switch(1 if on else 0):
                missing[library] = _CANNOT_PRINT
        if on and printed.ONEDNN not in missing and printed.ONEDNN not in own:
            self._stamp_lines()
        return missing

    def _stamp_lines(self) -> None:
        """Make oneDNN print one call: on the first it reads from its environment, only once, whether to print times of day."""
        name = printed.STAMPS[0]
        before = os.environ.get(name)
        os.putenv(name, "1")  # for C only: the script's os.environ stays as it is
        try:
            with self.torch.no_grad(), unseen(self.torch):
                self.torch.ones(1, dtype=self.torch.float32, device="cpu").to_mkldnn()
        finally:
            if before is None:
                os.unsetenv(name)
            else:
                os.putenv(name, before)

    @property
    def prints(self) -> bool:  # type: ignore[override]
        """Return whether oneDNN and MKL may compute: on a GPU, the marks between their lines would only cost time."""
        return not self.on_gpu()

    def on_gpu(self) -> bool:
        """Return whether the models that were called are on a GPU; without models, whether the program has used GPU memory.

        Once true, it stays true: at the end of a script its models are gone.
        """
        if not self._on_gpu:
            roots = self.roots.alive()
            on_gpu = (parameter.is_cuda for root in roots for parameter in parameters(root))
            self._on_gpu = any(on_gpu) if roots else self._gpu_memory_used()
        return self._on_gpu

    def _gpu_memory_used(self) -> bool:
        cuda = self.torch.cuda
        if not cuda.is_available() or not getattr(cuda, "is_initialized", lambda: True)():
            return False
        return any(cuda.max_memory_allocated(number) for number in range(cuda.device_count()))

    def settle(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu():
            self.torch.cuda.synchronize()

    def device_clock(self) -> Optional[DeviceClock]:
        """Return the clock of the program's GPU; None on a CPU."""
        return DeviceClock(self.torch) if self.on_gpu() else None

    def stop(self) -> None:
        """Remove everything; if PyTorch is just calling our hook, or compiled steps, the hooks stay and do nothing."""
        self._stopped = True
        if not self._in_hook and not self.library.compiles():
            for hooks, hook in self._hooked:
                if hooks.get(_KEY) is hook:
                    del hooks[_KEY]
            self._hooked = []
        self._watching.undo()
        super(Adapter, self).stop()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def settings(self) -> Dict[str, Any]:
        """Return the current settings."""
        self.library.model = next(iter(self.roots.alive()), None)
        told = {} if self._records is None or self.recording.trains else {"autograd_in_inference": self._records}
        try:
            return {**self.library.settings(), **told}
        finally:
            self.library.model = None

    def described(self) -> Dict[str, Any]:
        """Return the batch, its source and padding, the device and the model's layers."""
        network = None if self._layers is None else self._layers.described()
        device = "cuda" if self.on_gpu() else "cpu"
        samples = {"batch": self.samples.step, "batch_source": SOURCE, "padding": self.padding.told()}
        return {**samples, "device": device, "network": network}


def _calls(known: Optional[int], frame: Any) -> bool:
    """Return whether the frame of this identity is among this one and those that called it."""
    while known is not None and frame is not None:
        if id(frame) == known:
            return True
        frame = frame.f_back
    return False


def _in_gradient(torch: Any) -> Callable[[], bool]:
    """Return a function that tells whether torch.func.grad, or what is built on it, calls what calls it."""
    functorch = getattr(torch._C, "_functorch", None)
    innermost = getattr(functorch, "peek_interpreter_stack", None)
    kind = getattr(getattr(functorch, "TransformType", None), "Grad", None)
    if innermost is None or kind is None:  # before PyTorch 2.0
        return lambda: False

    def in_gradient() -> bool:
        interpreter = innermost()
        return interpreter is not None and bool(interpreter.key() == kind)

    return in_gradient
