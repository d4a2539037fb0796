"""Layer, phase, kind, library and shapes of operations that ran, from XLA's compiled programs.

An instruction carries the scopes of the code that it came from: jit(train_step)/transpose(jvp(conv1))/dot_general is the
backward pass of conv1. A fusion has the name of its result. An instruction that XLA made itself (copies, transpositions, a
product that it rewrote) belongs to the layer of the nearest instruction that uses its result and has a layer ("graph order"),
else to that of the nearest one whose result it uses; both are followed into and out of fusions. An unnamed product or
convolution whose result has the size of one layer's weights is their gradient ("shape"). If the network is unknown,
`xla_scopes` gives layer and phase. Communication between devices has no layer: XLA combines sums over the devices, and one name
stands for all of them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from kernelscope.analysis.attribution.frameworks.xla_scopes import Places, Scopes
from kernelscope.analysis.formats.xplane.hlo import Instruction, Program
from kernelscope.analysis.formats.xplane.schedules import HOLDERS
from kernelscope.analysis.kernels import classify

# instructions in which devices exchange data; also with -start and -done
_COLLECTIVE = re.compile(r"^(all-reduce|all-gather|all-to-all|reduce-scatter|collective-\w+)(-start|-done)?$")
_TOKEN = re.compile(r"[^/()]+")
_OPTIMIZER = re.compile(r"^(sgd|rms_?prop|adam\w{0,8}|adagrad|adadelta|nadam|ftrl|lion|lamb|optimizer)(_\d+)?$", re.IGNORECASE)
_LOSS = re.compile(r"^(loss|compute_loss|\w*(crossentropy|cross_entropy)\w*)$", re.IGNORECASE)
_PADDING = "_pad"  # suffix of layers that only pad for the layer whose name precedes it
_LIBRARIES = (
    ("onednn", "onednn"),
    ("ynn", "ynnpack"),
    ("xnn", "xnnpack"),
    ("eigen", "eigen"),
)  # as they appear in targets and configurations
# opcodes -> kind of an instruction that holds one of them, those that take longest first
_KINDS = (
    (("dot",), "gemm"),
    (("rng", "rng-bit-generator"), "random"),
    (("scatter", "gather"), "embedding"),
    (("reduce-window", "reduce"), "reduction"),
    (("tanh", "logistic", "exponential", "maximum", "compare", "add", "subtract", "multiply", "divide", "select"), "elementwise"),
    (("convert",), "cast"),
    (("transpose", "reverse"), "layout"),
    (("copy", "broadcast", "concatenate", "pad", "slice", "dynamic-slice", "dynamic-update-slice", "iota"), "copy"),
)
# type of a layer -> kind of its arithmetic, forward and backward; it applies to the kinds in ARITHMETIC
OF_LAYER = {
    "pooling_max": "pooling",
    "pooling_average": "pooling",
    "pooling_global": "pooling",
    "tanh": "activation",
    "relu": "activation",
    "sigmoid": "activation",
    "gelu": "activation",
    "batch_norm": "normalisation",
    "layer_norm": "normalisation",
    "attention": "softmax",
    "loss": "softmax",
}
ARITHMETIC = ("elementwise", "reduction", "embedding")
# pattern in an operation's name -> kind of its arithmetic, if the types of layers are unknown
_ACTIVATIONS = "relu6?|leaky_relu|elu|selu|celu|gelu|silu|swish|sigmoid|softplus|hard_sigmoid|hard_swish|hard_tanh|mish"
_BY_NAME = (
    (re.compile(r"softmax|logsumexp"), "softmax"),
    (re.compile(r"reduce_window|select_and_scatter"), "pooling"),
    (re.compile(rf"jit\(({_ACTIVATIONS})\)|/(tanh|logistic|erf)$"), "activation"),
)


@dataclass(frozen=True)
class Operation:
    """What is known about one instruction; the fields are the Trace's columns. `type` is the operation's own name."""

    scope: str | None
    type: str
    layer: str | None
    phase: str | None
    attribution: str
    kind: str
    library: str
    dtype: str | None
    problem: str | None
    m: int | None
    n: int | None
    k: int | None
    holds: bool


class ProgramNames:
    """Resolves a program's instructions by the network's layers, or by scopes (Scopes) if the network is unknown."""

    def __init__(self, program: Program, network: dict[str, Any] | Scopes):
        self._program = program
        self._places = Places(program, network) if isinstance(network, Scopes) else None
        layers = network["layers"] if not isinstance(network, Scopes) else []
        self._layers = {str(layer["name"]): layer for layer in layers}
        self._by_name = program.by_name()
        self._users = _users(program)

    def operation(self, name: str) -> Operation | None:
        """Return what is known about the instruction of this name; None if the program has none."""
        instruction = self._by_name.get(name)
        if instruction is None:
            return None
        layer, phase, method = self._placed(instruction)
        members = [inner for inner in self._program.inside(instruction) if inner.parameter is None] or [instruction]
        kind = self._kind(instruction, members, layer, phase)
        m, n, k = self._product(members) if kind == "gemm" else (None, None, None)
        return Operation(
            scope=instruction.op_name or None,
            type=_type(instruction),
            layer=layer,
            phase=phase,
            attribution=method,
            kind=kind,
            library=_library(instruction),
            dtype=instruction.dtype,
            problem=self._problem(instruction),
            m=m,
            n=n,
            k=k,
            holds=instruction.opcode in HOLDERS,
        )

    # --- layers ---------------------------------------------------------------------------------------------------------------

    def _placed(self, instruction: Instruction) -> tuple[str | None, str | None, str]:
        """Return layer, phase and the method that found them."""
        if _COLLECTIVE.match(instruction.opcode):
            return None, "backward" if "transpose(" in instruction.op_name else "forward", "operator name"
        if self._places is not None and (known := self._places.place(instruction)) is not None:
            return known
        layer, phase = self._place(instruction)
        method = "operator name"
        if layer is None and phase != "optimizer":
            by_shape = self._of_weights(instruction)
            layer, phase = by_shape or self._of_neighbours(instruction) or (None, phase)
            method = "shape" if by_shape else "graph order" if layer is not None or phase == "optimizer" else "none"
        return layer, phase, method

    def _place(self, instruction: Instruction) -> tuple[str | None, str | None]:
        """Return layer and phase from an operation's full name."""
        if self._places is not None:
            return (self._places.place(instruction) or (None, None))[:2]
        op_name = instruction.op_name
        parts = op_name.split("/")
        tokens = [_TOKEN.findall(part) for part in parts[:-1]]
        phase = "backward" if "transpose(" in op_name else "forward"
        for token in (token for part in reversed(tokens) for token in reversed(part)):
            if token in self._layers or (token.endswith(_PADDING) and token[: -len(_PADDING)] in self._layers):
                return token, phase
            if _OPTIMIZER.match(token):
                return None, "optimizer"
            if _LOSS.match(token) and "loss" in self._layers:
                return "loss", phase
        return None, phase if "jvp(" in op_name else None

    def _of_weights(self, instruction: Instruction) -> tuple[str | None, str | None] | None:
        """Return the layer whose weight gradient an unnamed convolution or product makes: the result has its weights' size."""
        computing = {inner.opcode for inner in [instruction, *self._program.inside(instruction)]}
        if instruction.op_name or instruction.opcode in HOLDERS or not computing & {"convolution", "dot"}:
            return None
        mine = [name for name, layer in self._layers.items() if prod(instruction.dimensions) == _weights(layer)]
        return (mine[0], "backward") if len(mine) == 1 else None

    def _of_neighbours(self, instruction: Instruction) -> tuple[str | None, str | None] | None:
        """Return layer and phase of the nearest user that has a layer or is the optimizer's, else of the nearest source."""
        return self._nearest(instruction, self._using) or self._nearest(instruction, self._used)

    def _nearest(
        self, instruction: Instruction, step: Callable[[Instruction], tuple[list[int], list[int]]]
    ) -> tuple[str | None, str | None] | None:
        """Search neighbours, nearest first. `step` returns an instruction's neighbours, and those to try after all others."""
        seen, waiting, last = {instruction.number}, deque([instruction.number]), deque[int]()
        while waiting:
            near, far = step(self._program.instructions[waiting.popleft()])
            last.extend(far)
            while near or (last and not waiting):
                number = near.pop(0) if near else last.popleft()
                if number in seen:
                    continue
                seen.add(number)
                neighbour = self._program.instructions[number]
                if _COLLECTIVE.match(neighbour.opcode):
                    continue  # beyond it are the gradients of many layers
                result = self._of_weights(neighbour) or self._place(neighbour)
                if result[0] is not None or result[1] == "optimizer":
                    return result
                waiting.append(number)
        return None

    def _using(self, instruction: Instruction) -> tuple[list[int], list[int]]:
        """Return what uses the result: parameters that receive it in called computations, and users; then the callers.

        A fusion comes last, because it is named after its result, which may not be what uses this one.
        """
        near: list[int] = []
        far: list[int] = []
        for user in self._users.get(instruction.number, []):
            places = [place for place, operand in enumerate(user.operands) if operand == instruction.number]
            inside = [self._parameter(called, place) for called in user.called for place in places]
            near += [number for number in inside if number is not None]
            (far if any(number is not None for number in inside) else near).append(user.number)
        if self._program.roots.get(instruction.computation) == instruction.number:
            near += [caller.number for caller in self._users.get(-1 - instruction.computation, [])]
        return near, far

    def _used(self, instruction: Instruction) -> tuple[list[int], list[int]]:
        """Return what the result is made of: the results of called computations, and the operands."""
        near = [self._program.roots[called] for called in instruction.called if called in self._program.roots]
        near += [operand for operand in instruction.operands if operand in self._program.instructions]
        return near, []

    def _parameter(self, computation: int, place: int) -> int | None:
        for number in self._program.members.get(computation, []):
            if self._program.instructions[number].parameter == place:
                return number
        return None

    # --- kinds and shapes -----------------------------------------------------------------------------------------------------

    def _kind(self, instruction: Instruction, members: list[Instruction], layer: str | None, phase: str | None) -> str:
        if phase == "optimizer":
            return "optimizer"
        if _COLLECTIVE.match(instruction.opcode):
            return "communication"
        opcodes = {inner.opcode for inner in members}
        target = instruction.target.lower()
        if "convolution" in opcodes or "conv" in target:
            return self._convolution(instruction, layer, phase)
        if "matmul" in target or "gemm" in target:
            return "gemm"
        kind = next((kind for wanted, kind in _KINDS if opcodes & set(wanted)), None)
        of_layer = self._kind_of_layer(instruction, layer)
        if of_layer and kind in ARITHMETIC:
            return of_layer
        return kind or classify.operator_kind(_type(instruction), phase)

    def _kind_of_layer(self, instruction: Instruction, layer: str | None) -> str | None:
        """Return the kind of arithmetic of a layer of this type; without types, the kind that the operation's name says."""
        if layer in self._layers:
            return OF_LAYER.get(str(self._layers[layer]["type"]))
        if self._places is None:
            return None
        return next((kind for sign, kind in _BY_NAME if sign.search(instruction.op_name)), OF_LAYER.get(str(layer)))

    def _convolution(self, instruction: Instruction, layer: str | None, phase: str | None) -> str:
        """Return which of a convolution's three passes this is: the weight gradient has the weights' size."""
        if phase != "backward" or layer is None:
            return "convolution forward"
        sizes = {_weights(self._layers[layer])} if layer in self._layers else self._kernels.get(layer, set())
        is_weights = prod(instruction.dimensions) in sizes
        return "convolution weight gradient" if is_weights else "convolution data gradient"

    @cached_property
    def _kernels(self) -> dict[str, set[int]]:
        """Return the sizes of the weights of each layer's forward convolutions."""
        result: dict[str, set[int]] = {}
        for instruction in self._program.instructions.values():
            if instruction.opcode == "convolution" or "conv" in instruction.target.lower():
                layer, phase = self._place(instruction)
                taken = [self._program.instructions.get(number) for number in instruction.operands[1:2]]
                if layer is not None and phase == "forward":
                    result.setdefault(layer, set()).update(prod(one.dimensions) for one in taken if one is not None)
        return result

    def _problem(self, instruction: Instruction) -> str | None:
        """Return the sizes of operands and result, such as 64x400:400x120:64x120."""
        shapes = [
            self._program.instructions[number].dimensions
            for number in instruction.operands
            if number in self._program.instructions
        ]
        return ":".join("x".join(map(str, shape)) for shape in [*shapes, instruction.dimensions] if shape) or None

    def _product(self, members: list[Instruction]) -> tuple[int | None, int | None, int | None]:
        """Return rows, columns and inner dimension of a product of two matrices."""
        dot = next((inner for inner in members if inner.opcode == "dot"), None)
        if dot is None or len(dot.dimensions) != 2 or not dot.operands or dot.operands[0] not in self._program.instructions:
            return None, None, None
        (m, n), left = dot.dimensions, self._program.instructions[dot.operands[0]].dimensions
        return m, n, prod(left) // max(m, 1)


