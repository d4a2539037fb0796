"""`kernelscope env`: what users see and the exit statuses."""

import csv
import io
import json
import sys

import pytest

from kernelscope.cli import main
from kernelscope.tracer.outside import environments, recipes

MINOR = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Recipes that are built in seconds, for two frameworks; the second's module does not exist."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "pytorch-cpu.txt").write_text(f"# python: {MINOR}\n# import: json\n")
    (folder / "mxnet-cpu.txt").write_text(f"# python: {MINOR}\n# import: absent_module\n")
    monkeypatch.setattr(recipes, "_path", lambda framework, variant: folder / f"{framework}-{variant}.txt")
    for module in (recipes, environments):
        monkeypatch.setattr(module, "FRAMEWORKS", ("pytorch", "mxnet"))


@pytest.mark.parametrize("action", ["create", "remove"])
def test_unknown_framework(action, capsys, home):
    assert main.main(["env", action, "pytorch", "caffe"]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("kernelscope: error: unknown framework 'caffe'; known: pytorch, tensorflow, mxnet, cntk, jax, ")
    assert errors.endswith(", keras; did you mean caffe2?\n")
    assert not home.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["env"],
        ["env", "make"],
        ["env", "create"],
        ["env", "list", "--format", "yaml"],
        ["env", "create", "cntk", "--variant", "x"],
    ],
)
def test_wrong_use(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main.main(arguments)
    assert caught.value.code == 2
    assert "--help" in capsys.readouterr().err


def test_wrong_variant_and_python(capsys):
    assert main.main(["env", "create", "cntk", "--variant", "cuda"]) == 2
    assert main.main(["env", "create", "cntk", "mxnet", "--python", sys.executable]) == 2
    assert main.main(["env", "create", "cntk", "--python", "/nowhere"]) == 2
    assert main.main(["env", "create", "cntk", "--python", sys.executable]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert "known: cpu" in lines[0]
    assert "there is no such file" in lines[2]
    assert "needs Python 3.6" in lines[3]


def test_list_json_of_nothing(capsys):
    assert main.main(["env", "list", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "kernelscope/environments/1"
    assert [row["framework"] for row in content["rows"]] == list(recipes.FRAMEWORKS)
    for row in content["rows"]:
        assert list(row)[:5] == ["framework", "python", "version", "ready", "reason"]
        assert row["ready"] is False
        assert row["reason"]


def test_one_failure_does_not_stop_the_rest(tiny, capsys):
    assert main.main(["env", "create", "mxnet", "pytorch"]) == 4
    errors = capsys.readouterr().err
    assert "kernelscope: error: the new environment of mxnet cannot import absent_module" in errors
    assert "pytorch 2" in errors, "json's version"
    assert main.main(["env", "list", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["framework"], row["ready"]) for row in rows] == [("pytorch", "true"), ("mxnet", "false")]
    assert main.main(["env", "create", "pytorch"]) == 0
    assert "existed already" in capsys.readouterr().err
    for form in ("table", "markdown"):
        assert main.main(["env", "list", "--format", form]) == 0
        assert "pytorch" in capsys.readouterr().out
    assert main.main(["env", "remove", "pytorch", "mxnet"]) == 0
    assert "mxnet: there is no environment to remove" in capsys.readouterr().err
    assert environments.find("pytorch") is None


def test_folder_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path / "file" / "below"))
    assert main.main(["env", "create", "pytorch"]) == 3
    assert "set KERNELSCOPE_HOME" in capsys.readouterr().err
