import csv
import io
import json

import pytest

from kernelscope.reports import comparison_tables, tables
from kernelscope.reports.renderers import to_csv


def read(path):
    with path.open(newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


def test_every_table_becomes_a_csv_file_with_the_numbers_as_they_are(result, tmp_path):
    files = comparison_tables.write_csv_folder(result, tmp_path / "tables")
    names = {"summary", "layers", "kinds", "kernels", "lines", "fairness", "settings", "passes"}
    assert {file.stem for file in files} == names == {file.stem for file in (tmp_path / "tables").iterdir()}
    summary = read(tmp_path / "tables" / "summary.csv")
    assert [int(row["step_mean_ns"]) for row in summary] == [row["step_mean_ns"] for row in result["summary"]]
    layers = read(tmp_path / "tables" / "layers.csv")
    assert len(layers) == len(result["layers"]) + 1
    for row in result["summary"]:
        column = [line[f"{row['framework']}_time_ns"] for line in layers]
        assert sum(int(value) for value in column[:-1] if value) == int(column[-1]) == row["step_median_ns"]


def test_unknown_is_empty_and_not_zero(result, tmp_path):
    comparison_tables.write_csv_folder(result, tmp_path)
    summary = read(tmp_path / "summary.csv")
    assert summary[0]["gpu_power_w"] == ""
    absent = [row for row in result["layers"] if row["time_ns"]["tensorflow"] is None]
    lines = read(tmp_path / "layers.csv")
    assert absent
    for row in absent:
        line = next(line for line in lines if (line["layer"], line["phase"]) == (row["layer"], row["phase"]))
        assert line["tensorflow_time_ns"] == line["tensorflow_ratio"] == ""


def test_hostile_names_are_no_formulas(hostile, tmp_path):
    for file in comparison_tables.write_csv_folder(hostile, tmp_path):
        content = file.read_bytes()
        assert b"\x1b" not in content
        assert b"\x00" not in content
        for row in csv.reader(io.StringIO(content.decode())):
            for cell in row:
                assert not cell.startswith(("=", "+", "@")), cell
                assert not cell.startswith("-") or float(cell) < 0, "a negative number is the only thing with a minus"


@pytest.mark.parametrize("kind", ["result", "hostile", "sparse"])
def test_markdown_is_made_of_whole_tables(kind, request):
    page = comparison_tables.comparison_markdown(request.getfixturevalue(kind))
    assert "<script" not in page
    assert "\x1b" not in page
    width = None
    for line in page.splitlines():
        if line.startswith("|"):
            assert width in (None, line.count("|")), line
            width = line.count("|")
        else:
            width = None


def test_markdown_says_who_is_fastest_and_ends_in_the_clean_step(result):
    page = comparison_tables.comparison_markdown(result)
    assert page.startswith("### tensorflow is fastest with 6.42 ms per step")
    assert page.count("| total = clean step |") == 2
    assert "16 of 16 checks passed" in page


def test_json_is_the_result(result):
    assert json.loads(tables.to_json(result)) == result


def test_a_breakdown_as_csv_and_markdown(result):
    part = result["lines"]["pytorch"]
    rows = list(csv.DictReader(io.StringIO(to_csv(tables.breakdown_table(part)))))
    assert sum(int(row["time_ns"]) for row in rows) == part["step_ns"]
    assert rows[-1]["line"] == "", "what is outside of the profiled function has no line"
    page = tables.breakdown_markdown(part)
    assert "| **total** |" in page
    assert "line known for 100.0%, 15 steps" in page
