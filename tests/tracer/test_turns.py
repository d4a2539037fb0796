"""The order of turns is balanced."""

from kernelscope.tracer.outside import turns


def test_two_sides_take_turns_a_b_b_a_b_a_a_b():
    order = "".join("AB"[side] for number in range(4) for side in turns.order(2, number))
    assert order == "ABBABAAB"


def test_every_side_is_in_every_round_once():
    assert all(sorted(turns.order(4, number)) == [0, 1, 2, 3] for number in range(64))


def test_a_linear_drift_cancels_between_any_two_sides():
    position = {0: [], 1: [], 2: []}
    for place, side in enumerate(side for number in range(8) for side in turns.order(3, number)):
        position[side].append(place)
    means = [sum(places) / len(places) for places in position.values()]
    assert max(means) - min(means) < 1e-9
