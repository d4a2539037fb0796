"""What the tracer asks of a framework's program, and what all programs share.

A framework's `program.py` has a class `Program`, a subclass of the one here. A newcomer writes seven methods: `__init__`, which
builds the network as the framework's users do; `load`, `parameters`, `outputs` and `layer_shapes`, by which the check pass sees
that it is the same network as everywhere; and the loops `train` and `infer`, which are what is measured. `prepare` and `stream`
are written too where the framework does not take numpy's arrays as they are.

The tracer calls, in this order: Program(network, options), load(weights), prepare(batches), stream(prepared), then train or
infer again and again with the steps of a window.

Runs under Python 3.6 with numpy only.
"""

from abc import ABCMeta, abstractmethod
from importlib import import_module
from typing import Any, Callable, Container, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from kernelscope.workloads.networks import Array, Network, Weights, elements

CHOICES = ("precision", "layout", "autotune")  # settings that a run may choose; None is the framework's own default
Batch = Tuple[Any, Any]  # images and labels
Options = Mapping[str, Any]
Parameters = List[Dict[str, Any]]  # each made by `parameter`
Shapes = Dict[str, List[int]]
Functions = List[Callable[..., Any]]
Marked = Callable[[Any, str, Optional[str], str], None]


class Program(metaclass=ABCMeta):
    """One network with its loops in one framework.

    network: the description of `workloads.networks`; its names of layers are those that the program's layers have.
    mode: "train" or "infer". choices: what the run chose of CHOICES. losses: of each step of training, in their order.
    """

    FRAMEWORK = ""  # what error messages call it
    SETTINGS: Dict[str, Sequence[Any]] = {}  # choice -> the values that are supported; others are refused
    REASONS: Dict[str, str] = {}  # choice -> why there are no others
    MADE_BY_LOADING = False  # whether there is no network before there are weights
    DEVICES = False  # whether it shares a step among several devices itself; else a module `parallel` beside it may
    ONE_DEVICE: Optional[str] = None  # why no step can be shared

    def __init__(self, network: Network, options: Options, models: Container[str]) -> None:
        """Keep what is asked for; raise ValueError for what there is not.

        options: mode, batch, device ("cpu" or "cuda"), seed, threads, dropout (False switches it off), those of CHOICES and,
        for several devices, devices. models: the names of the networks that the program can build, or a table of them.
        """
        if network.name not in models:
            raise ValueError("%s: network %s is not supported" % (self.FRAMEWORK, network.name))
        self.network = network
        self.mode: str = options["mode"]
        self.choices = {name: options[name] for name in CHOICES if options.get(name) is not None}
        for name, value in self.choices.items():
            if value not in self.SETTINGS.get(name, ()):
                reason = ": " + self.REASONS[name] if name in self.REASONS else ""
                raise ValueError("%s: %s %s is not supported%s" % (self.FRAMEWORK, name, value, reason))
        self.losses: List[float] = []

    @abstractmethod
    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}, the initial weights that all frameworks get."""

    @abstractmethod
    def parameters(self) -> Parameters:
        """Return what is trainable with the framework's own names and shapes, each made by `parameter`."""

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return the host's batches as the framework takes them; they are numpy arrays, images channels first, labels int64."""
        return list(batches)

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield what the loop takes of each prepared batch: tensors on the device; here the arrays as they are."""
        return iter(host_batches)

    @abstractmethod
    def train(self, batches: Iterable[Any]) -> None:
        """Train one step on each batch of the stream, as a user would write it, and append each step's loss to `losses`."""

    @abstractmethod
    def infer(self, batches: Iterable[Any]) -> None:
        """Bring the logits of each batch of the stream to the host, as a user would write it."""

    @abstractmethod
    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""

    @abstractmethod
    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed while the images go through the network."""

    def functions(self) -> Functions:
        """Return the functions worth profiling line by line: the loop, and where it runs Python, the model's own."""
        return [self.train if self.mode == "train" else self.infer]

    def mark(self, marked: Marked) -> None:
        """Call marked(owner, name, layer, phase) for each function that computes a layer: its calls are recorded from then on.

        The layer is None for a phase alone; the phase is forward, backward or optimizer. Called only where
        `tracer/inside/frameworks` has no module for the framework: those find layers by themselves.
        """
        raise NotImplementedError("%s: layers are not found: the program has no method `mark`" % self.FRAMEWORK)

    def processes(self) -> List[int]:
        """Return the ids of further processes that share a step with this one."""
        return []

    def record(self, folder: str) -> bool:
        """Let further processes that share a step record from the next one on, for a folder; return whether there are any."""
        return False

    def recorded(self) -> List[str]:
        """End that; return the names of the files, in the order of the processes."""
        return []


class InferenceProgram(Program):
    """A program that cannot train; its network is made of the weights when they are loaded."""

    MADE_BY_LOADING = True

    def __init__(self, network: Network, options: Options, models: Iterable[str]) -> None:
        names = list(models)
        if options["mode"] != "infer" or network.name not in names:
            asked = "%s: network %s is not supported in mode %s" % (self.FRAMEWORK, network.name, options["mode"])
            raise ValueError("%s: it has %s in inference only; give --mode infer" % (asked, ", ".join(names)))
        super().__init__(network, options, names)
        self.weights: Weights = {}

    def parameters(self) -> Parameters:
        """Return the weights, in the layout in which the program has them."""
        return [parameter(layer, name, values.shape) for (layer, name), values in self.weights.items()]

    def train(self, batches: Iterable[Any]) -> None:
        """Raise ValueError."""
        raise ValueError("%s: training is not supported; give --mode infer" % self.FRAMEWORK)


def parameter(layer: str, name: str, shape: Iterable[Any]) -> Dict[str, Any]:
    """Return what the check pass records of one parameter: its layer, the framework's name, shape and number of elements."""
    sizes = [int(size) for size in shape]
    return {"layer": layer, "name": name, "shape": sizes, "count": elements(sizes)}


def builder(package: str, module: str, network: str) -> Callable[..., Any]:
    """Return the function that builds a network, which has its name, from a module of a framework's package, imported now."""
    build: Callable[..., Any] = getattr(import_module("kernelscope.workloads.%s.%s" % (package, module)), network)
    return build
