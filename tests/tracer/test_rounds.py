"""Which of the calls that end a step does end one, where a program has several."""

from __future__ import annotations

from kernelscope.tracer.inside.profiling.rounds import SILENT, Rounds


def test_one_optimizer_ends_every_step() -> None:
    rounds = Rounds()
    assert [rounds.ends(key) for key in "aaaa"] == [True] * 4


def test_a_round_of_two_optimizers_is_one_step() -> None:
    rounds = Rounds()
    assert [rounds.ends(key) for key in "dgdgdg"] == [True, True, False, True, False, True]


def test_a_critic_that_steps_five_times_for_one_step_of_the_generator() -> None:
    rounds = Rounds()
    ends = [rounds.ends(key) for key in "cccccg" * 3]
    assert ends[6:] == [False, False, False, False, False, True] * 2


def test_ends_that_were_only_noted_count() -> None:
    rounds = Rounds()
    assert [rounds.ends(key) for key in ("first", "second")] == [True, True]
    for noted in range(1, 100):
        rounds.noted(noted)
        assert not rounds.ends("first")
    found = []
    for _ in range(60):
        rounds.noted(99)
        found.append(rounds.ends("first"))
    assert found.index(True) == SILENT - 2  # one of the silent ones was already told above


def test_one_that_no_longer_steps_gives_way() -> None:
    rounds = Rounds()
    for key in "ab":
        rounds.ends(key)
    ends = [rounds.ends("a") for _ in range(SILENT + 3)]
    assert ends == [False] * (SILENT - 1) + [True] * 4
