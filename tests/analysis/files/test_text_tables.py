"""Numbers and rows of printed tables."""

from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelscope.analysis.files import text_tables

POWERS = {"ns": 0, "us": 3, "ms": 6, "s": 9}


def series(*values):
    return pd.Series(values, dtype="str")


@given(st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 9), st.sampled_from(list(POWERS))), min_size=1, max_size=20))
def test_times_are_exact(numbers):
    texts, expected = [], []
    for digits, decimals, unit in numbers:
        value = Decimal(digits).scaleb(-decimals)
        texts.append(f"{value:.{decimals}f}{unit}")
        expected.append(int(value.scaleb(POWERS[unit]).to_integral_value(ROUND_HALF_UP)))
    assert text_tables.nanoseconds(pd.Series(texts, dtype="str")).tolist() == expected


@given(st.lists(st.text(max_size=12), min_size=1, max_size=20))
def test_any_text_is_a_time_or_null(texts):
    found = text_tables.nanoseconds(pd.Series(texts, dtype="str"), "ms")
    assert found.dropna().ge(0).all()
    text_tables.counts(pd.Series(texts, dtype="str"))
    text_tables.sizes(pd.Series(texts, dtype="str"), text_tables.BINARY_SIZES, "kb")
    assert text_tables.resolution(pd.Series(texts, dtype="str"), "s") >= 1


def test_the_column_has_the_unit_that_values_do_not():
    found = text_tables.nanoseconds(series("6.62e-03", "1.5us", "2,000.5", None, "-", "1" * 19), "ms")
    assert [None if value is pd.NA else value for value in found] == [6620, 1500, 2_000_500_000, None, None, None]
    assert text_tables.nanoseconds(series("12", "13"), None).isna().all()
    assert text_tables.nanoseconds(series("36428601057", "0"), "ns").tolist() == [36428601057, 0]


def test_micro_may_be_the_greek_letter():
    assert text_tables.nanoseconds(series("1.5\u00b5s", "1.5\u03bcs", "1.5\u03bb")).fillna(-1).tolist() == [1500, 1500, -1]


def test_times_too_large_for_ns_are_null():
    assert text_tables.nanoseconds(series("999999999999s", "1e30s", "9e-40s")).fillna(-1).tolist() == [-1, -1, 0]


def test_resolution_is_that_of_the_coarsest():
    assert text_tables.resolution(series("1.2345ms", "3.45336s", "896ns")) == 10_000
    assert text_tables.resolution(series("32523.2113", None), "ms") == 100
    assert text_tables.resolution(series("0.000006"), "ms") == 1


def test_sizes_are_of_1000_or_1024():
    assert text_tables.sizes(series("3.9063KB", "4B", "256.00MB"), text_tables.BINARY_SIZES).tolist() == [4000, 4, 256 << 20]
    assert text_tables.sizes(series("13627.435", "0.164"), text_tables.DECIMAL_SIZES, "mb").tolist() == [13_627_435_000, 164_000]


def test_counts_are_whole():
    found = text_tables.counts(series("1,234", "5", "5.0", "5.5", "x", "7us"))
    assert [None if value is pd.NA else value for value in found] == [1234, 5, 5, None, None, None]


def test_names_hold_what_they_like():
    lines = [
        '1,"f<a, b>(c)",7', '2,plain,8', '3,"say "hi", you",9', '4,"two', 'lines",10', "", '5,"quote"",11',
        '6,"doubled ""x"", y",12',
        "not a row", "7,,13", "8,None,14",
    ]  # fmt: skip
    rows, odd = text_tables.delimited(lines, 3, 1)
    assert rows[0].tolist() == ["1", "2", "3", "4", "5", "6", "7", "8"]
    names = ["f<a, b>(c)", "plain", 'say "hi", you', "two\nlines", 'quote"', 'doubled "x", y']
    assert rows[1].tolist()[:6] == names
    assert rows[1].isna().tolist() == [False] * 6 + [True, True]
    assert rows[2].tolist() == ["7", "8", "9", "10", "11", "12", "13", "14"]
    assert odd == ["not a row"]


def test_rows_with_more_cells_than_titles_are_none():
    """Decimal commas divide numbers: what follows is no name that holds commas."""
    decimal = '"GPU activities",68,739,268,352,6000,"kernel(int, int*)"'
    table, unread = text_tables.delimited([decimal, '"GPU activities",68.7,6000,kernel(int, int*)'], 4, 3)
    assert unread == [decimal]
    assert table[3].tolist() == ["kernel(int, int*)"]


def test_columns_are_cut_where_the_dashes_are():
    lines = ["  1  a  b   x y", " 22  b\u2026     z", " 3 x  out of line", "1  2  by hand"]
    rows, odd = text_tables.columns_at(lines, [(1, 3), (5, 9), (11, 14)])
    assert rows.to_numpy().tolist()[:2] == [["1", "a  b", "x y"], ["22", "b\u2026", "z"]]
    assert rows.to_numpy().tolist()[2:] == [["1", "2", "by hand"]]
    assert odd == [" 3 x  out of line"]


def test_cells_stand_two_spaces_apart():
    lines = ["1.0ms  (32 1 1)  -  GeForce GTX 980  2  25  [CUDA memcpy  HtoD]", "1.0ms  x"]
    rows, odd = text_tables.spaced(lines, 7)
    assert rows.iloc[0].fillna("null").tolist() == [
        "1.0ms",
        "(32 1 1)",
        "null",
        "GeForce GTX 980",
        "2",
        "25",
        "[CUDA memcpy  HtoD]",
    ]
    assert odd == ["1.0ms  x"]


@pytest.mark.parametrize("lines", [[], [""], ["\x00"], ['"'], [",,,"], ["\ufffd" * 3]])
def test_anything_can_be_cut(lines):
    text_tables.delimited(lines, 3, 1)
    text_tables.columns_at(lines, [(0, 2), (3, 4)])
    text_tables.spaced(lines, 3)


def test_marks_around_cells_do_not_move_columns():
    rows = ["gemm       **4.5ms**  12", "**add_**  `17.0us`   3", "a**b       1.0ms     __7__", "f(char**)  2.0ms     4"]
    table, odd = text_tables.columns_at(rows, [(0, 9), (11, 18), (21, 24)])
    assert table.to_numpy().tolist() == [
        ["gemm", "4.5ms", "12"],
        ["add_", "17.0us", "3"],
        ["a**b", "1.0ms", "7"],
        ["f(char**)", "2.0ms", "4"],
    ]
    assert not odd
