"""MXNet in scripts: steps end with Gluon's Trainer and Module's update, or with calls of the outermost block or module.

The engine is asynchronous: Python only queues work, so ranges show what the host does. For the layers of operators, see blocks.
"""

import functools
import weakref
from typing import Any, Callable, Dict, Iterator, List

from kernelscope.tracer.inside.frameworks.mxnet.blocks import Layers
from kernelscope.tracer.inside.frameworks.mxnet.library import Library
from kernelscope.tracer.inside.frameworks.script import Base, Seen
from kernelscope.tracer.inside.ranges import Recorder


class Adapter(Base):
    """See `Base` for the order of calls."""

    framework = "mxnet"
    queues = True
    prints = False  # oneDNN reads its verbose variable once, and MXNet's library exports no function to change it later

    def __init__(self, recording: Any) -> None:
        super(Adapter, self).__init__(recording)
        import mxnet

        self.mx = mxnet
        self.library = Library(mxnet)
        self.roots = Seen()  # the outermost blocks and modules that were called
        self.batch: Any = None
        self._items: Any = None  # the length of the array with which a model was last called
        self._profiled = False  # whether the script uses mx.profiler itself
        self._layers: Any = None
        self._folder: Any = None

    # --- steps -----------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch trainers, modules and calls of outermost blocks."""
        mx, stepping = self.mx, self.stepping
        for name in ("step", "update"):
            stepping.wrap(mx.gluon.Trainer, name, self._stepper(training=True))
        for owner in _modules(mx):
            if "update" in vars(owner):
                stepping.wrap(owner, "update", self._stepper(training=True))
            if "forward" in vars(owner):
                stepping.wrap(owner, "forward", self._forwarding)
        stepping.wrap(mx.mod.BaseModule, "score", self.interrupting)
        stepping.wrap(mx.gluon.data.DataLoader, "__iter__", self._loading)
        stepping.wrap(mx.profiler, "set_state", self._setting)
        self.searching.wrap(mx.gluon.Trainer, "__init__", self.trained)
        for owner in _modules(mx):
            if "init_optimizer" in vars(owner):
                self.searching.wrap(owner, "init_optimizer", self.trained)
        self.searching.wrap(mx.gluon.Block, "__call__", self._looking)

    def _stepper(self, training: bool) -> Callable[..., Any]:
        def ended(owner: Any, arguments: Any, output: Any) -> None:
            if arguments and isinstance(arguments[0], int):
                self.batch = arguments[0]
            self.recording.stepped(self, id(owner), training=training)

        return lambda original: self.outermost(original, ended)

    def _forwarding(self, original: Callable[..., Any]) -> Any:
        """Wrap a module's forward: unless the script trains, each outermost call is a step of inference."""

        def ended(module: Any, arguments: Any, output: Any) -> None:
            self.roots.add(module)
            if self.batch is None and module.binded and module.data_shapes:
                self.batch = int(module.data_shapes[0][1][0])
            if not self.recording.trains:
                self.recording.stepped(self, id(module), training=False)

        return self.outermost(original, ended)

    def _looking(self, original: Callable[..., Any]) -> Any:
        """Wrap the call of blocks: outermost ones with parameters are models."""
        recording, symbol = self.mx.autograd.is_recording, self.mx.sym.Symbol

        def ended(block: Any, arguments: Any, output: Any) -> None:
            if any(isinstance(argument, symbol) for argument in arguments) or not self._is_model(block):
                return
            self._items = next((len(argument) for argument in arguments if getattr(argument, "shape", ())), None)
            if not recording():
                self.recording.stepped(self, id(block), training=False)

        return self.outermost(original, ended)

    def _loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the loader's iterator. In this process batches come from a generator; one around it times each of them."""

        def iterate(loader: Any) -> Iterator[Any]:
            batches = original(loader)
            while True:
                layers = self._layers
                number = None if layers is None else layers.recorder.push("data", "data", None, "data")
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                finally:
                    if number is not None:
                        layers.recorder.close(number)
                yield batch

        return iterate

    def _setting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_state(*arguments: Any, **keywords: Any) -> Any:
            if not (self._layers and self._layers.setting):
                self._profiled = True
                self.recording.cut("the script uses mx.profiler itself, and only one can run")
            return original(*arguments, **keywords)

        return set_state

    def _is_model(self, block: Any) -> bool:
        if block in self.roots:
            return True
        if not len(list(block.collect_params().keys())):
            return False
        return self.roots.add(block)

    def found(self, key: Any) -> None:
        """Stop searching. If calls of a block end the steps, watch only calls of its class from now on."""
        super(Adapter, self).found(key)
        block = self.mx.gluon.Block
        for root in self.roots.alive():
            if not isinstance(root, block):
                continue
            if id(root) == key:
                self._watch_calls(root, _nothing, lambda: self.recording.stepped(self, key, training=False))
            elif self.recording.trains:
                self._watch_calls(root, self._calling_while_training, _nothing)

    def _calling_while_training(self) -> None:
        if not self.mx.autograd.is_training():
            self.recording.interrupted("the model was evaluated", begins=True)

    def _watch_calls(self, root: Any, begins: Callable[[], Any], ended: Callable[[], Any]) -> None:
        owner, known, base = type(root), weakref.ref(root), self.mx.gluon.Block
        original = owner.__call__

        def called(block: Any, *arguments: Any) -> Any:
            watched = block is known()
            if watched:
                begins()
            output = original(block, *arguments)
            if watched:
                ended()
            return output

        if owner is not base:
            self.stepping.set(owner, "__call__", functools.wraps(original)(called))

    # --- layers ----------------------------------------------------------------------------------------------------------

    def attach(self, recorder: Recorder, kernels: bool) -> Dict[str, Any]:
        """Put ranges around calls of models, backward, updates and waiting; return how layers and phases are found."""
        self._layers = Layers(self.library, recorder, self.roots.alive(), kernels)
        return self._layers.attach()

    def detach(self) -> None:
        """Remove the ranges; the layers stay known for `described`."""
        self._layers.detach()

    def start_operators(self, folder: str) -> None:
        """Make operators run one by one, and start mx.profiler; raise RuntimeError if the script uses it itself."""
        if self._profiled:
            raise RuntimeError("the script uses mx.profiler itself, and only one can run")
        self._folder = folder
        self._layers.start(folder)

    def stop_operators(self) -> List[str]:
        """Stop mx.profiler; write its trace and what was queued; return the names of the written files."""
        return self._layers.stop(self._folder)

    def settle(self) -> None:
        """Wait for the engine."""
        self.mx.nd.waitall()

    # --- facts -----------------------------------------------------------------------------------------------------------

    def settings(self) -> Dict[str, Any]:
        """Return the current settings."""
        blocks = [root for root in self.roots.alive() if hasattr(root, "_active")]
        self.library.hybridized = [(root, dict(root._flags) if root._active else None) for root in blocks]
        try:
            return self.library.settings()
        finally:
            self.library.hybridized = []

    def described(self) -> Dict[str, Any]:
        """Return the batch size given to the trainer, the device, and the model's layers.

        A script whose loss is already a mean gives the trainer 1, which says nothing: then the model's input gives the size.
        """
        layers = self._layers
        network = None if layers is None else layers.described()
        batch = self._items or self.batch if self.batch == 1 else self.batch
        return {"batch": batch, "device": "cpu", "network": network}


def _nothing() -> None:
    """Do nothing."""


def _modules(mx: Any) -> List[Any]:
    found = (getattr(mx.mod, name, None) for name in ("Module", "BucketingModule", "SequentialModule"))
    return [owner for owner in found if owner is not None]
