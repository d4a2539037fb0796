"""PyTorch: steps end with optimizers' steps, or where none is made with backward or calls of a model; every module is a layer.

A loop that updates parameters by hand has no optimizer: there a step ends where the outermost module is next called in training
mode after a backward, so that the step has its update, and evaluation ends none. Without a module it ends with the backward.

All modules are layers here, those with children for what they compute themselves (the addition of a residual block, attention
written with functions): inside of a call the innermost module counts. Backward is found as `hooks.pytorch` does it, where a
tensor that no module made belongs to the module whose code made it.
"""

import functools
import os
import threading
import weakref

from kernelscope.tracer.inside.hooks import pytorch as hooks
from kernelscope.tracer.inside.profiling import budget, processes
from kernelscope.tracer.inside.profiling.adapters import Base
from kernelscope.tracer.inside.profiling.adapters.pytorch_operators import Operators
from kernelscope.tracer.inside.profiling.patches import Patches

MOST_NUMBERED = 8  # calls of one module within one call of the model that have rows of their own; later ones share one
# How many times as much as a bare range one around a module costs, one of its gradients, and the hook that opens that: it is set
# on a tensor, and the gradient becomes an object of Python's for it. Measured of policy gradients on CartPole.
FORWARD, BACKWARD, HOOK = 7.0, 2.0, 4.0
_BACKWARD = "backward"  # ends steps where no optimizer is made
_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")  # hold the model as `module`
_SAMPLING = ("__init__", "sample", "rsample", "log_prob", "entropy")  # methods of distributions
_LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")


