"""The interface between the tracer and a framework's program, and the part that all programs share.

A framework's `program.py` has a class `Program`, a subclass of the one here. A new framework needs seven methods: `__init__`
builds the network as the framework's users do; `load`, `parameters`, `outputs` and `layer_shapes` let the check pass verify
that all frameworks run the same network; the loops `train` and `infer` are what is measured. `prepare` and `stream` are needed
too unless the framework takes numpy arrays as they are.

The tracer calls, in this order: Program(network, options), load(weights), prepare(batches), stream(prepared), then train or
infer repeatedly, each time with the steps of a window.

Runs under Python 3.6 with numpy only.
"""

from abc import ABCMeta, abstractmethod
from importlib import import_module
from typing import Any, Callable, Container, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from kernelscope.workloads.networks import Array, Network, Weights, elements

CHOICES = ("precision", "layout", "autotune")  # settings that a run may choose; None keeps the framework's default
Batch = Tuple[Any, Any]  # images and labels
Options = Mapping[str, Any]
Parameters = List[Dict[str, Any]]  # each made by `parameter`
Shapes = Dict[str, List[int]]
Functions = List[Callable[..., Any]]
Marked = Callable[[Any, str, Optional[str], str], None]


class Program(metaclass=ABCMeta):
    """One network with its loops in one framework.

    network: its description in `workloads.networks`; the program's layers have the same names. mode: "train" or "infer".
    choices: the settings of CHOICES that the run chose, by name. losses: the loss of each training step, in order.
    """

    FRAMEWORK = ""  # its name in error messages
    SETTINGS: Dict[str, Sequence[Any]] = {}  # choice -> supported values; others are refused
    REASONS: Dict[str, str] = {}  # choice -> why other values are not supported
    MADE_BY_LOADING = False  # whether `load` builds the network, because building it takes the weights
    DEVICES = False  # whether it divides a step among several devices itself; if not, a module `parallel` beside it may
    ONE_DEVICE: Optional[str] = None  # why a step cannot be divided

    def __init__(self, network: Network, options: Options, models: Container[str]) -> None:
        """Store network, mode and choices; raise ValueError for a network or choice that is not supported.

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
        """Load {(layer, parameter): float32 array in canonical layout}: the initial weights, the same for all frameworks."""

    @abstractmethod
    def parameters(self) -> Parameters:
        """Return the trainable parameters, with the framework's own names and shapes, each made by `parameter`."""

    def prepare(self, batches: Iterable[Batch]) -> List[Batch]:
        """Return batches as the framework takes them. Given are numpy arrays: images channels first, labels int64."""
        return list(batches)

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each prepared batch as the loop takes it: tensors on the device; by default, the arrays as they are."""
        return iter(host_batches)

    @abstractmethod
    def train(self, batches: Iterable[Any]) -> None:
        """Train one step on each batch of the stream, as a user would write it; append each step's loss to `losses`."""

    @abstractmethod
    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch of the stream and copy them to the host, as a user would write it."""

    @abstractmethod
    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""

    @abstractmethod
    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed while the network runs on the images."""

    def functions(self) -> Functions:
        """Return the functions worth profiling line by line: the loop and, if it runs Python, the model's own."""
        return [self.train if self.mode == "train" else self.infer]

    def mark(self, marked: Marked) -> None:
        """Call marked(owner, name, layer, phase) for each function that computes a layer; its calls are recorded from then on.

        The layer is None for a phase alone; the phase is forward, backward or optimizer. Called only if the framework has no
        module in `tracer/inside/frameworks`, which would find the layers itself.
        """
        raise NotImplementedError("%s: layers cannot be found: the program has no method `mark`" % self.FRAMEWORK)

    def processes(self) -> List[int]:
        """Return the ids of the other processes that share a step with this one."""
        return []

    def record(self, folder: str) -> bool:
        """Make the other processes record to this folder from their next step on; return whether there are any."""
        return False

    def recorded(self) -> List[str]:
        """End the recording of the other processes; return the names of their files, in the order of the processes."""
        return []


class InferenceProgram(Program):
    """A program that cannot train; its network is built when the weights are loaded."""

    MADE_BY_LOADING = True

    def __init__(self, network: Network, options: Options, models: Iterable[str]) -> None:
        names = list(models)
        if options["mode"] != "infer" or network.name not in names:
            asked = "%s: network %s is not supported in mode %s" % (self.FRAMEWORK, network.name, options["mode"])
            raise ValueError("%s: it only runs inference of %s; give --mode infer" % (asked, ", ".join(names)))
        super().__init__(network, options, names)
        self.weights: Weights = {}

    def parameters(self) -> Parameters:
        """Return the weights that were loaded, in canonical layout."""
        return [parameter(layer, name, values.shape) for (layer, name), values in self.weights.items()]

    def train(self, batches: Iterable[Any]) -> None:
        """Raise ValueError: training is not supported."""
        raise ValueError("%s: training is not supported; give --mode infer" % self.FRAMEWORK)


def parameter(layer: str, name: str, shape: Iterable[Any]) -> Dict[str, Any]:
    """Return the check pass's row for one parameter: its layer, the framework's name, its shape and number of elements."""
    sizes = [int(size) for size in shape]
    return {"layer": layer, "name": name, "shape": sizes, "count": elements(sizes)}


def builder(package: str, module: str, network: str) -> Callable[..., Any]:
    """Import a module of a framework's package and return its function that builds a network, which has the network's name."""
    build: Callable[..., Any] = getattr(import_module("kernelscope.workloads.%s.%s" % (package, module)), network)
    return build
