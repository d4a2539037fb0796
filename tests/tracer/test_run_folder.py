"""Output folders and run.json: refusals, --force, and marks of incompleteness."""

import json
from pathlib import Path

import pytest

from kernelscope.analysis import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import conditions
from kernelscope.tracer.outside.errors import InputError
from kernelscope.tracer.outside.run_folder import RunFolder, prepare_output, replaced


def test_a_folder_with_results_is_only_replaced_by_force(tmp_path):
    folder = tmp_path / "out"
    RunFolder(folder, {"framework": "pytorch"})
    with pytest.raises(InputError, match=r"out: not empty; name another folder or pass --force"):
        prepare_output(folder, force=False)
    prepare_output(folder, force=True)
    assert list(folder.iterdir()) == []


def test_force_never_empties_a_folder_that_no_run_wrote(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds files that no run wrote"):
        prepare_output(tmp_path, force=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("record", ["run.json", "import.json", "compare.json"])
def test_force_never_takes_another_programs_record_for_ours(record, tmp_path):
    (tmp_path / record).write_text('{"a": 1}')
    with pytest.raises(InputError, match="holds files that no run wrote"):
        prepare_output(tmp_path, force=True)
    assert (tmp_path / record).read_text() == '{"a": 1}'


def test_force_takes_what_was_killed_before_its_record_was_whole(tmp_path):
    (tmp_path / "run.json.new").write_bytes(b"")
    with pytest.raises(InputError, match="not empty"):
        prepare_output(tmp_path, force=False)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds files that no run wrote"):
        prepare_output(tmp_path, force=True)
    (tmp_path / "thesis.tex").unlink()
    prepare_output(tmp_path, force=True)
    assert not list(tmp_path.iterdir())


def test_force_never_takes_along_what_somebody_put_beside_results(tmp_path):
    folder = tmp_path / "out"
    RunFolder(folder, {"framework": "pytorch"}).pass_folder("clean", 1)
    (folder / "run.json.new").write_text("{")
    prepare_output(folder, force=True)
    RunFolder(folder, {"framework": "pytorch"}).pass_folder("clean", 1)
    (folder / "weights").mkdir()
    (folder / "weights" / "model.bin").write_bytes(b"years")
    with pytest.raises(InputError, match=r"out: holds weights, which no run wrote; .* move it away, or name another"):
        prepare_output(folder, force=True)
    assert (folder / "weights" / "model.bin").read_bytes() == b"years"
    assert (folder / "run.json").exists()


def test_an_import_replaces_an_import_alone(tmp_path):
    RunFolder(tmp_path / "run", {"framework": "pytorch"})
    with pytest.raises(InputError, match="--force replaces only an earlier import"):
        prepare_output(tmp_path / "run", force=True, keep=True, importing=True)
    (tmp_path / "import.json").write_text('{"schema": "kernelscope/import/1"}')
    (tmp_path / "notes.txt").write_text("mine")
    prepare_output(tmp_path, force=True, keep=True, importing=True)
    assert (tmp_path / "notes.txt").exists()
    (tmp_path / "trace" / "mine").mkdir(parents=True)
    with pytest.raises(InputError, match=r"holds trace/mine, which no import wrote"):
        prepare_output(tmp_path, force=True, keep=True, importing=True)


def test_earlier_results_are_kept_until_new_ones_are_there(tmp_path, capsys):
    folder, earlier = tmp_path / "out", tmp_path / ".out.earlier"

    def recorded(text, fails=False):
        with replaced(folder, force=True):
            assert list(folder.iterdir()) == []
            RunFolder(folder, {"framework": text})
            if fails:
                raise InputError("not supported")

    def framework(path):
        return json.loads((path / "run.json").read_text())["framework"]

    recorded("first")
    assert not earlier.exists()
    for text in ("second", "third"):
        with pytest.raises(InputError, match="not supported"):
            recorded(text, fails=True)
        assert (framework(folder), framework(earlier)) == (text, "first"), "of several tries that fail none takes its place"
        assert f"the earlier results are kept: {earlier}" in capsys.readouterr().err
    recorded("fourth")
    assert framework(folder) == "fourth"
    assert not earlier.exists()
    with pytest.raises(InputError, match="not empty"), replaced(folder, force=False):
        pass
    assert framework(folder) == "fourth"


def test_a_recording_of_nothing_is_not_in_the_way(tmp_path):
    folder = tmp_path / "out"
    failed = RunFolder(folder, {"recorder": "profile", "passes": {}})
    failed.write()
    prepare_output(folder, force=False)
    assert list(folder.iterdir()) == []
    begun = RunFolder(folder, {"recorder": "profile", "passes": {}})
    begun.write()
    begun.pass_folder("clean", 1)
    with pytest.raises(InputError, match="not empty"):
        prepare_output(folder, force=False)


def test_what_recorded_nothing_replaces_nothing(tmp_path, capsys):
    RunFolder(tmp_path / "out", {"framework": "first"})
    with replaced(tmp_path / "out", force=True) as replacement:
        replacement.recorded = False
    assert (tmp_path / ".out.earlier" / "run.json").exists()
    assert f"the earlier results are kept: {tmp_path}/.out.earlier" in capsys.readouterr().err


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_a_folder_that_is_written_into_is_refused_until_its_writer_ends(tmp_path, before, force):
    folder = tmp_path / "out"
    if before:
        RunFolder(folder, {"framework": "first"})
    with replaced(folder, force=before):
        with pytest.raises(InputError, match="out: another command is writing to it; wait until it ends, or name another"):
            prepare_output(folder, force)
        RunFolder(folder, {"framework": "second"})
    prepare_output(folder, force=True)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", [".", "..", "../inside"])
def test_the_folder_that_one_is_in_is_refused(name, tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    with pytest.raises(InputError, match="is or contains the current folder"), replaced(Path(name), force=True):
        raise AssertionError
    assert list(tmp_path.iterdir()) == [tmp_path / "inside"]


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_link_is_refused_and_stays(target, tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    with pytest.raises(InputError, match="is a link; name the folder that it leads to"), replaced(link, force=True):
        raise AssertionError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "there"]
    assert link.is_symlink()


def test_a_file_in_the_way_and_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: is a file"):
        prepare_output(tmp_path / "file", force=False)
    with pytest.raises(InputError, match="not writable: Not a directory"):
        prepare_output(tmp_path / "file" / "below", force=False)
    with pytest.raises(InputError, match="/proc/nowhere: not writable"):
        prepare_output(type(tmp_path)("/proc/nowhere"), force=False)


def test_a_run_is_incomplete_from_its_start_until_every_pass_is_done(tmp_path):
    run = RunFolder(tmp_path / "run", {"framework": "pytorch"})

    def on_disk():
        return json.loads((tmp_path / "run" / "run.json").read_text())

    assert on_disk()["complete"] is False
    assert on_disk()["reason"] == "the run did not come to its end"
    assert run.pass_folder("clean", 1).is_dir()
    run.pass_done("clean", {"asked_period_ns": 1})
    run.pass_folder("kernels", 1)
    run.pass_failed("kernels", "pytorch, kernels pass: ended with signal SIGKILL")
    run.finish()
    assert on_disk()["complete"] is False
    assert on_disk()["passes"]["clean"]["status"] == "complete"
    assert on_disk()["passes"]["kernels"]["reason"].endswith("SIGKILL")


def test_only_listed_environment_variables_are_recorded_and_homes_are_shortened(monkeypatch):
    variables = {"OMP_NUM_THREADS": "2", "HF_TOKEN": "secret", "AWS_SECRET_ACCESS_KEY": "secret", "PATH": "/bin"}
    assert conditions.recorded(variables) == {"OMP_NUM_THREADS": "2"}
    monkeypatch.setenv("HOME", "/home/somebody")
    assert conditions.without_home("/home/somebody/env/bin/python") == "~/env/bin/python"
    told = conditions.recorded({"XLA_FLAGS": "--xla_dump_to=/home/somebody/dump"}, {"A": "1", "A_TOKEN": "x"})
    assert told == {"XLA_FLAGS": "--xla_dump_to=~/dump", "A": "1", "A_TOKEN": conditions.HIDDEN}


def test_secrets_of_command_lines_are_not_written_down():
    given = [
        "train.py",
        "--api-key",
        "k3y",
        "--token=t0",
        "--tokens",
        "512",
        "--passes",
        "rerun",
        "--password",
        "-v",
        "--env",
        "MY_PWD=x",
    ]
    hidden = conditions.HIDDEN
    assert conditions.command(given) == [
        "train.py", "--api-key", hidden, f"--token={hidden}", "--tokens", "512", "--passes", "rerun", "--password", "-v",
        "--env", f"MY_PWD={hidden}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, r"not a run folder \(no run.json\)"),
        ("{", "run.json: not JSON"),
        ("[]", "not a JSON object"),
        ('{"schema": "kernelscope/run/2"}', "written in schema 2, this version reads up to 1; upgrade kernelscope"),
        ('{"schema": "other/1"}', "schema 'other/1' is not kernelscope/run"),
    ],
)
def test_what_is_not_a_run_folder_is_said_in_one_line(tmp_path, content, expected):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(EvidenceError, match=expected) as caught:
        Run(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_comparison_names_its_run_folders(tmp_path):
    RunFolder(tmp_path / "pytorch", {"framework": "pytorch"})
    (tmp_path / "compare.json").write_text("{}")
    with pytest.raises(EvidenceError, match="a comparison; name one of its run folders: pytorch"):
        Run(tmp_path)
