"""Sides of a session: their labels, programs and variables in the run folders, and what is never written down."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from kernelscope.tracer.outside import conditions
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import InputError, UsageError
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.variants import ProgramFile, Variant, program_file

TEXT = b"class Program:\n    pass\n"


def _environment(framework="pytorch"):
    return Environment(framework, Path(sys.executable), "2.13.0", {"LD_LIBRARY_PATH": "/ours"})


def _record(folder, variant, command=("kernelscope",), **options):
    Session([variant], RunOptions("lenet", threads=2, **options), [folder], list(command))
    return json.loads((folder / "run.json").read_text())


def test_a_program_is_kept_in_the_run_folder_as_it_was(tmp_path):
    path = tmp_path / "slow.py"
    path.write_bytes(TEXT)
    variant = Variant("planted", _environment(), program_file(str(path)))
    path.write_text("changed since")
    record = _record(tmp_path / "run", variant)
    assert (tmp_path / "run" / "slow.py").read_bytes() == TEXT
    assert record["program"] == {"file": "slow.py", "sha256": hashlib.sha256(TEXT).hexdigest()}
    assert (record["label"], record["framework"]) == ("planted", "pytorch")


def test_without_a_program_the_record_says_so(tmp_path):
    assert _record(tmp_path / "run", Variant("pytorch", _environment()))["program"] is None


def test_files_that_are_no_programs_are_refused(tmp_path):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "large.py").write_bytes(b"#" * (1 << 21))
    with pytest.raises(UsageError, match=r"name one that ends with \.py"):
        program_file(str(tmp_path / "notes.txt"))
    for name in ("missing.py", "folder.py", "large.py"):
        with pytest.raises(InputError, match=f"{name}: .*a class Program"):
            program_file(str(tmp_path / name))


@pytest.mark.parametrize(
    ("framework", "variables", "threads"),
    [
        ("pytorch", {}, 2),
        ("pytorch", {"OMP_NUM_THREADS": "1"}, 1),
        ("pytorch", {"OMP_NUM_THREADS": "4,2"}, 2),
        ("pytorch", {"OMP_NUM_THREADS": "0"}, 2),
        ("tensorflow", {"OMP_NUM_THREADS": "1"}, 2),
        ("tensorflow", {"TF_NUM_INTRAOP_THREADS": "1"}, 1),
    ],
)
def test_threads_that_a_side_says_for_itself_are_its_threads(tmp_path, framework, variables, threads):
    record = _record(tmp_path / "run", Variant("b", _environment(framework), None, variables))
    assert record["options"]["threads"] == threads
    if "OMP_NUM_THREADS" not in variables:
        assert record["variables"]["OMP_NUM_THREADS"] == str(threads)


def test_variables_that_were_chosen_are_recorded_but_no_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_EXEC_BULK_EXEC_TRAIN", "0")
    monkeypatch.setenv("SOMETHING_ELSE", "not chosen for the run")
    chosen = {"MY_SWITCH": "on", "HF_TOKEN": "hf_abc", "my_password": "1234", "CACHE": os.path.expanduser("~/cache")}
    command = [
        "kernelscope",
        "-f",
        "monkey=pytorch",
        "--env",
        "b:HF_TOKEN=hf_abc",
        "--env=my_password=1234",
        "--env",
        "MY_SWITCH=on",
    ]
    record = _record(tmp_path / "run", Variant("b", _environment(), None, chosen), command)
    variables = record["variables"]
    assert variables["MXNET_EXEC_BULK_EXEC_TRAIN"] == "0"
    assert variables["MY_SWITCH"] == "on"
    assert variables["HF_TOKEN"] == variables["my_password"] == conditions.HIDDEN
    assert variables["CACHE"] == "~/cache"
    assert "SOMETHING_ELSE" not in variables
    text = (tmp_path / "run" / "run.json").read_text()
    assert "hf_abc" not in text
    assert "1234" not in text
    assert record["command"][-1] == "MY_SWITCH=on"
    assert record["command"][2] == "monkey=pytorch"


def test_chosen_variables_go_before_all_others(tmp_path):
    chosen = {"LD_LIBRARY_PATH": "/mine", "OMP_WAIT_POLICY": "active", "CUDA_VISIBLE_DEVICES": "1"}
    session = Session(
        [Variant("b", _environment(), None, chosen)], RunOptions("lenet", steady=True), [tmp_path / "run"], ["kernelscope"]
    )
    given = session._variables(session.sides[0].variant)
    assert {name: given[name] for name in chosen} == chosen


def test_two_sides_of_one_framework_have_their_own_folders(tmp_path):
    program = ProgramFile("p.py", TEXT)
    variants = [Variant("a", _environment()), Variant("b", _environment(), program)]
    session = Session(variants, RunOptions("lenet"), [tmp_path / v.label for v in variants], ["kernelscope"])
    assert [side.label for side in session.sides] == ["a", "b"]
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")) == [
        "a/run.json",
        "b/p.py",
        "b/run.json",
    ]
