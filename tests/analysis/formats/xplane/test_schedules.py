"""The order in which a compiled program runs its instructions; test_h200_workloads.py has the same of real kernels."""

import numpy as np
import pandas as pd

from kernelscope.analysis.formats.xplane.hlo import Instruction, Program
from kernelscope.analysis.formats.xplane.schedules import Schedule

GEMM = "__cublas$gemm"


def program(**computations):
    """Return a program of computations, the first the entry; each a list of (name, opcode), (name, target) or (name, called)."""
    numbers = {name: number for number, name in enumerate(computations)}
    result = Program("jit_step")
    for computation, listed in computations.items():
        result.members[numbers[computation]] = []
        for name, what in listed:
            number = len(result.instructions)
            called = (numbers[what],) if what in numbers else ()
            opcode = "while" if called else "custom-call" if what == GEMM else what
            one = Instruction(number, name, opcode, "", "f32", (number,), GEMM if what == GEMM else "", "", (), called, 0, None)
            result.instructions[number] = one
            result.members[numbers[computation]].append(number)
    return result


def named(schedule, kernels):
    places = schedule.places(pd.Series(kernels, dtype="category"), np.full(len(kernels), -1, dtype=np.int64))
    return [schedule.order[place].name if place >= 0 else None for place in places]


def test_kernels_of_libraries_are_of_the_calls_between_those_of_known_instructions():
    schedule = Schedule(program(entry=[("a", "fusion"), ("call.1", GEMM), ("call.2", GEMM), ("b", "fusion"), ("call.3", GEMM)]))
    once = ["a", "sgemm", "sgemm", "b", "cutlass", "splitKreduce"]
    found = ["a", "call.1", "call.2", "b", "call.3", "call.3"]
    # what runs last has nothing behind it that would say where it is
    assert named(schedule, once * 3) == found * 2 + [*found[:-2], None, None]
    assert named(schedule, ["a", "sgemm", "b", "a"]) == ["a", None, "b", "a"], "one kernel of two calls"
    assert named(schedule, ["a", "sgemm", "other", "third", "b", "a"])[1:4] == [None] * 3, "three kernels of two calls"


def test_rounds_of_a_loop_have_its_calls_again_and_again():
    schedule = Schedule(
        program(entry=[("a", "fusion"), ("loop", "body"), ("b", "fusion")], body=[("x", "fusion"), ("call", GEMM)])
    )
    assert named(schedule, ["a", *["x", "sgemm"] * 3, "b"]) == ["a", *["x", "call"] * 3, "b"]


def test_a_damaged_program_that_holds_itself_ends():
    damaged = program(entry=[("a", "fusion"), ("loop", "body")], body=[("x", "fusion"), ("again", "body"), ("back", "entry")])
    assert [one.name for one in Schedule(damaged).order].count("x") <= 1
    deep = {f"c{number}": [(f"x{number}", "fusion"), (f"w{number}", f"c{number + 1}")] for number in range(3000)}
    assert Schedule(program(**deep, c3000=[("end", "fusion")])).order