class Adapter(Base):
    """See the package's documentation for the order of calls."""

    framework = "pytorch"

    def __init__(self, recording):
        super(Adapter, self).__init__(recording)
        import torch

        self.torch = torch
        self.roots = []  # weak references to the outermost modules that were called, in order
        self._optimizes = False  # whether an optimizer was made
        self._differentiated = False  # whether there was a backward since a step ended
        self._trained = lambda: None  # a weak reference to the model whose calls follow a backward
        self._searching = Patches()  # until it is known what ends a step
        self._operators = None  # of the kernels pass
        self._watching = Patches()  # once it is known, where no optimizer does
        self._stepping = Patches()  # for as long as steps are recorded
        self._handles = []
        self._calls = threading.local()  # depth: how many calls of modules are open on a thread
        self._layers = None  # what attach put there
        self._hooks = hooks.Hooks({"pass": "kernels", "device": "cpu", "folder": None}, None)
        self._hooks.torch = torch

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self):
        """Watch the making and stepping of optimizers, backward, calls of outermost modules, and switches to evaluation."""
        torch = self.torch
        from torch.optim import optimizer

        if hasattr(optimizer, "register_optimizer_step_post_hook"):
            self._handles.append(optimizer.register_optimizer_step_post_hook(self._optimizer_stepped))
        else:
            self.recording.note("unavailable", "steps of optimizers: PyTorch before 2.0 does not tell them")
        self._searching.wrap(torch.nn.Module, "__call__", self._looking)
        self._searching.wrap(torch.autograd, "backward", self._differentiating)
        self._stepping.wrap(optimizer.Optimizer, "__init__", self._making)
        self._stepping.wrap(torch.nn.Module, "eval", self._evaluating)

    def _optimizer_stepped(self, optimizer, arguments, keywords):
        self.recording.stepped(self, id(optimizer))

    def _making(self, original):
        def made(*arguments, **keywords):
            self.recording.trains = self._optimizes = True
            return original(*arguments, **keywords)

        return made

    def _differentiating(self, original):
        """Wrap backward: without an optimizer the script itself updates what has gradients, after it."""

        def differentiated(*arguments, **keywords):
            output = original(*arguments, **keywords)
            roots = self._known_roots()
            if not self._optimizes and (not roots or any(root.training for root in roots)):
                self.recording.trains = self._differentiated = True
                if not roots:
                    self.recording.stepped(self, _BACKWARD)
            return output

        return differentiated

    def _begins(self, module):
        """A model's call begins: where it trains and follows a backward, a step has ended."""
        if module.training:
            self._differentiated = False
            self._trained = weakref.ref(module)
            self.recording.stepped(self, _BACKWARD)

    def _evaluating(self, original):
        def evaluated(module, *arguments, **keywords):
            self.recording.interrupted("a model was switched to evaluation")
            return original(module, *arguments, **keywords)

        return evaluated

    def _looking(self, original):
        """Wrap the call of modules: the outermost ones that have parameters are models."""
        compiling, calls = _compiling(self.torch), self._calls

        def called(module, *arguments, **keywords):
            if compiling():
                return original(module, *arguments, **keywords)
            depth = getattr(calls, "depth", 0)
            if depth == 0 and self._differentiated and self._is_model(module):
                self._begins(module)
            calls.depth = depth + 1
            try:
                output = original(module, *arguments, **keywords)
            finally:
                calls.depth = depth
            if depth == 0 and self._is_model(module):
                self.recording.stepped(self, id(module), training=False)
            return output

        return called

    def _is_model(self, module):
        if any(known() is module for known in self.roots):
            return True
        if next(module.parameters(), None) is None:
            return False
        self.roots.append(weakref.ref(module))
        return True

    def _known_roots(self):
        return [root for root in (known() for known in self.roots) if root is not None]

    def found(self, key):
        """Search no longer; without an optimizer, backward is watched and the calls of the class of one model."""
        self._searching.undo()
        self._watching.undo()
        called = self._called(key)
        if called is not None or key == _BACKWARD:
            self._watching.wrap(self.torch.autograd, "backward", self._differentiating)
        root = self._trained() if key == _BACKWARD else called
        if root is not None:
            self._watch_calls(root, key)

    def _called(self, key):
        """Return the model whose calls this key stands for, or None."""
        return next((root for root in self._known_roots() if id(root) == key), None)

    def _watch_calls(self, root, key):
        owner, known, base = type(root), weakref.ref(root), self.torch.nn.Module
        own = vars(owner).get("__call__")

        def called(module, *arguments, **keywords):
            watched = module is known()
            if watched and self._differentiated:
                self._begins(module)
            output = (own or base.__call__)(module, *arguments, **keywords)
            if watched and key != _BACKWARD:
                self.recording.stepped(self, key, training=False)
            return output

        if owner is not base:
            self._watching.set(owner, "__call__", functools.wraps(own or base.__call__)(called))

    def step_end(self, key):
        """Say where a step ends."""
        if key == _BACKWARD:
            trained = self._trained()
            model = "" if trained is None else "where %s is called in training mode after " % type(trained).__name__
            return (model or "with ") + "a backward, as no optimizer is made"
        called = self._called(key)
        return "with an optimizer's step" if called is None else "with a call of %s" % type(called).__name__

    def process_rank(self):
        """Return the rank in the process group, or the number that torch.multiprocessing.spawn gave this process."""
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        process = processes.started_by_multiprocessing()
        spawned = getattr(getattr(process, "_target", None), "__module__", None) == "torch.multiprocessing.spawn"
        return process._args[1] if spawned else None  # _wrap(function, number, ...)

    # --- layers ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder, kernels):
        """Put ranges around modules, losses, backward and optimizers."""
        self._layers = Layers(self.torch, recorder, self._known_roots(), self._on_cuda(), kernels)
        return self._layers.attach()

    def costs(self, bare_ns):
        """Return what ranges cost: those of modules find their names and mark tensors, for backward's, which hooks open."""
        return budget.Costs(bare_ns, FORWARD, BACKWARD, HOOK)

    def keep(self, kept, phases):
        """Leave only the wrappers of these layers, and of phases."""
        return self._layers.keep(kept, phases)

    def detach(self):
        """Take the ranges away; what is known of layers stays for `described`."""
        self._layers.detach()

    def start_operators(self, folder):
        """Start torch.profiler."""
        self._hooks.spec.update(folder=folder, device="cuda" if self._on_cuda() else "cpu")
        reason = "the script started torch.profiler itself, and only one can run"
        self._operators = Operators(self.torch, self._hooks, functools.partial(self.recording.cut, reason))
        self._operators.start()

    def part_operators(self):
        """Write torch.profiler's trace so far."""
        return self._operators.part()

    def stop_operators(self):
        """Stop torch.profiler."""
        return self._operators.stop()

    def printing(self, on):
        """Switch the printing of oneDNN and MKL."""
        missing = {}
        for name, library, variables in (
            ("mkldnn", "oneDNN", ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")),
            ("mkl", "MKL", ("MKL_VERBOSE",)),
        ):
            switch = getattr(getattr(self.torch._C, "_verbose", None), name + "_set_verbose", None)
            before = max(os.environ.get(variable, "0") for variable in variables)  # the script's own wish
            level = 1 if on else int(before) if before.isdigit() else 0
            if switch is None or not getattr(self.torch.backends, name).is_available() or not switch(level):
                missing[library] = "this build of PyTorch cannot switch them on"
        return missing

    def _on_cuda(self):
        return any(parameter.is_cuda for root in self._known_roots() for parameter in root.parameters())

    def settle(self):
        """Wait for the GPU."""
        if self._on_cuda():
            self.torch.cuda.synchronize()

    def stop(self):
        """Take away everything."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for patches in (self._searching, self._watching, self._stepping):
            patches.undo()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def versions(self):
        """Return the versions of PyTorch and its libraries."""
        return self._hooks.versions()

    def settings(self):
        """Return the settings in force."""
        roots = self._known_roots()
        self._hooks.model = roots[0] if roots else None
        try:
            return self._hooks.settings()
        finally:
            self._hooks.model = None

    def described(self):
        """Return the device and the model's layers."""
        layers = self._layers
        network = None
        if layers is not None:
            network = {"name": layers.title, "title": layers.title, "parameters": layers.parameters, "layers": layers.table()}
        return {"batch": None, "device": "cuda" if self._on_cuda() else "cpu", "network": network}


class Layers(object):
    """The ranges of one pass, from `attach` to `detach`."""

    def __init__(self, torch, recorder, roots, on_cuda, kernels):
        self.torch = torch
        self.recorder = recorder
        self.opaque = {}  # layer -> why nothing is seen inside of it
        self.shared = {}  # layer -> other paths of the same module
        self._roots = roots = _outermost(roots)
        self.title = " + ".join(type(_bare(root)).__name__ for root in roots) or "unknown"
        self.parameters = sum(_elements(root.parameters()) for root in roots)
        self._on_cuda, self._kernels = on_cuda, kernels
        self._names = {}  # id of a module -> its layer
        self._kept = []  # the modules of these ids, so that no id is given to another one
        self._types = {}  # layer -> (type, parameters)
        self._order = {}  # layer -> rank of its first call
        self._counts = {}  # layer -> calls within the present call of the model
        self._depths = threading.local()  # depth: how many calls that have ranges are open on a thread
        self._wanted = None  # ids of the modules that have ranges, None for all
        self._hooked = None  # tells which layers' gradients have ranges, None for all
        self._patches = Patches()
        self._calls = Patches()  # of modules
        self._functions = Patches()  # of losses and distributions
        self._handles = []
        self._optimizing = []
        self._backward = hooks.BackwardLayers(recorder, torch)

    def attach(self):
        """Put the ranges there; return how layers and phases are found."""
        torch, patches = self.torch, self._patches
        self._original = torch.nn.Module.__call__
        for root in self._roots:
            self._name(root, prefixed=len(self._roots) > 1)
        self._calls.wrap(torch.nn.Module, "__call__", self._calling)
        for name in ("backward", "grad"):
            patches.wrap(torch.autograd, name, self._backwards)
        self._attach_functions(None)
        self._attach_optimizers()
        self._attach_synchronisation()
        methods = {
            "layers": "calls of modules, each with its full path; backward by hooks on the tensors between them",
            "phases": "calls of the model, backward, steps and zero_grad of optimizers, batches from loaders and data sets",
        }
        if self.opaque:
            methods["opaque"] = "; ".join("%s: %s" % item for item in sorted(self.opaque.items()))
        if self.shared:
            methods["shared"] = "; ".join("%s is also %s" % (name, ", ".join(also)) for name, also in sorted(self.shared.items()))
        return methods

    def keep(self, kept, phases):
        """Leave ranges around the calls of these layers and hooks for the gradients of some, and ranges around phases if wanted.

        Everything else is called as without us.
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

    def _leave_phases(self):
        self._patches.undo()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _attach_calls(self, modules):
        """Wrap the calls of these modules by their classes, so that calls of other classes take no longer."""
        base = self.torch.nn.Module
        owners = {type(module) for module in modules if isinstance(module, base)}
        if any(owner.__call__ is not base.__call__ for owner in owners):
            owners = {base}  # one with a call of its own calls the common one in turn
        for owner in owners:
            self._calls.set(owner, "__call__", functools.wraps(base.__call__)(self._calling(self._original)))

    def _attach_functions(self, layers):
        """Wrap losses and distributions that are among these layers; None for all."""
        functional = self.torch.nn.functional
        for name in sorted(vars(functional)):
            if (name.endswith("_loss") or name in _LOSSES) and not name.startswith("_") and (layers is None or "loss" in layers):
                self._functions.wrap(functional, name, self._losing)
        self._attach_distributions(layers)

    def detach(self):
        """Take the ranges away and let go of the script's objects."""
        for patches in (self._functions, self._calls):
            patches.undo()
        self._leave_phases()
        self._kept, self._roots, self._names = [], [], {}

    def table(self):
        """Return the layers that were called, in the order of their first calls."""
        ordered = sorted(self._order, key=self._order.get)
        return [{"name": name, "type": self._types[name][0], "parameters": self._types[name][1]} for name in ordered]

    # --- modules ---------------------------------------------------------------------------------------------------------

    def _name(self, root, prefixed):
        """Give the model and all modules in it their names; of a module that has several paths the first one counts."""
        bare = _bare(root)
        title = type(getattr(bare, "_orig_mod", bare)).__name__
        taken = set(self._names.values())
        number, own = 1, title
        while own in taken:
            number += 1
            own = "%s %d" % (title, number)
        self._names[id(root)] = self._names[id(bare)] = own
        self._kept += [root, bare]
        for path, module in bare.named_modules(remove_duplicate=False):
            path = path.replace("_orig_mod.", "").replace("._orig_mod", "")
            name = own if not path or path == "_orig_mod" else "%s.%s" % (own, path) if prefixed else path
            known = self._names.get(id(module))
            if known is None:
                self._names[id(module)] = name
                self._kept.append(module)
                self._types[name] = (type(module).__name__, _elements(module.parameters(recurse=False)))
            elif known != name:
                self.shared.setdefault(known, []).append(name)
            if type(module).__name__ == "OptimizedModule":
                self.opaque[self._names[id(module)]] = "torch.compile makes one of all layers inside"
            elif isinstance(module, self.torch.jit.ScriptModule):
                self.opaque[self._names[id(module)]] = "TorchScript runs the layers inside without Python"
        self._types[own] = (title, _elements(bare.parameters(recurse=False)))

    def _layer(self, module, outermost):
        """Return the layer that this call stands for, or None for modules of nobody, whose work is the caller's."""
        name = self._names.get(id(module))
        if name is None:
            if not outermost:
                return None
            name = "loss" if "loss" in type(module).__name__.lower() else type(module).__name__
            if next(module.parameters(), None) is not None:
                self._name(module, prefixed=True)
                name = self._names[id(module)]
            self._names[id(module)] = name
            self._kept.append(module)
            self._types.setdefault(name, (type(module).__name__, _elements(module.parameters(recurse=False))))
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if count > 1:
            kind = self._types[name]
            name = "%s (%d)" % (name, count) if count <= MOST_NUMBERED else "%s (%d and later)" % (name, MOST_NUMBERED + 1)
            self._types.setdefault(name, (kind[0], 0))
        if name not in self._order:
            self._order[name] = len(self._order)
        return name

    def _calling(self, original):
        recorder, backward, depths = self.recorder, self._backward, self._depths
        enabled, compiling, wanted, hooked = self.torch.is_grad_enabled, _compiling(self.torch), self._wanted, self._hooked

        def called(module, *arguments, **keywords):
            if wanted is not None and id(module) not in wanted:
                return original(module, *arguments, **keywords)
            if compiling() or not recorder.layers or not recorder.in_step:
                return original(module, *arguments, **keywords)
            depth = getattr(depths, "depth", 0)
            if depth == 0:
                if recorder.loading():
                    return original(module, *arguments, **keywords)
                self._counts.clear()
            layer = self._layer(module, depth == 0)
            if layer is None:
                return original(module, *arguments, **keywords)
            gradients = enabled() and (hooked is None or hooked[layer])
            around = recorder.innermost_layer() if depth and gradients else None
            depths.depth = depth + 1
            # the layers pass needs no range of the phase: the layer's says it
            phase = recorder.push("phase", "forward", None, "forward") if depth == 0 and self._kernels else None
            number = recorder.push("layer", layer, layer, "forward")
            try:
                if not gradients:
                    return original(module, *arguments, **keywords)
                if hooked is not None and around is not None and not hooked[around]:
                    around = None
                backward.enter(arguments, around)
                if keywords:
                    backward.enter(keywords.values(), around)
                output = original(module, *arguments, **keywords)
                backward.leave(layer, output)
                return output
            finally:
                recorder.close(number)
                if phase is not None:
                    recorder.close(phase)
                depths.depth = depth

        return called

    # --- the rest of a step ----------------------------------------------------------------------------------------------

    def _losing(self, original, layer="loss"):
        """A loss that is called as a function, by whomever, is the layer "loss"; without a layer, a method is its class's."""
        recorder, backward, enabled = self.recorder, self._backward, self.torch.is_grad_enabled
        compiling, hooked = _compiling(self.torch), self._hooked

        def called(*arguments, **keywords):
            if compiling() or not recorder.layers or not recorder.in_step:
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

    def _attach_distributions(self, layers):
        """What torch.distributions computes (its checks, sampling, probabilities) is its class's, as a layer."""
        base = self.torch.distributions.Distribution
        kinds = [kind for kind in vars(self.torch.distributions).values() if isinstance(kind, type) and issubclass(kind, base)]
        if layers is not None:
            wanted = [kind for kind in kinds if kind.__name__ in layers]
            kinds = [kind for kind in kinds if any(issubclass(one, kind) for one in wanted)]  # what they inherit, too
        for kind in kinds:
            for name in _SAMPLING:
                if name in vars(kind):
                    self._functions.wrap(kind, name, functools.partial(self._losing, layer=None))

    def _backwards(self, original):
        recorder, backward, compiling = self.recorder, self._backward, _compiling(self.torch)

        def called(*arguments, **keywords):
            if compiling():
                return original(*arguments, **keywords)
            number = recorder.push("phase", "backward", None, "backward")
            before, backward.thread = backward.thread, threading.get_ident()
            around = backward.suspend()  # checkpoints run one backward inside of another
            try:
                return original(*arguments, **keywords)
            finally:
                backward.close()
                backward.resume(around)
                backward.thread = before
                recorder.close(number)

        return called

    def _attach_optimizers(self):
        """Ranges from before an optimizer's step until after it; the end of a step closes what is open."""
        recorder, opened = self.recorder, self._optimizing
        from torch.optim import optimizer

        def before(_, arguments, keywords):
            opened.append(recorder.push("phase", "optimizer step", None, "optimizer"))
            return self._apart(arguments, keywords)

        def after(*_):
            if opened:
                recorder.close(opened.pop())

        if hasattr(optimizer, "register_optimizer_step_pre_hook"):
            self._handles.append(optimizer.register_optimizer_step_pre_hook(before))
            self._handles.append(optimizer.register_optimizer_step_post_hook(after))
            # hooks run in the order of their making: the range must be closed before the step ends
            optimizer._global_optimizer_post_hooks.move_to_end(self._handles[-1].id, last=False)
        ranged = functools.partial(recorder.ranged, category="phase", name="optimizer zero_grad", phase="optimizer")
        self._patches.wrap(optimizer.Optimizer, "zero_grad", ranged)
        self._patches.wrap(self.torch.nn.Module, "zero_grad", ranged)
        clipped = functools.partial(recorder.ranged, category="phase", name="clip gradients", phase="optimizer")
        self._patches.wrap(self.torch.nn.utils, "clip_grad_norm_", clipped)

    def _apart(self, arguments, keywords):
        """Return a step's arguments, its closure in a range of its own: forward and backward in there are not the optimizer's."""
        if not any(map(callable, arguments)) and not callable(keywords.get("closure")):
            return None  # as they are
        push, close = self.recorder.push, self.recorder.close

        def ranged(function):  # plainly: it is made anew for each step
            def closure():
                number = push("phase", "closure", None, "other")
                try:
                    return function()
                finally:
                    close(number)

            return closure

        named = {name: ranged(value) if callable(value) else value for name, value in keywords.items()}
        return tuple(ranged(value) if callable(value) else value for value in arguments), named

    def _attach_synchronisation(self):
        """Name the calls that bring a value to the host, as `hooks.pytorch` does."""
        if not self._on_cuda and not self._kernels:
            return
        category = "sync" if self._on_cuda else "phase"
        for name in hooks.SYNCHRONISING:
            ranged = functools.partial(self.recorder.ranged, category=category, name=name, phase="other")
            self._patches.wrap(self.torch.Tensor, name, ranged)


class _Hooked(dict):
    """Whether a layer's gradients have ranges, looked up with the number of a repeated call or without."""

    def __init__(self, layers):
        super(_Hooked, self).__init__()
        self._layers = layers

    def __missing__(self, layer):
        found = self[layer] = budget.call_of(layer) in self._layers
        return found


def _bare(root):
    """Return the model inside of what wraps it."""
    while True:
        inner = getattr(root, "module", None) if type(root).__name__ in _WRAPPERS else None
        if inner is None:
            return root
        root = inner


def _outermost(roots):
    """Return the models that are no parts of others: parts that are also called by themselves have their path in the whole."""
    parts = {id(module) for root in roots for module in root.modules() if module is not root}
    return [root for root in roots if id(root) not in parts]


def _elements(parameters):
    return sum(parameter.numel() for parameter in parameters)


def _compiling(torch):
    """Return the function that tells whether code is being compiled, which the compiler itself sees through."""
    found = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return found if found is not None else lambda: False
