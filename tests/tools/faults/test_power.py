"""What strace lists is read rightly: which files a power cut could empty."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture
def power(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    spec = importlib.util.spec_from_file_location("power", Path(__file__).with_name("power.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in ("killed", "syscalls"):
        sys.modules.pop(name, None)


def test_files_that_were_renamed_without_being_synchronised_are_found(power):
    log = """10 write(3</o/.x/a>, "PAR1"..., 4) = 4
10 pwrite64(3</o/.x/a>, "PAR1"..., 4, 0) = 4
11 write(4</o/.x/b>, "{"..., 1) = 1
11 sendfile(5</o/.x/c>, 6</in>, NULL, 65536) = 100
11 copy_file_range(6</in>, NULL, 7</o/.x/d>, NULL, 100, 0) = 100
10 fsync(3</o/.x/a>) = 0
10 write(1<pipe:[9]>, "done"..., 4) = 4
10 rename("/o/.x", "/o/result") = 0
11 fsync(4</o/result/b>) = 0
"""
    assert power.unsynchronised(log) == {"/o/result/c", "/o/result/d", "pipe:[9]"}
    assert power.unsynchronised(log + '10 rename("/o/result/c", "/o/result/d") = 0\n') == {"/o/result/d", "pipe:[9]"}
