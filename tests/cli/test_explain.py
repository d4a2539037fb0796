"""`explain` as a user calls it: on captures and folders made here."""

import json
from pathlib import Path

import pytest

from kernelscope.cli import explain as command
from kernelscope.cli import main

DATA = Path(__file__).parents[1] / "data" / "reports" / "explain.json"
STEPS = 6


def _event(name, category, start, duration, thread, **arguments):
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration, "pid": 1, "tid": thread, "args": arguments}


def capture(path, busy, name="ampere_sgemm_128x64_tn", steps=True):
    """A torch.profiler trace: steps of `busy` + 100 us, all but 20 us of which a kernel runs; written to path."""
    events = []
    for number in range(STEPS):
        start = 10_000 * number
        if steps:
            events.append(_event(f"ProfilerStep#{number}", "user_annotation", start, busy + 100, 10))
        events += [
            _event("aten::mm", "cpu_op", start + 5, busy + 90, 10, **{"External id": number + 1}),
            _event("cudaLaunchKernel", "cuda_runtime", start + 8, 2, 10, correlation=number + 1),
            _event(name, "kernel", start + 15, busy + 80, 7, correlation=number + 1, device=0, stream=7),
        ]
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A GPU"}], "traceEvents": events}
    path.write_text(json.dumps(trace))
    return path


@pytest.fixture
def pair(tmp_path):
    return capture(tmp_path / "a.json", 900), capture(tmp_path / "b.json", 1900, "<script>alert(1)</script>\x1b[31m")


def explain(capsys, *arguments):
    """Return (exit status, stdout, stderr)."""
    try:
        status = main.main(["explain", *map(str, arguments)])
    except SystemExit as left:
        status = left.code
    return status, *capsys.readouterr()


def test_two_captures_are_explained_and_add_up(pair, capsys):
    status, out, err = explain(capsys, *pair, "--format", "json")
    assert status == 0, err
    result = json.loads(out)
    assert result["schema"] == "kernelscope/explain/1"
    assert result["wall_delta_ns"] == 1_000_000, "a step of 2.0 ms against one of 1.0 ms"
    assert sum(row["delta_ns"] for row in result["rows"]) + result["instrumentation_ns"] == 1_000_000
    assert sum(part["delta_ns"] for part in result["parts"]) + result["instrumentation_ns"] == 1_000_000
    assert sum(finding["explains_ns"] for finding in result["findings"]) + result["unexplained_ns"] == 1_000_000


