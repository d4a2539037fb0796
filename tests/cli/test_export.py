"""The command `export`: what it takes, what it refuses, and that nothing is lost."""

import gzip
import json
import shutil
from pathlib import Path

import openpyxl
import pandas as pd
import pytest

from kernelscope.cli.main import main
from kernelscope.reports.export import markdown
from kernelscope.tracer.outside import locks

ROOT = Path(__file__).parents[2]
KINETO = ROOT / "tests/data/pytorch/lenet-train/operators.pt.trace.json.gz"
COMPARED = ROOT / "tests/data/reports/compare.json"


@pytest.fixture
def folder(tmp_path):
    """A comparison's folder without its runs: tables need no more."""
    shutil.copy(COMPARED, tmp_path / "compare.json")
    return tmp_path


def export(path, form, target, *more):
    return main(["export", str(path), "--format", form, "-o", str(target), *more])


@pytest.mark.parametrize("form", ["perfetto", "chrome", "xlsx", "markdown", "csv", "parquet"])
def test_a_capture_in_every_format(form, tmp_path, capsys):
    target = tmp_path / "deep" / "out"
    assert export(KINETO, form, target) == 0
    assert f"exported: {target}" in capsys.readouterr().err
    if target.is_dir():
        assert {"about", "by_kernel", "by_layer", "operators", "columns"} <= {path.stem for path in target.iterdir()}
    else:
        assert target.stat().st_size > 500
        assert [path.name for path in target.parent.iterdir()] == ["out"]
    assert export(KINETO, form, target) == 3
    assert "--force" in capsys.readouterr().err
    assert export(KINETO, form, target, "--force") == 0


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_that_another_export_left_are_named(form, tmp_path, capsys):
    target = tmp_path / "out"
    target.mkdir()
    (target / f"by_pass.{form}").write_text("of another")
    (target / "notes.txt").write_text("mine")
    assert export(KINETO, form, target, "--force") == 0
    assert f"left in {target} from other exports: by_pass.{form}\n" in capsys.readouterr().err


def test_nobody_writes_into_a_folder_that_another_export_fills(tmp_path, capsys):
    target = tmp_path / "out"
    target.mkdir()
    with locks.exclusive_folder(target):
        assert export(KINETO, "csv", target) == 3
    assert f"{target}: another command is writing to it" in capsys.readouterr().err
    assert export(KINETO, "csv", target) == 0


def test_rows_of_no_phase_are_called_by_their_layer_alone(tmp_path):
    assert export(KINETO, "markdown", tmp_path / "a.md") == 0
    assert "None" not in (tmp_path / "a.md").read_text()


def test_a_comparisons_tables_need_no_run_folders(folder, tmp_path):
    result = json.loads(COMPARED.read_text())
    assert export(folder, "xlsx", tmp_path / "a.xlsx") == 0
    names = openpyxl.load_workbook(tmp_path / "a.xlsx").sheetnames
    assert names[0] == "about"
    assert {"summary", "layers", "kinds", "kernels", "fairness", "settings", "passes", "columns"} <= set(names)
    assert export(folder / "compare.json", "markdown", tmp_path / "a.md") == 0
    text = (tmp_path / "a.md").read_text()
    assert len(text) < 10_000
    for row in result["summary"]:
        assert f"**{row['framework']}**" in text or row["ratio"] == 1


