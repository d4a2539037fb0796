"""Commands where things are scarce or odd: encodings without bars, full disks, few descriptors, no home, several at once."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

KERNELSCOPE = str(Path(sys.executable).with_name("kernelscope"))
CAPTURE = str(Path(__file__).parents[1] / "data" / "gpu" / "h200" / "mlp-graph.pt.trace.json.gz")


def run(*words, **options):
    return subprocess.run([KERNELSCOPE, *map(str, words)], capture_output=True, check=False, timeout=120, **options)


def test_plain_characters_stand_for_those_that_an_encoding_lacks():
    done = run(
        "breakdown", CAPTURE, "--by", "kind", env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    )
    assert done.returncode == 0
    text = done.stdout.decode("ascii")
    assert "?" not in text
    assert "###" in text
    assert "torch.profiler - pytorch" in text


@pytest.mark.parametrize("words", [["breakdown", CAPTURE], ["--help"], ["gate", "--help"]])
def test_a_full_disk_behind_stdout_is_one_line(words):
    """It is stdout that is full, and not what the command reads or writes."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([KERNELSCOPE, *words], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 3
    assert done.stderr.decode().splitlines() == [
        "kernelscope: error: stdout: no space left on the device; free some or write to another device, and try again"
    ]


@pytest.mark.parametrize("words", [["breakdown", CAPTURE], ["report", CAPTURE, "-o", "page.html"]])
def test_few_descriptors_and_no_home_suffice(words, tmp_path):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    done = run(*words, cwd=tmp_path, preexec_fn=few, env={**os.environ, "HOME": "/proc", "TMPDIR": "/nonexistent"})
    assert done.returncode == 0, done.stderr


def test_a_width_of_nothing_is_none():
    """As some shells leave it in COLUMNS where there is no terminal."""
    known = dict(os.environ)  # without what readline, which pytest imports, tells the processes that it starts
    assert run("breakdown", CAPTURE, env={**known, "COLUMNS": "0"}).stdout == run("breakdown", CAPTURE, env=known).stdout


def test_names_that_are_no_text_are_read_and_written(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.json.gz")
    with open(path, "wb") as file:
        file.write(Path(CAPTURE).read_bytes())
    imported = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"imported\xe9"))
    page, tables = f"{imported}.html", f"{imported}.tables"
    for words in (
        ["import", os.fsdecode(path), "-o", imported], ["breakdown", imported], ["steps", imported],
        ["report", os.fsdecode(path), "-o", page, "--perfetto"], ["export", imported, "--format", "parquet", "-o", tables],
    ):  # fmt: skip
        done = run(*words)
        assert done.returncode == 0, done.stderr
    assert os.path.isfile(os.path.join(imported, "import.json"))
    assert os.path.isfile(os.path.join(tables, "kernels.parquet"))
    assert 'href="imported%E9.pftrace.gz"' in Path(page).read_text()


def test_of_several_that_write_one_folder_one_does_and_the_others_say_so(tmp_path):
    together = [
        subprocess.Popen(
            [KERNELSCOPE, "import", CAPTURE, "-o", str(tmp_path / "one")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=120)[1].decode() for process in together]
    statuses = [process.returncode for process in together]
    assert statuses.count(0) == 1
    assert all("Traceback" not in text for text in said)
    losers = [text for text, status in zip(said, statuses, strict=True) if status]
    assert all("another command has written it in the meantime" in text or "not empty" in text for text in losers)
    assert run("breakdown", tmp_path / "one").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_too_little_memory_is_one_line():
    """Here a module cannot be loaded."""

    def little():
        resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))

    done = run("breakdown", CAPTURE, preexec_fn=little, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 3
    assert done.stderr.decode().splitlines() == [
        "kernelscope: error: not enough memory; allow more (ulimit -v shows the limit) or record less"
    ]
