"""The command `report` as a user meets it."""

import json

import pytest

from kernelscope.reports import interactive_parts
from tests.commands import called


def report(*arguments):
    return called("report", *arguments)


@pytest.fixture
def folder(result, tmp_path):
    path = tmp_path / "compared"
    path.mkdir()
    (path / "compare.json").write_text(json.dumps(result))
    return path


@pytest.mark.long
def test_a_comparison_becomes_a_file(folder, tmp_path):
    done = report(folder, "-o", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == f"report: {tmp_path / 'r.html'}\n"
    assert "<h1>tensorflow is fastest" in (tmp_path / "r.html").read_text()
    again = report(folder, "-o", tmp_path / "r.html")
    assert again.returncode == 3
    assert "exists; name another file or pass --force" in again.stderr
    assert report(folder, "-o", tmp_path / "r.html", "--force").returncode == 0


def test_parts_of_runs_that_are_not_beside_the_comparison_say_so(folder, tmp_path, result):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.json").write_text("{}")
    parts = interactive_parts.beside({"frameworks": ["../outside", "pytorch"]}, folder, dict)
    assert all(part.data == {} for part in parts)
    assert all(part.note.count("its run folder is not beside the comparison") == 2 for part in parts if part.key != "over-time")
    assert report(folder, "-o", tmp_path / "r.html").returncode == 0
    text = (tmp_path / "r.html").read_text()
    assert "pytorch: its run folder is not beside the comparison" in text
    assert "echarts" not in text.casefold()


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("table", "tensorflow is fastest"),
        ("csv", "layer,phase,pytorch_time_ns"),
        ("json", '{\n "schema": "kernelscope/compare/1"'),
        ("markdown", "### tensorflow is fastest"),
    ],
)
def test_it_prints_in_every_format(folder, form, start):
    done = report(folder / "compare.json", "--format", form)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(start)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{}", "not a comparison"),
        ("[", "not JSON"),
        ('{"schema": "kernelscope/compare/99"}', "written in schema 99, this version reads up to 1; upgrade kernelscope"),
    ],
)
def test_what_is_no_comparison_is_refused_in_one_line(tmp_path, content, expected):
    (tmp_path / "compare.json").write_text(content)
    done = report(tmp_path)
    assert done.returncode == 3
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_is_no_file_to_write(folder, tmp_path):
    done = report(folder, "-o", tmp_path)
    assert done.returncode == 3
    assert "is a folder" in done.stderr
