"""The command `advise`: the answer first, then what to do, then evidence."""

import json
import shutil
from pathlib import Path

import pytest

from kernelscope.cli.main import main
from tests.places import CORPUS

CAPTURE = CORPUS / "pairs" / "n21-workers2-8" / "a.sqlite"

pytestmark = pytest.mark.skipif(not CAPTURE.is_file(), reason="no corpus beside the project")


def test_the_answer_comes_first(capsys):
    assert main(["advise", str(CAPTURE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("A step takes 720 ms on average (177 ms to 1.29 s) on A100-SXM4-40GB: waiting for input 75%")
    assert next(line for line in lines if line.startswith("1.")) == "1. Up to 542 ms: the step waits for its batch."
    assert not any("…" in line for line in lines)
    assert not any(line.endswith(" ") for line in lines)


def test_data_for_programs(capsys):
    assert main(["advise", str(CAPTURE), "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == "kernelscope/advise/1"
    assert {"topic", "title", "saves_ns", "at_most", "estimate", "evidence", "remedy", "link"} == set(result["advice"][0])


def test_markdown(capsys):
    assert main(["advise", str(CAPTURE), "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("### A step takes 720 ms")


def test_a_folder_of_several_is_refused(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("of somebody's")
    assert main(["advise", str(tmp_path)]) == 3
    assert "a folder that is not a recording itself; name one of the files in it" in capsys.readouterr().err


def test_a_capture_is_reported_without_importing_it_first(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(CAPTURE), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf8")
    assert "A step takes 720 ms on average (177 ms to 1.29 s) on A100-SXM4-40GB" in text
    assert text.index('id="advice"') < text.index('id="summary"')
    assert "<title>a.sqlite" in text
    assert main(["report", str(CAPTURE), "--format", "table"]) == 0
    assert "nsys" in capsys.readouterr().out


def test_a_page_goes_beside_what_is_reported(tmp_path, capsys):
    copied = Path(shutil.copy(CAPTURE, tmp_path / "a.sqlite"))
    page = tmp_path / "a.sqlite.html"
    assert main(["report", str(copied)]) == 0
    shown = capsys.readouterr()
    assert f"report: {page}" in shown.err
    assert "nsys" in shown.out
    assert "A step takes 720 ms" in page.read_text(encoding="utf8")
    assert main(["report", str(copied)]) == 0, "a page of ours is made anew"
    capsys.readouterr()
    page.write_text("somebody else's")
    assert main(["report", str(copied)]) == 3
    assert "is not a kernelscope page" in capsys.readouterr().err
    assert page.read_text() == "somebody else's"
