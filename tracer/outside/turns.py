"""The order in which children take turns, so that the machine's drift hits all alike."""

from __future__ import annotations

from collections.abc import Iterator


def order(sides: int, rounds: int) -> Iterator[tuple[int, int]]:
    """Yield (round, side): A B, B A, B A, A B, ... so that linear and slower drifts cancel between sides.

    Whether a round runs forwards or backwards follows the Thue-Morse sequence, which makes the order balanced on every scale.
    """
    for number in range(rounds):
        forwards = bin(number).count("1") % 2 == 0
        for side in range(sides) if forwards else reversed(range(sides)):
            yield number, side
