"""Where the steps of a program change for good, and where they only vary."""

from dataclasses import replace

import numpy as np
import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE
from kernelscope.analysis.advise.advice import of_subject
from kernelscope.analysis.advise.changing import Change, change
from kernelscope.reports.advice import answer
from tests.analysis.advise.test_parameters import subject

MS = 1_000_000


def of(*milliseconds):
    return change(np.array([round(ms * MS) for ms in milliseconds], dtype="int64"))


def test_one_loop_and_then_another_one():
    assert of(*[1.0, 1.1, 0.9, 1.0, 1.0] * 2, *[17.0, 16.0, 18.0] * 3) == Change(11, MS, 17 * MS)
    assert of(*[17.0, 16.0, 18.0] * 3, *[1.0] * 6) == Change(10, 17 * MS, MS)


@pytest.mark.parametrize(
    "lengths",
    [
        [1.0, 17.0] * 8,  # in turns
        [1.0] * 12 + [17.0] * 2,  # a slow end
        [1.0] * 8 + [1.8] * 8,  # no other program
        [float(step) for step in range(1, 41)],  # it grows
        [1.0] * 6 + [17.0] * 6 + [1.0] * 6,  # and back again
        [1.0] * 7,
        [0.0] * 10,
    ],
)
def test_steps_that_vary_or_grow_do_not_change_for_good(lengths):
    assert of(*lengths) is None


def of_facts(**facts):
    made = subject([{"part": COMPUTE, "operator": "aten::mm", "name": "sgemm", "count": 1.0, "ms": 9.0}], operators=[])
    return of_subject(replace(made, facts={**made.facts, **facts}))


def test_the_answer_says_with_which_step_they_change():
    said = answer(of_facts(changed=Change(22, MS, 17 * MS)))
    assert "Steps change with the 22nd that was measured, from 1.00 ms to 17.0 ms" in said
    assert "--steps A:B" in said
    assert "Steps change" not in answer(of_facts())


@pytest.mark.parametrize(
    ("traced_ms", "said"),
    [(300, "steps took 300 ms while recorded, 30 times the clean step"), (150, "the parts are rough estimates"), (10.5, None)],
)
def test_parts_of_another_loop_are_told_from_what_recording_costs(traced_ms, said):
    """The clean step takes 10 ms."""
    notes = " ".join(of_facts(traced_step_ns=traced_ms * MS)["notes"])
    assert ("while recorded" in notes) is (said is not None)
    assert said is None or said in notes
    assert ("another loop of the program" in notes) is (traced_ms == 300)
