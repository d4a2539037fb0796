"""When a grid is too small for its device, and when its blocks are uneven. Numbers are worked out by hand."""

import dataclasses

import pytest

from kernelscope.analysis.device.launches import Launch, rules
from kernelscope.analysis.trace import Trace

UNKNOWN = Launch("64,1,1", "256,1,1", 64, 256, 0, None, None, None, None)


@pytest.mark.parametrize(
    ("known", "small", "uneven"),
    [
        ({}, False, False),
        ({"blocks": 0}, False, False),
        ({"blocks": 7}, True, False),
        ({"processors": 108}, True, False),
        ({"processors": 64}, False, False),
        ({"waves": 0.5}, True, False),
        ({"waves": 0.0}, True, False),
        ({"waves": 1.0}, False, False),
        ({"active": 0.59}, True, False),  # 64 blocks, and no GPU's number of multiprocessors is known
        ({"active": 0.71}, False, False),
        ({"active": 0.59, "blocks": 256}, False, True),
        ({"active": 0.59, "processors": 40}, False, True),
        ({"active": 0.59, "waves": 3.0}, False, True),
        ({"active": 0.59, "blocks": 0}, False, False),
    ],
)
def test_whether_a_grid_is_too_small(known, small, uneven):
    launch = dataclasses.replace(UNKNOWN, **known)
    assert (launch.is_too_small, launch.is_uneven) == (small, uneven)


def test_multiprocessors_without_a_block():
    assert dataclasses.replace(UNKNOWN, processors=80, blocks=16).idle_processors == 64
    assert dataclasses.replace(UNKNOWN, processors=80, blocks=0).idle_processors == 0
    assert dataclasses.replace(UNKNOWN, processors=16, blocks=80).idle_processors == 0


def test_rules_are_quoted_by_saving_and_not_beyond_a_few_sentences():
    long = "This is the first sentence. " + "It goes on and on, and on. " * 30
    told = [{"kernel": "k", "text": long, "saving": None}, {"kernel": "k", "text": "Short.", "saving": 0.25},
            {"kernel": "other", "text": "No.", "saving": 0.9}]  # fmt: skip
    quoted = rules(Trace(info={"rules": told}), "k", 5)
    assert quoted[0] == 'Nsight Compute: "Short." (its estimate: 25% less time)'
    assert len(quoted) == 2
    assert len(quoted[1]) < 350
    assert quoted[1].endswith('on."')
    assert rules(Trace(info={}), "k") == []
