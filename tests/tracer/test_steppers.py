"""Threads that make steps: what is asked of them keeps nothing of the program's."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from kernelscope.tracer.inside.profiling.steppers import Steppers


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_step_had_in_its_variables_goes_with_it(no_collector: None, threads: int) -> None:
    steppers = Steppers()

    class Batch:
        pass

    def step() -> weakref.ref[Batch]:
        batch = Batch()
        for thread in range(threads):
            steppers.add(threading.get_ident() + thread)
        return weakref.ref(batch)

    assert step()() is None
