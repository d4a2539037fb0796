"""Each name has one colour in all charts, and different names have colours that can be told apart."""

from __future__ import annotations

import itertools
import re

import pytest

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.advise import advice as analysis
from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.analysis.trace import KINDS, PHASES
from kernelscope.reports import advice, colours, ranks_timeline, side_bars
from kernelscope.reports.figures import breakdown, comparison, ranks
from kernelscope.reports.figures.drawing import PAPER, Style, phase_fills
from tests.places import ROOT

STYLE = (ROOT / "reports" / "templates" / "style.css").read_text(encoding="utf8")
CODE = [*(ROOT / "reports").glob("*.py"), *(ROOT / "reports" / "figures").glob("*.py")]
# Every thing that charts colour: one table of each sort of name
TABLES = {
    "kinds": colours.KINDS, "phases": colours.PHASES, "parts": colours.PARTS, "layers": dict(enumerate(colours.LAYERS)),
    "series": {f"series {place}": colour for place, colour in enumerate(colours.SERIES)},
    "else": {"slower": colours.SLOWER, "faster": colours.FASTER, "plain": colours.PLAIN, "other": colours.OTHER},
}  # fmt: skip
SAME = {("data", "waiting for input"), ("data", "preparing input"), ("in CUDA graphs", "unknown")}  # different names of one thing


def lab(colour: str) -> tuple[float, float, float]:
    """Return a colour (#rrggbb) in CIE's space in which distances are differences that people see."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y, z = 0.2126 * red + 0.7152 * green + 0.0722 * blue, (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def apart(first: str, second: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(lab(first), lab(second), strict=True)) ** 0.5


def same(name: str, other: str) -> bool:
    """Return whether two names mean one thing, as copying and copying alone."""
    return name.startswith(other) or other.startswith(name) or (name, other) in SAME or (other, name) in SAME


def test_every_kind_phase_and_part_has_a_colour():
    assert list(colours.PHASES) == list(PHASES)
    assert set(colours.KINDS) == set(KINDS)
    assert set(colours.PARTS) == {*analysis.PARTS, "copying", "communication"}, "these two without the word alone, too"


def test_a_name_has_the_same_colour_in_every_table():
    found: dict[str, set[str]] = {}
    for table in TABLES.values():
        for name, colour in table.items():
            found.setdefault(str(name), set()).add(colour)
    assert {name: several for name, several in found.items() if len(several) > 1} == {}


def test_things_of_different_tables_have_colours_that_can_be_told_apart():
    for (one, first), (other, second) in itertools.combinations(TABLES.items(), 2):
        for (name, colour), (another, its) in itertools.product(first.items(), second.items()):
            if not same(str(name), str(another)):
                assert apart(colour, its) > 9, f"{name} of {one} and {another} of {other}"


@pytest.mark.parametrize("table", ["kinds", "phases", "layers", "series", "else"])
def test_things_of_one_table_have_colours_that_can_be_told_apart(table):
    for (name, colour), (other, its) in itertools.combinations(TABLES[table].items(), 2):
        assert apart(colour, its) > 9, f"{name} and {other}"


def test_a_part_of_a_step_is_drawn_in_its_colour():
    variables = dict(re.findall(r"--([\w-]+): (#\w+);", colours.css()))
    for part, colour in colours.PARTS.items():
        rule = re.search(rf"\.{advice.part_class(part)}\b(?!-)[^{{]*{{ background: ([^}}]+); }}", STYLE)
        assert rule, part
        used = set(re.findall(r"var\(--([\w-]+)\)", rule[1])) - {"shade", "page"}
        assert {variables[name] for name in used} == {colour}, part
        assert "#" not in rule[1]


def test_what_happens_while_nothing_computes_has_the_colour_of_its_part_in_timelines_and_figures():
    for cause, part in analysis._IDLE.items():
        assert colours.of_owner(cause) == colours.PARTS[part], cause
        assert breakdown._colour(f"(host: {cause})", "kind") == breakdown._colour(cause, "idle") == colours.PARTS[part], cause
    assert colours.of_owner("launching") == colours.PARTS["waiting for the host"]
    assert colours.of_owner(f"{levels.DEVICE}copy host to device") == colours.PARTS["copying"]


def test_charts_take_the_colours_of_kinds_phases_and_layers():
    for kind, colour in colours.KINDS.items():
        assert breakdown._colour(kind, "kind") == comparison._of_kind(kind, 3) == side_bars._COLOURS[kind] == colour
    for phase, colour in colours.PHASES.items():
        assert breakdown._colour(phase, "phase") == phase_fills(Style())[phase]["facecolor"] == colour
    assert breakdown._colour("(optimizer)", "layer") == comparison._of_layer("(optimizer)", 2) == colours.KINDS["optimizer"]
    assert breakdown._colour("conv1", "layer") == breakdown._colour("gemm", "layer") == colours.PLAIN, "a layer is no kind"
    assert [comparison._of_layer("gemm", place) for place in range(7)] == list(colours.LAYERS)
    assert breakdown._colour("(3 more)", "kernel") == side_bars._COLOURS["other"] == colours.OTHER


def test_charts_of_ranks_take_the_colours_of_parts():
    drawn = dict(zip(JOB_PARTS, ranks._COLOURS.values(), strict=True))
    assert drawn["compute"] == ranks_timeline._COLOURS["computing"] == colours.PARTS["computing"]
    for part in ("transfer", "waiting for ranks", "communication, unmatched"):
        assert drawn[part] == ranks_timeline._COLOURS[part]


def test_no_other_module_of_reports_has_colours_of_its_own():
    inks = {"#ffffff", *(colour for style in (Style(), PAPER) for colour in (style.ink, style.faint))}
    for path in CODE:
        found = set(re.findall(r"#[0-9a-fA-F]{6}\b", path.read_text(encoding="utf8"))) - inks
        assert not found or path.name == "colours.py", path
