# ruff: noqa: RUF001 (ratios are shown with a multiplication sign)
import math

import pytest

from kernelscope.reports import units


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0 ns"),
        (7, "7.00 ns"),
        (1_000, "1.00 µs"),
        (215_400, "215 µs"),
        (4_312_000, "4.31 ms"),
        (43_120_000, "43.1 ms"),
        (2_040_770_000, "2.04 s"),
        (-4_312_000, "-4.31 ms"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(ns, expected):
    assert units.duration(ns) == expected


@pytest.mark.parametrize("value", [None, math.nan, math.inf, True])
@pytest.mark.parametrize(
    "show",
    [units.duration, units.signed, units.ratio, units.percent, units.overhead, units.size, units.count, units.rate],
)
def test_what_is_unknown_is_never_a_number(show, value):
    assert show(value) == units.UNKNOWN


def test_a_column_has_one_unit_that_keeps_its_small_values_visible():
    column = [6_420_000, 2_040_000_000]
    unit = units.common_unit(column)
    assert unit == "ms"
    assert [units.in_unit(ns, unit) for ns in [*column, 0, 1_000, -1_000, None]] == [
        "6.42", "2,040.00", "0.00", "<0.01", ">-0.01", "—",
    ]  # fmt: skip


def test_intervals_ratios_shares_and_sizes():
    assert units.interval([4_100_000, 4_520_000]) == "4.10 to 4.52 ms"
    assert units.interval(None) == "—"
    assert [units.ratio(value) for value in (1, 12.34, 152)] == ["1.00×", "12.3×", "152×"]
    assert [units.ratio(value, 1) for value in (1, 12.34, 7284)] == ["1.0×", "12×", ">999×"]
    assert [units.percent(value) for value in (0, 0.00001, 0.9341, 1)] == ["0.0%", "<0.1%", "93.4%", "100.0%"]
    assert [units.size(value) for value in (0, 999, 341_000_000, 1.6e9)] == ["0 B", "999 B", "341 MB", "1.60 GB"]
    assert units.overhead(0.031) == "+3.1%"
    assert units.signed(0) == "±0 ns"


def test_energies_have_the_unit_that_suits_them():
    assert [units.energy(value) for value in (None, 0, 7, 4_312, 79_700_000, 2_500_000_000)] == [
        units.UNKNOWN, "0 J", "7.00 µJ", "4.31 mJ", "79.7 J", "2.50 kJ",
    ]  # fmt: skip
    assert units.energy_interval(4_100, 4_520) == "4.10 to 4.52 mJ"
    assert units.energy_interval(None, 900) == "up to 900 µJ"
    assert units.energy_interval(900, None) == "from 900 µJ"
    assert units.energy_interval(None, None) == units.UNKNOWN
    assert units.watts(312.4) == "312 W"
