"""Advice for steps that get longer: from when they are told, how much, and which line of the program grows."""

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.accounting.growth import Growth
from kernelscope.analysis.advise import host_account, notes
from kernelscope.analysis.advise.rules import growing
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.trace import Trace, conform

MS = 1_000_000
FILE = "train.py"
GROWN = Growth(2 * MS, 10 * MS, 40)


def subject(growing_ms, found=GROWN, step_ms=6):
    """Recorded steps of two lines each: line 4 takes 3 ms in all, and line 5 what is given."""
    steps, lines, now = [], [], 0
    place = {"file": FILE, "function": "train", "thread": 1}
    for number, own in enumerate(growing_ms):
        middle, end = now + 3 * MS, now + (3 + own) * MS
        steps.append({"step": number, "warmup": False, "thread": 1, "start_ns": now, "end_ns": end})
        lines.append({**place, "line": 4, "text": "loss = net(x)", "start_ns": now, "end_ns": middle})
        lines.append({**place, "line": 5, "text": "  sorted(history)", "start_ns": middle, "end_ns": end})
        now = end
    tables = {"steps": conform("steps", pd.DataFrame(steps)), "host_lines": conform("host_lines", pd.DataFrame(lines))}
    trace = Trace(info={"framework": "pytorch"}, **tables)
    rows, _ = host_account.of_trace(trace)
    facts = {"growth": found, "framework": "pytorch"}
    return Subject("run", trace, rows, step_ms * MS, "cpu", None, STEPS, None, len(steps), facts)


def test_the_line_that_grows_is_named_with_what_it_takes():
    (one,) = growing.longer(subject(np.arange(10, 30, 2)))
    assert one.title == "steps get longer as the program runs: 2.00 ms at first, 10.0 ms at the end of 40 steps"
    assert one.saves_ns == (6 - 2) * MS
    assert one.evidence == [
        "Of 40 clean steps, the median of the second quarter is 2.00 ms, of the last 10.0 ms.",
        "Over 10 recorded steps, what grows most is train.py:5 `sorted(history)` (10.0 ms in the first, 28.0 ms in the last).",
    ]


@pytest.mark.parametrize("own", [[10] * 10, [20, 10] * 5, list(range(28, 8, -2))], ids=["same", "uneven", "less"])
def test_no_line_is_named_where_none_grows(own):
    (one,) = growing.longer(subject(own))
    assert len(one.evidence) == 1


def test_nothing_is_said_of_steps_that_do_not_grow():
    assert growing.longer(subject([10] * 10, found=None)) == []
    assert growing.longer(subject([10] * 10, step_ms=2)) == []


@pytest.mark.parametrize(("lengths_ms", "said"), [(np.linspace(10, 25, 40), 1), (np.full(40, 10.0), 0)], ids=["longer", "equal"])
def test_a_note_says_it_of_captures(lengths_ms, said):
    """What grows may be meant to, such as the cache of a text that is generated: nothing is to be done about it."""
    made = subject([10] * 10)
    made.facts, made.lengths = {}, (lengths_ms * MS).astype(np.int64)
    assert growing.longer(made) == []
    said_here = notes._growing(made)
    assert len(said_here) == said
    assert all(note.startswith("steps get longer one after another, from 15.6 ms to 23.3 ms over 40 steps") for note in said_here)
