"""Tables in CSV, Parquet and Excel, read back by other libraries than those that wrote them."""

import csv
import json

import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.reports.export import csv_files, excel, parquet, sheets
from kernelscope.reports.export.sheets import Sheet

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "|calc", "\uff1d1", '=HYPERLINK("http://example.org","x")']


def read_csv(path):
    with path.open(encoding="utf8", newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
def compared(result):
    return sheets.of_comparison(result)


def test_csv_and_parquet_hold_every_number_of_a_comparison(result, compared, tmp_path):
    csv_files.write(compared, tmp_path / "csv")
    parquet.write(compared, tmp_path / "parquet")
    heads, *rows = read_csv(tmp_path / "csv" / "layers.csv")
    table = pq.read_table(tmp_path / "parquet" / "layers.parquet").to_pylist()
    assert len(rows) == len(table) == len(result["layers"]) + 1
    for place, row in enumerate(result["layers"]):
        for name in result["frameworks"]:
            ns = row["time_ns"].get(name)
            assert rows[place][heads.index(f"{name}_time_ns")] == ("" if ns is None else str(ns))
            assert table[place][f"{name}_time_ns"] == ns
    for row in result["summary"]:
        column = f"{row['framework']}_time_ns"
        assert sum(line[column] or 0 for line in table[:-1]) == table[-1][column] == row["step_median_ns"]


def test_explanations_add_up_in_ns(explained):
    found = {sheet.name: sheet.frame for sheet in sheets.of_explanation(explained)}
    assert found["account"]["delta_ns"].sum() == explained["wall_delta_ns"]
    assert found["causes"]["explains_ns"].sum() == explained["wall_delta_ns"]
    assert len(found["account"]) == len(explained["rows"]) + 1
    assert len(found["causes"]) == len(explained["findings"]) + 1


def test_every_column_of_a_comparison_is_described(compared):
    for sheet in compared:
        assert [column.name for column in sheet.columns] == list(sheet.frame), sheet.name
        assert all(column.meaning for column in sheet.columns)


def test_a_capture_is_whole_in_all_three(trace, tmp_path):
    source = trace("nvprof")
    found = [*sheets.of_breakdowns([breakdown(source, "kernel").as_dict()]), *sheets.of_trace(source)]
    csv_files.write(found, tmp_path)
    parquet.write(found, tmp_path)
    assert excel.write(found, tmp_path / "all.xlsx") == []
    book = openpyxl.load_workbook(tmp_path / "all.xlsx", read_only=True)
    for name in ("kernels", "calls", "copies", "ranges", "syncs"):
        rows = getattr(source, name)
        stored = pq.read_table(tmp_path / f"{name}.parquet")
        heads, *lines = read_csv(tmp_path / f"{name}.csv")
        sheet = list(book[name].iter_rows(values_only=True))
        assert len(lines) == stored.num_rows == len(sheet) - 1 == len(rows)
        assert heads == stored.column_names == list(sheet[0])
        for column in ("start_ns", "end_ns"):
            exact = rows[column].tolist()
            assert [int(line[heads.index(column)]) for line in lines] == exact
            assert stored[column].to_pylist() == exact
            # 19 digits: more than Excel keeps, so they are text
            assert [int(line[heads.index(column)]) for line in sheet[1:]] == exact
    assert [row[2] for row in book["kernels"].iter_rows(min_row=2, max_col=3, values_only=True)] == source.kernels[
        "duration_ns"
    ].tolist()
    field = pq.read_schema(tmp_path / "kernels.parquet").field("duration_ns")
    assert field.metadata[b"unit"] == b"ns"
    times = pd.read_csv(tmp_path / "by_kernel.csv")["time_ns"]
    assert times.sum() == breakdown(source, "kernel").step_ns


def test_no_cell_is_a_formula(tmp_path):
    numbers = pd.array([-5, None, *range(len(FORMULAS) - 2)], dtype="Int64")
    flags = pd.array([True, None, *[False] * (len(FORMULAS) - 2)], dtype="boolean")
    texts = pd.Series(FORMULAS, dtype="string")
    table = Sheet("hostile", pd.DataFrame({"=name": texts, "kind": texts.astype("category"), "ns": numbers, "flag": flags}))
    csv_files.write([table], tmp_path)
    heads, *rows = read_csv(tmp_path / "hostile.csv")
    assert heads == ["'=name", "kind", "ns", "flag"]
    for row in rows:
        assert row[0] == row[1]
        assert row[0].lstrip(" ")[0] not in "=+-@|\t\r\uff1d"
    assert [row[2] for row in rows[:3]] == ["-5", "", "0"]
    assert [row[3] for row in rows[:3]] == ["true", "", "false"]
    excel.write([table], tmp_path / "hostile.xlsx")
    page = openpyxl.load_workbook(tmp_path / "hostile.xlsx")["hostile"]
    cells = [cell for row in page.iter_rows(max_col=2) for cell in row]
    assert {cell.data_type for cell in cells} == {"s"}
    assert page["A2"].value == "=1+1"
    assert page["A2"].quotePrefix
    assert page["A6"].value == "\\t=1"
    assert (page["C2"].value, page["C3"].value, page["D2"].value, page["D3"].value) == (-5, None, True, None)


def test_excels_limits_are_kept_and_told(tmp_path):
    rows = pd.DataFrame({"start_ns": np.arange(30, dtype=np.int64) + 10**17, "name": ["x" * 40_000] * 30})
    facts = sheets.about({"kernelscope": "0"})
    cut = excel.write([facts, Sheet("long table: with/a [bad] name", rows), Sheet("LONG table: with/a [bad] name", rows[:3])],
                      tmp_path / "b.xlsx", rows=11)  # fmt: skip
    assert len(cut) == 1
    assert "first 10 of 30 rows" in cut[0]
    book = openpyxl.load_workbook(tmp_path / "b.xlsx")
    assert len(book.sheetnames) == 3
    assert ("cut", cut[0]) in list(book["about"].iter_rows(values_only=True))
    page = book[book.sheetnames[1]]
    assert page.max_row == 11
    assert page["A11"].value == str(10**17 + 9)
    assert len(page["B2"].value) <= excel.TEXT


def test_hostile_comparison_is_written_in_all_three(hostile, tmp_path):
    found = sheets.of_comparison(hostile)
    parquet.write(found, tmp_path)
    csv_files.write(found, tmp_path)
    excel.write(found, tmp_path / "all.xlsx")
    book = openpyxl.load_workbook(tmp_path / "all.xlsx")
    for path in tmp_path.glob("*.csv"):
        for cell in (cell for row in read_csv(path) for cell in row):
            assert not cell.startswith(("=", "+", "@")), cell
            assert cell.isprintable() or not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in cell)
    assert all(cell.data_type != "f" for page in book for row in page.iter_rows() for cell in row)


def test_what_is_left_out_is_said():
    found = sheets.about(
        {"kernelscope": "0", "batch": 3, "nothing": None}, [{"by": "line", "unavailable": "no lines", "rows": []}]
    )
    assert found.frame.to_dict("list") == {"name": ["kernelscope", "batch", "by_line left out"], "value": ["0", "3", "no lines"]}
    assert json.loads(found.frame["value"][1]) == 3
