"""JAX: steps end with calls of compiled functions from Python; layers come from the scopes in XLA's programs.

The functions that `jax.jit` and `jax.pmap` return after JAX's import are wrapped (`Compiled`): JAX runs a compiled function
without Python, so its calls are not visible otherwise. The wrapper has every attribute of the function, is an instance of its
class, pickles and prints like it, and calls it. JAX's own compiled functions (such as those of jax.numpy) are made before the
import ends and are not seen.

A function trains if a gradient is taken, or optax's updates are applied, while it is traced. Gradients and updates computed
outside compiled functions end steps too. For functions that only infer, the first call ends no step: programs compile functions
that they call once, to make parameters. Functions compiled ahead of time are `jax.stages.Compiled`.
"""

import functools
import itertools
import re
import sys
import threading
import types
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside import ranges
from kernelscope.tracer.inside.frameworks import compilations
from kernelscope.tracer.inside.frameworks.jax import library, scopes
from kernelscope.tracer.inside.frameworks.jax.library import Library
from kernelscope.tracer.inside.frameworks.jax.samples import SOURCE, Samples
from kernelscope.tracer.inside.frameworks.script import Base
from kernelscope.tracer.inside.profiling import imports
from kernelscope.tracer.inside.ranges import Recorder

_COMPILING = "/jax/core/compile/backend_compile_duration"
_COMPILES = "/jax/core/compile/"  # prefix of the events of all its parts: tracing, lowering, the compiler
_GRADIENTS = ("grad", "value_and_grad")
# library modules -> classes whose objects call a compiled function and do work of their own around it
_LIBRARIES = {
    "equinox._jit": ("_JitWrapper",),
    "flax.nnx.transforms.compilation": ("JitWrapped", "SimpleJitWrapped", "SimpleJitPartialWrapped"),
}
_MODULE = re.compile(r"^(jit|pjit|pmap)_+")  # prefix of a function's name in its program's name
_BACKWARD = "transpose(jvp("  # in the scopes of a program that computes gradients