def _weights(layer: dict[str, Any]) -> int:
    """Return the number of a convolution's or dense layer's weights; 0 for other layers."""
    if layer["type"] not in ("convolution", "dense") or "input_shape" not in layer:
        return 0
    place = 0 if layer["type"] == "convolution" else -1  # a dense layer works on the last dimension
    kernel = int(layer.get("settings", {}).get("kernel", 1))
    return kernel**2 * int(layer["input_shape"][place]) * int(layer["output_shape"][place])


def _users(program: Program) -> dict[int, list[Instruction]]:
    """Return the users of each instruction's result, in the program's order; the callers of computation c are under -1 - c."""
    users: dict[int, list[Instruction]] = {}
    for instruction in program.instructions.values():
        for operand in dict.fromkeys(instruction.operands):
            users.setdefault(operand, []).append(instruction)
        for called in instruction.called:
            users.setdefault(-1 - called, []).append(instruction)
    return users


def _type(instruction: Instruction) -> str:
    """Return the operation's own name: JAX's primitive, else the instruction's opcode."""
    own = re.sub(r"\[.*$", "", instruction.op_name.rsplit("/", 1)[-1], flags=re.DOTALL)
    return own or instruction.opcode


def _library(instruction: Instruction) -> str:
    """Return what computes: a library that XLA calls by name, Eigen for plain convolutions and products, else XLA's code."""
    target = f"{instruction.target} {instruction.backend_config}".lower()
    for sign, name in _LIBRARIES:
        if sign in target:
            return name
    return "eigen" if instruction.opcode in ("convolution", "dot") else "xla"
