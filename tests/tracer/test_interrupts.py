"""Ctrl-C and other signals while something must not be cut in two."""

import os
import signal
import threading

import pytest

from kernelscope.tracer.inside import interrupts


def test_an_interrupt_waits_for_the_end_of_the_block():
    done = []

    def interrupted():
        with interrupts.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigpending()  # the signal would have been raised by now
            done.append("rest of the block")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["rest of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_is_raised_without_an_interrupt_or_where_it_is_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_may_use_it():
    entered = []

    def work():
        with interrupts.deferred():
            entered.append(threading.current_thread().name)

    thread = threading.Thread(target=work, name="beside")
    thread.start()
    thread.join()
    assert entered == ["beside"]


def test_what_a_handler_raises_is_told_from_what_we_do():
    def over(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    try:
        with pytest.raises(TimeoutError) as raised, interrupts.deferred():
            os.kill(os.getpid(), signal.SIGALRM)
        assert interrupts.raised_by_a_handler(raised.value)
        assert interrupts.raised_late(raised.value), "all of the block was done"
        with pytest.raises(TimeoutError) as raised:
            signal.raise_signal(signal.SIGALRM)
        assert interrupts.raised_by_a_handler(raised.value)
        assert not interrupts.raised_late(raised.value)
        assert not interrupts.raised_by_a_handler(ValueError("ours"))
    finally:
        signal.signal(signal.SIGALRM, before)
