"""The order in which children take turns, so that the machine's drift affects all alike."""

from __future__ import annotations


def order(sides: int, number: int) -> list[int]:
    """Return the order of the sides in this round, counted from 0: A B, B A, B A, A B, ... so that slow drift cancels.

    Whether a round runs forwards or backwards follows the Thue-Morse sequence, which balances the order on every scale.
    """
    forwards = bin(number).count("1") % 2 == 0
    return list(range(sides) if forwards else reversed(range(sides)))
