"""What pages of captures say of the whole recording."""

from __future__ import annotations

import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.envelopes import envelopes
from kernelscope.analysis.advise import advise
from kernelscope.reports import captures
from tests.places import corpus

STARTING = "nvprof/sandeep-krishnamurthy__mxnet-profiler-demo__basic_nvprof_output.nvvp"
WINDOWED = "nvprof/josiahdavis__profiling-lm__net_189edf9a5e.sql"


def test_the_parts_of_a_whole_recording_add_up_to_it():
    tables, told = envelopes(ks.read(corpus(STARTING))), advise(corpus(STARTING))
    parts = {part["what"]: part["ns"] for part in told["recorded_parts"]}
    assert sum(parts.values()) == captures.totals_of(tables)["wall_ns"] == told["recorded_ns"]
    assert max(parts, key=lambda what: parts[what]) == "waiting for the host"
    assert parts["computing"] == captures.totals_of(tables)["kernel_busy_ns"]


@pytest.mark.parametrize(
    ("advised", "said"),
    [
        (
            {"per": "a step", "step_ns": 5_000_000},
            "The answer above is about a step, 5.00 ms. The chart and the tables below cover",
        ),
        (
            {"per": "in all", "step_ns": 53_000_000},
            "The answer above is about the 53.0 ms from the first to the last work on the device",
        ),
        ({"per": "in all", "step_ns": 2_368_000_000}, ""),
        ({"per": "in all", "step_ns": 7_000_000, "recorded_ns": 2_368_000_000}, ""),
    ],
)
def test_it_is_said_of_which_part_of_a_recording_the_answer_is(advised, said):
    tables = envelopes(ks.read(corpus(WINDOWED)))
    scope = captures.scope(advised, tables)
    assert scope.startswith(said)
    assert bool(scope) == bool(said)
    assert not scope or "2.37 s" in scope