def test_an_import_gives_what_its_capture_gives(tmp_path):
    assert main(["import", str(KINETO), "-o", str(tmp_path / "imported")]) == 0
    for name, path in (("a", KINETO), ("b", tmp_path / "imported")):
        assert export(path, "csv", tmp_path / name) == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("given", "target", "form", "status", "said"),
    [
        ("nothing.json", "o", "csv", 3, "nothing.json"),
        ("compare", "o", "perfetto", 3, "not a run folder"),
        ("compare", ".", "xlsx", 3, "name a file"),
        ("compare", "file", "csv", 3, "name a folder"),
        ("summary", "o", "chrome", 3, "it has no times"),
        ("compare", "file/o", "markdown", 3, "not writable"),
        ("text", "o", "markdown", 3, "no capture of a known format"),
        ("summary", "summary", "chrome", 3, "exists; name another file"),
    ],
)
def test_what_cannot_be_done_is_one_line(given, target, form, status, said, folder, tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "text").write_text("plain text\n")
    (tmp_path / "summary").write_text(
        "==1== Profiling result:\n            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  sgemm\n"
    )
    paths = {"compare": folder, "nothing.json": tmp_path / "nothing.json"}
    assert export(paths.get(given, tmp_path / given), form, tmp_path / target) == status
    error = capsys.readouterr().err.strip()
    assert error.startswith("kernelscope: error: ")
    assert said in error
    assert "\n" not in error
    assert (tmp_path / "file").read_text() == "kept"


def test_wrong_arguments_are_told(capsys):
    for arguments in (["export"], ["export", "x", "--format", "pdf", "-o", "y"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_is_read_is_never_replaced(tmp_path, capsys):
    source = tmp_path / "trace.json.gz"
    shutil.copy(KINETO, source)
    (tmp_path / "link").symlink_to(source)
    for target in (source, tmp_path / "link"):
        assert export(source, "chrome", target, "--force") == 2
        assert "is the input" in capsys.readouterr().err
    assert source.read_bytes() == KINETO.read_bytes()


def test_the_format_is_that_of_the_ending(tmp_path, capsys):
    source = tmp_path / "run"  # reading a run keeps its trace in there
    shutil.copytree(ROOT / "tests" / "data" / "gpu" / "h200" / "lenet-cudnn-cupti", source)
    assert main(["export", str(source), "-o", str(tmp_path / "out.md")]) == 0
    assert (tmp_path / "out.md").read_text().startswith("#")
    assert main(["export", str(source), "-o", str(tmp_path / "out")]) == 2
    assert "the format is not clear from its name; add --format perfetto, chrome" in capsys.readouterr().err


def test_markdown_of_hostile_and_huge_results_stays_short(hostile_result):
    text = markdown.comparison(hostile_result)
    assert len(text) <= markdown.LIMIT
    assert "<script" not in text
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) < 80


@pytest.fixture
def hostile_result():
    result = json.loads(COMPARED.read_text())
    for place, row in enumerate(result["layers"]):
        row["layer"] = ("<script>alert(1)</script>|\x1b[31m\n", "A" * 10_000)[place % 2]
    return result


def test_columns_of_the_markdown_add_up_as_printed(folder, tmp_path):
    assert export(folder, "markdown", tmp_path / "a.md") == 0
    lines = (tmp_path / "a.md").read_text().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| layer,")) + 2
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:] if line.startswith("|")]
    for column in zip(*cells, strict=True):
        numbers = pd.to_numeric(pd.Series(column).str.replace("\\", "").str.replace("—", "0"), errors="coerce")
        if numbers.notna().all():
            assert round(numbers.iloc[:-1].sum(), 3) == numbers.iloc[-1]
    assert len(cells) == 10


def test_a_report_writes_every_event_beside_its_page_and_links_it(tmp_path, capsys):
    page = tmp_path / "a <page>.html"
    assert main(["report", str(KINETO), "--perfetto", "-o", str(page)]) == 0
    trace = page.with_suffix(".pftrace.gz")
    assert sorted(tmp_path.iterdir()) == [page, trace]
    text = page.read_text(encoding="utf8")
    assert '<a href="a%20%3Cpage%3E.pftrace.gz" download>a &lt;page&gt;.pftrace.gz</a>' in text
    assert export(KINETO, "perfetto", tmp_path / "by-export.pftrace.gz") == 0
    assert gzip.decompress(trace.read_bytes()) == gzip.decompress((tmp_path / "by-export.pftrace.gz").read_bytes())
    assert main(["report", str(KINETO), "--format", "json", "--perfetto"]) == 2
    assert "--perfetto: needs the page" in capsys.readouterr().err
