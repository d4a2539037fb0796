"""Layers and phases of XLA's programs if the network is unknown: from scopes, and from the data flow between operations.

An operation's name holds the scopes of the code that it came from:
jit(train_step)/transpose(jvp(Net))/Block_0/Dense_0/dot_general. Flax, Haiku, Equinox and Keras open a scope for each module,
and jax.named_scope opens one. Scopes make a layer's path, Block_0.Dense_0; the first is left out if all operations share it, as
it is then the model's own name. `transpose` is backward. Functions compiled within others (jit(relu)) and control flow
(while/body) are not part of paths.

Operations without a scope are placed by the data that they use and produce, as far as that is conclusive:

- computed from gradients, or used only by what is: the optimizer;
- differentiated, computed from the model and not used by it, or a gradient that reaches the model and is not its own: the loss;
- otherwise in one layer, named after the compiled function.

JAX before about 0.5 leaves transformations out of names without a scope (see `Places.silent`). There, only what follows the
model's gradients and leads to none is the optimizer's. What is between the model and its gradients is the loss, of unknown
phase.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from kernelscope.analysis.formats.xplane.hlo import Instruction, Program

_OPTIMIZER = re.compile(
    r"^(sgd|rms_?prop|adam\w{0,8}|adagrad|adadelta|nadam|ftrl|lion|lamb|optimizer|\w{0,40}_?optimizer)(_\d+)?$", re.IGNORECASE
)
_LOSS = re.compile(r"^(loss|\w{0,40}_loss|compute_loss|\w{0,40}(crossentropy|cross_entropy)\w{0,40})$", re.IGNORECASE)
_WRAPPED = re.compile(r"^(\w+)\((.*)\)$", re.DOTALL)
_COMPILED = ("jit", "pjit", "pmap", "xla_call")
_TRANSFORMED = ("jvp", "transpose", "vmap", "remat", "checkpoint", "linearize", "custom_jvp", "custom_vjp", "shard_map")
# What JAX itself puts between scopes: control flow, and calls without a name of their own
_STRUCTURE = re.compile(
    r"^(while|scan|closed_call|core_call|pjit|remat2?|checkpoint|rematted_computation|custom_(jvp|vjp)(_call)?|custom_lin|"
    r"named_call|shard_map|pallas_call|)$"
)
# pairs of parts that are structure only together: a layer may be called body
_PAIRS = re.compile(r"(?<=/)(while/(body|cond)|cond/branch_\d+_fun)/")
_CLASS = re.compile(r"^eqx\.nn\.\w+$")  # Equinox opens a scope around each of its own layers with its class
_REDUCING = ("fusion", "while", "call", "conditional", "async-start")  # the parameters of their computations are the operands


@dataclass(frozen=True)
class Name:
    """The parts of an operation's name. function: the outermost compiled function; None if the operation is not traced."""

    function: str | None
    scopes: tuple[str, ...]
    differentiated: bool
    backward: bool


@cache
def parsed(op_name: str) -> Name:
    """Split an operation's name into its parts."""
    wrappings, function, scopes = set[str](), None, []
    parts = list(_parts(_PAIRS.sub("", op_name)))
    waiting = parts[-2::-1]  # the last part is the operation
    while waiting:
        part = waiting.pop()
        wrapped = _WRAPPED.match(part)
        if wrapped and wrapped[1] in _COMPILED:
            function = function or (wrapped[2] if part is parts[0] else None)
        elif wrapped and wrapped[1] in _TRANSFORMED:
            wrappings.add(wrapped[1])
            waiting += list(_parts(wrapped[2]))[::-1]
        elif not _STRUCTURE.match(part) and "->" not in part:  # einsum opens a scope named after its equation
            scopes.append(part)
    paths = [scope for place, scope in enumerate(scopes) if not _names_a_class(scopes, place)]
    return Name(function, tuple(paths), "jvp" in wrappings, "transpose" in wrappings)


def _names_a_class(scopes: list[str], place: int) -> bool:
    """Return whether a scope is the class that Equinox names within a layer's own scope, which adds nothing to the path."""
    own = bool(_CLASS.match(scopes[place]))
    return own and place > 0 and not _CLASS.match(scopes[place - 1])


def _parts(op_name: str) -> Iterator[str]:
    """Yield the parts between slashes that are not in parentheses."""
    depth, start = 0, 0
    for position, letter in enumerate(op_name):
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            yield op_name[start:position]
            start = position + 1
    yield op_name[start:]


class Scopes:
    """The scopes of all programs of a run. functions: those that the script compiled -> whether they only apply updates."""

    def __init__(self, programs: Iterable[Program], functions: dict[str, bool]):
        self.functions = functions
        first = set()
        for program in programs:
            for instruction in program.instructions.values():
                name = parsed(instruction.op_name) if instruction.opcode != "parameter" else None
                if name is not None and name.function and name.scopes and self._special(name) is None:
                    first.add(name.scopes[0])
        self._root = first.pop() if len(first) == 1 else None

    @staticmethod
    def _special(name: Name) -> tuple[str | None, str] | None:
        """Return layer and phase of operations that a scope's name assigns to the optimizer or the loss."""
        for scope in reversed(name.scopes):
            if _OPTIMIZER.match(scope):
                return None, "optimizer"
            if _LOSS.match(scope):
                return "loss", "backward" if name.backward else "forward"
        return None

    def layer(self, name: Name) -> tuple[str | None, str] | None:
        """Return layer and phase from scopes; None if there is no scope."""
        special = self._special(name)
        if special is not None or not name.scopes:
            return special
        path = name.scopes[1:] if name.scopes[0] == self._root and len(name.scopes) > 1 else name.scopes
        return ".".join(path), "backward" if name.backward else "forward"


