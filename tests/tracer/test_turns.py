"""The order of turns is balanced."""

from kernelscope.tracer.outside import turns


def test_two_sides_take_turns_a_b_b_a_b_a_a_b():
    order = "".join("AB"[side] for _, side in turns.order(2, 4))
    assert order == "ABBABAAB"


def test_every_side_has_every_window_once():
    seen = list(turns.order(4, 6))
    assert sorted(seen) == [(window, side) for window in range(6) for side in range(4)]
    for side in range(4):
        assert [window for window, s in seen if s == side] == list(range(6)), "a side's windows come in order"


def test_a_linear_drift_cancels_between_any_two_sides():
    position = {0: [], 1: [], 2: []}
    for place, (_, side) in enumerate(turns.order(3, 8)):
        position[side].append(place)
    means = [sum(places) / len(places) for places in position.values()]
    assert max(means) - min(means) < 1e-9
