"""XLA's compiled programs (HloProto messages), read without XLA: instructions, what they compute and where they come from.

Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.protobuf_classes import message_classes

_Field = descriptor_pb2.FieldDescriptorProto
_INT, _BYTES, _MESSAGE = _Field.TYPE_INT64, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE

# message -> (field, number, type, repeated, message of the field); names are bytes, so a damaged one does not cause a refusal
_MESSAGES: dict[str, tuple[tuple[str, int, int, bool, str | None], ...]] = {
    "Proto": (("module", 1, _MESSAGE, False, "Module"),),
    "Module": (
        ("name", 1, _BYTES, False, None),
        ("computations", 3, _MESSAGE, True, "Computation"),
        ("entry", 6, _INT, False, None),
        ("schedule", 7, _MESSAGE, False, "Schedule"),
    ),
    "Schedule": (("sequences", 1, _MESSAGE, True, "Sequence"),),
    "Sequence": (("computation", 1, _INT, False, None), ("order", 2, _MESSAGE, False, "Order")),
    "Order": (("instructions", 1, _INT, True, None),),
    "Computation": (
        ("instructions", 2, _MESSAGE, True, "Instruction"),
        ("id", 5, _INT, False, None),
        ("root", 6, _INT, False, None),
    ),
    "Instruction": (
        ("name", 1, _BYTES, False, None),
        ("opcode", 2, _BYTES, False, None),
        ("shape", 3, _MESSAGE, False, "Shape"),
        ("metadata", 7, _MESSAGE, False, "Metadata"),
        ("parameter_number", 9, _INT, False, None),
        ("target", 28, _BYTES, False, None),
        ("id", 35, _INT, False, None),
        ("operands", 36, _INT, True, None),
        ("called", 38, _INT, True, None),
        ("backend_config", 43, _BYTES, False, None),
    ),
    "Shape": (("element_type", 2, _INT, False, None), ("dimensions", 3, _INT, True, None)),
    "Metadata": (("op_name", 2, _BYTES, False, None),),
}
_TYPES = {
    1: "bool", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32", 12: "f64",
    16: "bf16",
}  # fmt: skip


@dataclass
class Instruction:
    """One instruction. `op_name`: the scopes of the source code and the operation; empty if XLA made the instruction itself.

    dtype, dimensions: of its result; None and empty for tuples. target: of a custom call. operands: numbers of instructions.
    called: numbers of computations. computation: the number of the computation around it. parameter: its position among the
    computation's parameters, if it is one.
    """

    number: int
    name: str
    opcode: str
    op_name: str
    dtype: str | None
    dimensions: tuple[int, ...]
    target: str
    backend_config: str
    operands: tuple[int, ...]
    called: tuple[int, ...]
    computation: int
    parameter: int | None


@dataclass
class Program:
    """One module: its instructions by number, in the order of the file, and each computation's members and root.

    members: the numbers of each computation's instructions, in the order in which they run if the module gives it, else in that
    of the file.
    """

    name: str
    instructions: dict[int, Instruction] = field(default_factory=dict)
    members: dict[int, list[int]] = field(default_factory=dict)
    roots: dict[int, int] = field(default_factory=dict)

    def by_name(self) -> dict[str, Instruction]:
        """Return the instructions by name; names are unique in a module."""
        return {instruction.name: instruction for instruction in self.instructions.values()}

    def inside(self, instruction: Instruction) -> list[Instruction]:
        """Return the instructions of all computations that an instruction calls, directly or not."""
        result, waiting, seen = [], list(instruction.called), set(instruction.called)
        while waiting:
            for number in self.members.get(waiting.pop(), []):
                inner = self.instructions[number]
                result.append(inner)
                waiting += [called for called in inner.called if called not in seen]
                seen.update(inner.called)
        return result


def parse(content: bytes, source: str) -> Program:
    """Decode one HloProto; raise EvidenceError, naming `source`, if it cannot be decoded."""
    try:
        module = _classes()["Proto"].FromString(content).module
    except DecodeError as error:
        raise EvidenceError(f"{source}: a compiled program in it cannot be read ({error}); record it again") from error
    program = Program(_text(module.name))
    for computation in module.computations:
        program.members[computation.id] = [instruction.id for instruction in computation.instructions]
        program.roots[computation.id] = computation.root
        for instruction in computation.instructions:
            program.instructions[instruction.id] = _instruction(instruction, computation.id)
    for sequence in module.schedule.sequences:
        order = list(sequence.order.instructions)
        if set(order) == set(program.members.get(sequence.computation, [])):
            program.members[sequence.computation] = order
    return program


def _instruction(message: Any, computation: int) -> Instruction:
    opcode = _text(message.opcode)
    return Instruction(
        number=message.id,
        name=_text(message.name),
        opcode=opcode,
        op_name=_text(message.metadata.op_name),
        dtype=_TYPES.get(message.shape.element_type),
        dimensions=tuple(message.shape.dimensions),
        target=_text(message.target),
        backend_config=_text(message.backend_config),
        operands=tuple(message.operands),
        called=tuple(message.called),
        computation=computation,
        parameter=message.parameter_number if opcode == "parameter" else None,
    )


def _text(value: bytes) -> str:
    return value.decode("utf8", errors="replace")


@cache
def _classes() -> dict[str, Any]:
    """Return the message classes by name, made from _MESSAGES."""
    return message_classes("kernelscope.hlo", _MESSAGES)