class Places:
    """Layer, phase and method of the instructions of one program."""

    def __init__(self, program: Program, scopes: Scopes):
        self._program = program
        self._scopes = scopes
        self._names = {
            number: name
            for number, instruction in program.instructions.items()
            if instruction.opcode != "parameter" and (name := parsed(instruction.op_name)).function
        }
        self._places = {number: place for number, name in self._names.items() if (place := scopes.layer(name)) is not None}

    def place(self, instruction: Instruction) -> tuple[str | None, str | None, str] | None:
        """Return layer, phase and method of an instruction that has a name; None for one that XLA made itself."""
        number = instruction.number
        name = self._names.get(number)
        if name is None:
            return None
        if number in self._places:
            return (*self._places[number], "operator name")
        if self.silent and not (name.differentiated or name.backward):
            return self._between(number, name)
        phase = "backward" if name.backward else "forward"
        if number in (self._loss_backward if name.backward else self._loss_forward):
            return "loss", phase, "graph order"
        if number in self._optimizer:
            return None, "optimizer", "graph order"
        return self._function(name, phase)

    @cached_property
    def silent(self) -> bool:
        """Whether names leave transformations out: some are differentiated, but none of those without a scope."""
        named = [self._program.instructions[number].op_name for number in self._names]
        return self._derived != set() and not any("jvp()" in op_name for op_name in named)

    def _between(self, number: int, name: Name) -> tuple[str | None, str | None, str]:
        """Return the place of an operation that may or may not be differentiated, from the model around it."""
        follows, leads = number in self._after_gradients, number in self._before_gradients
        if follows and not leads:
            return None, "optimizer", "graph order"
        if leads and not follows and number in self._after_model:
            return "loss", "other", "graph order"
        return self._function(name, "other")

    def _function(self, name: Name, phase: str) -> tuple[str | None, str | None, str]:
        """Return the place of an operation of which only the compiled function is known; unknown for JAX's own functions."""
        function = str(name.function)
        if function not in self._scopes.functions:
            return None, None, "none"
        if self._scopes.functions[function]:
            return None, "optimizer", "operator name"
        return function, phase, "operator name"

    # --- the flow of data ----------------------------------------------------------------------------------------------------

    @cached_property
    def _gradients(self) -> set[int]:
        return {number for number, name in self._names.items() if name.backward}

    def _model(self, backward: bool) -> set[int]:
        """Return the layers' operations, by scopes, of the forward or the backward phase."""
        phase = "backward" if backward else "forward"
        return {number for number, place in self._places.items() if place[1] == phase and place[0] not in (None, "loss")}

    @cached_property
    def _derived(self) -> set[int]:
        return {number for number, name in self._names.items() if name.differentiated or name.backward}

    @cached_property
    def _loss_forward(self) -> set[int]:
        model = {number for number in self._model(False) if self._names[number].differentiated}
        return (_reached(model, self._uses) - _reached(model, self._sources)) & (self._derived - self._gradients)

    @cached_property
    def _loss_backward(self) -> set[int]:
        model = self._model(True)
        return (_reached(model, self._sources) & self._gradients) - _reached(model, self._uses)

    @cached_property
    def _optimizer(self) -> set[int]:
        """Return what is computed from gradients, and what is computed only for that."""
        derived = self._derived
        updating = {number for number in _reached(self._gradients, self._uses) if number in self._names} - derived
        preparing = _reached(updating, self._sources) - _reached(derived, self._sources) - derived
        return updating | preparing

    @cached_property
    def _after_gradients(self) -> set[int]:
        return _reached(self._model(True), self._uses)

    @cached_property
    def _before_gradients(self) -> set[int]:
        return _reached(self._model(True), self._sources)

    @cached_property
    def _after_model(self) -> set[int]:
        return _reached(self._model(False), self._uses)

    @cached_property
    def _uses(self) -> dict[int, list[int]]:
        """Return the instructions that use each one's result, into and out of the computations that an instruction runs."""
        program, uses = self._program, dict[int, list[int]]()
        parameters = {
            computation: {program.instructions[number].parameter: number for number in members}
            for computation, members in program.members.items()
        }
        for user in program.instructions.values():
            runs = [parameters[called] for called in user.called if called in parameters] if user.opcode in _REDUCING else []
            for place, operand in enumerate(user.operands):
                inside = [taken[place] for taken in runs if place in taken]
                if user.opcode == "conditional" and place:
                    inside = [runs[place - 1][0]] if place <= len(runs) and 0 in runs[place - 1] else []
                uses.setdefault(operand, []).extend(inside or [user.number])
            for called in user.called if runs else ():
                uses.setdefault(program.roots.get(called, -1), []).append(user.number)
        return uses

    @cached_property
    def _sources(self) -> dict[int, list[int]]:
        sources: dict[int, list[int]] = {}
        for source, users in self._uses.items():
            for user in users:
                sources.setdefault(user, []).append(source)
        return sources


def _reached(start: Collection[int], edges: dict[int, list[int]]) -> set[int]:
    """Return what is reachable over one or more edges."""
    result: set[int] = set()
    waiting = list(start)
    while waiting:
        for number in edges.get(waiting.pop(), ()):
            if number not in result:
                result.add(number)
                waiting.append(number)
    return result