def test_the_answer_is_the_first_line(pair, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    status, out, _ = explain(capsys, pair[1], pair[0])
    assert status == 0
    assert out.startswith("B is faster than A by 1.00 ms per step (-50%): 2.00 → 1.00 ms")
    assert len(out.rstrip("\n").split("\n")) <= 20
    assert "\x1b" not in out


@pytest.fixture
def folder(tmp_path):
    """A folder with three sides of which nothing is read."""
    for name in ("slow", "fast", "other"):
        (tmp_path / "sides" / name).mkdir(parents=True)
        (tmp_path / "sides" / name / "import.json").write_text("{}")
    return tmp_path / "sides"


def test_sides_of_one_folder(folder, capsys, monkeypatch):
    chosen = []
    result = json.loads(DATA.read_text())
    monkeypatch.setattr(command, "explained", lambda paths, mapping, force, _: chosen.append((paths, mapping, force)) or result)
    status, out, err = explain(capsys, folder)
    assert (status, out) == (2, "")
    assert err == f"kernelscope: error: {folder} holds 3 sides; choose two with --a and --b: fast, other, slow\n"
    assert explain(capsys, folder, "--a", "fast", "--b", "slow")[0] == 0
    assert chosen.pop() == ((folder / "fast", folder / "slow"), None, False)
    (folder / "compare.json").write_text(json.dumps({"frameworks": ["slow", "fast", "other"]}))
    assert "--a and --b: slow, fast, other" in explain(capsys, folder)[2]
    (folder / "other" / "import.json").unlink()
    assert explain(capsys, folder, "--force", "--map", "m")[0] == 0
    assert chosen == [((folder / "slow", folder / "fast"), Path("m"), True)], "the order of the comparison"


def test_a_folder_that_two_scripts_were_recorded_into(tmp_path, capsys, monkeypatch):
    """As `explain before.py after.py` leaves it: the side that was recorded first is the one that the other is set against."""
    for name, minutes in (("before", (0, 3)), ("after", (1, 2))):
        for number, minute in enumerate(minutes, start=1):
            (tmp_path / name / str(number)).mkdir(parents=True)
            (tmp_path / name / str(number) / "run.json").write_text(json.dumps({"created": f"2026-01-01T10:0{minute}:00"}))
    chosen = []
    monkeypatch.setattr(command, "explained", lambda paths, *_: chosen.append(paths) or json.loads(DATA.read_text()))
    assert explain(capsys, tmp_path)[0] == 0
    assert explain(capsys, tmp_path, "--a", "after", "--b", "before")[0] == 0
    assert chosen == [(tmp_path / "before", tmp_path / "after"), (tmp_path / "after", tmp_path / "before")]
    assert main.main(["advise", str(tmp_path)]) == 3
    assert f"name one of them, such as {tmp_path / 'after' / '1'}" in capsys.readouterr().err


def test_all_formats_come_from_one_result(tmp_path, capsys, monkeypatch):
    result = json.loads(DATA.read_text())
    monkeypatch.setattr(command, "explained", lambda *_: result)
    target = tmp_path / "new" / "explain.html"
    status, out, err = explain(capsys, "a", "b", "--format", "markdown", "-o", target)
    assert status == 0
    assert out.startswith("### cntk is slower than tensorflow by 5.70 ms")
    assert err == f"report: {target}\n"
    assert "cntk is slower than tensorflow by 5.70 ms" in target.read_text(encoding="utf8")
    assert json.loads(explain(capsys, "a", "b", "--format", "json")[1]) == result
    assert explain(capsys, "a", "b", "--report", target)[0] == 0, "a report of ours is replaced"
    target.write_text("something else")
    status, out, err = explain(capsys, "a", "b", "-o", target)
    assert (status, out) == (3, "")
    assert "exists and is not a kernelscope report; name another file" in err
    assert target.read_text() == "something else"
    assert "is a folder" in explain(capsys, "a", "b", "-o", tmp_path)[2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "the following arguments are required: PATH"),
        (["a", "b", "c"], "3 paths: name two sides, or one folder that holds them"),
        (["{a}", "{b}", "--a", "x"], "--a and --b choose sides of one folder"),
        (["{a}"], "one side; name the other too, or a folder that `compare` wrote"),
        (["{sides}", "--a", "fast"], "--b is missing; sides in"),
        (["{sides}", "--b", "fast"], "--a is missing; sides in"),
        (["{sides}", "--a", "fast", "--b", "quick"], "--b quick: no such side in"),
        (["{a}", "{b}", "--format", "csv"], "invalid choice: 'csv'"),
        (["{sides}/fast"], "one side; name the other too"),
        (["nothing.py", "{a}"], "nothing.py: no such script"),
        ([__file__, "{a}"], "a script can only be compared with another script; name two, and their arguments with --arguments"),
    ],
)
def test_wrong_use_is_one_line_and_exit_status_2(pair, folder, capsys, arguments, expected):
    named = [text.format(a=pair[0], b=pair[1], sides=folder) for text in arguments]
    status, out, err = explain(capsys, *named)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert expected in err


@pytest.mark.parametrize("bad", ["nothing.json", "empty.json", "torn.json", "folder"])
def test_what_cannot_be_read_is_one_line_and_exit_status_3(pair, tmp_path, capsys, bad):
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "torn.json").write_text(pair[0].read_text()[:300])
    (tmp_path / "folder").mkdir()
    status, out, err = explain(capsys, pair[0], tmp_path / bad)
    assert (status, out) == (3, "")
    assert len(err.splitlines()) == 1
    assert bad in err


def test_a_bad_map_is_one_line(pair, tmp_path, capsys):
    told = tmp_path / "layers.map"
    told.write_text("this is no pair\n")
    status, out, err = explain(capsys, *pair, "--map", told)
    assert (status, out) == (3, "")
    assert "layers.map: line 1: not of the form" in err


def test_captures_without_steps_are_explained_at_the_level_that_exists(tmp_path, capsys):
    sides = [capture(tmp_path / f"{name}.json", busy, steps=False) for name, busy in (("a", 900), ("b", 1900))]
    status, out, err = explain(capsys, *sides, "--format", "json")
    assert status == 0, err
    result = json.loads(out)
    assert sum(row["delta_ns"] for row in result["rows"]) + result["instrumentation_ns"] == result["wall_delta_ns"]


def test_help_names_what_it_takes(capsys):
    status, out, _ = explain(capsys, "--help")
    assert status == 0
    for option in ("--a", "--b", "--map", "--force", "--report"):
        assert option in out
