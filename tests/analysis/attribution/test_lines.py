"""Statements from line times that line_profiler recorded under Python 3.6, 3.8 and 3.11 for the same function."""

import json

import pytest

from kernelscope.analysis.attribution import lines
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import LINES
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "lines"
INTERPRETERS = sorted(path.name for path in DATA.iterdir())
# statements of the recorded function: first line, last line, executions in 4 calls with 3 values each
EXPECTED = [
    (9, 11, 4), (12, 15, 4), (19, 19, 12), (20, 22, 4), (23, 25, 4), (26, 26, 4), (27, 29, 4), (30, 33, 4), (34, 38, 4),
    (39, 41, 4),
]  # fmt: skip


def test_there_are_recordings_of_old_and_new_interpreters():
    assert INTERPRETERS == ["python311", "python36", "python38"]


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_statements_are_the_same_whatever_line_got_the_time(interpreter):
    table = lines.statements(DATA / interpreter)
    assert list(table.columns) == [column.name for column in LINES]
    found = list(zip(table["line"], table["last_line"], table["hits"], strict=True))
    assert [row for row in found if row[0] not in (4, 16)] == EXPECTED
    assert table[table["line"] == 12]["text"].item() == "total = max( total, factor, )"
    assert table[table["line"] == 4]["last_line"].item() == 8
    assert table[table["line"] == 16]["last_line"].item() == 18  # a compound statement is only its header


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_no_time_is_lost_or_rounded_away(interpreter):
    record = json.loads((DATA / interpreter / "lines.json").read_text())
    unit = {1e-06: 1000, 1e-09: 1}[record["unit_s"]]
    expected = sum(time for function in record["functions"] for _, _, time in function["timings"]) * unit
    assert lines.statements(DATA / interpreter)["time_ns"].sum() == expected


def _write(folder, source, timings, unit=1e-06, first_line=11):
    function = {"file": "a.py", "function": "A.f", "first_line": first_line, "source": source, "timings": timings}
    (folder / "lines.json").write_text(json.dumps({"unit_s": unit, "functions": [function]}))
    return folder


def test_methods_are_indented_and_decorated(tmp_path):
    source = ["    @staticmethod\n", "    def f(x):\n", "        for i in x:\n", "            g(\n", "                i)\n"]
    folder = _write(tmp_path, source, [[13, 5, 3], [14, 4, 8], [15, 4, 1]])
    table = lines.statements(folder)
    assert table[["line", "last_line", "text", "hits", "time_ns"]].values.tolist() == [
        [13, 13, "for i in x:", 5, 3000],
        [14, 15, "g( i)", 4, 9000],
    ]


def test_without_the_source_lines_stand_alone(tmp_path):
    table = lines.statements(_write(tmp_path, [], [[13, 5, 3], [14, 4, 8]]))
    assert table[["line", "last_line", "text", "hits", "time_ns"]].values.tolist() == [
        [13, 13, "", 5, 3000],
        [14, 14, "", 4, 8000],
    ]


def test_source_that_does_not_parse_keeps_its_text(tmp_path):
    table = lines.statements(_write(tmp_path, ["def f():\n", "    print 'x'\n"], [[12, 1, 1]]))
    assert table["text"].tolist() == ["print 'x'"]


def test_a_function_that_never_ran_has_no_statements(tmp_path):
    folder = _write(tmp_path, ["def f():\n", "    pass\n"], [])
    assert lines.statements(folder).empty


def test_units_that_are_no_round_numbers_stay_exact(tmp_path):
    table = lines.statements(_write(tmp_path, ["def f():\n", "    g()\n"], [[12, 3, 123_456_789_012]], unit=1e-07))
    assert table["time_ns"].tolist() == [12_345_678_901_200]


@pytest.mark.parametrize(
    "changed",
    [{"source": [1]}, {"first_line": []}, {"timings": [[13, {}, 3]]}, {"timings": 5}, {"source": None}, {"first_line": "x"}],
)
def test_fields_of_another_type_are_an_error_that_names_the_file(tmp_path, changed):
    folder = _write(tmp_path, ["def f():\n", "    g()\n"], [[12, 3, 5]])
    record = json.loads((folder / "lines.json").read_text())
    record["functions"][0].update(changed)
    (folder / "lines.json").write_text(json.dumps(record))
    with pytest.raises(EvidenceError, match=r"lines\.json: not what the lines pass writes"):
        lines.statements(folder)


@pytest.mark.parametrize("text", [None, "no json", "[]", '{"unit_s": 1}'])
def test_what_is_no_record_of_lines_is_an_error_that_names_the_file(tmp_path, text):
    if text is not None:
        (tmp_path / "lines.json").write_text(text)
    with pytest.raises(EvidenceError, match=r"lines\.json"):
        lines.statements(tmp_path)
