"""Two jobs: the parts of the mean rank's step add up, and what was planted into one of them is what it says."""

import io
import json

import pytest
from rich.console import Console

from kernelscope.analysis.ranks.compared import compared
from kernelscope.analysis.ranks.job import job
from kernelscope.cli.main import main
from kernelscope.reports import ranks_compared
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "ranks"


def captures(name):
    return sorted(DATA.glob(f"{name}_*"))


@pytest.fixture(scope="module")
def jobs():
    return {name: job(captures(name), workers=1) for name in ("plain", "sleep", "work")}


@pytest.mark.parametrize("pair", [("plain", "sleep"), ("sleep", "work"), ("plain", "plain")])
def test_parts_add_up(jobs, pair):
    a, b = (jobs[name] for name in pair)
    result = compared(a, b)
    for side, one in zip("ab", (a, b), strict=True):
        mean = sum(row["step_ns"] for row in one["ranks"]) / len(one["ranks"])
        assert result[side]["step_ns"] == sum(row[f"{side}_ns"] for row in result["parts"]) == round(mean)
        assert sum(row[f"{side}_ns"] for row in result["blame"]) == sum(row["ns"] for row in one["blame"])
    assert result["delta_ns"] == sum(row["delta_ns"] for row in result["parts"])


def test_a_planted_sleep_is_what_is_said(jobs):
    said = ranks_compared.answer(compared(jobs["plain"], jobs["sleep"]))
    assert said.startswith("A step takes the mean rank 20.7 ms more in B: 2.37 ms on 2 ranks")
    assert said.endswith("In B ranks wait 19.8 ms more for rank 1, added up over ranks: its host, in ranges (planted).")
    said = ranks_compared.answer(compared(jobs["work"], jobs["plain"]))
    assert "ms less in B" in said
    assert "In A ranks wait 3.13 ms more for rank 1, added up over ranks: kernels, aten::mm." in said


def test_equal_jobs_are_equal(jobs):
    result = compared(jobs["plain"], jobs["plain"])
    assert result["delta_ns"] == 0
    assert (
        ranks_compared.answer(result)
        == "A step takes the mean rank equally long in both jobs: 2.37 ms on 2 ranks → 2.37 ms on 2."
    )


def test_the_command_takes_two_folders(tmp_path, capsys):
    for name in ("plain", "sleep"):
        (tmp_path / name).mkdir()
        for path in captures(name):
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
    line = ["explain", str(tmp_path / "plain"), str(tmp_path / "sleep")]
    assert main([*line, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["delta_ns"] == compared(job(captures("plain"), 1), job(captures("sleep"), 1))["delta_ns"]
    assert main(line) == 0
    assert "A step takes the mean rank" in capsys.readouterr().out.replace("\n", " ")
    assert main([*line, "-o", str(tmp_path / "page.html")]) == 2


def test_the_terminal_and_markdown_hold_the_tables(jobs):
    result = compared(jobs["plain"], jobs["sleep"])
    stream = io.StringIO()
    Console(file=stream, width=100, color_system=None).print(ranks_compared.shown(result))
    for said in (stream.getvalue(), ranks_compared.markdown(result)):
        assert "+20.741" in said
        assert "planted" in said
