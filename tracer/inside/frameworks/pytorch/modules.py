"""PyTorch's modules in scripts: ranges around each module, named by its path, and around losses and phases.

Every module is a layer here. One with children is the layer of what it computes itself (the addition of a residual block,
attention written with functions): within a call, the innermost module counts. A tensor made by no module's call belongs to the
module whose code made it.
"""

import functools
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from kernelscope.tracer.inside.frameworks.pytorch.backward import BackwardLayers, compiling
from kernelscope.tracer.inside.frameworks.pytorch.library import Library
from kernelscope.tracer.inside.frameworks.pytorch.objects import modules, only_hands_on, parameters, stored
from kernelscope.tracer.inside.frameworks.pytorch.unseen import unseen
from kernelscope.tracer.inside.frameworks.script import network, numbered
from kernelscope.tracer.inside.profiling import budget
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")  # hold the model as `module`
_SAMPLING = ("__init__", "sample", "rsample", "log_prob", "entropy")  # methods of distributions
_LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")


class Layers(object):
    """The ranges of one pass, from `attach` to `detach`."""

    def __init__(self, library: Library, recorder: Recorder, roots: Sequence[Any], on_gpu: bool, kernels: bool) -> None:
        self.torch = torch = library.torch
        self.recorder = recorder
        self.opaque: Dict[str, str] = {}  # layer -> why its inside is not visible
        self.shared: Dict[str, List[str]] = {}  # layer -> other paths of the same module
        self._roots = roots = _outermost(roots)
        self.title = " + ".join(type(_bare(root)).__name__ for root in roots) or "unknown"
        self.parameters = sum(_elements(torch, root) for root in roots)
        self._library, self._on_gpu, self._kernels = library, on_gpu, kernels
        self._names: Dict[int, str] = {}  # id of a module -> its layer
        self._kept: List[Any] = []  # the modules with these ids, kept alive because a freed id could be reused
        self._types: Dict[str, Tuple[str, int]] = {}  # layer -> (type, parameters)
        self._order: Dict[str, int] = {}  # layer -> rank of its first call
        self._counts: Dict[str, int] = {}  # layer -> calls within the current call of the model
        self._depths = threading.local()  # depth: number of open calls with ranges on a thread
        self._wanted: Optional[Set[int]] = None  # ids of the modules that have ranges, None for all
        self._hooked: Any = None  # which layers' gradients have ranges, None for all
        self._patches = Patches()
        self._calls = Patches()  # of modules
        self._functions = Patches()  # of losses and distributions
        self._optimizing: List[Any] = []
        self._backward = BackwardLayers(recorder, torch)

    def attach(self) -> Dict[str, Any]:
        """Install the ranges; return how layers and phases are found."""
        torch, patches = self.torch, self._patches
        self._original = torch.nn.Module.__call__
        for root in self._roots:
            self._name(root, prefixed=len(self._roots) > 1)
        self._calls.wrap(torch.nn.Module, "__call__", self._calling)
        for name in ("backward", "grad"):
            patches.wrap(torch.autograd, name, self._backward.around)
        self._compiles = self._library.compiles()
        self._attach_functions(None)
        self._attach_optimizers()
        self._library.range_synchronisation(patches, self.recorder, self._on_gpu, self._kernels)
        methods = {
            "layers": "calls of modules, each with its full path; backward by hooks on the tensors between them",
            "phases": "calls of the model, backward, steps and zero_grad of optimizers, batches from loaders and data sets",
        }
        if self.opaque:
            methods["opaque"] = "; ".join("%s: %s" % item for item in sorted(self.opaque.items()))
        if self._compiles:
            methods["functions"] = "no ranges of losses, zero_grad and clipping: torch.compile would compile their callers again"
        if self.shared:
            methods["shared"] = "; ".join("%s is also %s" % (name, ", ".join(also)) for name, also in sorted(self.shared.items()))
        return methods

    def keep(self, kept: Dict[str, Set[str]], phases: bool) -> bool:
        """Keep only ranges around calls of these layers, hooks for these layers' gradients and, if `phases`, ranges of phases.

        Everything else is called as it would be without us.
        """
        calls, gradients = set(kept[budget.FORWARD]), set(kept[budget.BACKWARD])
        named = [module for module in self._kept if self._names.get(id(module)) in calls]
        self._wanted = {id(module) for module in named}
        self._hooked = _Hooked(gradients)
        self._calls.undo()
        self._attach_calls(named)
        self._functions.undo()
        self._attach_functions(calls)
        if not phases:
            self._leave_phases()
        return True

    def _leave_phases(self) -> None:
        self._patches.undo()
        self._library.before_optimizer = self._library.after_optimizer = None

    def _attach_calls(self, modules: Any) -> None:
        """Wrap the calls of these modules' classes only: calls of other classes then take no longer than usual."""
        base = self.torch.nn.Module
        owners = {type(module) for module in modules if isinstance(module, base)}
        if any(owner.__call__ is not base.__call__ for owner in owners):
            owners = {base}  # a class with its own __call__ calls the common one in turn
        for owner in owners:
            self._calls.set(owner, "__call__", functools.wraps(base.__call__)(self._calling(self._original)))

    def _attach_functions(self, layers: Any) -> None:
        """Wrap the losses and distributions that are among these layers; all of them if None."""
        if self._compiles:
            return
        functional = self.torch.nn.functional
        for name in sorted(vars(functional)):
            if (name.endswith("_loss") or name in _LOSSES) and not name.startswith("_") and (layers is None or "loss" in layers):
                self._functions.wrap_code(functional, name, self._losing)
        self._attach_distributions(layers)

    def detach(self) -> None:
        """Remove the ranges and release the script's objects."""
        for patches in (self._functions, self._calls):
            patches.undo()
        self._leave_phases()
        self._kept, self._roots, self._names = [], [], {}

    def described(self) -> Dict[str, Any]:
        """Describe the models and the layers that were called, in the order of their first calls."""
        layers = [(name,) + self._types[name] for name in sorted(self._order, key=self._order.__getitem__)]
        return network(self.title, layers, self.parameters)

    # --- modules ---------------------------------------------------------------------------------------------------------

    def _name(self, root: Any, prefixed: bool) -> None:
        """Name the model and all modules in it; a module with several paths gets the first."""
        bare = _bare(root)
        compiled = stored(bare, "_orig_mod")
        title = type(bare if compiled is None else compiled).__name__
        taken = set(self._names.values())
        number, own = 1, title
        while own in taken:
            number += 1
            own = "%s %d" % (title, number)
        self._names[id(root)] = self._names[id(bare)] = own
        self._kept += [root, bare]
        for path, module in modules(bare):
            path = path.replace("_orig_mod.", "").replace("._orig_mod", "")
            name = own if not path or path == "_orig_mod" else "%s.%s" % (own, path) if prefixed else path
            known = self._names.get(id(module))
            if known is None:
                self._names[id(module)] = name
                self._kept.append(module)
                self._types[name] = (type(module).__name__, _elements(self.torch, module, recurse=False))
            elif known != name:
                self.shared.setdefault(known, []).append(name)
            if type(module).__name__ == "OptimizedModule":
                self.opaque[self._names[id(module)]] = "torch.compile makes one of all layers inside"
            elif isinstance(module, self.torch.jit.ScriptModule):
                self.opaque[self._names[id(module)]] = "TorchScript runs the layers inside without Python"
        self._types[own] = (title, _elements(self.torch, bare, recurse=False))

    def _layer(self, module: Any, outermost: bool) -> Optional[str]:
        """Return the layer of this call; None for a module outside all models, whose work is its caller's or loads data."""
        if outermost:
            if self.recorder.loading():
                return None
            self._counts.clear()
        name = self._names.get(id(module))
        if name is None:
            if not outermost:
                return None
            name = "loss" if "loss" in type(module).__name__.lower() else type(module).__name__
            if next(parameters(module), None) is not None:
                self._name(module, prefixed=True)
                name = self._names[id(module)]
            self._names[id(module)] = name
            self._kept.append(module)
            self._types.setdefault(name, (type(module).__name__, _elements(self.torch, module, recurse=False)))
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if count > 1:
            kind = self._types[name]
            name = numbered(name, count)
            self._types.setdefault(name, (kind[0], 0))
        if name not in self._order:
            self._order[name] = len(self._order)
        return name

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder, backward, depths = self.recorder, self._backward, self._depths
        enabled, wanted, hooked = self.torch.is_grad_enabled, self._wanted, self._hooked
        is_compiling, hands_on = compiling(self.torch), only_hands_on(original)

        def called(module: Any, *arguments: Any, **keywords: Any) -> Any:
            if wanted is not None and id(module) not in wanted:
                if hands_on and module._compiled_call_impl is None:
                    return module._call_impl(*arguments, **keywords)
                return original(module, *arguments, **keywords)
            if is_compiling() or not recorder.layers or not recorder.in_step:
                return original(module, *arguments, **keywords)
            if hands_on and module._compiled_call_impl is None:
                call = module._call_impl
            else:
                call = functools.partial(original, module)
            depth = getattr(depths, "depth", 0)
            layer = self._layer(module, depth == 0)
            if layer is None:
                return call(*arguments, **keywords)
            gradients = enabled() and (hooked is None or hooked[layer])
            around = recorder.innermost_layer() if depth and gradients else None
            depths.depth = depth + 1
            # the layers pass needs no range for the phase: the layer's range has it
            phase = recorder.push("phase", "forward", None, "forward") if depth == 0 and self._kernels else None
            number = recorder.push("layer", layer, layer, "forward")
            try:
                if not gradients:
                    return call(*arguments, **keywords)
                if hooked is not None and around is not None and not hooked[around]:
                    around = None
                backward.enter(arguments, around)
                if keywords:
                    backward.enter(keywords.values(), around)
                output = call(*arguments, **keywords)
                backward.leave(layer, output)
                return output
            finally:
                recorder.close(number)
                if phase is not None:
                    recorder.close(phase)
                depths.depth = depth

        return called

    # --- the rest of a step ----------------------------------------------------------------------------------------------

    def _losing(self, original: Callable[..., Any], layer: Optional[str] = "loss") -> Callable[..., Any]:
        """Wrap a loss function: its calls, by whatever caller, are the layer "loss"; the method's class if layer is None."""
        recorder, backward, enabled = self.recorder, self._backward, self.torch.is_grad_enabled
        is_compiling, hooked = compiling(self.torch), self._hooked

        def called(*arguments: Any, **keywords: Any) -> Any:
            if is_compiling() or not recorder.layers or not recorder.in_step:
                return original(*arguments, **keywords)
            around, name = recorder.innermost_layer(), layer or type(arguments[0]).__name__
            if around == name:
                return original(*arguments, **keywords)
            self._types.setdefault(name, ("function", 0))
            self._order.setdefault(name, len(self._order))
            number = recorder.push("layer", name, name, "forward")
            try:
                if not enabled() or (hooked is not None and not hooked[name]):
                    return original(*arguments, **keywords)
                if hooked is not None and around is not None and not hooked[around]:
                    around = None
                backward.enter(arguments, around)
                output = original(*arguments, **keywords)
                backward.leave(name, output)
                return output
            finally:
                recorder.close(number)

        return called

    def _attach_distributions(self, layers: Any) -> None:
        """Wrap the methods of torch.distributions: its checks, sampling and probabilities belong to its class, as a layer."""
        base = self.torch.distributions.Distribution
        kinds = [kind for kind in vars(self.torch.distributions).values() if isinstance(kind, type) and issubclass(kind, base)]
        if layers is not None:
            wanted = [kind for kind in kinds if kind.__name__ in layers]
            kinds = [kind for kind in kinds if any(issubclass(one, kind) for one in wanted)]  # what they inherit, too
        for kind in kinds:
            for name in _SAMPLING:
                if name in vars(kind):
                    self._functions.wrap_code(kind, name, functools.partial(self._losing, layer=None))

    def _attach_optimizers(self) -> None:
        """Put a range around each step of an optimizer, from before it until after it; the end of our step closes open ones."""
        recorder, opened = self.recorder, self._optimizing
        from torch.optim import optimizer

        def before(arguments: Any, keywords: Any) -> Any:
            opened.append(recorder.push("phase", "optimizer step", None, "optimizer"))
            return self._apart(arguments, keywords)

        def after() -> None:
            if opened:
                recorder.close(opened.pop())

        if hasattr(optimizer, "register_optimizer_step_pre_hook"):
            self._library.before_optimizer, self._library.after_optimizer = before, after
        else:  # before PyTorch 2.0
            around = recorder.around("phase", "optimizer step", "optimizer")
            for kind in optimizer.Optimizer.__subclasses__():
                if "step" in vars(kind):
                    self._patches.wrap(kind, "step", around)
        if self._compiles:
            return
        for owner in (optimizer.Optimizer, self.torch.nn.Module):
            self._patches.wrap_code(owner, "zero_grad", self._ranged("optimizer zero_grad", "optimizer"))
        self._patches.wrap_code(self.torch.nn.utils, "clip_grad_norm_", self._ranged("clip gradients", "other"))

    def _ranged(self, name: str, phase: str) -> Callable[..., Any]:
        """Return a decorator that puts a range of a phase around each call, except while code is compiled or traced."""
        around, is_compiling = self.recorder.around("phase", name, phase), compiling(self.torch)

        def ranged(original: Callable[..., Any]) -> Callable[..., Any]:
            inside = around(original)

            def called(*arguments: Any, **keywords: Any) -> Any:
                if is_compiling():
                    return original(*arguments, **keywords)
                return inside(*arguments, **keywords)

            return called

        return ranged

    def _apart(self, arguments: Any, keywords: Any) -> Optional[Tuple[Tuple[Any, ...], Any]]:
        """Return a step's arguments with its closure in a separate range, as forward and backward are not the optimizer's work.

        Return None if there is no closure.
        """
        if not any(map(callable, arguments)) and not callable(keywords.get("closure")):
            return None  # leaves the arguments as they are
        push, close = self.recorder.push, self.recorder.close

        def ranged(function: Callable[..., Any]) -> Callable[..., Any]:  # kept simple, as it runs anew for each step
            def closure() -> Any:
                number = push("phase", "closure", None, "other")
                try:
                    return function()
                finally:
                    close(number)

            return closure

        named = {name: ranged(value) if callable(value) else value for name, value in keywords.items()}
        return tuple(ranged(value) if callable(value) else value for value in arguments), named


class _Hooked(dict):  # type: ignore[type-arg]
    """Whether a layer's gradients have ranges, looked up by the layer's name with or without the number of a repeated call."""

    def __init__(self, layers: Any) -> None:
        super(_Hooked, self).__init__()
        self._layers = layers

    def __missing__(self, layer: str) -> bool:
        found = self[layer] = budget.call_of(layer) in self._layers
        return found


def _bare(root: Any) -> Any:
    """Return the model inside its wrappers."""
    while True:
        inner = stored(root, "module") if type(root).__name__ in _WRAPPERS else None
        if inner is None:
            return root
        root = inner


def _outermost(roots: Sequence[Any]) -> List[Any]:
    """Return the models that are not part of others: a part that is also called by itself has its path in the whole model."""
    parts = {id(module) for root in roots for _, module in modules(root) if module is not root}
    return [root for root in roots if id(root) not in parts]


def _elements(torch: Any, module: Any, recurse: bool = True) -> int:
    with unseen(torch):
        return sum(torch.Tensor.numel(parameter) for parameter in parameters(module, recurse))
