"""What is made of another tool's capture to be passed on: its paths lose home folders and user names, unless --full-paths."""

import json

import pyarrow.parquet as pq
import pytest

from kernelscope.cli import main

NAME = "zaphodbeeblebrox"
FRAMES = (f"/home/{NAME}/proj/model.py(12): forward", "/home/trillian/lib.py(3): call", f"/data/{NAME}/x.py(1): f")
HIDDEN = ("~/proj/model.py(12): forward", "~/lib.py(3): call", "/data/~/x.py(1): f")


@pytest.fixture
def capture(tmp_path, monkeypatch):
    """A torch.profiler trace with frames of Python in somebody's home folder, as this person."""
    monkeypatch.setenv("HOME", f"/home/{NAME}")
    monkeypatch.setenv("USER", NAME)
    events = []
    for step in range(3):
        start = 1000 * (step + 1)
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": start, "dur": 900})
        for place, name in enumerate(FRAMES):
            at = start + 10 + 200 * place
            identity = {"Python id": len(events), "Python parent id": None, "Python module id": 0}
            events.append({"ph": "X", "cat": "python_function", "name": name, "ts": at, "dur": 150, "args": identity})
            events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": at + 5, "dur": 100})
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "traceEvents": [{"pid": 1, "tid": 1, "args": {}, **row} for row in events],
    }
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace))
    return file


def run(*arguments):
    assert main.main([*map(str, arguments)]) == 0


def test_an_imported_capture(capture, tmp_path, capsys):
    run("import", capture, "-o", tmp_path / "hidden")
    run("import", capture, "-o", tmp_path / "whole", "--full-paths")
    names = {}
    for folder in ("hidden", "whole"):
        names[folder] = pq.read_table(tmp_path / folder / "trace" / "ranges.parquet")["name"].to_pylist()
    assert set(HIDDEN) == set(names["hidden"])
    assert set(FRAMES) == set(names["whole"])
    for folder, frames in (("hidden", HIDDEN), ("whole", FRAMES)):
        shown = pq.read_table(tmp_path / folder / "trace" / "host_lines.parquet")["file"].to_pylist()
        assert {frame.partition("(")[0] for frame in frames} == set(shown)
    files = [path for path in (tmp_path / "hidden").rglob("*") if path.is_file()]
    assert not any(NAME.encode() in path.read_bytes() for path in files)
    capsys.readouterr()
    for more, shown in (([], HIDDEN[0]), (["--full-paths"], FRAMES[0])):  # of a folder that was imported with its paths
        run("report", tmp_path / "whole", "--format", "json", *more)
        run("export", tmp_path / "whole", "--format", "chrome", "-o", tmp_path / "out.json", "--force", *more)
        told = (tmp_path / "out.json").read_text()
        assert shown in told
        assert (NAME in capsys.readouterr().out + told) is bool(more)


@pytest.mark.parametrize("form", ["csv", "perfetto", "markdown"])
def test_exports(capture, tmp_path, form):
    run("export", capture, "--format", form, "-o", tmp_path / "out")
    files = [tmp_path / "out"] if form != "csv" else sorted((tmp_path / "out").glob("*.csv"))
    content = b"".join(path.read_bytes() for path in files)
    assert NAME.encode() not in content
    assert b"model.py" in content


def test_a_page_and_an_explanation(capture, tmp_path, capsys):
    run("import", capture, "-o", tmp_path / "whole", "--full-paths")
    run("report", tmp_path / "whole", "-o", tmp_path / "page.html")
    assert NAME not in (tmp_path / "page.html").read_text()
    capsys.readouterr()
    run("explain", tmp_path / "whole", capture, "--format", "json")
    said = capsys.readouterr().out
    assert "proj/model.py" in said
    assert NAME not in said
