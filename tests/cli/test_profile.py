"""`kernelscope profile` of scripts without a framework: what it says, and what it leaves."""

import pytest

from tests import forked


@pytest.fixture
def said(tmp_path):
    """Return a function that profiles a script in an empty folder and returns exit status and what was said."""

    def run(text, *arguments):
        (tmp_path / "script.py").write_text(text)
        done = forked.run("profile", "script.py", *arguments, cwd=tmp_path)
        return done.returncode, done.stderr

    return run


def test_where_nothing_was_recorded_nothing_is_left(said, tmp_path):
    status, text = said("print('hello')")
    assert status == 4
    assert "no framework was imported" in text
    assert "to use another interpreter: kernelscope profile -- /path/to/python script.py" in text
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_where_a_command_is_refused_nothing_is_left(said, tmp_path):
    (tmp_path / "kept").mkdir()
    for place in ((), ("-o", "kept/a/b")):
        done = forked.run("profile", *place, "--", "./no-such-command", cwd=tmp_path)
        assert (done.returncode, "no such command" in done.stderr) == (2, True)
        assert [path.name for path in tmp_path.iterdir()] == ["kept"]
        assert list((tmp_path / "kept").iterdir()) == []


def test_options_behind_a_script_that_does_not_know_them_are_said(said):
    assert "-o, --force after script.py belongs to the script" in said("import sys", "-o", "x", "--force")[1]
    assert "after script.py" not in said("import sys\nassert '-o' in sys.argv", "-o", "x")[1]
    assert "after script.py" not in said("import sys", "x")[1]
