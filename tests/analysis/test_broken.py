"""Inputs that once broke readers (../shared/corpus/broken): each is read, or refused in one line, and what is lost is said."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kernelscope as ks
from tests import forked
from tests.places import CORPUS

BROKEN = CORPUS / "broken"


def broken(name):
    path = BROKEN / name
    if not path.exists():
        pytest.skip(f"no {path}")
    return path


def said(*words, timeout=60):
    return forked.run(*map(str, words), timeout=timeout)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nvprof_traceback.txt", ["breakdown", "--by", "kernel"]),
        ("deepimp", ["breakdown", "--by", "kernel"]),
        ("deepimp", ["report", "-o", "page.html"]),
        ("typeimp", ["breakdown", "--by", "range"]),
        ("typeimp", ["advise"]),
        ("mkl_digits.log", ["breakdown", "--by", "kernel"]),
        ("cut_in_line.csv", ["breakdown", "--by", "kernel"]),
        ("clip.json", ["breakdown", "--by", "kernel"]),
    ],
)
def test_nothing_ends_in_a_traceback(name, words, tmp_path):
    path = broken(name)
    if path.is_dir():  # nothing may be written into the corpus
        path = Path(shutil.copytree(path, tmp_path / name))
    words = [str(tmp_path / word) if word.endswith(".html") else word for word in words]
    done = said(words[0], path, *words[1:])
    assert "Traceback" not in done.stderr
    assert "please report" not in done.stderr
    assert done.returncode in (0, 3)


@pytest.mark.parametrize("command", ["breakdown", "advise", "steps", "device", "roofline", "report"])
def test_every_command_says_that_a_line_was_lost(command, tmp_path):
    done = said(command, broken("cut_in_line.csv"), *(["-o", tmp_path / "page.html"] if command == "report" else []))
    assert "lines of tables that cannot be read (1)" in done.stderr


def test_a_kernel_is_counted_as_long_as_it_is_and_in_the_step_that_launched_it():
    kernels = ks.read(broken("clip.json")).kernels
    assert (kernels["end_ns"] - kernels["start_ns"]).tolist() == [50_000, 500_000]


def test_a_pipe_in_place_of_a_table_is_refused(tmp_path):
    folder = tmp_path / "report_pqtdir"
    folder.mkdir()
    os.mkfifo(folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    pq.write_table(pa.table({"id": [1], "value": ["gemm"]}), folder / "StringIds.parquet")
    done = said("breakdown", folder, timeout=20)
    assert done.returncode == 3
    assert done.stderr.endswith("KERNEL.parquet: damaged (not a regular file); copy or export the folder again\n")
    assert done.stderr.count("\n") == 1


def test_readings_cut_in_a_number_are_left_out_and_counted(tmp_path):
    path = tmp_path / "smi.csv"
    path.write_text(
        "timestamp, power.draw [W], temperature.gpu\n2025/01/01 10:00:00.000, 69.60 W, 33\n2025/01/01 10:00:01.000, 6"
    )
    trace = ks.read(path)
    assert trace.samples["value"].tolist() == [69.6, 33.0]
    assert any("unreadable lines (1)" in line for line in trace.info["warnings"])
