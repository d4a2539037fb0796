"""What explanations of totals say in words: what was saved and lost, shares, how often work runs, and what to do next."""

import pytest

from kernelscope.reports import explanation

BEFORE = [("solve(int)", 4, 80.0), ("pack_rows(int)", 4, 20.0), ("exchange(int)", 1, 6.0)]
AFTER = [("solve(int)", 4, 44.0), ("pack_rows(int)", 4, 47.0), ("exchange(int)", 1, 6.0)]


def test_what_is_saved_and_what_is_lost_names_the_causes_by_number(explained):
    result = explained(BEFORE, AFTER)
    first, second = result["findings"]
    assert (first["explains_ns"], second["explains_ns"]) == (-36_000_000, 27_000_000)
    said = "B saves 36.0 ms by cause 1 below and loses 27.0 ms by cause 2: the difference of both sides is only what is left"
    assert result["hidden"] == said
    assert explained(BEFORE, [AFTER[0], *BEFORE[1:]])["hidden"] is None


def test_a_cause_larger_than_the_difference_has_no_share(explained):
    result = explained(BEFORE, AFTER)
    assert [one.share for one in explanation.causes(result)[0]] == ["", ""]
    whole = explained(BEFORE, [AFTER[0], *BEFORE[1:]])
    assert [one.share for one in explanation.causes(whole)[0]] == ["100%"]


def test_all_time_known_by_name_is_not_worth_a_line(explained):
    result = explained(BEFORE, AFTER)
    assert not any("known by name" in fact for fact in explanation.facts(result))
    result["a"]["coverage"] = 0.97
    assert explanation.facts(result)[0].startswith("time known by name: 97.0% and 100.0%")


def test_without_an_interval_none_is_mentioned(explained):
    said = " ".join(explanation.gaps(explained(BEFORE, AFTER)))
    assert "each side was recorded once: how much two runs of one program differ is unknown" in said
    assert "the interval does not" not in said


def test_what_to_do_begins_with_one_execution_and_names_the_slower_side(explained):
    (first,) = explained(BEFORE, [AFTER[0], *BEFORE[1:]])["findings"]
    assert first["remedy"].startswith(
        "one execution takes 20.0 ms in A, 11.0 ms in B; to see whether A's problem is larger, record grids"
    )


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (
            [],
            "see whether B does this work in other kernels, or does without it; `breakdown --by kernel` of both lists all "
            "kernels",
        ),
        ([("at_first(int)", 2, 60.0)], None),
    ],
)
def test_work_of_one_side_is_not_called_needless(explained, after, said):
    rest = [("solve(int)", 4, 80.0)]
    result = explained([*rest, ("gather_halo(int)", 9, 70.0)], [*rest, *after])
    assert all("does not need" not in one["remedy"] for one in result["findings"])
    if said:
        assert [one["remedy"] for one in result["findings"]] == [said]


def test_fewer_and_longer_executions_that_do_the_same_are_not_split(explained):
    """600 executions of 10 µs became 10 of 500 µs: their number and their length say nothing apart."""
    (found,) = explained([("find_best(int)", 600, 6.0)], [("find_best(int)", 10, 5.0)])["findings"]
    assert not any("less often" in sentence for sentence in found["evidence"])
