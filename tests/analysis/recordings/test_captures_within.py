"""Folders with one capture in them."""

import json

import pytest

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import captures_within
from kernelscope.cli.main import main

STATS = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"
"gemm",4,8000,2000.0,100.0,1000,3000,0.0
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kernel_stats.csv").write_text(STATS)
    (tmp_path / "out" / "README.md").write_text("how it was recorded")
    (tmp_path / "out" / "build.log").write_text("make: done\n")
    (tmp_path / "out" / "agent_info.csv").write_text('"Node_Id","Agent_Type","Name"\n0,"CPU","cpu"\n')
    (tmp_path / "out" / ".hidden").write_text(STATS)
    (tmp_path / "out" / "empty.csv").touch()
    return tmp_path / "out"


def test_the_captures_within_is_read_and_named(folder, capsys):
    assert ks.read(folder).kernels[["name", "count", "duration_ns"]].values.tolist() == [["gemm", 4, 8000]]
    for command in (["breakdown"], ["advise"], ["explain", str(folder / "kernel_stats.csv")]):
        assert main([*command, str(folder)]) == 0
        assert (
            "kernelscope: out: a folder; the only capture in it is read, kernel_stats.csv" in capsys.readouterr().err.splitlines()
        )


def test_an_import_says_it_too(folder, tmp_path, capsys):
    assert main(["import", str(folder), "-o", str(tmp_path / "imported")]) == 0
    assert "the only capture in it is read, kernel_stats.csv" in capsys.readouterr().err
    assert json.loads((tmp_path / "imported/import.json").read_text())["sources"][0]["name"] == "out"


def test_among_several_none_is_chosen(folder, capsys):
    (folder / "other_stats.csv").write_text(STATS)
    assert captures_within.within(folder) is None
    assert main(["breakdown", str(folder)]) == 3
    assert "a folder that is not a recording itself; name one of the files in it" in capsys.readouterr().err


def test_a_named_format_tells_which_one_is_meant(folder):
    (folder / "log.txt").write_text("Timer unit: 1e-06 s\n")
    with pytest.raises(EvidenceError, match="not a recording itself"):
        ks.read(folder)
    assert captures_within.within(folder, "rocprof") == folder / "kernel_stats.csv"
    assert len(ks.read(folder, "rocprof").kernels) == 1


def test_files_and_folders_of_folders_are_left_alone(folder):
    assert captures_within.within(folder / "kernel_stats.csv") is None
    assert captures_within.within(folder.parent) is None