class Adapter(Base):
    """See `Base` for the order of calls."""

    framework = "jax"
    queues = True
    prints = False

    def __init__(self, recording: Any) -> None:
        super(Adapter, self).__init__(recording)
        import jax

        self.jax = jax
        self.library = Library(jax)
        self.samples = Samples(jax)
        self.over = False
        self.compiled = compilations.Compilations(jax)
        self.recorder: Any = None  # while ranges are recorded
        self.functions: Dict[Any, Any] = {}  # name of a compiled function called while nothing was traced -> its Calls
        self.clean = _trace_state_clean()
        self.scopes = scopes.Scopes(jax, lambda: not self.clean() and not self.over)
        self._local = threading.local()
        self._output: Any = None  # output of the function that ends a step, while the step ends
        self._made: Dict[Any, Any] = {}  # code of a function compiled by jax.jit -> its newest Calls
        self._others: Dict[Any, Any] = {}  # id of an object compiled ahead of time or by a library -> its Calls
        self._folder: Any = None

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Wrap the makers of compiled functions and gradients, and ahead-of-time compiled calls; listen to compilation."""
        jax, patches = self.jax, self.stepping
        for name in ("jit", "pmap"):
            if hasattr(jax, name):
                patches.wrap(jax, name, self._compiling)
        for name in _GRADIENTS:
            patches.wrap(jax, name, self._differentiating)
        if hasattr(jax, "vjp"):
            patches.wrap(jax, "vjp", self._training)
        if callable(getattr(jax.stages, "Compiled", None)):
            patches.wrap(jax.stages.Compiled, "__call__", self._calling_ahead)
        _hide_our_frames()
        listen = getattr(jax.monitoring, "register_event_duration_secs_listener", None)
        if listen is not None:
            listen(self._compiled)
        imports.watch(["optax", "jax.experimental.pjit", *_LIBRARIES, *scopes.BASES], self._imported)

    def _imported(self, name: str) -> None:
        if self.over:
            return
        if name == "optax":
            self.stepping.wrap(sys.modules[name], "apply_updates", self._updating)
        elif name == "jax.experimental.pjit":
            self.stepping.wrap(sys.modules[name], "pjit", self._compiling)
        elif name in scopes.BASES:
            self.scopes.know(getattr(sys.modules[name], scopes.BASES[name]))
        for kind in _LIBRARIES.get(name, ()):
            if hasattr(sys.modules[name], kind):
                self.stepping.wrap(getattr(sys.modules[name], kind), "__call__", self._around)

    def _compiled(self, event: Any, duration: Any, **facts: Any) -> None:
        if self.over:
            return
        if event.startswith(_COMPILES):
            self.compiled.ns += int(duration * 1e9)
        if event == _COMPILING:
            self.compiled.happened(str(facts.get("fun_name") or ""), self.stack())
            self.recording.interrupted("a function was compiled")

    def _compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap jax.jit, which returns a compiled function, or a decorator if called without a function."""

        def compiling(*arguments: Any, **keywords: Any) -> Any:
            made = original(*arguments, **keywords)
            if self.over or not callable(made):
                return made
            if arguments or "fun" in keywords or "f" in keywords:
                return Compiled(made, self, keywords)
            return lambda function: Compiled(made(function), self, keywords)

        return compiling

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap jax.grad and jax.value_and_grad: the functions they return train."""

        def made(*arguments: Any, **keywords: Any) -> Any:
            gradient = original(*arguments, **keywords)
            fun = arguments[0] if arguments else keywords.get("fun")
            calls = Calls(gradient, self, getattr(fun, "__code__", id(fun)), trains=True)
            calls.differentiates = True
            calls.range = ("layer", calls.name, calls.name, "other")
            return functools.wraps(gradient)(lambda *values, **named: calls.call(values, named))

        return made

    def _training(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap jax.vjp: the functions being traced now train."""

        def called(*arguments: Any, **keywords: Any) -> Any:
            for calls in self.stack():
                calls.trains = calls.differentiates = True
            return original(*arguments, **keywords)

        return called

    def _updating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap optax.apply_updates, which ends a step if called outside compiled functions."""
        calls = Calls(original, self, "optax.apply_updates", trains=True)
        calls.range = ("phase", "optimizer step", None, "optimizer")
        return lambda *arguments, **keywords: calls.call(arguments, keywords)

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call of a library object that calls a compiled function: its work around that is part of the call."""

        def called(wrapper: Any, *arguments: Any, **keywords: Any) -> Any:
            calls = self._others.get(id(wrapper))
            if calls is None:
                calls = self._others[id(wrapper)] = Calls(None, self)
                calls.name = None  # the compiled function's name counts
            return calls.call(arguments, keywords, functools.partial(original, wrapper))

        return called

    def _calling_ahead(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(compiled: Any, *arguments: Any, **keywords: Any) -> Any:
            if self.over:
                return original(compiled, *arguments, **keywords)
            calls = self._others.get(id(compiled))
            if calls is None:
                text = _text_of(compiled)
                calls = self._others[id(compiled)] = Calls(None, self, trains=_BACKWARD in text)
                calls.differentiates = calls.trains
                calls.name = _MODULE.sub("", text.partition("HloModule ")[2].partition(",")[0].strip()) or "compiled"
            return calls.call(arguments, keywords, functools.partial(original, compiled))

        return called

    def made(self, calls: "Calls") -> None:
        """Note a function that was compiled but not called yet."""
        code = compilations.code_of(calls.function)
        if code is None:
            return
        before = self._made.get(code)
        if before is not None and before.count:
            calls.follow(before)
        self._made[code] = calls

    def stack(self) -> List["Calls"]:
        """Return this thread's open calls, outermost first."""
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack = []
            return self._local.stack

    def untraced(self) -> bool:
        """Return whether nothing is being traced and no call is open: a call now is the script loop's own."""
        return not self.stack() and self.clean()

    def calling(self, calls: Any) -> None:
        """Begin an outermost call; a step that calls a function which other steps do not call is not typical."""
        recording = self.recording
        if recording.trains and calls.count and not calls.trains and calls.step < recording.steps.count - 1:
            recording.interrupted("a function was called that other steps do not call", begins=True)

    def called(self, calls: Any, output: Any) -> None:
        """End an outermost call, and perhaps a step."""
        recording = self.recording
        calls.count += 1
        if calls.trains:
            recording.trains = recording.trains or recording.spec["mode"] == "auto"
        elif recording.trains:
            calls.step = recording.steps.count
            return
        elif calls.count < 2:
            return
        self._output = output
        try:
            recording.stepped(self, calls.key, training=calls.trains)
        finally:
            self._output = None

    def settle(self) -> None:
        """Wait for the step's output, or for every live array if there is none."""
        arrays = self._output if self._output is not None else self.jax.live_arrays()
        for array in self.jax.tree_util.tree_leaves(arrays):
            if hasattr(array, "block_until_ready") and not getattr(array, "is_deleted", bool)():
                array.block_until_ready()

    # --- ranges ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around calls of compiled functions and array reads; return how layers are found."""
        self.recorder = recorder
        self.library.range_reading(self.ranging, recorder)
        for name in ("block_until_ready", "device_get"):
            if hasattr(self.jax, name):
                self.ranging.wrap(self.jax, name, recorder.around("sync", "read", "other"))
        return {
            "layers": "scopes of XLA's operations; what has no scope is one layer of its function's name"
            if kernels
            else "none: Python does not see into a compiled function; the kernels pass finds them by operations' scopes",
            "phases": "jvp and transpose in the scopes of XLA's operations; calls of compiled functions; reading of arrays",
        }

    def detach(self) -> None:
        """Remove the ranges."""
        super(Adapter, self).detach()
        self.recorder = None

    def start_operators(self, folder: str) -> None:
        """Start XLA's profiler."""
        self._folder = folder
        self.library.start_profiler()
        # only one can run: ours stops when the script starts its own
        for owner in (self.jax.profiler, sys.modules.get("jax._src.profiler")):
            if hasattr(owner, "start_trace"):
                self.profiling.wrap(owner, "start_trace", self.giving_way("jax.profiler"))

    def stop_operators(self) -> List[str]:
        """Stop the profiler and keep its trace; return the names of its files."""
        self.profiling.undo()
        return self.library.stop_profiler(self._folder)

    def stop(self) -> None:
        """Remove everything; compiled functions that the script still holds then call straight through."""
        self.over = True
        super(Adapter, self).stop()
        self._others = {}
        self._made = {}
        forget = getattr(self.jax.monitoring, "unregister_event_duration_listener", None)
        if forget is not None:
            forget(self._compiled)

    # --- facts -----------------------------------------------------------------------------------------------------------

    def described(self) -> Dict[str, Any]:
        """Return the samples, the device, and the functions that the loop calls: the layers of operations without a scope."""
        layers = [
            {"name": name, "type": "function", "parameters": None, "updates": calls.trains and not calls.differentiates}
            for name, calls in self.functions.items()
        ]
        training = [name for name, calls in self.functions.items() if calls.trains]
        name = (training or list(self.functions) or ["unknown"])[-1]
        network = {"name": name, "title": name, "parameters": None, "layers": layers}
        device = "cpu" if self.jax.default_backend() == "cpu" else "cuda"
        loop = [self.functions[one] for one in training or self.functions]
        samples = self.samples.of_step([(calls.number, calls.count) for calls in loop])
        return {"batch": samples, "batch_source": SOURCE, "device": device, "network": network}


class Calls(object):
    """The calls of one function. key: identifies it as the end of a step; trains: whether it takes or applies gradients."""

    _numbers = itertools.count()

    def __init__(self, function: Any, adapter: Any, key: Any = None, trains: bool = False) -> None:
        self.function = function
        self.adapter = adapter
        self.number = next(self._numbers)
        self.key = self.number if key is None else key
        self.trains = trains
        self.differentiates = False
        self.compiles = False  # whether it was returned by jax.jit
        self.options: Dict[Any, Any] = {}  # given to jax.jit
        self.name = getattr(function, "__name__", "function")
        self.range: Tuple[str, str, Optional[str], str] = ("phase", "call", None, "other")  # around outermost calls
        self.count = 0  # outermost calls
        self.step = -1  # the last step with an outermost call

    def follow(self, before: Any) -> None:
        """Take over from an earlier function of the same code that was called: the loop remakes its function."""
        self.key, self.trains, self.differentiates = before.key, before.trains, before.differentiates
        self.count, self.step = before.count, before.step

    @property
    def static(self) -> FrozenSet[str]:
        """The names of its static arguments."""
        return compilations.static_arguments(self.function, self.options)

    def call(self, arguments: Sequence[Any], keywords: Dict[str, Any], function: Any = None) -> Any:
        """Call the function; tell the adapter of the loop's own calls, and mark an enclosing call as training if this trains."""
        adapter, function = self.adapter, function or self.function
        if adapter.over:
            return function(*arguments, **keywords)
        stack, executed = adapter.stack(), adapter.clean()
        outermost = executed and not stack
        if outermost:
            adapter.calling(self)
            if not self.count:
                adapter.scopes.find()
        recorder: Any = adapter.recorder if outermost else None
        stack.append(self)
        number = recorder.push(*self.range) if recorder is not None else None
        try:
            output = function(*arguments, **keywords)
        finally:
            stack.pop()
            if number is not None:
                recorder.close(number)
            if self.trains and stack:
                stack[0].trains = True
                stack[0].differentiates = stack[0].differentiates or self.differentiates
        if executed and self.name is not None:
            adapter.functions[self.name] = self
        if outermost:
            if adapter.compiled.unexplained:
                adapter.compiled.explain(self, function, arguments, keywords)
            adapter.samples.called(self.number, (*arguments, *keywords.values()), output)
            adapter.called(self, output)
        return output


class Compiled(object):
    """A stand-in for a function compiled by jax.jit that notes its calls."""

    def __init__(self, function: Any, adapter: Any, options: Any) -> None:
        own = self.__dict__
        own["_kernelscope"] = calls = Calls(function, adapter)
        calls.compiles, calls.options = True, options
        adapter.made(calls)
        own["__doc__"] = getattr(function, "__doc__", None)
        own["__module__"] = getattr(function, "__module__", None)

    def __call__(*arguments: Any, **keywords: Any) -> Any:
        """Call the function; there is no `self` parameter, as the function may have a keyword argument of that name."""
        return arguments[0]._kernelscope.call(arguments[1:], keywords)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_kernelscope"].function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._kernelscope.function, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._kernelscope.function, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.__dict__["_kernelscope"].function)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._kernelscope.function.__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return repr(self._kernelscope.function)

    def __dir__(self) -> Any:
        return dir(self._kernelscope.function)


def _trace_state_clean() -> Callable[[], bool]:
    """Return the function that tells whether nothing is being traced; JAX has no public one."""
    for module in ("jax._src.core", "jax.core"):
        found = getattr(sys.modules.get(module), "trace_state_clean", None)
        if found is not None:
            return found
    return lambda: True


def _hide_our_frames() -> None:
    """Make JAX leave our frames out of shortened tracebacks and of the source locations it records."""
    for name in ("traceback_util", "source_info_util"):
        exclude: Any = getattr(sys.modules.get("jax._src." + name), "register_exclusion", None)
        for module in (__file__, scopes.__file__, library.__file__, ranges.__file__) if exclude is not None else ():
            exclude(module)


def _text_of(compiled: Any) -> str:
    """Return the program text of an ahead-of-time compiled function; empty if not available."""
    try:
        return compiled.as_text() or ""
    except Exception:
        return ""
