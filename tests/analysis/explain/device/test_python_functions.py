"""Functions of Python that took another's place under a like name, and profiles of other programs."""

import pytest

import kernelscope as ks

TITLES = "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n"


def explained(tmp_path, *sides):
    paths = []
    for name, rows in zip("ab", sides, strict=True):
        whole = sum(own for _, own, _ in rows)
        above = f"   99 function calls in {whole:.3f} seconds\n\n"
        lines = "".join(f"{calls:>9}    {own:.3f}    0.000   {own:.3f}    0.000 {place}\n" for calls, own, place in rows)
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(above + TITLES + lines)
    return ks.explain(*paths)


CYTHON = (3, 1.648, "cython_filters.py:5(cython_color2sepia)")
MAIN = (1, 0.1, "main.py:1(main)")


@pytest.mark.parametrize(
    ("other", "paired"),
    [
        ((3, 0.014, "numba_filters.py:9(numba_color2sepia)"), True),
        ((30, 0.014, "numba_filters.py:9(numba_color2sepia)"), False),  # called more often
        ((3, 0.014, "numba_filters.py:9(read_sepia)"), False),  # hardly a word in common
        ((3, 0.014, "cython_filters.py:9(blur)"), False),  # the file alone is no likeness
    ],
)
def test_a_function_of_a_like_name_that_is_called_as_often_takes_another_s_place(tmp_path, other, paired):
    (first, *_) = explained(tmp_path, [CYTHON, MAIN], [other, MAIN])["findings"]
    assert ("takes 118 times as long in A as in B (there `numba_filters.py: numba_color2sepia`)" in first["title"]) is paired
    assert first["title"].startswith("only A calls") is not paired


OWN = [
    (10 + number, 2.0 + number, f"net.py:{number}({name})") for number, name in enumerate(("load", "draw", "step", "sum", "fit"))
]
OTHER = [
    (40 + number, 1.0 + number, f"app.py:{number}({name})") for number, name in enumerate(("get", "put", "ask", "win", "lose"))
]


def test_profiles_without_a_function_in_common_are_of_other_programs(tmp_path):
    result = explained(tmp_path, OWN, OTHER)
    (said,) = result["differs"]
    assert said.endswith("these seem to be different programs")
    assert {one["confidence"] for one in result["findings"]} == {"low"}


@pytest.mark.parametrize(("a", "b"), [([*OWN, MAIN], [*OTHER, MAIN]), (OWN[:2], OTHER), (OWN, OWN)])
def test_profiles_with_one_in_common_or_of_few_functions_are_not(tmp_path, a, b):
    assert explained(tmp_path, a, b)["differs"] == []
