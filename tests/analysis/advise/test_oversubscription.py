"""Advice on more threads than cores: only with evidence that it costs."""

from dataclasses import replace

import pytest

from kernelscope.analysis.advise.advice import of_subject
from kernelscope.analysis.advise.rules import oversubscription
from tests.analysis.advise.test_host import MS, on_cores


def made(lost=100.0, threads=8, foreign=0.1, used_ms=18.0, system_ms=0.5):
    """A step of 10 ms on two cores, 8 of them in kernels."""
    subject = on_cores(foreign, threads)
    clean = {} if lost is None else {"involuntary_switches": lost, "system_ns": system_ms * MS}
    return replace(subject, facts={**subject.facts, "clean": clean}, used_ns=used_ms * MS)


def test_threads_that_lose_their_cores():
    (one,) = oversubscription.too_many_threads(made())
    assert one.title == "operators use 8 threads on 2 cores"
    assert one.saves_ns == 4 * MS, "half of the kernels' time"
    assert one.evidence[0] == "Threads lose their core 100 times in each step, 5.6 times for each ms of its use."
    assert "torch.set_num_threads(2)" in one.remedy
    assert not any("operating system" in said for said in one.evidence)
    (other,) = oversubscription.too_many_threads(made(system_ms=9.0))
    assert "The operating system's code takes 50% of the processor time." in other.evidence


def test_it_hides_no_other_advice_and_has_a_page():
    (one,) = [one for one in of_subject(made())["advice"] if one["topic"] == oversubscription.TOPIC]
    assert one["link"] == "https://docs.pytorch.org/docs/stable/generated/torch.set_num_threads.html"


@pytest.mark.parametrize(
    "changes",
    [{"threads": 2}, {"threads": 1}, {"lost": 3.0}, {"lost": None}, {"used_ms": 180.0}],
    ids=["as many as cores", "fewer", "hardly lost", "not recorded", "no more often than others take them"],
)
def test_without_evidence_nothing_is_said(changes):
    assert oversubscription.too_many_threads(made(**changes)) == []
    assert oversubscription.notes(made(**changes)) == []


def test_on_a_busy_machine_it_is_a_note():
    """Others take the cores, too: what fewer threads would save is not known."""
    assert oversubscription.too_many_threads(made(foreign=1.6)) == []
    (note,) = oversubscription.notes(made(foreign=1.6))
    assert note.startswith("operators use 8 threads on 2 cores, and lose them often")
